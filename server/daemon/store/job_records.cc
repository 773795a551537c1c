#include "server/daemon/store/job_records.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

constexpr char kLogEnding[] = ".log";

int64_t FileBytes(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

void RemoveLog(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return;
  LogError("job log not removed", {{"path", path}, {"error", strerror(errno)}});
}

void LogFailure(const char* what, const absl::Status& status) {
  if (!status.ok()) LogError(what, {{"error", status.message()}});
}

}  // namespace

void JobRecords::OnEnded(const std::string& principal, const std::string& id) {
  if (max_bytes_ == 0) return;
  absl::Status status = CountAll();
  if (status.ok()) status = Limit(principal, {id});
  LogFailure("job records not limited", status);
}

void JobRecords::Sweep() {
  LogFailure("job logs not swept", SweepLogs());
  if (max_bytes_ != 0) LogFailure("job records not limited", LimitAll());
}

absl::Status JobRecords::LimitAll() {
  LY_RETURN_IF_ERROR(CountAll());
  LY_ASSIGN_OR_RETURN(const std::vector<std::string> principals, index_.PrincipalsOver(max_bytes_));
  for (const std::string& principal : principals) LY_RETURN_IF_ERROR(Limit(principal, {}));
  return absl::OkStatus();
}

absl::Status JobRecords::CountAll() {
  const auto log_bytes = [this](const std::string& id) { return FileBytes(layout_.JobLog(id)); };
  for (;;) {
    LY_ASSIGN_OR_RETURN(const std::vector<std::string> counted, index_.CountEnded(log_bytes));
    if (counted.empty()) return absl::OkStatus();
  }
}

absl::Status JobRecords::Limit(const std::string& principal, const std::set<std::string>& keep) {
  for (;;) {
    LY_ASSIGN_OR_RETURN(const std::vector<Index::EndedJob> gone,
                        index_.ForgetEnded(principal, max_bytes_, keep));
    if (gone.empty()) return absl::OkStatus();
    // Rows first: a log without a row is swept at the next start, a row would miss its log.
    int64_t bytes = 0;
    for (const Index::EndedJob& job : gone) {
      RemoveLog(layout_.JobLog(job.id));
      bytes += job.size_bytes;
    }
    LogInfo("job records removed", {{"principal", principal},
                                    {"jobs", gone.size()},
                                    {"bytes", bytes},
                                    {"first", gone.front().id},
                                    {"last", gone.back().id}});
  }
}

absl::Status JobRecords::SweepLogs() {
  // A job has its row before it has a log: what is listed and has none had one once.
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(layout_.JobLogDir(), error)) {
    const std::string name = file.path().filename();
    if (!absl::EndsWith(name, kLogEnding)) continue;
    const std::string id = name.substr(0, name.size() - strlen(kLogEnding));
    LY_ASSIGN_OR_RETURN(const bool has_job, index_.HasJob(id));
    if (!has_job) RemoveLog(file.path());
  }
  return absl::OkStatus();
}

}  // namespace libreyolo::daemon
