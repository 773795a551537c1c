#include "common/analysis/timeline/column_encoder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace libreyolo::analysis {
namespace {

uint64_t Decode(absl::string_view bytes) {
  uint64_t value = 0;
  int shift = 0;
  for (const char c : bytes) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(c) & 0x7F) << shift;
    shift += 7;
  }
  return value;
}

TEST(ColumnEncoderTest, KeepsEveryValue) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{300},
                               uint64_t{1} << 53, std::numeric_limits<uint64_t>::max()}) {
    ColumnEncoder column;
    column.Add(value);
    EXPECT_EQ(Decode(column.bytes()), value);
  }
}

TEST(ColumnEncoderTest, SmallNumbersTakeOneByte) {
  ColumnEncoder column;
  column.Add(127);
  column.Add(0);
  column.AddSigned(-64);
  column.AddSigned(63);
  EXPECT_EQ(column.bytes().size(), 4u);
}

TEST(ColumnEncoderTest, SignsAlternate) {
  const int64_t values[] = {0, -1, 1, -2, 2};
  for (uint64_t want = 0; want < 5; ++want) {
    ColumnEncoder column;
    column.AddSigned(values[want]);
    EXPECT_EQ(Decode(column.bytes()), want);
  }
  ColumnEncoder column;
  column.AddSigned(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Decode(column.bytes()), std::numeric_limits<uint64_t>::max());
}

TEST(ColumnEncoderTest, WritesPaddedBase64) {
  ColumnEncoder column;
  EXPECT_EQ(column.ToBase64(), "");
  column.Add(255);  // FF 01
  EXPECT_EQ(column.ToBase64(), "/wE=");
}

}  // namespace
}  // namespace libreyolo::analysis
