#include "server/worker/sampling/gpu_sampler.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "server/gpu/nvml.h"
#include "server/worker/sampling/gpu_watch.h"

namespace libreyolo::worker {
namespace {

// Over half an hour at full pace: then every second sample goes and the pace halves.
constexpr size_t kMaxSamples = 4096;

template <typename T>
std::optional<int64_t> Wide(const std::optional<T>& value) {
  return value.has_value() ? std::optional<int64_t>(static_cast<int64_t>(*value)) : std::nullopt;
}

std::string NameOfPid(int64_t pid) {
  std::string name = ReadFile(absl::StrCat("/proc/", pid, "/comm"), 64).value_or("");
  name.resize(std::min(name.size(), name.find('\n')));
  return name;
}

// Name and memory of the GPU or MIG instance; nothing when the driver does not tell.
std::pair<std::string, int64_t> ModelOf(gpu::Nvml& nvml, const std::string& uuid) {
  const auto gpus = nvml.List();
  if (!gpus.ok()) return {};
  for (const gpu::GpuDescription& one : *gpus) {
    if (one.uuid == uuid) return {one.name, one.memory_total_bytes};
    for (const gpu::MigInstance& instance : one.instances) {
      if (instance.uuid == uuid) {
        return {absl::StrCat(one.name, " MIG ", instance.name), instance.memory_total_bytes};
      }
    }
  }
  return {};
}

}  // namespace

std::string NvmlDeviceOf(const std::string& device, const std::string& visible) {
  absl::string_view number = device;
  absl::ConsumePrefix(&number, "cuda:");
  size_t index = 0;
  if (visible.empty() || !absl::SimpleAtoi(number, &index)) return std::string(number);
  const std::vector<absl::string_view> entries = absl::StrSplit(visible, ',');
  if (index >= entries.size()) return std::string(number);
  return std::string(absl::StripAsciiWhitespace(entries[index]));
}

struct GpuSampler::State {
  explicit State(const Options& options) : options(options) {}

  const Options options;
  std::mutex mu;
  std::condition_variable changed;
  bool stop = false;
  bool ready = false;  // the first look is done
  bool in_window = false;
  int64_t window_begin_ns = 0;
  int64_t window_number = 0;
  int64_t stride = 1;  // of samples kept
  int64_t look_count = 0;
  int64_t sample_count = 0;
  std::optional<double> first_energy_j;
  std::optional<double> last_energy_j;
  std::map<int64_t, job::ForeignProcess> seen;  // in the window, by pid
  std::vector<job::ForeignProcess> now;         // at the last look
  GpuSeries series;

  // The thread's. No lock is held across a call of NVML.
  void Run();
  void Look(gpu::Nvml& nvml, const gpu::Nvml::Device& device, uint64_t& use_since_us);
  void Keep(const gpu::GpuReading& reading, int64_t at_ns);
  bool WaitForNext();
};

void GpuSampler::State::Keep(const gpu::GpuReading& reading, int64_t at_ns) {
  if (!first_energy_j.has_value()) first_energy_j = reading.energy_j;
  last_energy_j = reading.energy_j;
  for (const job::ForeignProcess& process : now) {
    job::ForeignProcess& kept = seen.emplace(process.pid, process).first->second;
    if (process.busy_percent.value_or(-1) > kept.busy_percent.value_or(-1)) {
      kept.busy_percent = process.busy_percent;
    }
    kept.memory_bytes = std::max(kept.memory_bytes, process.memory_bytes);
  }
  ++sample_count;
  if (look_count++ % stride != 0) return;
  job::GpuSample sample;
  sample.at_ns = at_ns - window_begin_ns;
  sample.sm_clock_mhz = Wide(reading.sm_clock_mhz);
  sample.memory_clock_mhz = Wide(reading.memory_clock_mhz);
  sample.clock_limits = Wide(reading.clock_limits);
  sample.power_w = reading.power_w;
  sample.temperature_c = Wide(reading.temperature_c);
  for (const job::ForeignProcess& process : now) {
    if (process.pid != options.pid) ++sample.foreign_processes;
  }
  series.samples.push_back(sample);
  if (series.samples.size() < kMaxSamples) return;
  for (size_t i = 0; i < series.samples.size() / 2; ++i) series.samples[i] = series.samples[2 * i];
  series.samples.resize(series.samples.size() / 2);
  stride *= 2;
}

void GpuSampler::State::Look(gpu::Nvml& nvml, const gpu::Nvml::Device& device,
                             uint64_t& use_since_us) {
  int64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mu);
    number = in_window ? window_number : 0;
  }
  const gpu::GpuReading reading = nvml.Read(device, true);
  std::map<int64_t, int> use;
  for (const auto& [pid, percent] : nvml.ProcessUse(device, use_since_us, &use_since_us)) {
    use[pid] = std::max(use[pid], percent);
  }
  std::vector<job::ForeignProcess> processes;
  for (const gpu::GpuProcess& raw : reading.processes.value_or(std::vector<gpu::GpuProcess>())) {
    job::ForeignProcess process{raw.pid, NameOfPid(raw.pid), raw.memory_bytes, std::nullopt};
    // Nobody named by the driver may mean that it does not tell, unless the GPU is idle.
    if (!use.empty()) process.busy_percent = use.count(raw.pid) != 0 ? use[raw.pid] : 0;
    if (use.empty() && reading.busy_percent == 0) process.busy_percent = 0;
    processes.push_back(std::move(process));
  }
  const int64_t at_ns = MonotonicNs();
  const std::lock_guard<std::mutex> lock(mu);
  now = std::move(processes);
  if (!ready) {
    for (const job::ForeignProcess& process : now) series.before.insert(process.pid);
    ready = true;
  }
  // A look that began before the window or ended after it belongs to none.
  if (in_window && number == window_number) Keep(reading, at_ns);
  changed.notify_all();
}

