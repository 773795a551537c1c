// A library with NVML's functions and scripted devices. Loaded by its path (LIBREYOLO_FAKE_NVML),
// never linked. A test sets the script; a whole process reads it from the file that the
// environment's LIBREYOLO_FAKE_NVML_SCRIPT names:
//
//   driver 580.82
//   init 18                       every later nvmlInit answers this
//   gpu name=Fake-100 uuid=GPU-1 memory=16000000000 used=1000000 sm_clock=1500 limits=4
//   process pid=4711 memory=5000000          of the gpu above
//   mig uuid=MIG-1 name=Fake-1g memory=5000000000 instance=3     likewise
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/gpu/nvml_api.h"

namespace libreyolo {

struct FakeMig {
  std::string uuid;
  std::string name;
  uint64_t memory_bytes = 0;
  unsigned int gpu_instance = 0;
};

struct FakeGpu {
  std::string name = "Fake-100";
  std::string uuid = "GPU-11111111-0000-0000-0000-000000000000";
  std::string bus_id = "00000000:01:00.0";
  uint64_t memory_bytes = 16'000'000'000;
  uint64_t used_bytes = 1'000'000'000;
  unsigned int sm_clock = 1500;
  unsigned int max_sm_clock = 1980;
  unsigned int memory_clock = 2600;
  uint64_t limits = 0;
  unsigned int power_mw = 250'000;
  unsigned int power_limit_mw = 700'000;
  std::optional<uint64_t> energy_mj = 5'000'000;
  // Energy and the clock move on by this with each reading of the energy or the clock.
  uint64_t energy_per_reading_mj = 0;
  unsigned int temperature = 41;
  bool persistence = true;
  unsigned int compute_mode = 0;
  unsigned int busy_percent = 0;
  bool mig = false;
  std::vector<FakeMig> instances;
  std::vector<gpu::NvmlProcess> processes;
  std::vector<gpu::NvmlProcessUtilization> process_use;
  gpu::NvmlReturn open_result = gpu::kNvmlSuccess;  // of nvmlDeviceGetHandleByIndex
  bool tells_nothing = false;                       // every optional figure: not supported
};

class FakeNvml {
 public:
  virtual ~FakeNvml() = default;
  virtual void Reset() = 0;
  virtual void SetGpus(std::vector<FakeGpu> gpus) = 0;
  // Changes one while it is being read.
  virtual void UpdateGpu(size_t index, const FakeGpu& gpu) = 0;
  virtual void SetInitResult(gpu::NvmlReturn result) = 0;
  virtual void SetCountResult(gpu::NvmlReturn result) = 0;
  // Every call but nvmlErrorString waits until Unhang().
  virtual void Hang() = 0;
  virtual void Unhang() = 0;
  virtual int WaitingCalls() = 0;
};

}  // namespace libreyolo

extern "C" libreyolo::FakeNvml* fakeNvmlInstance();
