#include "server/worker/data/augment_draws.h"

namespace libreyolo::data {

// SplitMix64: each state is independent of its neighbours, so that seeds may be counted up.
uint64_t SeededDraws::Next() {
  state_ += 0x9E3779B97F4A7C15ULL;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

double SeededDraws::Random() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

double SeededDraws::Uniform(double low, double high) { return low + (high - low) * Random(); }

int SeededDraws::Integer(int low, int high) {
  const double count = static_cast<double>(high) - low + 1;
  return low + static_cast<int>(Random() * count);
}

std::array<double, 3> SeededDraws::ColorGains() {
  std::array<double, 3> gains;
  for (double& gain : gains) gain = Uniform(-1, 1);
  return gains;
}

std::array<int, 3> SeededDraws::ColorFlags() {
  std::array<int, 3> flags;
  for (int& flag : flags) flag = Integer(0, 1);
  return flags;
}

}  // namespace libreyolo::data