bool GpuSampler::State::WaitForNext() {
  std::unique_lock<std::mutex> lock(mu);
  changed.wait_for(lock, absl::ToChronoNanoseconds(options.interval), [this] { return stop; });
  return !stop;
}

void GpuSampler::State::Run() {
  const auto give_up = [this](const absl::Status& why) {
    const std::lock_guard<std::mutex> lock(mu);
    series.unavailable = std::string(why.message());
    ready = true;
    changed.notify_all();
  };
  auto nvml = gpu::Nvml::Open(options.library);
  if (!nvml.ok()) return give_up(nvml.status());
  const auto device = (*nvml)->Find(options.device);
  if (!device.ok()) return give_up(device.status());
  const auto [name, memory_bytes] = ModelOf(**nvml, device->uuid);
  {
    const std::lock_guard<std::mutex> lock(mu);
    series.uuid = device->uuid;
    series.name = name;
    series.memory_total_bytes = memory_bytes;
  }
  uint64_t use_since_us = 0;
  do {
    Look(**nvml, *device, use_since_us);
  } while (WaitForNext());
}

GpuSampler::GpuSampler(const Options& options)
    : options_(options), state_(std::make_shared<State>(options)) {
  std::thread([state = state_] { state->Run(); }).detach();
  std::unique_lock<std::mutex> lock(state_->mu);
  state_->changed.wait_for(lock, absl::ToChronoNanoseconds(options_.patience),
                           [this] { return state_->ready; });
}

GpuSampler::~GpuSampler() {
  const std::lock_guard<std::mutex> lock(state_->mu);
  state_->stop = true;
  state_->changed.notify_all();
}

std::string GpuSampler::OtherUsers() {
  const std::lock_guard<std::mutex> lock(state_->mu);
  GpuSeries series = state_->series;
  series.processes = state_->now;
  return ForeignUsers(Summarize(series, options_.pid, 0).foreign);
}

void GpuSampler::BeginWindow() {
  const std::lock_guard<std::mutex> lock(state_->mu);
  State& s = *state_;
  s.series.samples.clear();
  s.series.samples.reserve(kMaxSamples);
  s.seen.clear();
  s.first_energy_j.reset();
  s.last_energy_j.reset();
  s.stride = 1;
  s.look_count = s.sample_count = 0;
  s.window_begin_ns = MonotonicNs();
  ++s.window_number;
  s.in_window = true;
  s.changed.notify_all();
}

job::GpuWatch GpuSampler::EndWindow(int64_t images) {
  const std::lock_guard<std::mutex> lock(state_->mu);
  State& s = *state_;
  s.in_window = false;
  GpuSeries series = s.series;
  series.span_ns = MonotonicNs() - s.window_begin_ns;
  for (const auto& [pid, process] : s.seen) series.processes.push_back(process);
  if (s.sample_count > 1 && s.first_energy_j.has_value() && s.last_energy_j.has_value()) {
    // From the first to the last look: scaled to the window, of which it lacks up to two intervals.
    const double looked_ns =
        static_cast<double>(series.samples.back().at_ns - series.samples.front().at_ns);
    const double energy_j = *s.last_energy_j - *s.first_energy_j;
    if (looked_ns > 0 && energy_j >= 0) {
      series.energy_j = energy_j * static_cast<double>(series.span_ns) / looked_ns;
    }
  }
  if (series.samples.empty() && series.unavailable.empty()) {
    const bool overdue = absl::Nanoseconds(series.span_ns) > options_.patience;
    if (!s.ready || overdue) series.unavailable = "the NVIDIA driver does not answer";
  }
  return Summarize(series, options_.pid, images);
}

int64_t GpuSampler::sample_count() const {
  const std::lock_guard<std::mutex> lock(state_->mu);
  return state_->sample_count;
}

}  // namespace libreyolo::worker
