// What the daemon counts, for Prometheus. docs/operations.md lists the names. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/daemon/jobs/job_observer.h"
#include "server/daemon/service/call_watch.h"

namespace libreyolo::daemon {

// What the store holds, as it is when somebody asks.
struct StoreFigures {
  int64_t profile_count = 0;
  int64_t profile_bytes = 0;
  int64_t replaced_count = 0;  // profiles in history/
  int64_t replaced_bytes = 0;
  int64_t upload_bytes = 0;
  int64_t free_bytes = 0;  // of its disk

  // What retention has removed since the start.
  int64_t removed_by_age = 0;
  int64_t removed_by_count = 0;
  int64_t removed_by_bytes = 0;
  int64_t removed_bytes = 0;
  int64_t failed_removals = 0;
};

class Metrics : public JobObserver, public CallObserver {
 public:
  // `store` is asked on each scrape, on the scraper's thread; while it fails its figures are
  // absent.
  explicit Metrics(std::function<absl::StatusOr<StoreFigures>()> store);
  ~Metrics() override;

  void JobAdded(JobState state) override;
  void JobMoved(JobState from, JobState to, const std::string& reason) override;
  void LeaseTaken(const std::string& device, absl::Duration queued) override;
  void LeaseEnded(const std::string& device, absl::Duration held) override;
  void WorkerCrashed(absl::string_view reason) override;

  void CallBegan(absl::string_view method) override;
  void CallEnded(absl::string_view method, absl::string_view code, absl::Duration took) override;

  void UploadStored(int64_t bytes);
  // New jobs are taken; the store can be written to.
  void SetAccepting(bool accepting);
  void SetStoreWritable(bool writable);

  // All of it in Prometheus's text format.
  std::string Text() const;

 private:
  friend class MetricsServer;
  struct Parts;
  const std::shared_ptr<Parts> parts_;
};

// Answers GET /metrics over plain HTTP until it is destroyed. `metrics` outlives it.
class MetricsServer {
 public:
  // `address` is HOST:PORT. Unavailable when nobody can listen there.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address,
                                                              const Metrics& metrics);
  ~MetricsServer();
  int port() const;

 private:
  struct Listener;
  explicit MetricsServer(std::unique_ptr<Listener> listener);
  std::unique_ptr<Listener> listener_;
};

}  // namespace libreyolo::daemon
