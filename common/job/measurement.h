// What one trial measured, besides its trace: raw times, what was in force, and the surroundings.
// The worker fills it, the trace carries it in its metadata, the analysis builds the profile from
// it. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/job/job_spec.h"

namespace libreyolo::job {

// Something worth knowing about a measurement or a trace. `code` is stable, `text` is for people.
struct Finding {
  enum class Severity { kInfo, kSuspect, kInvalid };
  Severity severity = Severity::kInfo;
  std::string code;  // "FOREIGN_CPU_LOAD", "IMGSZ_ROUNDED"
  std::string text;
};

struct ModelInfo {
  std::string weights;         // as typed: the profile's `model` for inference
  std::string weights_path;    // where it was found; empty for random weights
  std::string weights_digest;  // SHA-256 of the file; empty for random weights
  bool random_weights = false;
  std::string family = "yolo9";
  std::string size;  // "t", "s", "m", "c"
  int class_count = 80;
  int64_t parameter_count = 0;
  std::string letterbox = "topleft";
};

// The machine and its state around the measured windows.
struct Environment {
  std::string cpu_model;
  int logical_cpus = 0;    // that the process may run on
  double cpu_quota = 0;    // CPUs allowed by the control group; 0 when there is no limit
  int threads = 0;         // intra-op threads in force
  double load_before = 0;  // 1-minute load average
  double load_after = 0;
  double foreign_cpu_ratio = 0;  // CPU time used by others while measuring, as a share of all CPUs
  double steal_ratio = 0;        // CPU time stolen by the hypervisor, likewise
  int64_t memory_total_bytes = 0;
  std::string kernel;  // uname -r
  std::string torch_version;
  std::string worker_build;  // BuildId()
  std::string clock;         // "tsc" or "clock_gettime": what stamps op records
};

// One step or iteration of the traced window: the measured part only.
struct TracedStep {
  int64_t duration_ns = 0;
  std::vector<std::pair<std::string, int64_t>>
      phases_ns;  // synchronised, in order: {"preprocess", 1200000}
};

// One look at the GPU. What it does not tell is absent.
struct GpuSample {
  int64_t at_ns = 0;  // since the untraced window began
  std::optional<int64_t> sm_clock_mhz;
  std::optional<int64_t> memory_clock_mhz;
  std::optional<int64_t> clock_limits;  // NVML's bits
  std::optional<double> power_w;
  std::optional<int64_t> temperature_c;
  int64_t foreign_processes = 0;
};

// A process of somebody else on the same GPU.
struct ForeignProcess {
  int64_t pid = 0;
  std::string name;  // empty where it cannot be read
  std::optional<int64_t> memory_bytes;
  std::optional<int64_t> busy_percent;  // of the SMs, the most that was seen
};

// The GPU while latencies were taken: samples at a steady pace, and what they come to.
struct GpuWatch {
  std::string unavailable;  // why there are none; empty otherwise
  std::string uuid;
  std::string name;                // the GPU's model, or the MIG instance's profile
  int64_t memory_total_bytes = 0;  // 0 when the driver does not tell
  double samples_per_s = 0;
  double throttled_ratio = 0;  // share of the samples in which clocks were held down under load
  std::vector<std::string> limits;  // by what, each once
  std::optional<double> sm_clock_min_mhz;
  std::optional<double> sm_clock_mean_mhz;
  std::optional<double> sm_clock_max_mhz;
  std::optional<double> power_mean_w;
  std::optional<double> power_max_w;
  std::optional<int64_t> temperature_max_c;
  std::optional<double> energy_j;  // of the whole board, over the window
  std::optional<double> energy_per_image_j;
  bool processes_unclear = false;  // which process is this job's could not be told
  std::vector<ForeignProcess> foreign;
  std::vector<GpuSample> samples;
};

// LibTorch's caching allocator of a GPU over the untraced window.
struct DeviceMemory {
  int64_t steps = 0;                // untraced steps or iterations
  int64_t peak_reserved_bytes = 0;  // taken from the device, the allocator's cache included
  int64_t allocations = 0;          // blocks that tensors asked for
  int64_t frees = 0;                // blocks that tensors gave back
  int64_t device_allocations = 0;   // calls that took memory from the device; slow
  int64_t device_frees = 0;         // calls that gave it back; slow, they wait for the device
  int64_t retries = 0;              // allocations that only fitted after the cache was emptied
};

struct Measurement {
  Mode mode = Mode::kInfer;
  ModelInfo model;
  std::string device;  // "cpu", "cuda:0"
  std::string device_name;

  int batch = 1;
  int imgsz = 640;  // in force
  int imgsz_requested = 640;
  int warmup = 0;
  int runs = 0;       // untraced iterations asked for
  bool half = false;  // in force
  bool half_requested = false;
  bool amp = false;
  bool amp_requested = false;
  AmpDtype amp_dtype = AmpDtype::kFloat16;
  double conf = 0;
  double iou = 0;
  int max_det = 0;
  int workers = 0;
  std::string source;    // as typed; "sample" for the bundled image
  int source_count = 0;  // images found

  // The untraced window: no tracer exists while these are taken.
  std::vector<int64_t> latencies_ns;  // each iteration, in order
  std::vector<int64_t> dataload_ns;   // train: the loader wait inside each of them
  int64_t images_processed = 0;       // in the untraced window
  int64_t untraced_wall_ns = 0;       // start of the first to end of the last

  // The traced (or, without a trace, only synchronised) window.
  std::vector<TracedStep> traced_steps;
  bool traced = false;  // false with --no-trace
  int64_t op_records = 0;
  int64_t dropped_records = 0;

  int64_t peak_rss_bytes = 0;
  std::optional<int64_t> peak_vram_bytes;     // of tensors
  std::optional<DeviceMemory> device_memory;  // absent on the CPU
  int64_t detections = 0;                     // infer: kept by NMS in the untraced window

  Environment environment;
  std::optional<GpuWatch> gpu_watch;  // absent on the CPU
  std::vector<Finding> findings;
};

}  // namespace libreyolo::job
