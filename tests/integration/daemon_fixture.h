// Drives the shipped libreyolod over its socket, with a scripted worker (tests/support) in place of
// the real one, in a folder of its own. Blocking; for one thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::testing {

namespace v1 = ::libreyolo::profile::v1;

// A libreyolod process. Killed with the object.
class DaemonProcess {
 public:
  explicit DaemonProcess(const std::vector<std::string>& arguments);
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // The exit code, or minus the signal. Waits for the end.
  int Wait();
  // What it has written to stderr.
  std::string Output() const;

 private:
  pid_t pid_ = -1;
  std::string output_path_;
};

class DaemonTest : public ::testing::Test {
 protected:
  // A good worker's life.
  static constexpr char kGoodScript[] =
      "hello\nstage warming_up\nprogress warm-up 1 1\nstage measuring\nprogress measure 5 5\n"
      "trace own\nfinish\n";

  DaemonTest();
  ~DaemonTest() override;

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  // In the folder that workers write to, besides their results.
  std::string WorkersPath(const std::string& name) const {
    return Path("cache/workers/default/" + name);
  }
  std::string Workspace(const std::string& path) const {
    return Path("store/workspaces/default/" + path);
  }
  std::string address() const { return "unix:" + Path("d.sock"); }
  std::vector<std::string> Arguments() const;

  // Until it answers.
  void StartDaemon(const std::vector<std::string>& more = {});
  // As `kill -9`, and waits for the end.
  void KillDaemon();

  // What the worker of a job in the project "runs/NAME" does; "default" is for the other projects.
  void Script(const std::string& name, const std::string& steps) const;
  // Hello, and then it measures until Release(NAME).
  static std::string Until(const std::string& path, const std::string& then);
  void Touch(const std::string& name) const;

  v1::JobSpec Spec(const std::string& project = "runs/profile") const;
  v1::Job Submit(const v1::JobSpec& spec);
  v1::Job Submit(const std::string& project = "runs/profile") { return Submit(Spec(project)); }
  grpc::Status Create(const v1::CreateJobRequest& request, v1::Job* job);
  v1::Job Get(const std::string& id);
  v1::Job Cancel(const std::string& id);
  // Watches until `enough` holds for an event's job; all events that came.
  std::vector<v1::JobEvent> Watch(const std::string& id, int64_t after,
                                  const std::function<bool(const v1::Job&)>& enough = nullptr);
  v1::Job WaitFor(const std::string& id, v1::JobState state);
  // The terminal one.
  v1::Job WaitForEnd(const std::string& id);
  // Submits a good job and expects that it succeeds: no lease or lock was left.
  v1::Job ExpectGoodJobRuns(const std::string& project = "runs/good");

  std::string folder_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::ProfileService::Stub> profiles_;
  std::unique_ptr<v1::ServerService::Stub> server_;
  std::unique_ptr<v1::DeviceService::Stub> devices_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Polls every 5 ms for at most 20 s.
bool Eventually(const std::function<bool()>& holds);
bool ProcessLives(int pid);
std::string ReasonOf(const grpc::Status& status);

}  // namespace libreyolo::testing
