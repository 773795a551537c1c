#include "server/daemon/metrics/process_figures.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/file.h"

namespace libreyolo::daemon {
namespace {

constexpr int64_t kMaxProcFileBytes = 64 * 1024;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// The fields of /proc/self/stat from the third on; the second may hold anything.
std::vector<std::string> StatFields() {
  const auto text = ReadFile("/proc/self/stat", kMaxProcFileBytes);
  const size_t end = text.ok() ? text->rfind(')') : std::string::npos;
  if (end == std::string::npos) return {};
  return absl::StrSplit(absl::string_view(*text).substr(end + 1), ' ', absl::SkipWhitespace());
}

// Field `number` of the manual page proc(5).
int64_t Field(const std::vector<std::string>& fields, size_t number) {
  int64_t value = 0;
  return number - 3 < fields.size() && absl::SimpleAtoi(fields[number - 3], &value) ? value : 0;
}

double BootUnixSeconds() {
  const auto text = ReadFile("/proc/stat", kMaxProcFileBytes);
  if (!text.ok()) return 0;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    double seconds = 0;
    if (line.substr(0, 6) == "btime " && absl::SimpleAtod(line.substr(6), &seconds)) return seconds;
  }
  return 0;
}

}  // namespace

ProcessFigures ReadProcessFigures() {
  ProcessFigures figures;
  const std::vector<std::string> fields = StatFields();
  figures.threads = Field(fields, 20);
  figures.start_unix_seconds = BootUnixSeconds() + static_cast<double>(Field(fields, 22)) /
                                                       static_cast<double>(sysconf(_SC_CLK_TCK));
  figures.resident_bytes = Field(fields, 24) * sysconf(_SC_PAGESIZE);
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++figures.open_files;
  }
  if (figures.open_files > 0) --figures.open_files;  // the one that reads the folder
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    figures.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  const struct mallinfo2 heap = mallinfo2();
  figures.heap_bytes = static_cast<int64_t>(heap.uordblks + heap.hblkhd);
  return figures;
}

}  // namespace libreyolo::daemon
