// Load on a server: watchers that stay open, readers that ask one question after the other, and
// uploads. The same program and calls go to libreyolod and to echo_server, its yardstick.
//
//   load_client ADDRESS PROFILE JOB WATCHERS READERS UPLOADERS SECONDS
//
// Each watcher and reader has a connection of its own. Prints one JSON object: the readers'
// latencies, what was read and uploaded, the watchers that were open to the end, and errors (the
// first in words).
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/sha256.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo {
namespace {

namespace v1 = ::libreyolo::profile::v1;
using Clock = std::chrono::steady_clock;

constexpr size_t kUploadBytes = 4 << 20;
constexpr size_t kChunkBytes = 512 << 10;
constexpr auto kReadDeadline = std::chrono::seconds(60);
constexpr auto kWatchersReady = std::chrono::seconds(120);

struct Load {
  std::string address;
  std::string profile;
  std::string job;
  int watchers = 0;
  int readers = 0;
  int uploaders = 0;
  int seconds = 0;
};

class Errors {
 public:
  void Add(const char* who, const grpc::Status& status) {
    const std::lock_guard<std::mutex> lock(mu_);
    if (count_++ == 0) first_ = std::string(who) + ": " + status.error_message();
  }
  int count() const { return count_; }
  const std::string& first() const { return first_; }

 private:
  std::mutex mu_;
  int count_ = 0;
  std::string first_;
};

std::shared_ptr<grpc::Channel> OwnConnection(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// One open WatchJob.
class Watcher : public grpc::ClientReadReactor<v1::JobEvent> {
 public:
  Watcher(const Load& load, std::atomic<int>& begun, Errors& errors)
      : stub_(v1::JobService::NewStub(OwnConnection(load.address))),
        begun_(begun),
        errors_(errors) {
    request_.set_id(load.job);
    stub_->async()->WatchJob(&context_, &request_, this);
    StartRead(&event_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (!has_begun_.exchange(true)) ++begun_;
    StartRead(&event_);
  }
  void OnDone(const grpc::Status& status) override {
    const std::lock_guard<std::mutex> lock(mu_);
    if (!closing_) errors_.Add("watcher", status);
    is_done_ = true;
    done_.notify_all();
  }
  // True when it was open until now.
  bool Close() {
    std::unique_lock<std::mutex> lock(mu_);
    const bool was_open = !is_done_ && has_begun_;
    closing_ = true;
    lock.unlock();
    context_.TryCancel();
    lock.lock();
    done_.wait(lock, [this] { return is_done_; });
    return was_open;
  }

 private:
  std::unique_ptr<v1::JobService::Stub> stub_;
  std::atomic<int>& begun_;
  Errors& errors_;
  grpc::ClientContext context_;
  v1::WatchJobRequest request_;
  v1::JobEvent event_;
  std::atomic<bool> has_begun_{false};
  std::mutex mu_;
  std::condition_variable done_;
  bool closing_ = false;
  bool is_done_ = false;
};

// Reads until `end`; milliseconds of each call.
std::vector<double> Read(const Load& load, Clock::time_point end, Errors& errors) {
  const auto stub = v1::ProfileService::NewStub(OwnConnection(load.address));
  v1::GetMetricRequest request;
  request.mutable_trace()->set_name(load.profile);
  request.set_field("step_ms");
  std::vector<double> latencies;
  while (Clock::now() < end) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kReadDeadline);
    v1::GetMetricResponse response;
    const Clock::time_point begin = Clock::now();
    const grpc::Status status = stub->GetMetric(&context, request, &response);
    if (!status.ok()) {
      errors.Add("reader", status);
      continue;
    }
    latencies.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  return latencies;
}

// Uploads content that no one has seen before, until `end`; how many went through.
int Upload(const Load& load, int number, Clock::time_point end, Errors& errors) {
  const auto stub = v1::ProfileService::NewStub(OwnConnection(load.address));
  int count = 0;
  for (; Clock::now() < end; ++count) {
    std::string content(kUploadBytes, static_cast<char>(number));
    const std::string unlike = std::to_string(Clock::now().time_since_epoch().count());
    content.replace(0, unlike.size(), unlike);
    Sha256 sha;
    sha.Update(content);
    grpc::ClientContext context;
    v1::UploadBlobResponse response;
    const auto writer = stub->UploadBlob(&context, &response);
    v1::UploadBlobRequest request;
    request.mutable_header()->set_digest(sha.FinishHex());
    request.mutable_header()->set_size_bytes(static_cast<int64_t>(content.size()));
    bool is_open = writer->Write(request);
    for (size_t at = 0; is_open && at < content.size(); at += kChunkBytes) {
      request.set_data(content.substr(at, kChunkBytes));
      is_open = writer->Write(request);
    }
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    if (!status.ok()) errors.Add("upload", status);
  }
  return count;
}

double Quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(q * static_cast<double>(sorted.size())))];
}

int Run(const Load& load) {
  Errors errors;
  std::atomic<int> begun{0};
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (int i = 0; i < load.watchers; ++i) {
    watchers.push_back(std::make_unique<Watcher>(load, begun, errors));
  }
  const Clock::time_point ready_by = Clock::now() + kWatchersReady;
  while (begun < load.watchers && errors.count() == 0 && Clock::now() < ready_by) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const int begun_count = begun;

  const Clock::time_point end = Clock::now() + std::chrono::seconds(load.seconds);
  std::vector<std::vector<double>> latencies(static_cast<size_t>(load.readers));
  std::vector<int> uploads(static_cast<size_t>(load.uploaders));
  std::vector<std::thread> threads;
  for (auto& mine : latencies) {
    threads.emplace_back([&load, &mine, end, &errors] { mine = Read(load, end, errors); });
  }
  for (size_t i = 0; i < uploads.size(); ++i) {
    threads.emplace_back([&load, &uploads, i, end, &errors] {
      uploads[i] = Upload(load, static_cast<int>(i), end, errors);
    });
  }
  for (std::thread& thread : threads) thread.join();

  int open_to_the_end = 0;
  for (auto& watcher : watchers) open_to_the_end += watcher->Close() ? 1 : 0;
  std::vector<double> all;
  for (const auto& mine : latencies) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  int upload_count = 0;
  for (const int count : uploads) upload_count += count;
  std::printf(
      "{\"reads\": %zu, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f, \"uploads\": %d, "
      "\"watchers_begun\": %d, \"watchers_open\": %d, \"errors\": %d}\n",
      all.size(), Quantile(all, 0.5), Quantile(all, 0.99), all.empty() ? 0 : all.back(),
      upload_count, begun_count, open_to_the_end, errors.count());
  if (errors.count() > 0) std::fprintf(stderr, "first error: %s\n", errors.first().c_str());
  return 0;
}

}  // namespace
}  // namespace libreyolo

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr,
                 "usage: load_client ADDRESS PROFILE JOB WATCHERS READERS UPLOADERS SECONDS\n");
    return 2;
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  return libreyolo::Run({argv[1], argv[2], argv[3], std::atoi(argv[4]), std::atoi(argv[5]),
                         std::atoi(argv[6]), std::atoi(argv[7])});
}
