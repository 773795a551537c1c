#include "common/rpc/parse_job_spec.h"

#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/error.h"
#include "common/base/relative_path.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"

namespace libreyolo::rpc {
namespace {

namespace v1 = ::libreyolo::profile::v1;

constexpr size_t kMaxTextBytes = 4096;
constexpr int kMaxBlobs = 100'000;

absl::Status CheckRange(const char* flag, int64_t value, int64_t low, int64_t high,
                        const char* also = "") {
  if (value >= low && value <= high) return absl::OkStatus();
  return MakeError(reason::kArgumentOutOfRange, absl::StrCat(flag, " ", value, " is out of range"),
                   {absl::StrCat(flag, " takes ", low, " to ", high, also)}, {{"flag", flag}});
}

absl::Status CheckRatio(const char* flag, double value) {
  if (value >= 0 && value <= 1) return absl::OkStatus();  // NaN fails too
  return MakeError(reason::kArgumentOutOfRange, absl::StrCat(flag, " ", value, " is out of range"),
                   {absl::StrCat(flag, " takes 0 to 1")}, {{"flag", flag}});
}

absl::Status CheckText(const char* what, absl::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return MakeError(reason::kArgumentInvalid,
                     absl::StrCat(what, " is longer than ", kMaxTextBytes, " bytes"));
  }
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return MakeError(reason::kArgumentInvalid, absl::StrCat(what, " holds a control character"));
    }
  }
  return absl::OkStatus();
}

// How uploaded files may be called.
enum class BlobNames { kPlain, kRelativePaths };

bool IsBlobName(const std::string& name, BlobNames rule) {
  if (rule == BlobNames::kPlain) {
    return !name.empty() && !absl::StrContains(name, '/') && name != "." && name != "..";
  }
  const auto path = NormalizeRelativePath(name);
  return path.ok() && !path->empty() && *path == name;
}

absl::StatusOr<job::InputRef> ParseInput(const char* what, const v1::InputRef& in,
                                         BlobNames names = BlobNames::kPlain) {
  using Kind = job::InputRef::Kind;
  job::InputRef out;
  LY_RETURN_IF_ERROR(CheckText(what, in.typed()));
  switch (in.ref_case()) {
    case v1::InputRef::kName:
      LY_RETURN_IF_ERROR(CheckText(what, in.name()));
      if (in.name().empty()) break;
      out.kind = Kind::kName;
      out.text = in.name();
      break;
    case v1::InputRef::kLocalPath:
      LY_RETURN_IF_ERROR(CheckText(what, in.local_path()));
      if (!absl::StartsWith(in.local_path(), "/")) {
        return MakeError(reason::kPathRefused, absl::StrCat(what, ": local path \"",
                                                            in.local_path(), "\" is not absolute"));
      }
      out.kind = Kind::kLocal;
      out.text = in.local_path();
      break;
    case v1::InputRef::kBlobs:
      if (in.blobs().blobs_size() > kMaxBlobs) {
        return MakeError(reason::kLimitExceeded,
                         absl::StrCat(what, ": more than ", kMaxBlobs, " uploaded files"));
      }
      out.kind = Kind::kBlobs;
      out.text = in.typed();
      for (const v1::BlobRef& blob : in.blobs().blobs()) {
        LY_RETURN_IF_ERROR(CheckText(what, blob.name()));
        if (!IsSha256Hex(blob.digest()) || !IsBlobName(blob.name(), names)) {
          return MakeError(reason::kArgumentInvalid,
                           absl::StrCat(what, ": a blob needs a SHA-256 digest and a ",
                                        names == BlobNames::kPlain ? "plain file name"
                                                                   : "relative path as its name"));
        }
        out.blobs.push_back({blob.digest(), blob.name()});
      }
      if (out.blobs.empty()) out.kind = Kind::kNone;
      break;
    case v1::InputRef::kRandom:
      if (in.random()) {
        out.kind = Kind::kRandom;
        out.text = "random";
      }
      break;
    case v1::InputRef::REF_NOT_SET:
      break;
  }
  return out;
}

