#include "client/exit_code.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace libreyolo::client {
namespace {

struct Case {
  Reason reason;
  int code;
};

class ExitCodeTest : public ::testing::TestWithParam<Case> {};

TEST_P(ExitCodeTest, FollowsFromTheReasonAlone) {
  EXPECT_EQ(ExitCodeOf(MakeError(GetParam().reason, "text")), GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(Reasons, ExitCodeTest,
                         ::testing::ValuesIn(std::vector<Case>{
                             {reason::kArgumentInvalid, 2},
                             {reason::kArgumentOutOfRange, 2},
                             {reason::kArgumentConflict, 2},
                             {reason::kWeightsNotFound, 2},
                             {reason::kWeightsUnreadable, 2},
                             {reason::kWeightsMismatch, 2},
                             {reason::kSourceNotFound, 2},
                             {reason::kSourceUnreadable, 2},
                             {reason::kDatasetNotFound, 2},
                             {reason::kDatasetInvalid, 2},
                             {reason::kDeviceNotFound, 2},
                             {reason::kDeviceUnusable, 2},
                             {reason::kProjectRefused, 2},
                             {reason::kProjectNotWritable, 2},
                             {reason::kPathRefused, 2},
                             {reason::kProfileNotFound, 2},
                             {reason::kJobNotFound, 2},
                             {reason::kBlobNotFound, 2},
                             {reason::kUnknownMetric, 2},
                             {reason::kUnknownPhase, 2},
                             {reason::kUnknownCategory, 2},
                             {reason::kNotComparable, 2},
                             {reason::kRequestIdReused, 2},
                             {reason::kDigestMismatch, 2},
                             {reason::kLimitExceeded, 2},
                             {reason::kTraceUnparsable, 1},
                             {reason::kTraceEmpty, 1},
                             {reason::kTraceTooLarge, 1},
                             {reason::kTraceSchemaUnsupported, 1},
                             {reason::kWindowNotFilled, 3},
                             {reason::kUnimplemented, 3},
                             {reason::kOutOfMemory, 3},
                             {reason::kWorkerCrashed, 3},
                             {reason::kWorkerSilent, 3},
                             {reason::kWorkerFailed, 3},
                             {reason::kWorkerMismatch, 3},
                             {reason::kTimeLimit, 3},
                             {reason::kDaemonRestarted, 3},
                             {reason::kCancelled, 3},
                             {reason::kStoreFailed, 3},
                             {reason::kJobNotFinished, 3},
                             {reason::kInternal, 3},
                             {reason::kServerUnreachable, 4},
                             {reason::kDraining, 4},
                             {reason::kQueueFull, 5},
                             {reason::kBusy, 5},
                             {reason::kUnauthenticated, 6},
                             {reason::kPermissionDenied, 6},
                         }),
                         [](const auto& info) { return info.param.reason.name; });

TEST(ExitCodeOfReasonTest, UnknownReasonsGoByTheirFamily) {
  EXPECT_EQ(ExitCodeOfReason("WEIGHTS_TOO_NEW"), 2);
  EXPECT_EQ(ExitCodeOfReason("DATASET_LOCKED"), 2);
  EXPECT_EQ(ExitCodeOfReason("TRACE_ENCRYPTED"), 1);
  EXPECT_EQ(ExitCodeOfReason("SOMETHING_NEW"), 3);
}

TEST(ExitCodeOfTest, StatusesWithoutAReasonGoByTheirCode) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::UnimplementedError("not here")), 3);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("gone")), 4);
  EXPECT_EQ(ExitCodeOf(absl::PermissionDeniedError("no")), 6);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("bad")), 2);
}

}  // namespace
}  // namespace libreyolo::client
