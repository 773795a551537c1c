// The least that a gRPC server can do for the calls of load_client: it answers a metric from
// nothing, keeps watchers open and drops uploads. The yardstick of bench_load.py.
//
//   echo_server ADDRESS       serves until its standard input ends
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo {
namespace {

namespace v1 = ::libreyolo::profile::v1;

// Sends one event and then waits to be cancelled.
class OpenWatch : public grpc::ServerWriteReactor<v1::JobEvent> {
 public:
  OpenWatch() { StartWrite(&event_); }
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }

 private:
  v1::JobEvent event_;
};

class Sink : public grpc::ServerReadReactor<v1::UploadBlobRequest> {
 public:
  Sink() { StartRead(&request_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  v1::UploadBlobRequest request_;
};

class EchoJobs : public v1::JobService::CallbackService {
  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(grpc::CallbackServerContext*,
                                                   const v1::WatchJobRequest*) override {
    return new OpenWatch;
  }
};

class EchoProfiles : public v1::ProfileService::CallbackService {
  grpc::ServerUnaryReactor* GetMetric(grpc::CallbackServerContext* context,
                                      const v1::GetMetricRequest*,
                                      v1::GetMetricResponse*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerReadReactor<v1::UploadBlobRequest>* UploadBlob(grpc::CallbackServerContext*,
                                                             v1::UploadBlobResponse*) override {
    return new Sink;
  }
};

}  // namespace
}  // namespace libreyolo

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: echo_server ADDRESS\n");
    return 2;
  }
  libreyolo::EchoJobs jobs;
  libreyolo::EchoProfiles profiles;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(argv[1], grpc::InsecureServerCredentials());
  builder.RegisterService(&jobs);
  builder.RegisterService(&profiles);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::puts("ready");
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}
