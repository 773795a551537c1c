#include "common/rpc/status_convert.h"

#include "common/base/error.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace libreyolo::rpc {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const ErrorDetail detail = GetErrorDetail(status);
  google::rpc::ErrorInfo info;
  info.set_reason(detail.reason);
  info.set_domain(kErrorDomain);
  for (const auto& [key, value] : detail.metadata) (*info.mutable_metadata())[key] = value;
  google::rpc::Status out;
  out.set_code(static_cast<int>(status.code()));
  out.set_message(detail.message);
  out.add_details()->PackFrom(info);
  if (!detail.hints.empty()) {
    google::rpc::Help help;
    for (const std::string& hint : detail.hints) help.add_links()->set_description(hint);
    out.add_details()->PackFrom(help);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), detail.message,
                      out.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  ErrorDetail detail;
  google::rpc::Status in;
  if (!status.error_details().empty() && in.ParseFromString(status.error_details())) {
    for (const auto& any : in.details()) {
      google::rpc::ErrorInfo info;
      google::rpc::Help help;
      google::rpc::RequestInfo request;
      if (any.UnpackTo(&info) && info.domain() == kErrorDomain) {
        detail.reason = info.reason();
        for (const auto& [key, value] : info.metadata()) detail.metadata.emplace_back(key, value);
      } else if (any.UnpackTo(&help)) {
        for (const auto& link : help.links()) detail.hints.push_back(link.description());
      } else if (any.UnpackTo(&request)) {
        detail.metadata.emplace_back(kRequestIdFact, request.request_id());
      }
    }
  }
  if (detail.reason.empty()) return absl::Status(code, status.error_message());
  detail.message = status.error_message();
  return MakeErrorFromDetail(code, detail);
}

}  // namespace libreyolo::rpc
