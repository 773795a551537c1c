#include "server/daemon/launch/worker_limits.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/error.h"
#include "common/base/file.h"

namespace libreyolo::daemon {
namespace {

constexpr int64_t kMaxProcFileBytes = 64 * 1024;
constexpr int kMaxFilesCounted = 2000;  // of a process, twice a second
constexpr double kGib = 1 << 30;

// The number in the first line that begins with `key`, which may be followed by a unit.
int64_t NumberOf(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, key)) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line.substr(key.size()), absl::ByAnyChar(" \t:"), absl::SkipEmpty());
    int64_t number = 0;
    return !words.empty() && absl::SimpleAtoi(words[0], &number) ? number : 0;
  }
  return 0;
}

// What the files in memory take that it has open, mapped or not.
int64_t MemoryFilesOf(pid_t pid) {
  int64_t bytes = 0;
  int count = 0;
  std::error_code error;
  const std::string folder = absl::StrCat("/proc/", pid, "/fd");
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (++count > kMaxFilesCounted) break;
    const std::string name = std::filesystem::read_symlink(entry->path(), error).string();
    struct stat info;
    if (!error && absl::StartsWith(name, "/memfd:") && stat(entry->path().c_str(), &info) == 0) {
      bytes += int64_t{info.st_blocks} * 512;
    }
    error.clear();
  }
  return bytes;
}

int64_t OwnMemoryOfOne(pid_t pid) {
  const auto status = ReadFile(absl::StrCat("/proc/", pid, "/status"), kMaxProcFileBytes);
  if (!status.ok()) return 0;
  const int64_t shared = std::max(NumberOf(*status, "RssShmem") * 1024, MemoryFilesOf(pid));
  return (NumberOf(*status, "RssAnon") + NumberOf(*status, "VmPTE")) * 1024 + shared;
}

absl::Status MemoryError(const std::string& what, int64_t limit_bytes) {
  return MakeError(reason::kOutOfMemory, what,
                   {"use a smaller --batch or --imgsz, or fewer --workers",
                    "the server's admin can raise --worker-memory"},
                   {{"limit_bytes", absl::StrCat(limit_bytes)}});
}

}  // namespace

int64_t HostMemoryBytes() {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  // Inside a container its limit stands here, in the second and the first version.
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const auto text = ReadFile(path, kMaxProcFileBytes);
    int64_t limit = 0;
    if (text.ok() && absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &limit) && limit > 0) {
      bytes = std::min(bytes, limit);
    }
  }
  return bytes;
}

int64_t OwnMemoryOf(pid_t pid) {
  int64_t bytes = OwnMemoryOfOne(pid);
  const auto children =
      ReadFile(absl::StrCat("/proc/", pid, "/task/", pid, "/children"), kMaxProcFileBytes);
  if (!children.ok()) return bytes;
  for (absl::string_view word : absl::StrSplit(*children, ' ', absl::SkipWhitespace())) {
    pid_t child = 0;
    if (absl::SimpleAtoi(word, &child)) bytes += OwnMemoryOfOne(child);
  }
  return bytes;
}

int64_t KernelOomKills() {
  const auto text = ReadFile("/proc/vmstat", kMaxProcFileBytes);
  return text.ok() ? NumberOf(*text, "oom_kill ") : 0;
}

absl::Status OverMemory(int64_t used_bytes, int64_t limit_bytes) {
  if (used_bytes == 0) {
    return MemoryError("the kernel ended the worker: the host was out of memory", limit_bytes);
  }
  return MemoryError(
      absl::StrFormat("the worker took %.2f GiB of memory; the server allows %.2f GiB",
                      static_cast<double>(used_bytes) / kGib,
                      static_cast<double>(limit_bytes) / kGib),
      limit_bytes);
}

absl::Status Refused(int64_t limit_bytes) {
  return MemoryError(absl::StrFormat("the worker wanted more memory than the %.2f GiB that it may "
                                     "have",
                                     static_cast<double>(limit_bytes) / kGib),
                     limit_bytes);
}

absl::Status OverLimit(const std::string& what, const char* flag) {
  return MakeError(reason::kWorkerLimit, what,
                   {absl::StrCat("measure less, or ask the server's admin to raise ", flag)});
}

}  // namespace libreyolo::daemon
