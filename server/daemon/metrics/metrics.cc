#include "server/daemon/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/version.h"
#include "server/daemon/metrics/process_figures.h"

namespace libreyolo::daemon {
namespace {

using prometheus::MetricFamily;
using Labels = prometheus::Labels;

// Reasons come from workers too, so neither their look nor their number is ours.
constexpr size_t kMaxReasons = 100;
constexpr size_t kMaxReasonBytes = 64;

const prometheus::Histogram::BucketBoundaries kWaitSeconds = {0.1, 0.5, 1,   5,    10,   30,
                                                              60,  300, 900, 1800, 3600, 14400};
const prometheus::Histogram::BucketBoundaries kCallSeconds = {0.001, 0.005, 0.02, 0.1,
                                                              0.5,   2,     10,   60};

std::string StateLabel(JobState state) { return absl::AsciiStrToLower(Name(state)); }

MetricFamily FamilyOf(prometheus::MetricType type, const std::string& name,
                      const std::string& help) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

MetricFamily GaugeFamily(const std::string& name, const std::string& help) {
  return FamilyOf(prometheus::MetricType::Gauge, name, help);
}

MetricFamily CounterFamily(const std::string& name, const std::string& help) {
  return FamilyOf(prometheus::MetricType::Counter, name, help);
}

double Count(int64_t number) { return static_cast<double>(number); }

// One figure of a family, which says of what kind it is.
void AddFigure(MetricFamily& family, double value, const char* label = nullptr,
               const std::string& labelled = "") {
  prometheus::ClientMetric metric;
  if (label != nullptr) metric.label.push_back({label, labelled});
  (family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) =
      value;
  family.metric.push_back(std::move(metric));
}

template <typename T>
prometheus::Family<T>& Make(prometheus::Registry& registry, const char* name, const char* help);
template <>
prometheus::Family<prometheus::Counter>& Make(prometheus::Registry& registry, const char* name,
                                              const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
template <>
prometheus::Family<prometheus::Gauge>& Make(prometheus::Registry& registry, const char* name,
                                            const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
template <>
prometheus::Family<prometheus::Histogram>& Make(prometheus::Registry& registry, const char* name,
                                                const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

// Counters of the library beside what is only known when somebody asks: the age of leases, and what
// the store holds.
struct Metrics::Parts : public prometheus::Collectable {
  using Counters = prometheus::Family<prometheus::Counter>;
  using Gauges = prometheus::Family<prometheus::Gauge>;
  using Histograms = prometheus::Family<prometheus::Histogram>;

  explicit Parts(std::function<absl::StatusOr<StoreFigures>()> store_figures)
      : store(std::move(store_figures)) {
    Make<prometheus::Gauge>(registry, "libreyolod_build_info", "1, with the daemon's build")
        .Add({{"version", std::string(Version())}, {"build", std::string(BuildId())}})
        .Set(1);
    for (const JobState state : {JobState::kQueued, JobState::kStarting, JobState::kWarmingUp,
                                 JobState::kMeasuring, JobState::kAnalyzing})
      jobs.Add({{"state", StateLabel(state)}});
    for (const JobState state : {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled})
      finished.Add({{"state", StateLabel(state)}});
  }

  std::vector<MetricFamily> Collect() const override {
    std::vector<MetricFamily> out = registry.Collect();
    MetricFamily ages =
        GaugeFamily("libreyolod_lease_age_seconds", "For how long a job has held the device");
    {
      const std::lock_guard<std::mutex> lock(mu);
      const int64_t now_ns = MonotonicNs();
      for (const auto& [device, since_ns] : leases)
        AddFigure(ages, static_cast<double>(now_ns - since_ns) / 1e9, "device", device);
    }
    if (!ages.metric.empty()) out.push_back(std::move(ages));
    if (const absl::StatusOr<StoreFigures> figures = store(); figures.ok()) Add(*figures, out);
    Add(ReadProcessFigures(), out);
    return out;
  }

  // Under the names that all processes have at Prometheus.
  static void Add(const ProcessFigures& process, std::vector<MetricFamily>& out) {
    const auto gauge = [&](const char* name, const char* help, double value) {
      AddFigure(out.emplace_back(GaugeFamily(name, help)), value);
    };
    gauge("process_resident_memory_bytes", "Memory of the daemon itself",
          static_cast<double>(process.resident_bytes));
    gauge("libreyolod_heap_bytes", "Of it allocated and not freed",
          static_cast<double>(process.heap_bytes));
    gauge("process_open_fds", "Files and connections that it has open",
          static_cast<double>(process.open_files));
    gauge("libreyolod_threads", "Threads of the daemon itself",
          static_cast<double>(process.threads));
    gauge("process_start_time_seconds", "When it started, as seconds since 1970",
          process.start_unix_seconds);
    MetricFamily cpu = CounterFamily("process_cpu_seconds_total", "CPU time of the daemon itself");
    AddFigure(cpu, process.cpu_seconds);
    out.push_back(std::move(cpu));
  }

  static void Add(const StoreFigures& figures, std::vector<MetricFamily>& out) {
    MetricFamily bytes = GaugeFamily("libreyolod_store_bytes", "Bytes that the store holds");
    AddFigure(bytes, static_cast<double>(figures.profile_bytes), "kind", "profiles");
    AddFigure(bytes, static_cast<double>(figures.replaced_bytes), "kind", "replaced_profiles");
    AddFigure(bytes, static_cast<double>(figures.upload_bytes), "kind", "uploads");
    MetricFamily count = GaugeFamily("libreyolod_store_profiles", "Profiles in the store");
    AddFigure(count, static_cast<double>(figures.profile_count), "kind", "profiles");
    AddFigure(count, static_cast<double>(figures.replaced_count), "kind", "replaced_profiles");
    MetricFamily free = GaugeFamily("libreyolod_store_free_bytes", "Bytes free on its disk");
    AddFigure(free, static_cast<double>(figures.free_bytes));
    MetricFamily removed = CounterFamily("libreyolod_retention_removed_total",
                                         "Results that retention removed, by the limit");
    AddFigure(removed, Count(figures.removed_by_age), "limit", "age");
    AddFigure(removed, Count(figures.removed_by_count), "limit", "count");
    AddFigure(removed, Count(figures.removed_by_bytes), "limit", "bytes");
    MetricFamily removed_bytes =
        CounterFamily("libreyolod_retention_removed_bytes_total", "Bytes of those results");
    AddFigure(removed_bytes, Count(figures.removed_bytes));
    MetricFamily failed = CounterFamily("libreyolod_retention_failures_total",
                                        "Removals that did not work and are tried again");
    AddFigure(failed, Count(figures.failed_removals));
    for (MetricFamily* family : {&bytes, &count, &free, &removed, &removed_bytes, &failed})
      out.push_back(std::move(*family));
  }

  std::string Bounded(const std::string& reason) {
    const bool plain = !reason.empty() && reason.size() <= kMaxReasonBytes &&
                       std::all_of(reason.begin(), reason.end(), [](char c) {
                         return absl::ascii_isupper(static_cast<unsigned char>(c)) || c == '_';
                       });
    const std::lock_guard<std::mutex> lock(mu);
    if (!plain || (reasons.size() >= kMaxReasons && reasons.count(reason) == 0)) return "OTHER";
    reasons.insert(reason);
    return reason;
  }

  prometheus::Registry registry;
  Gauges& jobs = Make<prometheus::Gauge>(registry, "libreyolod_jobs", "Jobs that have not ended");
  Counters& finished =
      Make<prometheus::Counter>(registry, "libreyolod_jobs_finished_total", "Jobs that have ended");
  Counters& failed = Make<prometheus::Counter>(registry, "libreyolod_jobs_failed_total",
                                               "Jobs that failed, by their error's reason");
  prometheus::Histogram& wait =
      Make<prometheus::Histogram>(registry, "libreyolod_job_queue_wait_seconds",
                                  "From a job's submission to its device")
          .Add({}, kWaitSeconds);
  prometheus::Histogram& lease = Make<prometheus::Histogram>(registry, "libreyolod_lease_seconds",
                                                             "For how long jobs held a device")
                                     .Add({}, kWaitSeconds);
  Counters& crashes =
      Make<prometheus::Counter>(registry, "libreyolod_worker_crashes_total",
                                "Workers that did not end as they should, by what became of them");
  Counters& calls = Make<prometheus::Counter>(registry, "libreyolod_rpcs_total",
                                              "Calls that have ended, by method and status");
  Histograms& call_time =
      Make<prometheus::Histogram>(registry, "libreyolod_rpc_duration_seconds",
                                  "From a call's headers to its status; streams to their end");
  prometheus::Gauge& calls_open =
      Make<prometheus::Gauge>(registry, "libreyolod_rpcs_in_flight", "Calls that have not ended")
          .Add({});
  prometheus::Counter& uploads = Make<prometheus::Counter>(registry, "libreyolod_uploads_total",
                                                           "Files that clients have uploaded")
                                     .Add({});
  prometheus::Counter& upload_bytes =
      Make<prometheus::Counter>(registry, "libreyolod_upload_bytes_total", "Bytes of those files")
          .Add({});
  prometheus::Gauge& accepting =
      Make<prometheus::Gauge>(
          registry, "libreyolod_accepting_jobs",
          "1 while new jobs are taken: not drained, not cordoned, store writable")
          .Add({});
  prometheus::Gauge& writable = Make<prometheus::Gauge>(registry, "libreyolod_store_writable",
                                                        "1 while the store can be written to")
                                    .Add({});

  const std::function<absl::StatusOr<StoreFigures>()> store;
  mutable std::mutex mu;
  std::map<std::string, int64_t> leases;  // device -> since when, guarded by mu
  std::set<std::string> reasons;          // guarded by mu
};

Metrics::Metrics(std::function<absl::StatusOr<StoreFigures>()> store)
    : parts_(std::make_shared<Parts>(std::move(store))) {}

Metrics::~Metrics() = default;

void Metrics::JobAdded(JobState state) {
  parts_->jobs.Add({{"state", StateLabel(state)}}).Increment();
}

void Metrics::JobMoved(JobState from, JobState to, const std::string& reason) {
  parts_->jobs.Add({{"state", StateLabel(from)}}).Decrement();
  if (!IsTerminal(to)) return JobAdded(to);
  parts_->finished.Add({{"state", StateLabel(to)}}).Increment();
  if (to == JobState::kFailed)
    parts_->failed.Add({{"reason", parts_->Bounded(reason)}}).Increment();
}

void Metrics::LeaseTaken(const std::string& device, absl::Duration queued) {
  parts_->wait.Observe(std::max(0.0, absl::ToDoubleSeconds(queued)));
  const std::lock_guard<std::mutex> lock(parts_->mu);
  parts_->leases[device] = MonotonicNs();
}

void Metrics::LeaseEnded(const std::string& device, absl::Duration held) {
  parts_->lease.Observe(std::max(0.0, absl::ToDoubleSeconds(held)));
  const std::lock_guard<std::mutex> lock(parts_->mu);
  parts_->leases.erase(device);
}

void Metrics::WorkerCrashed(absl::string_view reason) {
  parts_->crashes.Add({{"reason", std::string(reason)}}).Increment();
}

void Metrics::CallBegan(absl::string_view) { parts_->calls_open.Increment(); }

void Metrics::CallEnded(absl::string_view method, absl::string_view code, absl::Duration took) {
  parts_->calls_open.Decrement();
  parts_->calls.Add({{"method", std::string(method)}, {"code", std::string(code)}}).Increment();
  parts_->call_time.Add({{"method", std::string(method)}}, kCallSeconds)
      .Observe(absl::ToDoubleSeconds(took));
}

void Metrics::UploadStored(int64_t bytes) {
  parts_->uploads.Increment();
  parts_->upload_bytes.Increment(static_cast<double>(bytes));
}

void Metrics::SetAccepting(bool accepting) { parts_->accepting.Set(accepting ? 1 : 0); }
void Metrics::SetStoreWritable(bool writable) { parts_->writable.Set(writable ? 1 : 0); }

std::string Metrics::Text() const {
  return prometheus::TextSerializer().Serialize(parts_->Collect());
}

struct MetricsServer::Listener {
  std::shared_ptr<prometheus::Collectable> metrics;  // what the exposer holds is a weak one
  prometheus::Exposer exposer;
};

MetricsServer::MetricsServer(std::unique_ptr<Listener> listener) : listener_(std::move(listener)) {}
MetricsServer::~MetricsServer() = default;

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address,
                                                                    const Metrics& metrics) {
  // The library throws; nothing of it leaves this function.
  try {
    // Scrapes are few and short; slow ones are cut off, so that nobody can hold the threads for
    // long.
    const std::vector<std::string> options = {"listening_ports",    address, "num_threads", "8",
                                              "request_timeout_ms", "1000"};
    auto listener =
        std::unique_ptr<Listener>(new Listener{metrics.parts_, prometheus::Exposer(options)});
    listener->exposer.RegisterCollectable(listener->metrics);
    return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(listener)));
  } catch (const std::exception&) {
    // Its words are about its own parts: "null context when constructing CivetServer".
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", address,
                     ": the port is in use or not allowed; choose another with --metrics-listen"));
  }
}

int MetricsServer::port() const {
  const std::vector<int> ports = listener_->exposer.GetListeningPorts();
  return ports.empty() ? 0 : ports.front();
}

}  // namespace libreyolo::daemon
