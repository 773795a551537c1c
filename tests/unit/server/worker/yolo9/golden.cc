#include "tests/unit/server/worker/yolo9/golden.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/file.h"

namespace libreyolo::yolo9::testing {
namespace {

// With other work on the machine, threads that wait for each other take many times longer.
class OneThread : public ::testing::Environment {
 public:
  void SetUp() override { at::set_num_threads(1); }
};
const ::testing::Environment* const kOneThread = ::testing::AddGlobalTestEnvironment(new OneThread);

uint64_t Hash24(uint64_t k, uint64_t i) {
  uint64_t z = (k + 1) * 0x9E3779B97F4A7C15u + (i + 1) * 0xD1342543DE82EF95u;
  z ^= z >> 30;
  z *= 0xBF58476D1CE4E5B9u;
  z ^= z >> 27;
  z *= 0x94D049BB133111EBu;
  z ^= z >> 31;
  return z >> 40;
}

// Gain of a convolution's weight, by its name.
double Gain(const std::string& name) {
  const auto ends = [&](const char* suffix) { return absl::EndsWith(name, suffix); };
  if (name == "backbone.conv0.conv.weight") return 10;
  if (ends(".cv1.conv1.conv.weight") || ends(".cv1.conv2.conv.weight")) return 0.99;
  const size_t m = name.rfind(".m.");
  if (m != std::string::npos) {
    size_t i = m + 3;
    while (i < name.size() && std::isdigit(static_cast<unsigned char>(name[i]))) ++i;
    if (i > m + 3 && name.substr(i) == ".cv2.conv.weight") return 0.84;
  }
  if (ends(".2.weight") && absl::StrContains(name, "head.cv")) return 0.5;
  return 1.4;
}

double FillValue(const NamedTensor& entry, uint64_t k, uint64_t i) {
  const std::string& name = entry.name;
  const auto ends = [&](const char* suffix) { return absl::EndsWith(name, suffix); };
  const double s = SignedHash(k, i);
  if (ends("num_batches_tracked")) return 7;
  if (ends("running_mean")) return 0.0625 * s;
  if (ends("running_var")) return 1 + 0.25 * s;
  if (ends(".bn.weight")) return 1 + 0.125 * s;
  if (ends(".bn.bias")) return 0.125 * s;
  if (entry.tensor.dim() == 4) {
    const auto shape = entry.tensor.sizes();
    const double fan_in = static_cast<double>(shape[1] * shape[2] * shape[3]);
    return s * (Gain(name) * std::sqrt(3 / fan_in));
  }
  LY_CHECK(ends(".2.bias")) << name;
  return (absl::StrContains(name, "head.cv2.") ? 1 : -3) + 0.5 * s;
}

}  // namespace

bool HasFixtures() { return std::filesystem::exists(FixturePath("README.md")); }

std::string FixturePath(absl::string_view name) {
  return absl::StrCat(LIBREYOLO_SHARED_DIR, "/fixtures/yolo9/", name);
}

JsonValue ReadFixture(absl::string_view name) {
  const auto text = ReadFile(FixturePath(name));
  LY_CHECK(text.ok()) << text.status();
  auto value = ParseJson(*text);
  LY_CHECK(value.ok()) << value.status();
  return *std::move(value);
}

const JsonValue& At(const JsonValue& value, std::initializer_list<const char*> keys) {
  const JsonValue* at = &value;
  for (const char* key : keys) {
    at = at->Find(key);
    LY_CHECK(at != nullptr) << key;
  }
  return *at;
}

std::vector<double> Numbers(const JsonValue& array) {
  std::vector<double> numbers;
  for (const JsonValue& value : array.array()) numbers.push_back(value.number());
  return numbers;
}

std::vector<int64_t> Integers(const JsonValue& array) {
  std::vector<int64_t> numbers;
  for (const JsonValue& value : array.array()) numbers.push_back(value.int_value());
  return numbers;
}

double SignedHash(uint64_t k, uint64_t i) {
  return (static_cast<double>(Hash24(k, i)) - 8388608) / 8388608;
}

double UnitHash(uint64_t k, uint64_t i) { return static_cast<double>(Hash24(k, i)) / 16777216; }

void FillNetwork(Network& network) {
  const at::NoGradGuard no_grad;
  uint64_t k = 0;
  for (const NamedTensor& entry : network.tensors()) {
    at::Tensor filled = at::empty(entry.tensor.sizes(), at::kFloat);
    float* data = filled.mutable_data_ptr<float>();
    for (int64_t i = 0; i < filled.numel(); ++i) {
      data[i] = static_cast<float>(FillValue(entry, k, static_cast<uint64_t>(i)));
    }
    entry.tensor.copy_(filled);
    ++k;
  }
}

at::Tensor FilledImages(uint64_t stream, int64_t batch, int64_t height, int64_t width) {
  at::Tensor images = at::empty({batch, 3, height, width}, at::kFloat);
  float* data = images.mutable_data_ptr<float>();
  for (int64_t i = 0; i < images.numel(); ++i) {
    data[i] = static_cast<float>(UnitHash(stream, static_cast<uint64_t>(i)));
  }
  return images;
}

void ExpectStatistics(const at::Tensor& tensor, const JsonValue& want, double tolerance,
                      double sum_tolerance, const std::string& what) {
  const at::Tensor values = tensor.detach().to(at::kDouble).contiguous();
  const std::vector<int64_t> shape = Integers(At(want, {"shape"}));
  ASSERT_EQ(values.sizes().vec(), shape) << what;
  const double* data = values.const_data_ptr<double>();
  const int64_t count = values.numel();
  double sum = 0, abs_sum = 0, min = INFINITY, max = -INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    sum += data[i];
    abs_sum += std::abs(data[i]);
    min = std::min(min, data[i]);
    max = std::max(max, data[i]);
  }
  const double scale = std::max(At(want, {"absmean"}).number(), 1e-30);
  const double n = static_cast<double>(count);
  EXPECT_NEAR(sum, At(want, {"sum"}).number(), sum_tolerance * n * scale) << what;
  EXPECT_NEAR(abs_sum / n, scale, sum_tolerance * scale) << what;
  EXPECT_NEAR(min, At(want, {"min"}).number(), tolerance * scale) << what << " min";
  EXPECT_NEAR(max, At(want, {"max"}).number(), tolerance * scale) << what << " max";
  const std::vector<double> first = Numbers(At(want, {"first"}));
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_NEAR(data[i], first[i], tolerance * scale) << what << " element " << i;
  }
}

}  // namespace libreyolo::yolo9::testing
