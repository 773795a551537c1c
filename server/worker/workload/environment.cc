#include "server/worker/workload/environment.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "common/base/version.h"

namespace libreyolo::worker {
namespace {

constexpr int64_t kMaxProcFileBytes = 16 << 20;  // /proc/cpuinfo of a very large machine
// A tenth of a second: a single tick is then at most a tenth of the answer on one CPU.
constexpr int64_t kMeaningfulTicks = 10;

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<absl::string_view> Words(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
}

// The value of the first "key : value" line.
std::string ValueOf(const std::string& text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, key)) continue;
    line = absl::StripLeadingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, ":")) continue;
    return std::string(absl::StripAsciiWhitespace(line));
  }
  return "";
}

// "max 100000" and "150000 100000" of cgroup v2.
std::optional<double> ParseCpuMax(const std::string& text) {
  const std::vector<absl::string_view> words = Words(text);
  double quota = 0, period = 0;
  if (words.size() != 2 || !absl::SimpleAtod(words[0], &quota) ||
      !absl::SimpleAtod(words[1], &period) || quota <= 0 || period <= 0) {
    return std::nullopt;
  }
  return quota / period;
}

// The two files of cgroup v1; a quota of -1 means none.
std::optional<double> ParseCfs(const std::string& quota_text, const std::string& period_text) {
  return ParseCpuMax(absl::StrCat(absl::StripAsciiWhitespace(quota_text), " ",
                                  absl::StripAsciiWhitespace(period_text)));
}

// "/a/b", "/a", "": a limit on any level binds. In a container the path may be that of the host,
// where nothing is to be found; the last level still is.
std::vector<std::string> LevelsOf(std::string path) {
  std::vector<std::string> levels;
  while (!path.empty() && path != "/") {
    levels.push_back(path);
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  levels.emplace_back();
  return levels;
}

// Folders, below the root, in which a limit may stand.
struct CgroupFolders {
  std::vector<std::string> v1;
  std::vector<std::string> v2;
};

// `controller` matters to version 1 alone, where each has a tree of its own.
CgroupFolders FindCgroups(const std::string& proc_self_cgroup, const std::string& controller) {
  CgroupFolders folders;
  for (absl::string_view line : absl::StrSplit(proc_self_cgroup, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<std::string> levels = LevelsOf(std::string(fields[2]));
    if (fields[1].empty()) {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        for (const std::string& level : levels) folders.v2.push_back(mount + level);
      }
      continue;
    }
    const std::set<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (controllers.count(controller) == 0) continue;
    const std::string joint = absl::StrCat("/sys/fs/cgroup/", fields[1]);
    for (const std::string& mount : {"/sys/fs/cgroup/" + controller, joint}) {
      for (const std::string& level : levels) folders.v1.push_back(mount + level);
    }
  }
  return folders;
}

// Adds a "cpuN user nice system idle iowait irq softirq steal ..." line. Guest time is inside user.
void AddCpuLine(const std::vector<absl::string_view>& words, CpuSample& sample) {
  int64_t ticks[8] = {};
  for (size_t i = 0; i < 8 && i + 1 < words.size(); ++i) {
    if (!absl::SimpleAtoi(words[i + 1], &ticks[i])) return;
  }
  const int64_t idle = ticks[3] + ticks[4];
  const int64_t steal = ticks[7];
  int64_t total = 0;
  for (const int64_t value : ticks) total += value;
  sample.busy_ticks += total - idle - steal;
  sample.steal_ticks += steal;
  sample.total_ticks += total;
  sample.valid = true;
}

// utime + stime of /proc/self/stat. The program's name, in brackets, may hold anything.
int64_t ParseOwnTicks(const std::string& stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  const std::vector<absl::string_view> words = Words(absl::string_view(stat).substr(name_end + 1));
  constexpr size_t kUtime = 11;  // field 14 of the line, counted from the state after the name
  int64_t user = 0, system = 0;
  if (words.size() <= kUtime + 1 || !absl::SimpleAtoi(words[kUtime], &user) ||
      !absl::SimpleAtoi(words[kUtime + 1], &system)) {
    return 0;
  }
  return user + system;
}

}  // namespace

CpuUsage CompareCpu(const CpuSample& before, const CpuSample& after) {
  CpuUsage usage;
  const int64_t total = after.total_ticks - before.total_ticks;
  if (!before.valid || !after.valid || total <= 0) return usage;
  const int64_t busy = after.busy_ticks - before.busy_ticks;
  const int64_t own = after.own_ticks - before.own_ticks;
  const auto share = [total](int64_t ticks) {
    return std::clamp(static_cast<double>(ticks) / static_cast<double>(total), 0.0, 1.0);
  };
  usage.foreign_ratio = share(busy - own);
  usage.steal_ratio = share(after.steal_ticks - before.steal_ticks);
  usage.is_meaningful = total >= kMeaningfulTicks;
  return usage;
}