absl::Status CheckDeviceText(const std::string& device) {
  if (device == "cpu") return absl::OkStatus();
  absl::string_view number = device;
  if (absl::ConsumePrefix(&number, "cuda:") || !absl::StartsWith(device, "GPU-")) {
    int index = 0;
    if (absl::SimpleAtoi(number, &index) && index >= 0 && index < 1024 &&
        absl::c_all_of(number, absl::ascii_isdigit)) {
      return absl::OkStatus();
    }
  } else {
    return CheckText("--device", device);
  }
  return MakeError(reason::kDeviceNotFound, absl::StrCat("no device is called \"", device, "\""),
                   {"--device takes 0, 1, cuda:0, a GPU UUID (GPU-...) or cpu"});
}

absl::StatusOr<std::string> ParseProject(const std::string& text) {
  LY_RETURN_IF_ERROR(CheckText("--project", text));
  const auto path = NormalizeRelativePath(text);
  if (!path.ok() || path->empty()) {
    return MakeError(reason::kProjectRefused,
                     absl::StrCat("--project \"", text, "\" does not lie inside the workspace"),
                     {"name a folder below the current one, such as --project runs/profile/a",
                      "start from the folder that is to hold the results",
                      "copy results elsewhere with libreyolo profile fetch -o"});
  }
  for (absl::string_view part : absl::StrSplit(*path, '/')) {
    absl::string_view rest = part;
    int number = 0;
    const bool trial =
        (absl::ConsumePrefix(&rest, "prof_") || absl::ConsumePrefix(&rest, "infer_")) &&
        absl::SimpleAtoi(rest, &number);
    if (part == "prof" || part == "infer" || part == "history" || trial ||
        absl::StartsWith(part, ".")) {
      return MakeError(reason::kProjectRefused,
                       absl::StrCat("--project \"", text, "\" holds the folder name \"",
                                    std::string(part), "\", which results themselves use"),
                       {"choose another name: prof, infer, prof_N, infer_N, history and names that "
                        "start with a dot are taken"});
    }
  }
  return *path;
}

