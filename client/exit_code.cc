#include "client/exit_code.h"

#include "absl/strings/match.h"
#include "common/base/error.h"

namespace libreyolo::client {
namespace {

struct Row {
  const char* reason;
  int code;
};

constexpr Row kExact[] = {
    {reason::kProjectRefused.name, kExitArgument},
    {reason::kProjectNotWritable.name, kExitArgument},
    {reason::kPathRefused.name, kExitArgument},
    {reason::kProfileNotFound.name, kExitArgument},
    {reason::kJobNotFound.name, kExitArgument},
    {reason::kBlobNotFound.name, kExitArgument},
    {reason::kUnknownMetric.name, kExitArgument},
    {reason::kUnknownPhase.name, kExitArgument},
    {reason::kUnknownCategory.name, kExitArgument},
    {reason::kNotComparable.name, kExitArgument},
    {reason::kRequestIdReused.name, kExitArgument},
    {reason::kDigestMismatch.name, kExitArgument},
    {reason::kLimitExceeded.name, kExitArgument},
    {reason::kServerUnreachable.name, kExitUnreachable},
    {reason::kDraining.name, kExitUnreachable},
    {reason::kCordoned.name, kExitUnreachable},
    {reason::kQueueFull.name, kExitBusy},
    {reason::kBusy.name, kExitBusy},
    {reason::kQuotaExceeded.name, kExitBusy},
    {reason::kDiskFull.name, kExitBusy},
    {reason::kUnauthenticated.name, kExitNotPermitted},
    {reason::kPermissionDenied.name, kExitNotPermitted},
};

constexpr Row kFamilies[] = {
    {"ARGUMENT_", kExitArgument}, {"WEIGHTS_", kExitArgument}, {"SOURCE_", kExitArgument},
    {"DATASET_", kExitArgument},  {"DEVICE_", kExitArgument},  {"TRACE_", kExitTrace},
};

}  // namespace

int ExitCodeOfReason(absl::string_view reason) {
  for (const Row& row : kExact) {
    if (reason == row.reason) return row.code;
  }
  for (const Row& row : kFamilies) {
    if (absl::StartsWith(reason, row.reason)) return row.code;
  }
  return kExitNoProfile;
}

int ExitCodeOf(const absl::Status& status) {
  return status.ok() ? kExitOk : ExitCodeOfReason(GetErrorDetail(status).reason);
}

}  // namespace libreyolo::client
