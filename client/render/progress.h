// What a person sees of a running job: one line rewritten in place on a terminal, otherwise a quiet
// line per change of state. For one thread.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "libreyolo/profile/v1/job.pb.h"

namespace libreyolo::client {

struct ProgressStyle {
  bool silent = false;  // --json: nothing at all
  bool bar = false;     // a terminal, and NO_COLOR is not set
  int columns = 80;
};

class ProgressView {
 public:
  ProgressView(std::ostream& out, const ProgressStyle& style, const Clock& clock)
      : out_(out), style_(style), clock_(clock) {}
  // Leaves no half line behind.
  ~ProgressView() { Clear(); }
  ProgressView(const ProgressView&) = delete;
  ProgressView& operator=(const ProgressView&) = delete;

  void Show(const profile::v1::Job& job);
  // Bytes on their way: "uploading weights".
  void ShowBytes(absl::string_view what, int64_t done, int64_t total);
  // A line that stays.
  void Note(absl::string_view text);
  // Takes the rewritten line away.
  void Clear();

 private:
  void Rewrite(const std::string& line);
  void ShowBar(const profile::v1::Job& job);
  void ShowQuiet(const profile::v1::Job& job);
  // Iterations per second since the stage began; 0 while unknown.
  double RateOf(const profile::v1::Job& job);

  std::ostream& out_;
  const ProgressStyle style_;
  const Clock& clock_;
  bool has_line_ = false;
  std::string last_quiet_;
  std::string stage_;
  int trial_ = -1;
  int64_t stage_first_done_ = 0;
  absl::Duration stage_start_;
};

// "7.4 MB"
std::string BytesText(int64_t bytes);

}  // namespace libreyolo::client
