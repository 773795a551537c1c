// What a job is to measure, checked. A JobSpec comes out of rpc::ParseJobSpec alone, which fills
// defaults and checks every range; whoever holds one need not check it again. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace libreyolo::job {

enum class Mode { kTrain, kInfer };

// "train", "inference": the words profiles use.
inline const char* Name(Mode mode) { return mode == Mode::kTrain ? "train" : "inference"; }

enum class AmpDtype { kFloat16, kBfloat16 };

inline const char* Name(AmpDtype dtype) {
  return dtype == AmpDtype::kFloat16 ? "float16" : "bfloat16";
}

// What to do when another process uses the GPU.
enum class OnContention {
  kWarn,  // measure; the profile says so
  kWait,  // wait for it to leave before anything is measured
  kFail,  // fail: before the measurement, or after it when somebody came meanwhile
};

inline const char* Name(OnContention policy) {
  return policy == OnContention::kWait ? "wait" : policy == OnContention::kFail ? "fail" : "warn";
}

// A file that the job reads, as the client named it.
struct InputRef {
  enum class Kind {
    kNone,    // not given: the bundled sample image
    kName,    // a word that the server looks up (a weights name, a path in its workspace, a dataset
              // name)
    kLocal,   // an absolute path of the client's own machine: only from the owner of a local daemon
    kBlobs,   // uploaded content
    kRandom,  // weights only: initialised weights, asked for by name
  };
  struct Blob {
    std::string digest;  // SHA-256, hex
    std::string name;    // the file name that the client saw, without folders
  };
  Kind kind = Kind::kNone;
  std::string text;         // as typed
  std::vector<Blob> blobs;  // for kBlobs
};

struct JobSpec {
  Mode mode = Mode::kInfer;
  std::string workspace;  // empty: the principal's own
  std::string project = "runs/profile";
  std::string device = "0";

  InputRef weights;  // never kNone: the default name is filled in
  std::string size;  // "" when not given: the file decides
  InputRef source;   // infer: images; train: the dataset (never kNone)

  int batch = 1;    // train: -1 picks one
  int imgsz = 640;  // as asked; rounded up to a multiple of 32 by the worker
  int warmup = 20;
  int runs = 100;  // infer: measured iterations; train: measured steps
  int repeat = 1;

  // infer
  bool half = false;
  AmpDtype amp_dtype = AmpDtype::kFloat16;
  double conf = 0.25;
  double iou = 0.45;
  int max_det = 300;
  bool trace = true;

  // train
  int workers = 8;
  bool amp = true;

  int threads = 0;  // intra-op threads; 0: the worker takes the CPU quota
  OnContention on_contention = OnContention::kWarn;
  std::string cuda_visible_devices;  // local daemons only; "" leaves all visible
  int64_t time_limit_s = 1800;       // from STARTING
};

}  // namespace libreyolo::job
