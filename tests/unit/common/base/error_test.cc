#include "common/base/error.h"

#include <gtest/gtest.h>

namespace libreyolo {
namespace {

TEST(ErrorTest, CarriesReasonHintsAndMetadata) {
  const absl::Status status =
      MakeError(reason::kWindowNotFilled, "too small", {"larger dataset", "--steps 3"},
                {{"images", "128"}, {"needed", "400"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  const ErrorDetail detail = GetErrorDetail(status);
  EXPECT_EQ(detail.reason, "WINDOW_NOT_FILLED");
  EXPECT_EQ(detail.message, "too small");
  EXPECT_EQ(detail.hints, (std::vector<std::string>{"larger dataset", "--steps 3"}));
  EXPECT_EQ(detail.metadata, (ErrorMetadata{{"images", "128"}, {"needed", "400"}}));
  EXPECT_TRUE(HasReason(status, reason::kWindowNotFilled));
  EXPECT_FALSE(HasReason(absl::OkStatus(), reason::kWindowNotFilled));
}

TEST(ErrorTest, PlainStatusGetsAReasonFromItsCode) {
  EXPECT_EQ(GetErrorDetail(absl::InternalError("x")).reason, "INTERNAL");
  EXPECT_EQ(GetErrorDetail(absl::UnavailableError("x")).reason, "SERVER_UNREACHABLE");
}

}  // namespace
}  // namespace libreyolo
