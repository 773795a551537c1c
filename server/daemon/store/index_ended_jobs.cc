// Index: what the records of ended jobs take, and which of them go first. Pages that are freed are
// used again by the next jobs (SQLite's list of free pages), so that a bound on the records is one
// on the file: it never grows beyond what was there at once.
#include <utility>

#include "common/base/status_macros.h"
#include "server/daemon/store/index.h"

namespace libreyolo::daemon {
namespace {

// Of one transaction: whoever waits for the index waits for no more.
constexpr int64_t kAtOnce = 200;
// What a row takes besides its blob, with the indexes that name it.
constexpr int64_t kJobOverheadBytes = 512;
constexpr int64_t kEventOverheadBytes = 64;

}  // namespace

absl::StatusOr<bool> Index::HasJob(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(Statement find, db_->Prepare("SELECT 1 FROM jobs WHERE id = ?"));
  find.Bind(id);
  return find.Step();
}

absl::StatusOr<std::vector<std::string>> Index::CountEnded(
    absl::FunctionRef<int64_t(const std::string& id)> log_bytes) {
  const std::lock_guard<std::mutex> lock(mu_);
  std::vector<std::string> ids;
  {
    // Left to itself, SQLite looks at every ended job.
    LY_ASSIGN_OR_RETURN(Statement find,
                        db_->Prepare("SELECT job FROM ended_jobs INDEXED BY ended_jobs_uncounted "
                                     "WHERE size_bytes IS NULL LIMIT ?"));
    find.Bind(kAtOnce);
    for (;;) {
      LY_ASSIGN_OR_RETURN(const bool more, find.Step());
      if (!more) break;
      ids.push_back(find.Text(0));
    }
  }
  if (ids.empty()) return ids;
  LY_RETURN_IF_ERROR(db_->InTransaction([&]() -> absl::Status {
    for (const std::string& id : ids) LY_RETURN_IF_ERROR(CountLocked(id, log_bytes(id)));
    return absl::OkStatus();
  }));
  return ids;
}

absl::Status Index::CountLocked(const std::string& id, int64_t log_bytes) {
  LY_ASSIGN_OR_RETURN(
      Statement count,
      db_->Prepare("UPDATE ended_jobs SET size_bytes = ? + "
                   "(SELECT COALESCE(SUM(LENGTH(job)), 0) FROM jobs WHERE id = ended_jobs.job) + "
                   "(SELECT COALESCE(SUM(LENGTH(event) + ?), 0) FROM events "
                   "WHERE job = ended_jobs.job) WHERE job = ?"));
  count.Bind(log_bytes + kJobOverheadBytes).Bind(kEventOverheadBytes).Bind(id);
  return count.Run();
}

absl::StatusOr<std::vector<std::string>> Index::PrincipalsOver(int64_t max_bytes) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(Statement find,
                      db_->Prepare("SELECT principal FROM ended_totals WHERE size_bytes > ?"));
  find.Bind(max_bytes);
  std::vector<std::string> principals;
  for (;;) {
    LY_ASSIGN_OR_RETURN(const bool more, find.Step());
    if (!more) return principals;
    principals.push_back(find.Text(0));
  }
}

absl::StatusOr<std::vector<Index::EndedJob>> Index::ForgetEnded(const std::string& principal,
                                                                int64_t max_bytes,
                                                                const std::set<std::string>& keep) {
  const std::lock_guard<std::mutex> lock(mu_);
  LY_ASSIGN_OR_RETURN(std::vector<EndedJob> oldest, OldestEndedLocked(principal, max_bytes, keep));
  if (oldest.empty()) return oldest;
  LY_RETURN_IF_ERROR(db_->InTransaction([&]() -> absl::Status {
    for (const EndedJob& job : oldest) LY_RETURN_IF_ERROR(DeleteLocked(job.id));
    return absl::OkStatus();
  }));
  return oldest;
}

absl::StatusOr<std::vector<Index::EndedJob>> Index::OldestEndedLocked(
    const std::string& principal, int64_t max_bytes, const std::set<std::string>& keep) {
  LY_ASSIGN_OR_RETURN(Statement sum,
                      db_->Prepare("SELECT size_bytes FROM ended_totals WHERE principal = ?"));
  sum.Bind(principal);
  LY_ASSIGN_OR_RETURN(const bool has_any, sum.Step());
  int64_t rest_bytes = has_any ? sum.Int(0) : 0;
  LY_ASSIGN_OR_RETURN(
      Statement find,
      db_->Prepare("SELECT job, size_bytes FROM ended_jobs WHERE principal = ? "
                   "AND ordinal < (SELECT MAX(ordinal) FROM ended_jobs WHERE principal = ?) "
                   "AND size_bytes IS NOT NULL ORDER BY ordinal"));
  find.Bind(principal).Bind(principal);
  std::vector<EndedJob> oldest;
  while (rest_bytes > max_bytes && static_cast<int64_t>(oldest.size()) < kAtOnce) {
    LY_ASSIGN_OR_RETURN(const bool more, find.Step());
    if (!more) break;
    EndedJob job{find.Text(0), find.Int(1)};
    if (keep.count(job.id) > 0) continue;
    rest_bytes -= job.size_bytes;
    oldest.push_back(std::move(job));
  }
  return oldest;
}

}  // namespace libreyolo::daemon
