#include "common/analysis/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace libreyolo::analysis {
namespace {

// P(X <= k) for X ~ Binomial(n, q).
std::vector<double> BinomialCumulative(int64_t n, double q) {
  std::vector<double> cumulative(static_cast<size_t>(n) + 1);
  double sum = 0;
  for (int64_t k = 0; k <= n; ++k) {
    const double log_term =
        std::lgamma(static_cast<double>(n + 1)) - std::lgamma(static_cast<double>(k + 1)) -
        std::lgamma(static_cast<double>(n - k + 1)) + static_cast<double>(k) * std::log(q) +
        static_cast<double>(n - k) * std::log1p(-q);
    sum += std::exp(log_term);
    cumulative[static_cast<size_t>(k)] = std::min(sum, 1.0);
  }
  return cumulative;
}

// The regularised incomplete beta function I_x(a, b), by its continued fraction.
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x > (a + 1) / (a + b + 2)) return 1 - IncompleteBeta(b, a, 1 - x);
  // Modified Lentz.
  constexpr double kTiny = 1e-300;
  double c = 1;
  double d = 1 - (a + b) * x / (a + 1);
  if (std::abs(d) < kTiny) d = kTiny;
  d = 1 / d;
  double fraction = d;
  for (int m = 1; m <= 500; ++m) {
    const auto step = [&](double coefficient) {
      d = 1 + coefficient * d;
      if (std::abs(d) < kTiny) d = kTiny;
      d = 1 / d;
      c = 1 + coefficient / c;
      if (std::abs(c) < kTiny) c = kTiny;
      fraction *= c * d;
    };
    step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    const double before = fraction;
    step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)));
    if (std::abs(fraction - before) < 1e-15 * std::abs(fraction)) break;
  }
  return front * fraction / a;
}

}  // namespace

double LinearQuantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double fraction = position - static_cast<double>(below);
  return sorted[below] + fraction * (sorted[below + 1] - sorted[below]);
}

QuantileLimits QuantileConfidence(const std::vector<double>& sorted, double q, double confidence) {
  QuantileLimits limits;
  const int64_t n = static_cast<int64_t>(sorted.size());
  if (n == 0) return limits;
  const double tail = (1 - confidence) / 2;
  const std::vector<double> cumulative = BinomialCumulative(n, q);
  // The l-th smallest value exceeds the quantile with probability P(X <= l - 1): take the largest l
  // for which that stays within the tail.
  int64_t low = 0;
  while (low < n && cumulative[static_cast<size_t>(low)] <= tail) ++low;
  if (low >= 1) limits.low = sorted[static_cast<size_t>(low - 1)];
  // The u-th smallest lies below it with probability P(X >= u) = 1 - P(X <= u - 1).
  int64_t high = n;
  while (high >= 1 && 1 - cumulative[static_cast<size_t>(high - 1)] <= tail) --high;
  if (high + 1 <= n) limits.high = sorted[static_cast<size_t>(high)];
  return limits;
}

double Mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Deviation(const std::vector<double>& values, bool sample) {
  if (values.size() < 2) return 0;
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - (sample ? 1 : 0)));
}

double StudentQuantile(double p, double freedom) {
  if (!(freedom > 0)) return std::numeric_limits<double>::infinity();
  // P(T > t) = I_{f / (f + t^2)}(f / 2, 1 / 2) / 2, which falls with t: bisect.
  const double tail = 1 - p;
  const auto upper_tail = [&](double t) {
    return IncompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2;
  };
  double low = 0;
  double high = 1;
  while (upper_tail(high) > tail && high < 1e12) high *= 2;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (upper_tail(middle) > tail ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace libreyolo::analysis
