#include "common/json/json_value.h"

#include <gtest/gtest.h>

#include "common/base/file.h"
#include "tests/support/status_matchers.h"

namespace libreyolo {
namespace {

TEST(JsonValueTest, FloatsPrintAsPythonPrintsThem) {
  EXPECT_EQ(PythonFloat(0.0), "0.0");
  EXPECT_EQ(PythonFloat(-0.0), "-0.0");
  EXPECT_EQ(PythonFloat(16.77), "16.77");
  EXPECT_EQ(PythonFloat(1e15), "1000000000000000.0");
  EXPECT_EQ(PythonFloat(1e16), "1e+16");
  EXPECT_EQ(PythonFloat(1e-5), "1e-05");
  EXPECT_EQ(PythonFloat(0.0001), "0.0001");
  EXPECT_EQ(PythonFloat(1.5e300), "1.5e+300");
}

TEST(JsonValueTest, RoundsTiesToEvenOnTheBinaryValue) {
  EXPECT_EQ(RoundTo(2.675, 2), 2.67);
  EXPECT_EQ(RoundTo(0.125, 2), 0.12);
  EXPECT_EQ(RoundTo(0.375, 2), 0.38);
}

TEST(JsonValueTest, KeepsOrderAndTypes) {
  ASSERT_OK_AND_ASSIGN(
      const JsonValue value,
      ParseJson("\xEF\xBB\xBF{\"b\": 1, \"a\": 1.0, \"c\": [null, true, \"\\u00e9\"]}"));
  EXPECT_EQ(value.ToCompact(), "{\"b\": 1, \"a\": 1.0, \"c\": [null, true, \"\\u00e9\"]}");
  EXPECT_EQ(
      value.ToIndented(),
      "{\n  \"b\": 1,\n  \"a\": 1.0,\n  \"c\": [\n    null,\n    true,\n    \"\\u00e9\"\n  ]\n}");
}

TEST(JsonValueTest, EscapesControlAndAstralCharacters) {
  EXPECT_EQ(JsonQuote("a\x01\"\\\n\xF0\x9F\x98\x80\xFF"),
            "\"a\\u0001\\\"\\\\\\n\\ud83d\\ude00\\ufffd\"");
}

TEST(JsonValueTest, RefusesWhatIsNoJson) {
  EXPECT_FALSE(ParseJson("").ok());
  EXPECT_FALSE(ParseJson("{\"a\": }").ok());
  EXPECT_FALSE(ParseJson(std::string(200, '[') + std::string(200, ']')).ok());
  EXPECT_FALSE(ParseJson("[1]", {.max_bytes = 2}).ok());
}

// The peer's profile.json must come back byte for byte: same numbers, order and escapes.
TEST(JsonValueTest, PeerProfileRoundTrips) {
  const std::string path = LIBREYOLO_SHARED_DIR "/fixtures/reference-cpu/infer/profile.json";
  const auto text = ReadFile(path);
  if (!text.ok()) GTEST_SKIP() << "shared fixtures are absent";
  ASSERT_OK_AND_ASSIGN(const JsonValue value, ParseJson(*text));
  EXPECT_EQ(value.ToCompact(), *text);
}

}  // namespace
}  // namespace libreyolo
