#include "server/worker/workload/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace libreyolo::worker {
namespace {

using job::Finding;
using job::Measurement;

// One that there is nothing to say about.
Measurement GoodMeasurement() {
  Measurement m;
  m.imgsz = m.imgsz_requested = 640;
  m.environment.logical_cpus = 2;
  m.environment.threads = 2;
  m.environment.clock = "tsc";
  m.environment.foreign_cpu_ratio = 0.1;
  m.environment.steal_ratio = 0.02;
  m.traced = true;
  m.traced_steps.resize(10);
  m.op_records = 1000;
  return m;
}

struct FindingCase {
  const char* name;
  std::function<void(Measurement&)> change;
  std::vector<std::string> want_codes;
  Finding::Severity severity = Finding::Severity::kInfo;
  bool ratios_meaningful = true;
};

class FindingsTest : public ::testing::TestWithParam<FindingCase> {};

TEST_P(FindingsTest, Codes) {
  Measurement m = GoodMeasurement();
  GetParam().change(m);
  std::vector<std::string> codes;
  for (const Finding& finding : FindInMeasurement(m, GetParam().ratios_meaningful, 10)) {
    codes.push_back(finding.code);
    EXPECT_EQ(finding.severity, GetParam().severity);
    EXPECT_FALSE(finding.text.empty());
  }
  EXPECT_EQ(codes, GetParam().want_codes);
}

constexpr auto kSuspect = Finding::Severity::kSuspect;
constexpr auto kInfo = Finding::Severity::kInfo;

INSTANTIATE_TEST_SUITE_P(
    Rules, FindingsTest,
    ::testing::ValuesIn(std::vector<FindingCase>{
        {"Good", [](Measurement&) {}, {}},
        {"ImgszRounded", [](Measurement& m) { m.imgsz_requested = 620; }, {"IMGSZ_ROUNDED"}},
        {"RandomWeights",
         [](Measurement& m) { m.model.random_weights = true; },
         {"RANDOM_WEIGHTS"}},
        {"MoreThreadsThanCpus",
         [](Measurement& m) { m.environment.threads = 3; },
         {"THREADS_OVER_CPUS"},
         kSuspect},
        {"MoreThreadsThanQuota",
         [](Measurement& m) { m.environment.cpu_quota = 1; },
         {"THREADS_OVER_CPUS"},
         kSuspect},
        {"QuotaOfOneAndAHalfIsTwoThreads",
         [](Measurement& m) { m.environment.cpu_quota = 1.5; },
         {}},
        {"ForeignLoad",
         [](Measurement& m) { m.environment.foreign_cpu_ratio = 0.11; },
         {"FOREIGN_CPU_LOAD"},
         kSuspect},
        {"Steal",
         [](Measurement& m) { m.environment.steal_ratio = 0.03; },
         {"CPU_STEAL"},
         kSuspect},
        {"LoadOfABriefWindow",
         [](Measurement& m) {
           m.environment.foreign_cpu_ratio = 0.9;
           m.environment.steal_ratio = 0.9;
         },
         {},
         kInfo,
         false},
        {"Clock", [](Measurement& m) { m.environment.clock = "clock_gettime"; }, {"CLOCK_NOT_TSC"}},
        {"DroppedRecords",
         [](Measurement& m) { m.dropped_records = 3; },
         {"RECORDS_DROPPED"},
         kSuspect},
        {"CutShort", [](Measurement& m) { m.traced_steps.resize(4); }, {"TRACE_CUT_SHORT"}},
        {"UntracedHasNoRecordsToMiss",
         [](Measurement& m) {
           m.traced = false;
           m.environment.clock = "clock_gettime";
           m.dropped_records = 3;
         },
         {}},
    }),
    [](const auto& info) { return std::string(info.param.name); });

TEST(FindingsTest, TextsCarryTheNumbers) {
  Measurement m = GoodMeasurement();
  m.environment.foreign_cpu_ratio = 0.487;
  const std::vector<Finding> findings = FindInMeasurement(m, true, 10);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].text, ::testing::HasSubstr("49 %"));
}

}  // namespace
}  // namespace libreyolo::worker
