#include "client/render/progress.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/render/json.h"
#include "client/render/table.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

constexpr int kBarCells = 24;

std::string Bar(int64_t done, int64_t total) {
  const int64_t cells = std::clamp<int64_t>(done * kBarCells / total, 0, kBarCells);
  return absl::StrCat("[", std::string(static_cast<size_t>(cells), '#'),
                      std::string(static_cast<size_t>(kBarCells - cells), '.'), "]");
}

// The stage in the server's words, else the state in ours.
std::string StageOf(const v1::Job& job) {
  if (!job.progress().stage().empty()) return job.progress().stage();
  std::string name = absl::AsciiStrToLower(StateName(job.state()));
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

// While a job loads its files, its progress counts bytes.
bool CountsBytes(const v1::Job& job) {
  return absl::StrContains(job.progress().stage(), "download");
}

std::string TrialText(const v1::Job& job) {
  if (job.trial_count() < 2) return "";
  return absl::StrCat("trial ", job.trial() + 1, "/", job.trial_count(), "  ");
}

std::string QueueText(const v1::Job& job) {
  std::string text = "queued";
  if (job.queue_position() > 0) {
    absl::StrAppend(&text, ", ", job.queue_position(), job.queue_position() == 1 ? " job" : " jobs",
                    " ahead");
  }
  if (!job.waiting_for().empty()) absl::StrAppend(&text, ": ", job.waiting_for());
  return text;
}

bool IsTerminal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

}  // namespace

std::string BytesText(int64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  if (bytes < 1000 * 1000) return absl::StrFormat("%.1f kB", static_cast<double>(bytes) / 1e3);
  if (bytes < 1000 * 1000 * 1000) {
    return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
  }
  return absl::StrFormat("%.1f GB", static_cast<double>(bytes) / 1e9);
}

void ProgressView::Rewrite(const std::string& line) {
  out_ << "\r\x1b[2K" << FitWidth(Printable(line), std::max(style_.columns - 1, 10)) << std::flush;
  has_line_ = true;
}

void ProgressView::Clear() {
  if (!has_line_) return;
  out_ << "\r\x1b[2K" << std::flush;
  has_line_ = false;
}

void ProgressView::Note(absl::string_view text) {
  if (style_.silent) return;
  Clear();
  out_ << text << "\n" << std::flush;
}

void ProgressView::ShowBytes(absl::string_view what, int64_t done, int64_t total) {
  if (style_.silent) return;
  if (!style_.bar) {
    if (last_quiet_ != what) Note(what);
    last_quiet_ = std::string(what);
    return;
  }
  std::string line(what);
  if (total > 0) absl::StrAppend(&line, "  ", Bar(done, total));
  absl::StrAppend(&line, "  ", BytesText(done));
  if (total > 0) absl::StrAppend(&line, " of ", BytesText(total));
  Rewrite(line);
}

double ProgressView::RateOf(const v1::Job& job) {
  const absl::Duration now = clock_.Monotonic();
  if (stage_ != StageOf(job) || trial_ != job.trial()) {
    stage_ = StageOf(job);
    trial_ = job.trial();
    stage_first_done_ = job.progress().done();
    stage_start_ = now;
    return 0;
  }
  const double seconds = absl::ToDoubleSeconds(now - stage_start_);
  const int64_t done = job.progress().done() - stage_first_done_;
  return seconds > 0 && done > 0 ? static_cast<double>(done) / seconds : 0;
}

void ProgressView::ShowBar(const v1::Job& job) {
  if (job.state() == v1::JOB_STATE_QUEUED) return Rewrite(QueueText(job));
  const double rate = RateOf(job);
  const v1::JobProgress& progress = job.progress();
  std::string line = absl::StrCat(TrialText(job), StageOf(job));
  if (progress.total() > 0) absl::StrAppend(&line, "  ", Bar(progress.done(), progress.total()));
  if (CountsBytes(job)) {
    absl::StrAppend(&line, "  ", BytesText(progress.done()));
    if (progress.total() > 0) absl::StrAppend(&line, " of ", BytesText(progress.total()));
    if (rate > 0) absl::StrAppend(&line, "  ", BytesText(static_cast<int64_t>(rate)), "/s");
  } else if (progress.total() > 0) {
    absl::StrAppend(&line, "  ", progress.done(), "/", progress.total());
    if (rate > 0) absl::StrAppendFormat(&line, "  %.1f it/s", rate);
  }
  Rewrite(line);
}

void ProgressView::ShowQuiet(const v1::Job& job) {
  std::string line = absl::StrCat(TrialText(job), absl::AsciiStrToLower(StateName(job.state())));
  if (job.state() == v1::JOB_STATE_QUEUED) line = QueueText(job);
  std::replace(line.begin(), line.end(), '_', ' ');
  // The stage in its own words only where it tells more than the state.
  if (CountsBytes(job)) line = StageOf(job);
  if (line == last_quiet_) return;
  last_quiet_ = line;
  out_ << line << "\n" << std::flush;
}

void ProgressView::Show(const v1::Job& job) {
  if (style_.silent) return;
  if (IsTerminal(job.state())) return Clear();
  if (style_.bar) {
    ShowBar(job);
  } else {
    ShowQuiet(job);
  }
}

}  // namespace libreyolo::client
