// What a JobManager stands on, in the hands of a test: workers, steps and the store of jobs. For
// one thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/daemon/jobs/job_steps.h"
#include "server/daemon/jobs/job_store.h"
#include "server/daemon/launch/worker_launcher.h"

namespace libreyolo::daemon {

namespace v1 = ::libreyolo::profile::v1;

// One worker, as the test plays it. Lives on when its session is destroyed.
struct FakeWorker {
  LaunchRequest request;
  WorkerEvents events;
  int cancel_count = 0;
  int kill_count = 0;
  bool destroyed = false;

  void Say(worker_link::WorkerMessage message) { events.on_message(std::move(message)); }
  // All of its processes are gone.
  void Exit(int code, int signal = 0, const std::string& last_log_line = "") {
    const auto on_exit = events.on_exit;
    on_exit({code, signal, last_log_line});
  }
};

class FakeLauncher : public WorkerLauncher {
 public:
  absl::StatusOr<std::unique_ptr<WorkerSession>> Launch(const LaunchRequest& request,
                                                        WorkerEvents events) override {
    if (!error.ok()) return error;
    workers.push_back(std::make_shared<FakeWorker>());
    workers.back()->request = request;
    workers.back()->events = std::move(events);
    return std::make_unique<Session>(workers.back());
  }

  absl::Status error;
  std::vector<std::shared_ptr<FakeWorker>> workers;  // in the order of their start

 private:
  class Session : public WorkerSession {
   public:
    explicit Session(std::shared_ptr<FakeWorker> worker) : worker_(std::move(worker)) {}
    ~Session() override { worker_->destroyed = true; }
    int pid() const override { return 0; }
    void RequestCancel() override { ++worker_->cancel_count; }
    void Kill() override { ++worker_->kill_count; }

   private:
    const std::shared_ptr<FakeWorker> worker_;
  };
};

class FakeSteps : public JobSteps {
 public:
  absl::StatusOr<worker_link::WorkerPlan> Prepare(const JobPlace& place, const job::JobSpec&,
                                                  const std::string& device,
                                                  const std::atomic<bool>& cancelled,
                                                  const ProgressFn& progress) override {
    calls.push_back("prepare");
    progress("looking up weights", 0, 0);
    if (cancelled) return MakeError(reason::kCancelled, "cancelled");
    if (!prepare_error.ok()) return prepare_error;
    worker_link::WorkerPlan plan;
    plan.job_id = place.job_id;
    plan.device = device;
    return plan;
  }
  absl::StatusOr<std::string> MakeTrialFolder(const JobPlace&, const job::JobSpec&,
                                              int trial) override {
    calls.push_back(absl::StrCat("folder ", trial));
    return absl::StrCat("/staging/", trial);
  }
  absl::Status Analyze(const JobPlace&, const job::JobSpec&, int trial,
                       const std::string& measurement_json) override {
    calls.push_back(absl::StrCat("analyze ", trial, " ", measurement_json));
    return analyze_error;
  }
  absl::StatusOr<CommittedResult> Commit(const JobPlace&, const job::JobSpec&) override {
    calls.push_back("commit");
    if (!commit_error.ok()) return commit_error;
    return CommittedResult{"runs/profile/infer/profile.json", "trace.json", {"a note"}};
  }
  void Discard(const JobPlace&) override { calls.push_back("discard"); }

  std::vector<std::string> calls;
  absl::Status prepare_error;
  absl::Status analyze_error;
  absl::Status commit_error;
};

// In memory. What it holds is what a restart would find.
class MemoryJobStore : public JobStore {
 public:
  absl::Status Put(const JobRecord& record, const v1::JobEvent* event) override {
    if (!error.ok()) return error;
    const std::string& id = record.job.id();
    if (records.count(id) == 0) order.push_back(id);
    records[id] = record;
    if (event != nullptr) events[id].push_back(*event);
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<JobRecord>> Find(const std::string& id) override {
    const auto it = records.find(id);
    if (it == records.end()) return std::nullopt;
    return it->second;
  }
  absl::StatusOr<std::optional<JobRecord>> FindByRequest(const std::string& principal,
                                                         const std::string& request_id) override {
    for (const auto& [id, record] : records) {
      if (record.job.principal() == principal && record.request_id == request_id) return record;
    }
    return std::nullopt;
  }
  absl::StatusOr<std::vector<JobRecord>> LoadActive() override {
    std::vector<JobRecord> active;
    for (const std::string& id : order) {
      if (!IsTerminal(records[id].job.state())) active.push_back(records[id]);
    }
    return active;
  }
  absl::StatusOr<std::vector<JobRecord>> List(const JobQuery& query) override {
    std::vector<JobRecord> page;
    bool begun = query.before_id.empty();
    for (auto it = order.rbegin(); it != order.rend() && page.size() < size_t(query.limit); ++it) {
      const JobRecord& record = records[*it];
      const bool asked = !(query.active_only && IsTerminal(record.job.state())) &&
                         (query.principal.empty() || query.principal == record.job.principal());
      if (begun && asked) page.push_back(record);
      begun = begun || *it == query.before_id;
    }
    return page;
  }
  absl::StatusOr<std::vector<v1::JobEvent>> Events(const std::string& id,
                                                   int64_t after_sequence) override {
    std::vector<v1::JobEvent> later;
    for (const v1::JobEvent& event : events[id]) {
      if (event.sequence() > after_sequence) later.push_back(event);
    }
    return later;
  }
  absl::Status Delete(const std::string& id) override {
    records.erase(id);
    order.erase(std::remove(order.begin(), order.end(), id), order.end());
    return absl::OkStatus();
  }

  std::map<std::string, JobRecord> records;
  std::map<std::string, std::vector<v1::JobEvent>> events;
  std::vector<std::string> order;  // of creation
  absl::Status error;
};

}  // namespace libreyolo::daemon
