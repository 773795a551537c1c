#include "server/worker/sampling/gpu_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace libreyolo::worker {
namespace {

using job::Finding;
using job::ForeignProcess;
using job::GpuSample;
using job::GpuWatch;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kPid = 100;

GpuSample Sample(int64_t clock, int64_t limits = 0) {
  GpuSample sample;
  sample.sm_clock_mhz = clock;
  sample.clock_limits = limits;
  sample.power_w = 300;
  sample.temperature_c = 60;
  return sample;
}
ForeignProcess Process(int64_t pid, std::optional<int64_t> busy = std::nullopt) {
  return {pid, "python", 1'000'000, busy};
}
GpuSeries Quiet(int count = 100) {
  GpuSeries series;
  series.span_ns = 5'000'000'000;
  series.samples.assign(static_cast<size_t>(count), Sample(1500));
  series.processes = {Process(kPid, 90)};
  return series;
}
std::vector<std::string> Codes(const std::vector<Finding>& findings) {
  std::vector<std::string> codes;
  for (const Finding& finding : findings) codes.push_back(finding.code);
  return codes;
}
std::vector<Finding> Find(const GpuSeries& series) {
  return FindInGpuWatch(Summarize(series, kPid, 50));
}

TEST(GpuWatchTest, AQuietWindowHasFiguresAndNoFindings) {
  GpuSeries series = Quiet();
  series.energy_j = 1500;
  const GpuWatch watch = Summarize(series, kPid, 50);
  EXPECT_DOUBLE_EQ(watch.samples_per_s, 20);
  EXPECT_EQ(watch.sm_clock_mean_mhz, 1500);
  EXPECT_EQ(watch.power_max_w, 300);
  EXPECT_EQ(watch.temperature_max_c, 60);
  EXPECT_EQ(watch.energy_per_image_j, 30);
  EXPECT_EQ(watch.throttled_ratio, 0);
  EXPECT_THAT(watch.foreign, IsEmpty());
  EXPECT_THAT(FindInGpuWatch(watch), IsEmpty());
}

TEST(GpuWatchTest, ThrottlingIsAShareOfTheWindow) {
  GpuSeries series = Quiet();
  for (int i = 0; i < 12; ++i) series.samples[static_cast<size_t>(i)].clock_limits = 0x44;
  series.samples[50].clock_limits = 0x1;  // idle is no throttling
  const GpuWatch watch = Summarize(series, kPid, 50);
  EXPECT_DOUBLE_EQ(watch.throttled_ratio, 0.12);
  EXPECT_THAT(watch.limits, ElementsAre("power cap", "hot (hardware)"));
  const std::vector<Finding> findings = FindInGpuWatch(watch);
  ASSERT_THAT(Codes(findings), ElementsAre("GPU_THROTTLED"));
  EXPECT_EQ(findings[0].severity, Finding::Severity::kSuspect);
  EXPECT_THAT(findings[0].text, HasSubstr("12 %"));
}

TEST(GpuWatchTest, AClockThatMovesIsFound) {
  GpuSeries series = Quiet();
  series.samples[3].sm_clock_mhz = 1365;  // 9 % less
  const std::vector<Finding> findings = Find(series);
  ASSERT_THAT(Codes(findings), ElementsAre("GPU_CLOCK_CHANGED"));
  EXPECT_THAT(findings[0].text, HasSubstr("9 %"));
  series.samples[3].sm_clock_mhz = 1450;
  EXPECT_THAT(Find(series), IsEmpty());
}

struct SharedCase {
  const char* name;
  std::optional<int64_t> busy;
  const char* code;
  Finding::Severity severity;
};
class GpuSharedTest : public ::testing::TestWithParam<SharedCase> {};

TEST_P(GpuSharedTest, IsGradedByWhatTheOtherUsed) {
  GpuSeries series = Quiet();
  series.before = {7};
  series.processes.push_back(Process(7, GetParam().busy));
  const std::vector<Finding> findings = Find(series);
  ASSERT_THAT(Codes(findings), ElementsAre(GetParam().code));
  EXPECT_EQ(findings[0].severity, GetParam().severity);
}
INSTANTIATE_TEST_SUITE_P(Use, GpuSharedTest,
                         ::testing::ValuesIn(std::vector<SharedCase>{
                             {"Much", 60, "GPU_SHARED", Finding::Severity::kInvalid},
                             {"Some", 5, "GPU_SHARED", Finding::Severity::kSuspect},
                             {"Unknown", std::nullopt, "GPU_SHARED", Finding::Severity::kSuspect},
                             {"None", 0, "GPU_NOT_ALONE", Finding::Severity::kInfo}}),
                         [](const auto& info) { return info.param.name; });

TEST(GpuWatchTest, OneThatCameLaterIsForeignToo) {
  GpuSeries series = Quiet();
  series.processes.push_back(Process(8, 40));
  EXPECT_EQ(Summarize(series, kPid, 50).foreign.size(), 1u);
}

TEST(GpuWatchTest, InAContainerTheNewcomerIsThisJob) {
  GpuSeries series = Quiet();
  series.before = {7};
  series.processes = {Process(7, 5), Process(90'210, 95)};  // the host's number for this process
  EXPECT_EQ(OwnPid(series, kPid), 90'210);
  const GpuWatch watch = Summarize(series, kPid, 50);
  ASSERT_EQ(watch.foreign.size(), 1u);
  EXPECT_EQ(watch.foreign[0].pid, 7);
}

TEST(GpuWatchTest, TwoNewcomersAreUnclear) {
  GpuSeries series = Quiet();
  series.processes = {Process(90'210, 95), Process(90'211, 5)};
  const GpuWatch watch = Summarize(series, kPid, 50);
  EXPECT_TRUE(watch.processes_unclear);
  EXPECT_THAT(watch.foreign, IsEmpty());
  EXPECT_THAT(Codes(FindInGpuWatch(watch)), ElementsAre("GPU_OWNER_UNCLEAR"));
}

TEST(GpuWatchTest, WhatWasNotWatchedIsSaid) {
  GpuSeries series;
  series.unavailable = "no NVIDIA driver is installed";
  EXPECT_THAT(Codes(Find(series)), ElementsAre("GPU_NOT_SAMPLED"));
  EXPECT_THAT(Codes(Find(Quiet(2))), ElementsAre("GPU_NOT_SAMPLED"));
}

TEST(GpuWatchTest, FiguresThatTheDeviceDoesNotTellStayAbsent) {
  GpuSeries series = Quiet();
  series.samples.assign(10, GpuSample());
  const GpuWatch watch = Summarize(series, kPid, 50);
  EXPECT_FALSE(watch.sm_clock_mean_mhz.has_value());
  EXPECT_FALSE(watch.power_mean_w.has_value());
  EXPECT_FALSE(watch.energy_per_image_j.has_value());
  EXPECT_THAT(FindInGpuWatch(watch), IsEmpty());
}

}  // namespace
}  // namespace libreyolo::worker
