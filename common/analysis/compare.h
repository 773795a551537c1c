// `compare`: two profiles side by side, and whether their difference is one. Pure.
//
// Two rules stand beside each other: the contract's (a difference is significant when it exceeds
// twice the combined standard error, from at least two trials on each side), and a calibrated one:
// Welch's 95 % interval from the trials' means, which holds what it promises at few trials too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/analysis/fail_on.h"
#include "common/analysis/profile.h"
#include "common/analysis/welch.h"

namespace libreyolo::analysis {

struct CompareQuery {
  std::string before_name;  // as typed
  std::string after_name;
  bool force = false;  // compare unlike things
  std::vector<FailCondition> fail_on;
};

template <typename T>
struct BeforeAfter {
  std::optional<T> before;
  std::optional<T> after;
};

// A kernel or operation whose time per step changed.
struct RowChange {
  enum class Kind { kChanged, kNew, kGone };
  Kind kind = Kind::kChanged;
  std::string name;
  std::string category;  // kernels only
  double before_ms = 0;  // per step; operations: self time where both sides know it
  double after_ms = 0;
  double change_ms() const { return after_ms - before_ms; }
};

struct CompareReport {
  std::string before;
  std::string after;
  BeforeAfter<double> img_per_s;
  BeforeAfter<double> img_per_s_std;
  int64_t n_before = 1;
  int64_t n_after = 1;
  std::optional<bool> significant;  // the contract's rule; absent when it cannot tell
  std::string significance;         // the comparison made, or why there is none
  BeforeAfter<double> ms_per_image;
  BeforeAfter<double> gpu_util;
  BeforeAfter<double> host_overhead_ms_per_step;
  BeforeAfter<int64_t> launches_per_step;
  std::string bound_before;
  std::string bound_after;

  // The calibrated rule. Ratios are of the first profile's mean.
  std::string calibrated_verdict;  // "faster", "slower", "same", "cannot tell"
  std::optional<WelchInterval> img_per_s_interval;
  std::optional<double> change_ratio;
  std::optional<double> change_low_ratio;
  std::optional<double> change_high_ratio;
  std::optional<double> smallest_change_ratio;  // that these trials could have shown
  std::optional<WelchInterval> ms_per_image_interval;

  std::vector<std::string> unlike;  // what makes the two unlike; only with `force`
  std::vector<std::string> notes;   // smaller differences: batch, precision, image counts
  std::vector<RowChange> kernels;   // the ten that moved most, new and gone ones among them
  std::vector<RowChange> ops;
  std::vector<FailResult> conditions;
  bool condition_met = false;
};

// NOT_COMPARABLE (exit 2) for unlike things (mode, model, image size, device) or a side whose GPU
// was not recorded, unless forced; UNKNOWN_METRIC from a condition.
absl::StatusOr<CompareReport> Compare(const Profile& before, const Profile& after,
                                      const CompareQuery& query);

// The `--json` document.
JsonValue ToJson(const CompareReport& report);

// The lines of the command's text.
std::vector<std::string> CompareLines(const CompareReport& report);

// step_ms / batch with 3 decimals, as the peer; ours by the images really processed.
std::optional<double> MsPerImage(const Profile& profile);

}  // namespace libreyolo::analysis