HostProbe::HostProbe() : cpus_(AllowedCpus()) {}

HostProbe::HostProbe(std::string root, std::vector<int> cpus)
    : root_(std::move(root)), cpus_(std::move(cpus)) {}

std::string HostProbe::Read(const std::string& path) const {
  auto text = ReadFile(root_ + path, kMaxProcFileBytes);
  return text.ok() ? *std::move(text) : std::string();
}

double HostProbe::CpuQuota() const {
  const CgroupFolders folders = FindCgroups(Read("/proc/self/cgroup"), "cpu");
  std::optional<double> least;
  const auto take = [&least](std::optional<double> quota) {
    if (quota.has_value() && (!least.has_value() || *quota < *least)) least = quota;
  };
  for (const std::string& folder : folders.v2) take(ParseCpuMax(Read(folder + "/cpu.max")));
  for (const std::string& folder : folders.v1) {
    take(ParseCfs(Read(folder + "/cpu.cfs_quota_us"), Read(folder + "/cpu.cfs_period_us")));
  }
  return least.value_or(0);
}

int HostProbe::DefaultThreads() const {
  const double quota = CpuQuota();
  int threads = static_cast<int>(cpus_.size());
  // Rounded down: a thread too many is throttled in the middle of a parallel loop, where all others
  // wait for it.
  if (quota > 0) threads = std::min(threads, static_cast<int>(std::floor(quota)));
  return std::max(threads, 1);
}

double HostProbe::LoadAverage() const {
  double load = 0;
  const std::string text = Read("/proc/loadavg");
  const std::vector<absl::string_view> words = Words(text);
  if (words.empty() || !absl::SimpleAtod(words[0], &load)) return 0;
  return load;
}

namespace {

// "MemAvailable:   123 kB" of a file in /proc; 0 when it is not there.
int64_t KibibytesOf(const std::string& text, absl::string_view key) {
  int64_t kib = 0;
  const std::string value = ValueOf(text, key);
  if (!absl::SimpleAtoi(absl::StripSuffix(value, " kB"), &kib)) return 0;
  return kib * 1024;
}

std::optional<int64_t> ParseBytes(const std::string& text) {
  int64_t bytes = 0;
  // "max", and version 1's number near 2^63, mean no limit.
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &bytes) || bytes > (int64_t{1} << 60)) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace

int64_t HostProbe::AvailableMemoryBytes() const {
  int64_t available = KibibytesOf(Read("/proc/meminfo"), "MemAvailable");
  const CgroupFolders folders = FindCgroups(Read("/proc/self/cgroup"), "memory");
  const auto take = [&](const std::string& folder, const char* limit_file, const char* used_file) {
    const std::optional<int64_t> limit = ParseBytes(Read(folder + limit_file));
    const std::optional<int64_t> used = ParseBytes(Read(folder + used_file));
    if (!limit.has_value() || !used.has_value()) return;
    available = std::min(available, std::max<int64_t>(0, *limit - *used));
  };
  for (const std::string& folder : folders.v2) take(folder, "/memory.max", "/memory.current");
  for (const std::string& folder : folders.v1) {
    take(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes");
  }
  return available;
}

int64_t HostProbe::ResidentBytes() const { return KibibytesOf(Read("/proc/self/status"), "VmRSS"); }

int64_t HostProbe::PeakResidentSinceReset() const {
  return KibibytesOf(Read("/proc/self/status"), "VmHWM");
}

absl::Status HostProbe::ResetPeakResident() const {
  return WriteFile(root_ + "/proc/self/clear_refs", "5");
}

job::Environment HostProbe::Describe() const {
  job::Environment environment;
  environment.cpu_model = ValueOf(Read("/proc/cpuinfo"), "model name");
  environment.logical_cpus = static_cast<int>(cpus_.size());
  environment.cpu_quota = CpuQuota();
  environment.load_before = LoadAverage();
  environment.memory_total_bytes = KibibytesOf(Read("/proc/meminfo"), "MemTotal");
  environment.kernel = std::string(absl::StripAsciiWhitespace(Read("/proc/sys/kernel/osrelease")));
  environment.worker_build = BuildId();
  return environment;
}

CpuSample HostProbe::SampleCpu() const {
  CpuSample sample;
  const std::string text = Read("/proc/stat");
  const std::set<int> wanted(cpus_.begin(), cpus_.end());
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = Words(line);
    int cpu = 0;
    if (words.empty() || !absl::StartsWith(words[0], "cpu")) break;  // other counters follow
    if (absl::SimpleAtoi(words[0].substr(3), &cpu) && wanted.count(cpu) > 0) {
      AddCpuLine(words, sample);
    }
  }
  sample.own_ticks = ParseOwnTicks(Read("/proc/self/stat"));
  return sample;
}

int64_t PeakResidentBytes() {
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace libreyolo::worker
