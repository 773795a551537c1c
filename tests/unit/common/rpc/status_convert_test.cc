#include "common/rpc/status_convert.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::rpc {
namespace {

TEST(StatusConvertTest, NothingIsLostOverTheWire) {
  const absl::Status status =
      MakeError(reason::kWindowNotFilled, "too small", {"a", "b"}, {{"images", "128"}});
  const absl::Status back = FromGrpcStatus(ToGrpcStatus(status));
  EXPECT_EQ(back.code(), status.code());
  EXPECT_EQ(back.message(), status.message());
  const ErrorDetail detail = GetErrorDetail(back);
  EXPECT_EQ(detail.reason, "WINDOW_NOT_FILLED");
  EXPECT_EQ(detail.hints, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(detail.metadata, (ErrorMetadata{{"images", "128"}}));
  EXPECT_TRUE(FromGrpcStatus(ToGrpcStatus(absl::OkStatus())).ok());
}

TEST(StatusConvertTest, ForeignStatusesGetAReason) {
  const absl::Status back =
      FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "connect failed"));
  EXPECT_EQ(GetErrorDetail(back).reason, "SERVER_UNREACHABLE");
  const grpc::Status garbage(grpc::StatusCode::INTERNAL, "x", "\xff\xff");
  EXPECT_EQ(GetErrorDetail(FromGrpcStatus(garbage)).reason, "INTERNAL");
}

}  // namespace
}  // namespace libreyolo::rpc
