#include "common/analysis/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "common/analysis/welch.h"

namespace libreyolo::analysis {
namespace {

std::vector<double> OneTo(int n) {
  std::vector<double> values;
  for (int i = 1; i <= n; ++i) values.push_back(i);
  return values;
}

TEST(QuantileTest, InterpolatesAsNumPy) {
  EXPECT_DOUBLE_EQ(LinearQuantile({10, 20}, 0.5), 15);
  EXPECT_DOUBLE_EQ(LinearQuantile({10, 20, 30, 100}, 0.9), 79);
  EXPECT_DOUBLE_EQ(LinearQuantile({7}, 0.99), 7);
}

// Table values: for the median of n = 10 the 2nd and 9th order statistics hold 97.9 %; of n = 6 the
// extremes hold 96.9 %; below that nothing reaches 95 %.
TEST(QuantileTest, LimitsAreTheTabledOrderStatistics) {
  QuantileLimits limits = QuantileConfidence(OneTo(10), 0.5);
  EXPECT_EQ(limits.low, 2);
  EXPECT_EQ(limits.high, 9);
  limits = QuantileConfidence(OneTo(6), 0.5);
  EXPECT_EQ(limits.low, 1);
  EXPECT_EQ(limits.high, 6);
  limits = QuantileConfidence(OneTo(5), 0.5);
  EXPECT_FALSE(limits.low.has_value());
  EXPECT_FALSE(limits.high.has_value());
  limits = QuantileConfidence(OneTo(100), 0.99);
  EXPECT_EQ(limits.low, 97) << "at most 96 of 100 below it: 1.8 %";
  EXPECT_FALSE(limits.high.has_value()) << "0.99^100 = 37 %: the maximum may lie below the p99";
  EXPECT_TRUE(QuantileConfidence(OneTo(400), 0.99).high.has_value()) << "0.99^400 = 1.8 %";
}

TEST(QuantileTest, LimitsHoldWhatTheyPromise) {
  std::mt19937 random(1);
  std::exponential_distribution<double> draw(1.0);
  const double truth = -std::log(1 - 0.9);
  int covered = 0;
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> sample(60);
    for (double& value : sample) value = draw(random);
    std::sort(sample.begin(), sample.end());
    const QuantileLimits limits = QuantileConfidence(sample, 0.9);
    covered += limits.low.value_or(0) <= truth && truth <= limits.high.value_or(1e9);
  }
  EXPECT_GE(covered, 0.95 * kRounds);
}

TEST(DeviationTest, DividesAsAsked) {
  EXPECT_DOUBLE_EQ(Deviation({1, 3}, false), 1);
  EXPECT_DOUBLE_EQ(Deviation({1, 3}, true), std::sqrt(2.0));
  EXPECT_EQ(Deviation({5}, true), 0);
}

TEST(StudentTest, AgreesWithTables) {
  EXPECT_NEAR(StudentQuantile(0.975, 1), 12.7062, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.975, 2), 4.30265, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.975, 10), 2.22814, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.95, 5), 2.01505, 1e-5);
  EXPECT_NEAR(StudentQuantile(0.975, 1e6), 1.95997, 1e-4);
  EXPECT_NEAR(StudentQuantile(0.975, 2.5), 3.5745, 1e-3);
}

TEST(WelchTest, AgreesWithAWorkedExample) {
  // Sample variances 2 and 8, means 10 and 14.
  const auto interval = CompareMeans({9, 11}, {12, 16}, 0);
  ASSERT_TRUE(interval.has_value());
  EXPECT_DOUBLE_EQ(interval->change, 4);
  EXPECT_NEAR(interval->freedom, 25.0 / 17.0, 1e-12);  // (1 + 4)^2 / (1/1 + 16/1)
  EXPECT_LT(interval->low, 0) << "two trials each cannot show so little";
  EXPECT_DOUBLE_EQ(interval->high - interval->change, interval->smallest);
  EXPECT_FALSE(CompareMeans({1}, {2, 3}, 0).has_value());
}

TEST(WelchTest, EqualRoundedValuesAreNoProof) {
  const auto interval = CompareMeans({100.0, 100.0}, {100.01, 100.01}, 0.01);
  ASSERT_TRUE(interval.has_value());
  EXPECT_LT(interval->low, 0) << "0.01 img/s is the rounding's own size";
  EXPECT_GT(CompareMeans({100.0, 100.0}, {101.0, 101.0}, 0.01)->low, 0);
}

}  // namespace
}  // namespace libreyolo::analysis