absl::Status ParseInfer(const v1::InferSpec& in, job::JobSpec& out) {
  LY_ASSIGN_OR_RETURN(out.source, ParseInput("source", in.source()));
  if (out.source.kind == job::InputRef::Kind::kRandom) {
    return MakeError(reason::kArgumentInvalid, "source: only weights can be random");
  }
  out.runs = in.has_runs() ? in.runs() : 100;
  LY_RETURN_IF_ERROR(CheckRange("--runs", out.runs, 1, 1'000'000));
  out.half = in.half();
  if (in.has_amp_dtype()) {
    const std::string dtype = absl::AsciiStrToLower(in.amp_dtype());
    if (dtype == "bfloat16" || dtype == "bf16") {
      out.amp_dtype = job::AmpDtype::kBfloat16;
    } else if (dtype != "float16" && dtype != "fp16") {
      return MakeError(reason::kArgumentInvalid,
                       absl::StrCat("--amp-dtype \"", in.amp_dtype(), "\" is unknown"),
                       {"--amp-dtype takes float16 or bfloat16"});
    }
  }
  if (in.has_conf()) out.conf = in.conf();
  if (in.has_iou()) out.iou = in.iou();
  if (in.has_max_det()) out.max_det = in.max_det();
  if (in.has_trace()) out.trace = in.trace();
  LY_RETURN_IF_ERROR(CheckRatio("--conf", out.conf));
  LY_RETURN_IF_ERROR(CheckRatio("--iou", out.iou));
  LY_RETURN_IF_ERROR(CheckRange("--max-det", out.max_det, 1, 30'000));
  if (out.half && out.device == "cpu") {
    return MakeError(reason::kArgumentConflict,
                     "--half works on CUDA devices only, and the device is cpu",
                     {"leave --half out", "name a GPU with --device 0"});
  }
  return absl::OkStatus();
}

absl::Status ParseTrain(const v1::TrainSpec& in, job::JobSpec& out) {
  LY_ASSIGN_OR_RETURN(out.source, ParseInput("data", in.data(), BlobNames::kRelativePaths));
  if (out.source.kind == job::InputRef::Kind::kNone) {
    return MakeError(reason::kArgumentInvalid, "run needs a dataset: a YAML file or a name",
                     {"libreyolo profile run coco128", "libreyolo profile run sample"});
  }
  out.runs = in.has_steps() ? in.steps() : 20;
  LY_RETURN_IF_ERROR(CheckRange("--steps", out.runs, 2, 1'000'000));
  out.workers = in.has_workers() ? in.workers() : 8;
  LY_RETURN_IF_ERROR(CheckRange("--workers", out.workers, 0, 256));
  out.amp = in.has_amp() ? in.amp() : true;
  return absl::OkStatus();
}

absl::Status ParseContention(const v1::JobSpec& in, job::JobSpec& out) {
  if (!in.has_on_contention()) return absl::OkStatus();
  for (const auto policy :
       {job::OnContention::kWarn, job::OnContention::kWait, job::OnContention::kFail}) {
    if (in.on_contention() != job::Name(policy)) continue;
    out.on_contention = policy;
    return absl::OkStatus();
  }
  return MakeError(reason::kArgumentInvalid,
                   absl::StrCat("--on-contention \"", in.on_contention(), "\" is unknown"),
                   {"--on-contention takes wait, warn or fail"});
}

}  // namespace

absl::StatusOr<job::JobSpec> ParseJobSpec(const v1::JobSpec& in) {
  job::JobSpec out;
  const bool train = in.workload_case() == v1::JobSpec::kTrain;
  if (in.workload_case() == v1::JobSpec::WORKLOAD_NOT_SET) {
    return MakeError(reason::kArgumentInvalid, "the job spec has neither infer nor train");
  }
  out.mode = train ? job::Mode::kTrain : job::Mode::kInfer;
  LY_RETURN_IF_ERROR(CheckText("workspace", in.workspace()));
  out.workspace = in.workspace();
  LY_ASSIGN_OR_RETURN(out.project, ParseProject(in.has_project() ? in.project() : out.project));
  if (in.has_device()) out.device = in.device();
  LY_RETURN_IF_ERROR(CheckDeviceText(out.device));

  if (in.has_size()) {
    out.size = in.size();
    if (out.size != "t" && out.size != "s" && out.size != "m" && out.size != "c") {
      return MakeError(reason::kArgumentInvalid,
                       absl::StrCat("--size \"", out.size, "\" is unknown"),
                       {"--size takes t, s, m or c"});
    }
  }
  LY_ASSIGN_OR_RETURN(out.weights, ParseInput("--weights", in.weights()));
  if (out.weights.kind == job::InputRef::Kind::kNone) {
    out.weights.kind = job::InputRef::Kind::kName;
    out.weights.text = absl::StrCat("LibreYOLO9", out.size.empty() ? "t" : out.size, ".pt");
  }
  if (out.weights.kind == job::InputRef::Kind::kBlobs && out.weights.blobs.size() != 1) {
    return MakeError(reason::kArgumentInvalid, "--weights takes one file",
                     {"name one file, or a name such as LibreYOLO9t.pt"});
  }

  out.batch = in.has_batch() ? in.batch() : (train ? 16 : 1);
  if (!(train && out.batch == -1)) {
    LY_RETURN_IF_ERROR(
        CheckRange("--batch", out.batch, 1, 65'536, train ? ", or -1: the largest that fits" : ""));
  }
  out.imgsz = in.has_imgsz() ? in.imgsz() : 640;
  LY_RETURN_IF_ERROR(CheckRange("--imgsz", out.imgsz, 32, 8'192));
  out.warmup = in.has_warmup() ? in.warmup() : (train ? 5 : 20);
  LY_RETURN_IF_ERROR(CheckRange("--warmup", out.warmup, 0, 1'000'000));
  out.repeat = in.has_repeat() ? in.repeat() : 1;
  LY_RETURN_IF_ERROR(CheckRange("--repeat", out.repeat, 1, 1'000));
  out.threads = in.has_threads() ? in.threads() : 0;
  if (in.has_threads()) LY_RETURN_IF_ERROR(CheckRange("--threads", out.threads, 1, 4'096));
  LY_RETURN_IF_ERROR(ParseContention(in, out));
  LY_RETURN_IF_ERROR(CheckText("CUDA_VISIBLE_DEVICES", in.cuda_visible_devices()));
  out.cuda_visible_devices = in.cuda_visible_devices();
  if (in.has_time_limit()) {
    out.time_limit_s = in.time_limit().seconds();
    LY_RETURN_IF_ERROR(CheckRange("time_limit (seconds)", out.time_limit_s, 1, 7 * 24 * 3600));
  }
  LY_RETURN_IF_ERROR(train ? ParseTrain(in.train(), out) : ParseInfer(in.infer(), out));
  return out;
}

}  // namespace libreyolo::rpc
