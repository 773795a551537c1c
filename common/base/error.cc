#include "common/base/error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace libreyolo {
namespace {

// Status payloads hold bytes only. Fields are separated by bytes that no message of ours contains.
constexpr char kReasonUrl[] = "libreyolo/reason";
constexpr char kHintsUrl[] = "libreyolo/hints";
constexpr char kMetadataUrl[] = "libreyolo/metadata";
constexpr char kRecordSeparator = '\x1e';
constexpr char kUnitSeparator = '\x1f';

const Reason& ReasonOfCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return reason::kArgumentInvalid;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return reason::kServerUnreachable;
    case absl::StatusCode::kUnauthenticated:
      return reason::kUnauthenticated;
    case absl::StatusCode::kPermissionDenied:
      return reason::kPermissionDenied;
    case absl::StatusCode::kResourceExhausted:
      return reason::kBusy;
    case absl::StatusCode::kUnimplemented:
      return reason::kUnimplemented;
    case absl::StatusCode::kCancelled:
      return reason::kCancelled;
    default:
      return reason::kInternal;
  }
}

std::string PayloadText(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace

absl::Status MakeErrorFromDetail(absl::StatusCode code, const ErrorDetail& detail) {
  absl::Status status(code == absl::StatusCode::kOk ? absl::StatusCode::kInternal : code,
                      detail.message);
  status.SetPayload(kReasonUrl, absl::Cord(detail.reason));
  if (!detail.hints.empty()) {
    status.SetPayload(kHintsUrl,
                      absl::Cord(absl::StrJoin(detail.hints, std::string(1, kRecordSeparator))));
  }
  if (!detail.metadata.empty()) {
    status.SetPayload(kMetadataUrl, absl::Cord(absl::StrJoin(
                                        detail.metadata, std::string(1, kRecordSeparator),
                                        absl::PairFormatter(std::string(1, kUnitSeparator)))));
  }
  return status;
}

absl::Status MakeError(const Reason& reason, absl::string_view message,
                       std::vector<std::string> hints, ErrorMetadata metadata) {
  return MakeErrorFromDetail(reason.code, ErrorDetail{reason.name, std::string(message),
                                                      std::move(hints), std::move(metadata)});
}

ErrorDetail GetErrorDetail(const absl::Status& status) {
  ErrorDetail detail;
  detail.message = std::string(status.message());
  detail.reason = PayloadText(status, kReasonUrl);
  if (detail.reason.empty()) detail.reason = ReasonOfCode(status.code()).name;
  const std::string hints = PayloadText(status, kHintsUrl);
  if (!hints.empty()) detail.hints = absl::StrSplit(hints, kRecordSeparator);
  const std::string metadata = PayloadText(status, kMetadataUrl);
  if (!metadata.empty()) {
    for (absl::string_view record : absl::StrSplit(metadata, kRecordSeparator)) {
      detail.metadata.push_back(absl::StrSplit(record, absl::MaxSplits(kUnitSeparator, 1)));
    }
  }
  return detail;
}

bool HasReason(const absl::Status& status, const Reason& reason) {
  return !status.ok() && GetErrorDetail(status).reason == reason.name;
}

}  // namespace libreyolo
