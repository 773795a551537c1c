// The statistics of profiles: percentiles, their confidence limits, and what repeated trials tell.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace libreyolo::analysis {

// The q-quantile (0 to 1) by linear interpolation between order statistics, as NumPy's default:
// position q * (n - 1). `sorted` is ascending and not empty.
double LinearQuantile(const std::vector<double>& sorted, double q);

// Limits that hold the true q-quantile with at least the asked confidence, whatever the
// distribution: a pair of order statistics, whose coverage is a binomial sum (H. A. David, H. N.
// Nagaraja, Order Statistics, 3rd ed., section 7.1). Each tail gets half of the error. A limit
// beyond the sample does not exist: with few samples nothing bounds a high quantile from above.
struct QuantileLimits {
  std::optional<double> low;
  std::optional<double> high;
};
QuantileLimits QuantileConfidence(const std::vector<double>& sorted, double q,
                                  double confidence = 0.95);

double Mean(const std::vector<double>& values);  // 0 for none
// Dividing by n (`sample` false) or n - 1. 0 for fewer than two values.
double Deviation(const std::vector<double>& values, bool sample);

// The p-quantile of Student's t with `freedom` degrees, which need not be whole. p in (0.5, 1).
double StudentQuantile(double p, double freedom);

}  // namespace libreyolo::analysis
