#include "common/analysis/welch.h"

#include <algorithm>
#include <cmath>

#include "common/analysis/statistics.h"

namespace libreyolo::analysis {

std::optional<WelchInterval> CompareMeans(const std::vector<double>& before,
                                          const std::vector<double>& after, double resolution,
                                          double confidence) {
  if (before.size() < 2 || after.size() < 2) return std::nullopt;
  const double hidden = resolution * resolution / 12;  // variance of a rounding error
  const auto variance_of_mean = [&](const std::vector<double>& values) {
    const double deviation = Deviation(values, /*sample=*/true);
    return std::max(deviation * deviation, hidden) / static_cast<double>(values.size());
  };
  const double a = variance_of_mean(before);
  const double b = variance_of_mean(after);
  WelchInterval interval;
  interval.change = Mean(after) - Mean(before);
  const double error = std::sqrt(a + b);
  if (error > 0) {
    interval.freedom = (a + b) * (a + b) /
                       (a * a / static_cast<double>(before.size() - 1) +
                        b * b / static_cast<double>(after.size() - 1));
    interval.smallest = StudentQuantile(0.5 + confidence / 2, interval.freedom) * error;
  } else {
    interval.freedom = static_cast<double>(before.size() + after.size() - 2);
  }
  interval.low = interval.change - interval.smallest;
  interval.high = interval.change + interval.smallest;
  return interval;
}

}  // namespace libreyolo::analysis
