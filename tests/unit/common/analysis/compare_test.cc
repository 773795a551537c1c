#include "common/analysis/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Profile Repeated(const std::vector<double>& rates) {
  Profile profile;
  profile.ours = true;
  profile.gpu = GpuState::kNone;
  profile.config.Set("device", "cpu");
  profile.config.Set("batch", 1);
  profile.config.Set("imgsz", 640);
  profile.mode = "inference";
  profile.model = "LibreYOLO9t.pt";
  profile.img_per_s_n = static_cast<int64_t>(rates.size());
  profile.img_per_s_trials = rates;
  double sum = 0;
  for (const double rate : rates) {
    sum += rate;
    profile.trials.push_back({rate, 1000 / rate});
  }
  profile.img_per_s = sum / static_cast<double>(rates.size());
  profile.exact.img_per_s = profile.img_per_s;
  profile.img_per_s_std = 0.5;
  profile.metrics = {{"img_per_s", JsonValue(*profile.img_per_s)},
                     {"peak_vram_mb", JsonValue()},
                     {"forward_ms", JsonValue(4.0)}};
  return profile;
}

CompareReport MustCompare(const Profile& a, const Profile& b, const CompareQuery& query = {}) {
  const auto report = Compare(a, b, query);
  EXPECT_OK(report);
  return report.ok() ? *report : CompareReport{};
}

TEST(CompareTest, CalibratedVerdicts) {
  const Profile base = Repeated({100, 101, 99});
  EXPECT_EQ(MustCompare(base, Repeated({120, 121, 119})).calibrated_verdict, "faster");
  EXPECT_EQ(MustCompare(base, Repeated({80, 81, 79})).calibrated_verdict, "slower");
  EXPECT_EQ(MustCompare(base, Repeated({101, 100, 102})).calibrated_verdict, "cannot tell");
  EXPECT_EQ(
      MustCompare(Repeated({100, 100.1, 99.9}), Repeated({100, 100.1, 99.9})).calibrated_verdict,
      "same");
  const CompareReport faster = MustCompare(base, Repeated({120, 121, 119}));
  EXPECT_NEAR(*faster.change_ratio, 0.2, 1e-12);
  EXPECT_GT(*faster.change_low_ratio, 0);
  EXPECT_LT(faster.ms_per_image_interval->high, 0) << "less time per image";
}

TEST(CompareTest, TheContractsRuleStandsBeside) {
  const CompareReport report = MustCompare(Repeated({100, 101}), Repeated({110, 111}));
  EXPECT_EQ(report.significant, true);
  EXPECT_EQ(report.significance, "|d|=10.0 vs 2*SE=1.0");
  Profile single = Repeated({100});
  single.img_per_s_std.reset();
  EXPECT_FALSE(MustCompare(single, Repeated({110, 111})).significant.has_value());
  EXPECT_EQ(MustCompare(single, Repeated({110, 111})).calibrated_verdict, "cannot tell");
}

TEST(CompareTest, RefusesUnlikeThings) {
  const Profile base = Repeated({100, 101});
  Profile other = base;
  other.config.Set("imgsz", 320);
  EXPECT_THAT(Compare(base, other, {}), FailsWith(reason::kNotComparable));
  other = base;
  other.config.Set("device", "cuda:0");
  EXPECT_THAT(Compare(base, other, {}), FailsWith(reason::kNotComparable));
  other = base;
  other.model = "LibreYOLO9c.pt";
  EXPECT_THAT(Compare(base, other, {}), FailsWith(reason::kNotComparable));
  other.model = "weights/LibreYOLO9t.pt";
  EXPECT_OK(Compare(base, other, {})) << "the same file by another path";
  other = base;
  other.gpu = GpuState::kNotRecorded;
  const auto refused = Compare(base, other, {});
  EXPECT_THAT(refused, FailsWith(reason::kNotComparable));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("not recorded"));
  CompareQuery force;
  force.force = true;
  EXPECT_THAT(MustCompare(base, other, force).unlike, SizeIs(1));
}

