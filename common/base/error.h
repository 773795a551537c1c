// The product's errors: an absl::Status that also carries a stable reason, the ways out (hints) and
// named facts. The reason is what scripts and exit codes depend on; the message is for people and
// may change.
//
//   return MakeError(reason::kUnknownMetric, "no metric \"fps\" in this profile",
//                    {"libreyolo profile get PATH lists them"});
//
// These details travel as google.rpc.ErrorInfo and Help over gRPC (common/rpc/status_convert.h) and
// as plain fields in the job's error. All functions are safe to call from any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace libreyolo {

// The domain of every reason below, as in google.rpc.ErrorInfo.
inline constexpr char kErrorDomain[] = "libreyolo";

// A reason and the canonical code that goes with it. The client's exit code follows from the reason
// (client/exit_code.h).
struct Reason {
  const char* name;
  absl::StatusCode code;
};

namespace reason {
// About an argument: exit 2.
inline constexpr Reason kArgumentInvalid{"ARGUMENT_INVALID", absl::StatusCode::kInvalidArgument};
inline constexpr Reason kArgumentOutOfRange{"ARGUMENT_OUT_OF_RANGE",
                                            absl::StatusCode::kInvalidArgument};
inline constexpr Reason kArgumentConflict{"ARGUMENT_CONFLICT", absl::StatusCode::kInvalidArgument};
inline constexpr Reason kWeightsNotFound{"WEIGHTS_NOT_FOUND", absl::StatusCode::kNotFound};
inline constexpr Reason kWeightsUnreadable{"WEIGHTS_UNREADABLE",
                                           absl::StatusCode::kInvalidArgument};
inline constexpr Reason kWeightsMismatch{"WEIGHTS_MISMATCH", absl::StatusCode::kInvalidArgument};
inline constexpr Reason kSourceNotFound{"SOURCE_NOT_FOUND", absl::StatusCode::kNotFound};
inline constexpr Reason kSourceUnreadable{"SOURCE_UNREADABLE", absl::StatusCode::kInvalidArgument};
inline constexpr Reason kDatasetNotFound{"DATASET_NOT_FOUND", absl::StatusCode::kNotFound};
inline constexpr Reason kDatasetInvalid{"DATASET_INVALID", absl::StatusCode::kInvalidArgument};
inline constexpr Reason kDeviceNotFound{"DEVICE_NOT_FOUND", absl::StatusCode::kNotFound};
inline constexpr Reason kDeviceUnusable{"DEVICE_UNUSABLE", absl::StatusCode::kFailedPrecondition};
inline constexpr Reason kProjectRefused{"PROJECT_REFUSED", absl::StatusCode::kInvalidArgument};
inline constexpr Reason kProjectNotWritable{"PROJECT_NOT_WRITABLE",
                                            absl::StatusCode::kFailedPrecondition};
inline constexpr Reason kPathRefused{"PATH_REFUSED", absl::StatusCode::kInvalidArgument};
inline constexpr Reason kProfileNotFound{"PROFILE_NOT_FOUND", absl::StatusCode::kNotFound};
inline constexpr Reason kJobNotFound{"JOB_NOT_FOUND", absl::StatusCode::kNotFound};
inline constexpr Reason kBlobNotFound{"BLOB_NOT_FOUND", absl::StatusCode::kNotFound};
inline constexpr Reason kUnknownMetric{"UNKNOWN_METRIC", absl::StatusCode::kNotFound};
inline constexpr Reason kUnknownPhase{"UNKNOWN_PHASE", absl::StatusCode::kNotFound};
inline constexpr Reason kUnknownCategory{"UNKNOWN_CATEGORY", absl::StatusCode::kNotFound};
inline constexpr Reason kNotComparable{"NOT_COMPARABLE", absl::StatusCode::kFailedPrecondition};
inline constexpr Reason kRequestIdReused{"REQUEST_ID_REUSED", absl::StatusCode::kAlreadyExists};
inline constexpr Reason kDigestMismatch{"DIGEST_MISMATCH", absl::StatusCode::kInvalidArgument};
inline constexpr Reason kLimitExceeded{"LIMIT_EXCEEDED", absl::StatusCode::kInvalidArgument};
// A trace or profile that exists but cannot be analysed: exit 1.
inline constexpr Reason kTraceUnparsable{"TRACE_UNPARSABLE", absl::StatusCode::kInvalidArgument};
inline constexpr Reason kTraceEmpty{"TRACE_EMPTY", absl::StatusCode::kFailedPrecondition};
inline constexpr Reason kTraceTooLarge{"TRACE_TOO_LARGE", absl::StatusCode::kInvalidArgument};
inline constexpr Reason kTraceSchemaUnsupported{"TRACE_SCHEMA_UNSUPPORTED",
                                                absl::StatusCode::kFailedPrecondition};
// No profile was produced: exit 3.
inline constexpr Reason kWindowNotFilled{"WINDOW_NOT_FILLED",
                                         absl::StatusCode::kFailedPrecondition};
inline constexpr Reason kUnimplemented{"UNIMPLEMENTED", absl::StatusCode::kUnimplemented};
inline constexpr Reason kOutOfMemory{"OUT_OF_MEMORY", absl::StatusCode::kResourceExhausted};
inline constexpr Reason kWorkerCrashed{"WORKER_CRASHED", absl::StatusCode::kInternal};
inline constexpr Reason kWorkerSilent{"WORKER_SILENT", absl::StatusCode::kInternal};
inline constexpr Reason kWorkerFailed{"WORKER_FAILED", absl::StatusCode::kInternal};
inline constexpr Reason kWorkerMismatch{"WORKER_MISMATCH", absl::StatusCode::kInternal};
// What the GPU does cannot be recorded; --no-trace still measures.
inline constexpr Reason kCaptureUnavailable{"CAPTURE_UNAVAILABLE",
                                            absl::StatusCode::kFailedPrecondition};
inline constexpr Reason kCaptureForbidden{"CAPTURE_FORBIDDEN",
                                          absl::StatusCode::kFailedPrecondition};
inline constexpr Reason kCaptureBusy{"CAPTURE_BUSY", absl::StatusCode::kFailedPrecondition};
inline constexpr Reason kGpuNotRecorded{"GPU_NOT_RECORDED", absl::StatusCode::kFailedPrecondition};
inline constexpr Reason kGpuContended{"GPU_CONTENDED", absl::StatusCode::kFailedPrecondition};
// A worker used up what one may take of CPU time, files or processes; memory is OUT_OF_MEMORY.
inline constexpr Reason kWorkerLimit{"WORKER_LIMIT", absl::StatusCode::kResourceExhausted};
inline constexpr Reason kTimeLimit{"TIME_LIMIT", absl::StatusCode::kDeadlineExceeded};
inline constexpr Reason kDaemonRestarted{"DAEMON_RESTARTED", absl::StatusCode::kAborted};
inline constexpr Reason kCancelled{"CANCELLED", absl::StatusCode::kCancelled};
inline constexpr Reason kStoreFailed{"STORE_FAILED", absl::StatusCode::kInternal};
inline constexpr Reason kJobNotFinished{"JOB_NOT_FINISHED", absl::StatusCode::kFailedPrecondition};
inline constexpr Reason kInternal{"INTERNAL", absl::StatusCode::kInternal};
// Not reachable: exit 4.
inline constexpr Reason kServerUnreachable{"SERVER_UNREACHABLE", absl::StatusCode::kUnavailable};
inline constexpr Reason kDraining{"DRAINING", absl::StatusCode::kUnavailable};
inline constexpr Reason kCordoned{"CORDONED", absl::StatusCode::kUnavailable};
// Busy: exit 5.
inline constexpr Reason kQueueFull{"QUEUE_FULL", absl::StatusCode::kResourceExhausted};
inline constexpr Reason kBusy{"BUSY", absl::StatusCode::kResourceExhausted};
inline constexpr Reason kDiskFull{"DISK_FULL", absl::StatusCode::kResourceExhausted};
inline constexpr Reason kQuotaExceeded{"QUOTA_EXCEEDED", absl::StatusCode::kResourceExhausted};
// Who are you: exit 6.
inline constexpr Reason kUnauthenticated{"UNAUTHENTICATED", absl::StatusCode::kUnauthenticated};
inline constexpr Reason kPermissionDenied{"PERMISSION_DENIED", absl::StatusCode::kPermissionDenied};
}  // namespace reason

// Named facts of an error, such as {"dataset_images", "128"}; keys are lower_snake_case.
using ErrorMetadata = std::vector<std::pair<std::string, std::string>>;

struct ErrorDetail {
  std::string reason;              // "INTERNAL" for a status without one
  std::string message;             // one sentence, no full stop at the end
  std::vector<std::string> hints;  // the ways out, each a sentence or a command
  ErrorMetadata metadata;
};

absl::Status MakeError(const Reason& reason, absl::string_view message,
                       std::vector<std::string> hints = {}, ErrorMetadata metadata = {});

// The same with the reason as text, for errors that came from elsewhere (a worker, a stored job).
absl::Status MakeErrorFromDetail(absl::StatusCode code, const ErrorDetail& detail);

// The details of `status`, which must not be OK. A status without a reason gets one from its code.
ErrorDetail GetErrorDetail(const absl::Status& status);

// True when `status` carries `reason`.
bool HasReason(const absl::Status& status, const Reason& reason);

}  // namespace libreyolo
