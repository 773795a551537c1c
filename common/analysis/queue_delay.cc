#include "common/analysis/queue_delay.h"

#include <algorithm>

namespace libreyolo::analysis {
namespace {

// The mean of the two in the middle when there are as many on both sides, rounded down.
int64_t MedianOf(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const int64_t below = *std::max_element(values.begin(), middle);
  return below + (*middle - below) / 2;
}

}  // namespace

void QueueDelays::Add(size_t call, int64_t kernel_start_ns) {
  if (first_start_ns_.empty()) first_start_ns_.resize(calls_.size(), kNone);
  first_start_ns_[call] = std::min(first_start_ns_[call], kernel_start_ns);
}

std::optional<QueueDelay> QueueDelays::Summarize() const {
  QueueDelay delay;
  std::vector<int64_t> delays_ns;
  int64_t last_start_ns = 0;
  double sum_ns = 0;
  for (size_t i = 0; i < first_start_ns_.size(); ++i) {
    if (first_start_ns_[i] == kNone) continue;
    const int64_t delay_ns = first_start_ns_[i] - calls_[i].start_ns;
    if (delay_ns < 0) {
      ++delay.early_launches;
      continue;
    }
    delays_ns.push_back(delay_ns);
    sum_ns += static_cast<double>(delay_ns);
    delay.max_ns = std::max(delay.max_ns, delay_ns);
    if (first_start_ns_[i] >= last_start_ns) {
      last_start_ns = first_start_ns_[i];
      delay.last_ns = delay_ns;
    }
  }
  if (delays_ns.empty()) return std::nullopt;
  delay.launches = static_cast<int64_t>(delays_ns.size());
  delay.mean_ns = static_cast<int64_t>(sum_ns / static_cast<double>(delays_ns.size()));
  delay.p50_ns = MedianOf(delays_ns);
  return delay;
}

}  // namespace libreyolo::analysis
