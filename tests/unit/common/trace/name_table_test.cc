#include "common/trace/name_table.h"

#include <gtest/gtest.h>

namespace libreyolo::trace {
namespace {

TEST(DecodeNameTest, DecodesLegalEscapes) {
  EXPECT_EQ(DecodeName(R"(a\"b\\c\/d)").text, "a\"b\\c/d");
  EXPECT_EQ(DecodeName(R"(\u00e9\ud83d\ude00)").text, "\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(DecodeName(R"(\ud83d alone)").text, R"(\ud83d alone)");
  EXPECT_TRUE(DecodeName(R"(\ud83d alone)").illegal_escape);
}

TEST(DecodeNameTest, TakesAnIllegalEscapeAndAllElseLiterally) {
  const DecodedName name = DecodeName(R"(C:\users\ci\torch\nn\functional.py)");
  EXPECT_TRUE(name.illegal_escape);
  EXPECT_EQ(name.text, R"(C:\users\ci\torch\nn\functional.py)");
  EXPECT_EQ(DecodeName(R"(x\u12)").text, R"(x\u12)");
  EXPECT_TRUE(DecodeName("ends in \\").illegal_escape);
}

TEST(DecodeNameTest, KeepsControlCharactersAsWritten) {
  const DecodedName name = DecodeName(R"(torch\nn\u0007\tx)");
  EXPECT_TRUE(name.control_escape);
  EXPECT_FALSE(name.illegal_escape);
  EXPECT_EQ(name.text, R"(torch\nn\u0007\tx)");
}

TEST(NameTableTest, NumbersNamesInOrderOfAppearance) {
  NameTable names;
  EXPECT_EQ(names.Intern("aten::add"), 0u);
  EXPECT_EQ(names.Intern("ProfilerStep#3"), 1u);
  EXPECT_EQ(names.Intern("aten::add"), 0u);
  EXPECT_EQ(names.info(1).kind, NameKind::kStepMarker);
  EXPECT_EQ(names.info(0).kind, NameKind::kPlain);
}

}  // namespace
}  // namespace libreyolo::trace
