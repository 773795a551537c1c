#include "common/job/measurement_json.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace libreyolo::job {
namespace {

Measurement Sample() {
  Measurement m;
  m.mode = Mode::kTrain;
  m.model.weights = "LibreYOLO9t.pt";
  m.model.parameter_count = 2036544;
  m.latencies_ns = {1, 2, 3};
  m.traced_steps = {{.duration_ns = 9, .phases_ns = {{"preprocess", 2}, {"forward", 7}}}};
  m.peak_vram_bytes = 77;
  m.environment.foreign_cpu_ratio = 0.25;
  m.findings = {{Finding::Severity::kSuspect, "FOREIGN_CPU_LOAD", "25 % of the CPU"}};
  return m;
}

TEST(MeasurementJsonTest, RoundTrips) {
  const JsonValue json = MeasurementToJson(Sample());
  ASSERT_OK_AND_ASSIGN(const JsonValue parsed, ParseJson(json.ToCompact()));
  ASSERT_OK_AND_ASSIGN(const Measurement back, MeasurementFromJson(parsed));
  EXPECT_EQ(MeasurementToJson(back).ToCompact(), json.ToCompact());
  EXPECT_EQ(back.traced_steps[0].phases_ns[1].second, 7);
  EXPECT_EQ(back.findings[0].severity, Finding::Severity::kSuspect);
}

TEST(MeasurementJsonTest, NamesWhatIsMissingOrWrong) {
  JsonValue json = MeasurementToJson(Sample());
  json.Set("batch", "four");
  EXPECT_THAT(MeasurementFromJson(json).status().message(), ::testing::HasSubstr("\"batch\""));
  JsonValue nested = MeasurementToJson(Sample());
  nested.Set("model", JsonValue(JsonValue::Object{}));
  EXPECT_THAT(MeasurementFromJson(nested).status().message(),
              ::testing::HasSubstr("\"model.weights\""));
  EXPECT_FALSE(MeasurementFromJson(JsonValue(3)).ok());
}

}  // namespace
}  // namespace libreyolo::job
