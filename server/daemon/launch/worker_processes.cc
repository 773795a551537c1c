#include "server/daemon/launch/worker_processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/log.h"

namespace libreyolo::daemon {
namespace {

constexpr int64_t kMaxEnvironBytes = 4 << 20;
// Processes between the daemon and one that connects; more look like a process that wants to be
// overlooked.
constexpr int kMaxAncestors = 1000;

// Of proc(5), counted from the one after the name.
constexpr size_t kParent = 1;
constexpr size_t kStartTime = 19;

// Nothing where there is no such process.
std::optional<int64_t> StatField(int pid, size_t number) {
  const auto stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"), 4096);
  if (!stat.ok()) return std::nullopt;
  const size_t end = stat->rfind(')');  // the name may hold anything
  if (end == std::string::npos) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(*stat).substr(end + 2), ' ');
  int64_t value = 0;
  if (fields.size() <= number || !absl::SimpleAtoi(fields[number], &value)) return std::nullopt;
  return value;
}

// Whether a list of texts that end in NUL holds `entry`.
bool HasEntry(absl::string_view list, absl::string_view entry) {
  for (absl::string_view item : absl::StrSplit(list, '\0')) {
    if (item == entry) return true;
  }
  return false;
}

// How many filters of system calls hold a process; nothing where that is not told.
std::optional<int> FiltersOf(const std::string& process) {
  const auto status = ReadFile(absl::StrCat("/proc/", process, "/status"), 16 << 10);
  if (!status.ok()) return std::nullopt;
  constexpr absl::string_view kLabel = "\nSeccomp_filters:\t";
  const size_t at = status->find(kLabel.data());
  if (at == std::string::npos) return std::nullopt;
  const absl::string_view rest = absl::string_view(*status).substr(at + kLabel.size());
  int count = 0;
  if (!absl::SimpleAtoi(rest.substr(0, rest.find('\n')), &count)) return std::nullopt;
  return count;
}

// Each thread of a process has its own list of children.
std::vector<pid_t> OwnChildren() {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const auto list = ReadFile(thread.path().string() + "/children", 4 << 20);
    if (!list.ok()) continue;  // a thread that has ended
    for (absl::string_view word : absl::StrSplit(*list, ' ', absl::SkipWhitespace())) {
      pid_t pid = 0;
      if (absl::SimpleAtoi(word, &pid)) children.push_back(pid);
    }
  }
  return children;
}

}  // namespace

bool EndStrays(const std::set<pid_t>& workers) {
  const std::optional<int> own = FiltersOf("self");
  if (!own.has_value()) return false;
  bool is_any = false;
  for (const pid_t pid : OwnChildren()) {
    if (workers.count(pid) > 0 || FiltersOf(absl::StrCat(pid)).value_or(0) <= *own) continue;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, WNOHANG);
    is_any = true;
  }
  return is_any;
}

std::string JobMark(const std::string& job_id) { return absl::StrCat("LIBREYOLO_JOB=", job_id); }

bool IsOfWorker(pid_t pid) {
  // One that is not seen from here lives in a namespace of processes that no worker can enter.
  if (pid <= 0 || pid == getpid()) return false;
  const auto status = ReadFile(absl::StrCat("/proc/", pid, "/status"), 16 << 10);
  if (!status.ok()) return true;
  if (!absl::StrContains(*status, "\nNoNewPrivs:\t1\n")) return false;
  for (int i = 0; i < kMaxAncestors; ++i) {
    const std::optional<int64_t> parent = StatField(pid, kParent);
    if (!parent.has_value() || *parent == getpid()) return true;
    if (*parent <= 1) return false;
    pid = static_cast<pid_t>(*parent);
  }
  return true;
}

int64_t ProcessStartTicks(int pid) { return StatField(pid, kStartTime).value_or(0); }

void KillLeftoverProcesses(const std::string& job_id, int worker_pid, int64_t start_ticks) {
  if (job_id.empty()) return;
  const std::string mark = JobMark(job_id);
  // A group's number is given to nobody else while it has a member, so one process that is surely
  // the job's vouches for all of the group.
  bool is_group =
      worker_pid > 1 && start_ticks != 0 && ProcessStartTicks(worker_pid) == start_ticks;
  bool is_any = is_group;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || pid == getpid()) continue;
    // Other users' processes do not show it, and are not ours.
    const auto environment = ReadFile(entry.path().string() + "/environ", kMaxEnvironBytes);
    if (!environment.ok() || !HasEntry(*environment, mark)) continue;
    is_group = is_group || (worker_pid > 1 && getpgid(pid) == worker_pid);
    kill(pid, SIGKILL);
    is_any = true;
  }
  if (is_group) kill(-worker_pid, SIGKILL);
  if (is_any) {
    LogWarning("killed what an earlier daemon left of a job",
               {{"job", job_id}, {"worker", worker_pid}});
  }
}

}  // namespace libreyolo::daemon
