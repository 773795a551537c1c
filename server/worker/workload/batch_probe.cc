#include "server/worker/workload/batch_probe.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::worker {
namespace {

constexpr int kFitTries = 4;
constexpr int kMaxLowerings = 4;

// Bytes = intercept + slope * batch, by least squares.
struct Line {
  double intercept = 0;
  double slope = 0;
};

Line FitLine(const std::vector<std::pair<int, int64_t>>& tries) {
  double sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (const auto& [batch, bytes] : tries) {
    const double x = batch, y = static_cast<double>(bytes);
    sum_x += x;
    sum_y += y;
    sum_xx += x * x;
    sum_xy += x * y;
  }
  const auto n = static_cast<double>(tries.size());
  const double spread = n * sum_xx - sum_x * sum_x;
  if (spread <= 0) return {};
  Line line;
  line.slope = (n * sum_xy - sum_x * sum_y) / spread;
  line.intercept = (sum_y - line.slope * sum_x) / n;
  return line;
}

class Prober {
 public:
  Prober(const BatchProbeOptions& options, absl::FunctionRef<absl::StatusOr<int64_t>(int)> peak_of)
      : options_(options), peak_of_(peak_of) {}

  absl::StatusOr<BatchChoice> Choose();

 private:
  // Whether a step at `batch` keeps within the budget.
  absl::StatusOr<bool> Fits(int batch);
  absl::Status Climb();
  int Predict() const;

  const BatchProbeOptions options_;
  const absl::FunctionRef<absl::StatusOr<int64_t>(int)> peak_of_;
  BatchChoice choice_;
  int best_ = 0;           // largest that fits
  int least_too_big_ = 0;  // 0: none met
};

absl::StatusOr<bool> Prober::Fits(int batch) {
  const absl::StatusOr<int64_t> peak = peak_of_(batch);
  bool fits = false;
  if (peak.ok()) {
    choice_.tries.emplace_back(batch, *peak);
    fits = *peak <= options_.budget_bytes;
  } else if (!HasReason(peak.status(), reason::kOutOfMemory) || batch == 1) {
    return peak.status();
  }
  if (fits) best_ = std::max(best_, batch);
  if (!fits && (least_too_big_ == 0 || batch < least_too_big_)) least_too_big_ = batch;
  return fits;
}

absl::Status Prober::Climb() {
  for (int tries = 0, batch = 1; tries < kFitTries && batch <= options_.max_batch;
       ++tries, batch *= 2) {
    LY_ASSIGN_OR_RETURN(const bool fits, Fits(batch));
    if (!fits) break;
  }
  return absl::OkStatus();
}

int Prober::Predict() const {
  int limit = options_.max_batch;
  // A tenth less than what failed, so that a few tries are enough.
  if (least_too_big_ > 0) {
    limit = std::min(limit, least_too_big_ - std::max(1, least_too_big_ / 10));
  }
  if (choice_.tries.size() < 2) return std::min(std::max(best_, 1), limit);
  const Line line = FitLine(choice_.tries);
  // Memory that does not grow with the batch says nothing about the next one.
  if (line.slope <= 0) return std::max(best_, 1);
  const double predicted =
      std::floor((static_cast<double>(options_.budget_bytes) - line.intercept) / line.slope);
  return static_cast<int>(std::clamp(predicted, static_cast<double>(std::max(best_, 1)),
                                     static_cast<double>(std::max(limit, 1))));
}

absl::StatusOr<BatchChoice> Prober::Choose() {
  LY_RETURN_IF_ERROR(Climb());
  if (best_ == 0) return std::move(choice_);  // batch 1 is over the budget already
  for (int lowering = 0; lowering < kMaxLowerings; ++lowering) {
    const int candidate = Predict();
    if (candidate <= best_) break;
    LY_ASSIGN_OR_RETURN(const bool fits, Fits(candidate));
    if (fits) break;
  }
  choice_.batch = best_;
  choice_.is_bounded_by_maximum = best_ == options_.max_batch;
  return std::move(choice_);
}

}  // namespace

absl::StatusOr<BatchChoice> ChooseBatch(const BatchProbeOptions& options,
                                        absl::FunctionRef<absl::StatusOr<int64_t>(int)> peak_of) {
  return Prober(options, peak_of).Choose();
}

absl::Status WithBatchThatFits(const absl::Status& failure, int batch, int64_t memory_bytes,
                               absl::FunctionRef<absl::StatusOr<int64_t>(int)> peak_of) {
  if (!HasReason(failure, reason::kOutOfMemory)) return failure;
  ErrorDetail detail = GetErrorDetail(failure);
  // The way out that is not a smaller batch depends on whose memory it was.
  const std::string other_way = detail.hints.empty() ? "" : detail.hints.back();
  int fitting = 0;
  int tried = 0;
  if (batch > 1) {
    const absl::StatusOr<BatchChoice> choice =
        ChooseBatch({.budget_bytes = memory_bytes, .max_batch = batch - 1}, peak_of);
    if (choice.ok()) {
      tried = choice->batch;
      fitting = std::max(1, tried - std::max(1, tried / 10));
    } else if (!HasReason(choice.status(), reason::kOutOfMemory)) {
      return failure;  // cancelled, or no try was possible: nothing is known about other batches
    }
  }
  if (fitting > 0) {
    detail.hints = {
        absl::StrCat("--batch ", fitting, " fits: ", tried, " was tried after the failure"),
        "or a smaller --imgsz"};
  } else {
    detail.hints = {"a batch of 1 does not fit either: a smaller --imgsz, or a smaller model"};
  }
  if (!other_way.empty()) detail.hints.push_back(other_way);
  detail.metadata.emplace_back("fitting_batch", absl::StrCat(fitting));
  return MakeErrorFromDetail(failure.code(), detail);
}

}  // namespace libreyolo::worker
