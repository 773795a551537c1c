// What the daemon tells a worker to do, and what a worker says while it does. Plain data; the wire
// form (proto/libreyolo/worker/v1) stays inside this folder.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/job/job_spec.h"

namespace libreyolo::worker_link {

// One trial. All paths are absolute and were found by the daemon.
struct WorkerPlan {
  std::string job_id;
  int trial = 0;  // from 0
  job::Mode mode = job::Mode::kInfer;
  std::string staging_dir;  // profile_trace.json is written here
  std::string device;       // "cpu", "cuda:0"
  int threads = 0;          // 0: the CPU quota

  std::string weights;         // as typed
  std::string weights_path;    // empty: initialised weights
  std::string weights_digest;  // SHA-256 hex, empty when unknown
  std::string size;            // empty: the file decides

  std::string source;                     // as typed
  std::vector<std::string> source_paths;  // images, or one folder; empty: the bundled image.
                                          // Training: the dataset file; empty: the built-in one

  int batch = 1;
  int imgsz = 640;
  int warmup = 20;
  int runs = 100;
  bool half = false;
  job::AmpDtype amp_dtype = job::AmpDtype::kFloat16;
  double conf = 0.25;
  double iou = 0.45;
  int max_det = 300;
  bool trace = true;
  int workers = 8;
  bool amp = true;
  job::OnContention on_contention = job::OnContention::kWarn;
  std::string datasets_dir;  // training: where a dataset file's relative `path` is looked for first
  std::string cache_dir;     // training: where the built-in dataset is made
  // Below these the files of the source must lie; empty: anywhere.
  std::vector<std::string> data_roots;
};

// Messages of a worker.
struct Hello {
  std::string build_id;
  int64_t pid = 0;
};
enum class WorkerStage { kStarting, kWarmingUp, kMeasuring };
struct StageBegan {
  WorkerStage stage = WorkerStage::kStarting;
  std::string detail;  // for people: "loading weights"
};
struct Progress {
  std::string stage;  // "warm-up", "measure", "trace"
  int64_t done = 0;
  int64_t total = 0;
};
struct Heartbeat {};
struct Finished {
  std::string measurement_json;
  int64_t lost_records = 0;
};
struct Failed {
  absl::Status status;  // never OK; with reason, hints and metadata
};
using WorkerMessage = std::variant<Hello, StageBegan, Progress, Heartbeat, Finished, Failed>;

// Messages of the daemon.
struct Cancel {};
using DaemonMessage = std::variant<WorkerPlan, Cancel>;

}  // namespace libreyolo::worker_link
