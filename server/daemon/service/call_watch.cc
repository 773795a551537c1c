#include "server/daemon/service/call_watch.h"

#include <sys/random.h>

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "libreyolo/profile/v1/profiler.pb.h"

namespace libreyolo::daemon {
namespace {

namespace api = ::libreyolo::profile::v1;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

std::string NewRequestId() {
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) != sizeof bits) bits = static_cast<uint64_t>(MonotonicNs());
  return absl::StrFormat("%016x", bits);
}

// What callers send is no name that may be counted or logged, unless a method is called so.
std::string KnownMethod(const char* path) {
  absl::string_view name = path == nullptr ? "" : path;
  if (absl::ConsumePrefix(&name, "/grpc.health.v1.")) {
    return name == "Health/Check" || name == "Health/Watch" ? std::string(name) : "other";
  }
  if (!absl::ConsumePrefix(&name, "/libreyolo.profile.v1.")) return "other";
  const auto& file = *api::CreateJobRequest::descriptor()->file();
  for (int i = 0; i < file.service_count(); ++i) {
    const auto& service = *file.service(i);
    for (int j = 0; j < service.method_count(); ++j) {
      std::string known = service.name() + "/" + service.method(j)->name();
      if (name == known) return known;
    }
  }
  return "other";
}

std::string NameOf(grpc::StatusCode code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

class CallWatch : public grpc::experimental::Interceptor {
 public:
  CallWatch(const ServerRpcInfo& info, CallObserver& observer, bool name_in_errors)
      : observer_(observer),
        name_in_errors_(name_in_errors),
        method_(KnownMethod(info.method())),
        id_(NewRequestId()) {
    observer_.CallBegan(method_);
  }
  // A call whose caller left before there was a status.
  ~CallWatch() override {
    if (!ended_) End(grpc::StatusCode::CANCELLED);
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      // The handler finds it there, and nothing that the caller sent under that name.
      auto& metadata = *methods->GetRecvInitialMetadata();
      metadata.erase(kRequestIdKey);
      metadata.emplace(kRequestIdKey, id_);
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS) && !ended_) {
      const grpc::Status status = methods->GetSendStatus();
      methods->GetSendTrailingMetadata()->emplace(kRequestIdKey, id_);
      if (!status.ok() && name_in_errors_) NameInError(*methods, status);
      if (!status.ok()) LogFailure(status);
      End(status.error_code());
    }
    methods->Proceed();
  }

 private:
  void End(grpc::StatusCode code) {
    ended_ = true;
    observer_.CallEnded(method_, NameOf(code), absl::Nanoseconds(MonotonicNs() - began_ns_));
  }

  void NameInError(InterceptorBatchMethods& methods, const grpc::Status& status) const {
    google::rpc::Status details;
    // gRPC's own errors carry none, and need no operator.
    if (status.error_details().empty() || !details.ParseFromString(status.error_details())) return;
    google::rpc::RequestInfo info;
    info.set_request_id(id_);
    details.add_details()->PackFrom(info);
    methods.ModifySendStatus(
        grpc::Status(status.error_code(), status.error_message(), details.SerializeAsString()));
  }

  void LogFailure(const grpc::Status& status) const {
    // Who is not let in is logged at the gate, which keeps the knocking of one caller short.
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
        status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
        status.error_code() == grpc::StatusCode::CANCELLED)
      return;
    LogInfo("call failed", {{"request", id_},
                            {"method", method_},
                            {"code", NameOf(status.error_code())},
                            {"message", status.error_message()}});
  }

  CallObserver& observer_;
  const bool name_in_errors_;
  const std::string method_;
  const std::string id_;
  const int64_t began_ns_ = MonotonicNs();
  bool ended_ = false;
};

class CallWatchFactory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  CallWatchFactory(CallObserver& observer, bool name_in_errors)
      : observer_(observer), name_in_errors_(name_in_errors) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return new CallWatch(*info, observer_, name_in_errors_);
  }

 private:
  CallObserver& observer_;
  const bool name_in_errors_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallWatch(
    CallObserver& observer, bool name_in_errors) {
  return std::make_unique<CallWatchFactory>(observer, name_in_errors);
}

std::string RequestIdOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(kRequestIdKey);
  if (found == context.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

}  // namespace libreyolo::daemon
