#include "common/trace/event_parser.h"

#include <gtest/gtest.h>

#include "common/trace/block_text.h"
#include "common/trace/microseconds.h"

namespace libreyolo::trace {
namespace {

struct TimeCase {
  const char* name;
  const char* text;
  bool valid;
  int64_t nanoseconds = 0;
};

class MicrosecondsTest : public ::testing::TestWithParam<TimeCase> {};

TEST_P(MicrosecondsTest, IsExact) {
  int64_t nanoseconds = -77;
  ASSERT_EQ(ParseMicroseconds(GetParam().text, nanoseconds), GetParam().valid);
  if (GetParam().valid) {
    EXPECT_EQ(nanoseconds, GetParam().nanoseconds);
  }
}

INSTANTIATE_TEST_SUITE_P(All, MicrosecondsTest,
                         ::testing::ValuesIn(std::vector<TimeCase>{
                             {"Whole", "1615207264504980", true, 1615207264504980000},
                             {"ThreeDecimals", "5150375895241.782", true, 5150375895241782},
                             // A double would give ...640 or so.
                             {"BeyondDouble", "1615207264504980.641", true, 1615207264504980641},
                             {"OneDecimal", "3.5", true, 3500},
                             {"RoundsUp", "0.0005", true, 1},
                             {"RoundsDown", "0.00049999", true, 0},
                             {"RoundsUpInLongFraction", "1.23456789", true, 1235},
                             {"Zero", "0", true, 0},
                             {"Negative", "-2.25", true, -2250},
                             {"Exponent", "1.5e3", true, 1500000},
                             {"BigExponent", "1.615207264504980e+15", true, 1615207264504980000},
                             {"SmallExponent", "25e-3", true, 25},
                             {"TinyExponent", "1e-300", true, 0},
                             {"ZeroWithExponent", "0e999", true, 0},
                             {"ManyDigitsWithExponent", "123456789012345678901234e-10", true,
                              12345678901234568},
                             {"TooLarge", "9999999999999999999", false},
                             {"TooLargeExponent", "1e30", false},
                             {"Text", "abc", false},
                             {"Empty", "", false},
                             {"MinusOnly", "-", false},
                             {"NaN", "NaN", false},
                             {"Infinity", "-Infinity", false},
                             {"NoFraction", "1.", false},
                             {"Trailing", "1x", false},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST(CleanTextTest, ReplacesControlsInStringsOnly) {
  std::string text = "{\"a\":\"x\ny\",\n\"b\":\"\\\"\t\"}";
  EXPECT_EQ(CleanText(text.data(), text.size()), 2);
  EXPECT_EQ(text, "{\"a\":\"x y\",\n\"b\":\"\\\" \"}");
}

TEST(CleanTextTest, ReplacesInvalidUtf8) {
  std::string text = "\"\xC3\xA9 \xFF \xE2\x82 \xED\xA0\x80 \xF0\x9F\x98\x80\"";
  EXPECT_EQ(CleanText(text.data(), text.size()), 6);
  EXPECT_EQ(text, "\"\xC3\xA9 ? ?? ??? \xF0\x9F\x98\x80\"");
}

}  // namespace
}  // namespace libreyolo::trace
