#include "common/rpc/parse_job_spec.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "common/base/relative_path.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::rpc {
namespace {

using ::libreyolo::testing::FailsWith;

absl::StatusOr<job::JobSpec> Parse(const std::string& text) {
  profile::v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return ParseJobSpec(spec);
}

TEST(ParseJobSpecTest, FillsTheDefaultsOfInfer) {
  ASSERT_OK_AND_ASSIGN(const job::JobSpec spec, Parse("infer {}"));
  EXPECT_EQ(spec.mode, job::Mode::kInfer);
  EXPECT_EQ(spec.project, "runs/profile");
  EXPECT_EQ(spec.device, "0");
  EXPECT_EQ(spec.weights.text, "LibreYOLO9t.pt");
  EXPECT_EQ(spec.source.kind, job::InputRef::Kind::kNone);
  EXPECT_EQ(spec.batch, 1);
  EXPECT_EQ(spec.imgsz, 640);
  EXPECT_EQ(spec.warmup, 20);
  EXPECT_EQ(spec.runs, 100);
  EXPECT_EQ(spec.conf, 0.25);
  EXPECT_EQ(spec.iou, 0.45);
  EXPECT_EQ(spec.max_det, 300);
  EXPECT_TRUE(spec.trace);
}

TEST(ParseJobSpecTest, KnowsThePoliciesForOtherUsersOfTheGpu) {
  EXPECT_EQ(Parse("infer {}")->on_contention, job::OnContention::kWarn);
  EXPECT_EQ(Parse("on_contention: 'wait' infer {}")->on_contention, job::OnContention::kWait);
  EXPECT_EQ(Parse("on_contention: 'fail' infer {}")->on_contention, job::OnContention::kFail);
  EXPECT_THAT(Parse("on_contention: 'WAIT' infer {}"), FailsWith(reason::kArgumentInvalid));
}

TEST(ParseJobSpecTest, FillsTheDefaultsOfTrain) {
  ASSERT_OK_AND_ASSIGN(const job::JobSpec spec,
                       Parse("size: 's' train { data { name: 'coco128' } }"));
  EXPECT_EQ(spec.mode, job::Mode::kTrain);
  EXPECT_EQ(spec.weights.text, "LibreYOLO9s.pt");
  EXPECT_EQ(spec.batch, 16);
  EXPECT_EQ(spec.warmup, 5);
  EXPECT_EQ(spec.runs, 20);
  EXPECT_EQ(spec.workers, 8);
  EXPECT_TRUE(spec.amp);
}

struct BadSpec {
  const char* name;
  const char* text;
  Reason want;
};

class BadSpecTest : public ::testing::TestWithParam<BadSpec> {};

TEST_P(BadSpecTest, IsRefusedWithItsReason) {
  EXPECT_THAT(Parse(GetParam().text), FailsWith(GetParam().want));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BadSpecTest,
    ::testing::ValuesIn(std::vector<BadSpec>{
        {"NoWorkload", "", reason::kArgumentInvalid},
        {"ZeroRuns", "infer { runs: 0 }", reason::kArgumentOutOfRange},
        {"OneStep", "train { data { name: 'x' } steps: 1 }", reason::kArgumentOutOfRange},
        {"NoData", "train {}", reason::kArgumentInvalid},
        {"ZeroBatch", "batch: 0 infer {}", reason::kArgumentOutOfRange},
        {"AutoBatchInfer", "batch: -1 infer {}", reason::kArgumentOutOfRange},
        {"NegativeWarmup", "warmup: -1 infer {}", reason::kArgumentOutOfRange},
        {"NanConf", "infer { conf: nan }", reason::kArgumentOutOfRange},
        {"BigIou", "infer { iou: 1.5 }", reason::kArgumentOutOfRange},
        {"ZeroMaxDet", "infer { max_det: 0 }", reason::kArgumentOutOfRange},
        {"HugeImage", "imgsz: 1000000 infer {}", reason::kArgumentOutOfRange},
        {"HalfOnCpu", "device: 'cpu' infer { half: true }", reason::kArgumentConflict},
        {"BadDtype", "infer { amp_dtype: 'int8' }", reason::kArgumentInvalid},
        {"BadSize", "size: 'zzz' infer {}", reason::kArgumentInvalid},
        {"BadDevice", "device: 'foo' infer {}", reason::kDeviceNotFound},
        {"SignedDevice", "device: '+1' infer {}", reason::kDeviceNotFound},
        {"ProjectUp", "project: '../x' infer {}", reason::kProjectRefused},
        {"ProjectAbsolute", "project: '/x' infer {}", reason::kProjectRefused},
        {"ProjectEmpty", "project: '.' infer {}", reason::kProjectRefused},
        {"ProjectInfer", "project: 'a/infer' infer {}", reason::kProjectRefused},
        {"ProjectTrial", "project: 'a/prof_3/b' infer {}", reason::kProjectRefused},
        {"ProjectHistory", "project: 'a/history' infer {}", reason::kProjectRefused},
        {"RelativeLocal", "weights { local_path: 'x.pt' } infer {}", reason::kPathRefused},
        {"BlobName", "weights { blobs { blobs { digest: 'x' name: 'a' } } } infer {}",
         reason::kArgumentInvalid},
        {"RandomSource", "infer { source { random: true } }", reason::kArgumentInvalid},
        {"ControlCharacter", "weights { name: 'a\\nb' } infer {}", reason::kArgumentInvalid},
    }),
    [](const auto& info) { return info.param.name; });

TEST(NormalizeRelativePathTest, KeepsOnlyRealComponents) {
  ASSERT_OK_AND_ASSIGN(const std::string path, NormalizeRelativePath("./runs//profile/"));
  EXPECT_EQ(path, "runs/profile");
  EXPECT_FALSE(NormalizeRelativePath("a/../b").ok());
  EXPECT_FALSE(NormalizeRelativePath(absl::string_view("a\0b", 3)).ok());
}

}  // namespace
}  // namespace libreyolo::rpc
