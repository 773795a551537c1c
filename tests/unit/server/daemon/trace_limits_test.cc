#include "server/daemon/trace_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <limits>

#include "tests/support/status_matchers.h"

namespace libreyolo::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Of this process, for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(TraceLimitsTest, AreTheReadersWithoutFlags) {
  ASSERT_OK_AND_ASSIGN(const trace::ReadLimits limits, ParseTraceLimits({}));
  const trace::ReadLimits defaults;
  EXPECT_EQ(limits.max_bytes, defaults.max_bytes);
  EXPECT_EQ(limits.max_events, defaults.max_events);
  EXPECT_EQ(limits.max_memory_bytes, defaults.max_memory_bytes);
  EXPECT_EQ(limits.max_value_bytes, defaults.max_value_bytes);
}

TEST(TraceLimitsTest, EachHasItsFlag) {
  ASSERT_OK_AND_ASSIGN(const trace::ReadLimits limits,
                       ParseTraceLimits({{"--max-trace-bytes", "1"},
                                         {"--max-trace-events", "2"},
                                         {"--max-trace-memory", "3"},
                                         {"--max-trace-value", "4"}}));
  EXPECT_EQ(limits.max_bytes, 1);
  EXPECT_EQ(limits.max_events, 2);
  EXPECT_EQ(limits.max_memory_bytes, 3);
  EXPECT_EQ(limits.max_value_bytes, 4);
}

TEST(TraceLimitsTest, NoneIsZero) {
  ASSERT_OK_AND_ASSIGN(const trace::ReadLimits limits,
                       ParseTraceLimits({{"--max-trace-events", "0"}}));
  EXPECT_GT(limits.max_events, int64_t{1} << 60);
  EXPECT_LT(limits.max_events, std::numeric_limits<int64_t>::max() / 2) << "may be added to";
}

TEST(TraceLimitsTest, TheEnvironmentStandsInForMissingFlags) {
  const Variable events("LIBREYOLO_MAX_TRACE_EVENTS", "7");
  const Variable bytes("LIBREYOLO_MAX_TRACE_BYTES", "8");
  ASSERT_OK_AND_ASSIGN(const trace::ReadLimits limits,
                       ParseTraceLimits({{"--max-trace-bytes", "9"}}));
  EXPECT_EQ(limits.max_events, 7);
  EXPECT_EQ(limits.max_bytes, 9) << "the flag is the nearer one";
}

TEST(TraceLimitsTest, RefusesWhatIsNoCount) {
  for (const char* text : {"", "-1", "4G", "1.5", "99999999999999999999"}) {
    const absl::Status status = ParseTraceLimits({{"--max-trace-memory", text}}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), StartsWith("--max-trace-memory takes")) << text;
  }
  const Variable variable("LIBREYOLO_MAX_TRACE_VALUE", "much");
  EXPECT_THAT(std::string(ParseTraceLimits({}).status().message()),
              HasSubstr("LIBREYOLO_MAX_TRACE_VALUE takes"));
}

}  // namespace
}  // namespace libreyolo::daemon