TEST(CompareTest, BatchMayDifferAndIsNoted) {
  Profile other = Repeated({100, 101});
  other.config.Set("batch", 4);
  const CompareReport report = MustCompare(Repeated({100, 101}), other);
  EXPECT_THAT(report.notes, ::testing::ElementsAre("batch: 1 and 4"));
}

KernelRow Kernel(const std::string& name, double ms) {
  KernelRow row;
  row.kernel = row.raw_name = name;
  row.category = "other";
  row.ms_per_step = ms;
  return row;
}

TEST(CompareTest, ShowsTheRowsThatMovedMost) {
  Profile before = Repeated({100, 101});
  Profile after = before;
  for (int i = 0; i < 12; ++i) before.kernels.push_back(Kernel("k" + std::to_string(i), 1));
  for (int i = 0; i < 12; ++i)
    after.kernels.push_back(Kernel("k" + std::to_string(i), 1 + 0.1 * i));
  after.kernels.erase(after.kernels.begin());
  after.kernels.push_back(Kernel("fresh", 5));
  const CompareReport report = MustCompare(before, after);
  ASSERT_THAT(report.kernels, SizeIs(10));
  EXPECT_EQ(report.kernels[0].name, "fresh");
  EXPECT_EQ(report.kernels[0].kind, RowChange::Kind::kNew);
  EXPECT_EQ(report.kernels[1].name, "k11");
  EXPECT_NEAR(report.kernels[1].change_ms(), 1.1, 1e-12);
  const auto gone = std::find_if(report.kernels.begin(), report.kernels.end(),
                                 [](const RowChange& change) { return change.name == "k0"; });
  ASSERT_NE(gone, report.kernels.end());
  EXPECT_EQ(gone->kind, RowChange::Kind::kGone);
}

TEST(FailOnTest, Parses) {
  ASSERT_OK_AND_ASSIGN(const FailCondition change, ParseFailCondition("img_per_s<-5%"));
  EXPECT_EQ(change.metric, "img_per_s");
  EXPECT_TRUE(change.less);
  EXPECT_TRUE(change.percent);
  EXPECT_EQ(change.limit, -5);
  ASSERT_OK_AND_ASSIGN(const FailCondition value, ParseFailCondition(" forward_ms > 4.5 "));
  EXPECT_EQ(value.metric, "forward_ms");
  EXPECT_FALSE(value.less);
  EXPECT_FALSE(value.percent);
  for (const char* bad : {"", "img_per_s", "<5", "a<", "a<x", "a<5%%", "a<nan", "a=5"}) {
    EXPECT_THAT(ParseFailCondition(bad), FailsWith(reason::kArgumentInvalid)) << bad;
  }
}

TEST(FailOnTest, HoldsTheSecondProfileAgainstTheLimit) {
  const auto met = [](const char* text, double before, double after) {
    CompareQuery query;
    query.fail_on = {*ParseFailCondition(text)};
    return MustCompare(Repeated({before, before}), Repeated({after, after}), query).condition_met;
  };
  EXPECT_TRUE(met("img_per_s<-5%", 100, 94));
  EXPECT_FALSE(met("img_per_s<-5%", 100, 96));
  EXPECT_FALSE(met("img_per_s<-5%", 100, 120));
  EXPECT_TRUE(met("img_per_s>+10%", 100, 120));
  EXPECT_TRUE(met("img_per_s<90", 100, 80));
  EXPECT_FALSE(met("img_per_s<90", 80, 100));
  EXPECT_TRUE(met("ms_per_image>11", 100, 90)) << "11.1 ms";
}

TEST(FailOnTest, NeedsTheMetricOnBothSides) {
  const Profile base = Repeated({100, 101});
  CompareQuery query;
  query.fail_on = {*ParseFailCondition("nosuch<1")};
  EXPECT_THAT(Compare(base, base, query), FailsWith(reason::kUnknownMetric));
  query.fail_on = {*ParseFailCondition("peak_vram_mb>1")};
  EXPECT_THAT(Compare(base, base, query), FailsWith(reason::kUnknownMetric));
}

}  // namespace
}  // namespace libreyolo::analysis
