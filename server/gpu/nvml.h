// What NVIDIA's management library tells of a machine's GPUs. Loaded by dlopen; reads only, nothing
// is created or changed on a device. The daemon lists devices with it, the worker samples one.
//
//   LY_ASSIGN_OR_RETURN(auto nvml, Nvml::Open(NvmlPath()));
//   LY_ASSIGN_OR_RETURN(const std::vector<GpuDescription> gpus, nvml->List());
//
// Any call may hang with a driver in trouble: whoever must not, calls from a thread that it can
// leave behind (call_with_deadline.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace libreyolo::gpu {

struct NvmlTable;

struct GpuProcess {
  int64_t pid = 0;  // as the host's root namespace counts
  std::optional<int64_t> memory_bytes;
  bool graphics = false;            // draws; else it computes
  std::optional<int> gpu_instance;  // MIG
};

// What changes from one moment to the next. What a device does not tell is absent.
struct GpuReading {
  std::optional<int> sm_clock_mhz;
  std::optional<int> memory_clock_mhz;
  std::optional<uint64_t> clock_limits;  // bits; ClockLimitNames() names them
  std::optional<double> power_w;
  std::optional<double> energy_j;  // since the driver was loaded
  std::optional<int> temperature_c;
  std::optional<int> busy_percent;  // of the driver's last period, up to a second
  std::optional<std::vector<GpuProcess>> processes;
};

struct MigInstance {
  std::string uuid;  // "MIG-..."
  std::string name;
  int gpu_instance = 0;
  int compute_instance = 0;
  int64_t memory_total_bytes = 0;
  std::optional<int64_t> memory_used_bytes;
};

struct GpuDescription {
  int index = 0;  // NVML's, which is the order on the PCI bus
  std::string name;
  std::string uuid;  // "GPU-..."
  std::string pci_bus_id;
  int64_t memory_total_bytes = 0;
  std::optional<int64_t> memory_used_bytes;
  std::optional<int> max_sm_clock_mhz;
  std::optional<double> power_limit_w;
  std::optional<bool> persistence;
  std::string compute_mode;  // "default", "exclusive process", "prohibited"; "" when unknown
  bool mig_enabled = false;
  std::vector<MigInstance> instances;
  GpuReading now;
  std::string unusable;  // why NVML cannot reach it; the rest is then empty but for the index
};

// A bit of GpuReading::clock_limits.
struct ClockLimit {
  uint64_t bit;
  const char* name;  // "power cap"
  bool throttles;    // lowers clocks under load; the others are a setting or idleness
};
const std::vector<ClockLimit>& ClockLimits();
// "power cap", "hot (hardware)" of all bits that are set.
std::vector<std::string> ClockLimitNames(uint64_t bits);
// True when one of the bits lowers clocks that the work could have used.
bool IsThrottled(uint64_t bits);

// The library's name, or what LIBREYOLO_NVML names in its place.
std::string NvmlPath();

// Thread-safe.
class Nvml {
 public:
  // FailedPrecondition with the reason in one sentence: no driver, driver and library do not fit,
  // no permission. NVML stays loaded until the process ends.
  static absl::StatusOr<std::unique_ptr<Nvml>> Open(const std::string& library);
  ~Nvml();

  const std::string& driver_version() const { return driver_version_; }

  // All GPUs, in NVML's order. FailedPrecondition when they cannot even be counted.
  absl::StatusOr<std::vector<GpuDescription>> List();

  // One device for Read(): a GPU by its index, or a GPU or MIG instance by UUID.
  struct Device {
    void* gpu = nullptr;  // whole, also for an instance
    std::string uuid;     // the device's own
    std::optional<int> gpu_instance;
  };
  // NotFound.
  absl::StatusOr<Device> Find(const std::string& index_or_uuid);
  // Processes cost more than all the rest. Clocks and power of a MIG instance are its whole GPU's;
  // processes are those of the instance alone.
  GpuReading Read(const Device& device, bool with_processes);
  // Share of the SMs that each process used since `since_us` (NVML's clock; 0: what it remembers),
  // by pid. Empty where the driver does not tell. `*newest_us` gets the newest sample's time.
  std::vector<std::pair<int64_t, int>> ProcessUse(const Device& device, uint64_t since_us,
                                                  uint64_t* newest_us);

 private:
  Nvml();
  absl::Status Load(const std::string& library);
  absl::Status Failure(const char* what, int result) const;
  GpuDescription Describe(unsigned int index);
  std::vector<MigInstance> Instances(void* device);
  std::optional<std::vector<GpuProcess>> Processes(void* device);

  std::unique_ptr<NvmlTable> nvml_;
  std::string driver_version_;
};

}  // namespace libreyolo::gpu
