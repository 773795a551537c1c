// The handed YOLO9 fixtures in the tests: the fill rule, JSON files, recorded statistics.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/json/json_value.h"
#include "server/worker/yolo9/network.h"

namespace libreyolo::yolo9::testing {

// True when the handed fixtures lie beside the checkout. Tests skip by name otherwise.
bool HasFixtures();
#define LY_NEEDS_FIXTURES()                                                    \
  do {                                                                         \
    if (!::libreyolo::yolo9::testing::HasFixtures()) {                         \
      GTEST_SKIP() << "the handed fixtures are absent: " LIBREYOLO_SHARED_DIR; \
    }                                                                          \
  } while (false)

std::string FixturePath(absl::string_view name);  // below fixtures/yolo9
JsonValue ReadFixture(absl::string_view name);    // aborts the test binary when it cannot be read

// The members along `keys`, which must exist.
const JsonValue& At(const JsonValue& value, std::initializer_list<const char*> keys);
std::vector<double> Numbers(const JsonValue& array);
std::vector<int64_t> Integers(const JsonValue& array);

// The fixtures' hash: in [-1, 1) and in [0, 1).
double SignedHash(uint64_t k, uint64_t i);
double UnitHash(uint64_t k, uint64_t i);

// Fills every tensor of a network as the fixtures do; the index in the state dict is the stream.
void FillNetwork(Network& network);
// (batch, 3, height, width), float32.
at::Tensor FilledImages(uint64_t stream, int64_t batch, int64_t height, int64_t width);

// Compares with a block of sum, mean, absmean, min, max and first. Differences are relative to
// absmean, those of sums to absmean times the element count.
void ExpectStatistics(const at::Tensor& tensor, const JsonValue& want, double tolerance,
                      double sum_tolerance, const std::string& what);

}  // namespace libreyolo::yolo9::testing
