// One empty gRPC call and nothing else: what any client process costs at least. The yardstick of
// bench_get_vs_empty_rpc.py.
//
//   empty_rpc unix:/path/to/socket
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>

#include "grpc/health/v1/health.grpc.pb.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: empty_rpc ADDRESS\n");
    return 2;
  }
  const auto channel = grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials());
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, {}, &response);
  if (!status.ok()) {
    std::fprintf(stderr, "error: %s\n", status.error_message().c_str());
    return 4;
  }
  return 0;
}
