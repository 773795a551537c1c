// A server of the API in this process, on a unix socket, that does what a test tells it and can be
// stopped and started again. Its members may be called from any thread.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/rpc/channel.h"
#include "common/base/error.h"
#include "common/base/sha256.h"
#include "common/rpc/status_convert.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

class FakeJobService : public v1::JobService::Service {
 public:
  std::function<void(v1::JobEvent&)> decorate;  // what Add makes
  // Appends an event of the one job, which every watcher gets.
  void Add(v1::JobState state) {
    const std::lock_guard<std::mutex> lock(mu_);
    v1::JobEvent event;
    event.set_sequence(static_cast<int64_t>(events_.size()) + 1);
    event.mutable_job()->set_id("job1");
    event.mutable_job()->set_state(state);
    if (decorate) decorate(event);
    events_.push_back(event);
    changed_.notify_all();
  }
  void SetStopping(bool stopping) {
    const std::lock_guard<std::mutex> lock(mu_);
    stopping_ = stopping;
    changed_.notify_all();
  }
  // What the next calls answer, before they answer as they should.
  void FailNextCancels(std::vector<grpc::Status> failures) {
    const std::lock_guard<std::mutex> lock(mu_);
    cancel_failures_ = std::move(failures);
  }
  void FailNextCreates(std::vector<grpc::Status> failures) {
    const std::lock_guard<std::mutex> lock(mu_);
    create_failures_ = std::move(failures);
  }
  // CancelJob gives no answer until the server stops.
  void HangInCancel() {
    const std::lock_guard<std::mutex> lock(mu_);
    hang_in_cancel_ = true;
  }
  void EndJobOnCancel(bool end) {
    const std::lock_guard<std::mutex> lock(mu_);
    end_on_cancel_ = end;
  }
  int cancel_count() const {
    const std::lock_guard<std::mutex> lock(mu_);
    return cancel_count_;
  }
  std::vector<int64_t> watched_after() const {
    const std::lock_guard<std::mutex> lock(mu_);
    return watched_after_;
  }
  std::vector<std::string> request_ids() const {
    const std::lock_guard<std::mutex> lock(mu_);
    return request_ids_;
  }

  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request,
                         v1::Job* job) override {
    const std::lock_guard<std::mutex> lock(mu_);
    if (request->validate_only()) return Validate(*request);
    request_ids_.push_back(request->request_id());
    if (!create_failures_.empty()) return TakeFirst(create_failures_);
    job->set_id("job1");
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    std::unique_lock<std::mutex> lock(mu_);
    if (request->id() != "job1") {
      return rpc::ToGrpcStatus(MakeError(reason::kJobNotFound, "no such job"));
    }
    watched_after_.push_back(request->after_sequence());
    size_t next = static_cast<size_t>(request->after_sequence());
    for (;;) {
      changed_.wait_for(lock, std::chrono::milliseconds(20),
                        [&] { return stopping_ || next < events_.size(); });
      if (stopping_ || context->IsCancelled()) return grpc::Status::CANCELLED;
      for (; next < events_.size(); ++next) writer->Write(events_[next]);
      if (!events_.empty() && events_.back().job().state() >= v1::JOB_STATE_SUCCEEDED) {
        return grpc::Status::OK;
      }
    }
  }
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest*,
                         v1::Job*) override {
    std::unique_lock<std::mutex> lock(mu_);
    ++cancel_count_;
    while (hang_in_cancel_ && !stopping_ && !context->IsCancelled()) {
      changed_.wait_for(lock, std::chrono::milliseconds(20));
    }
    if (!cancel_failures_.empty()) return TakeFirst(cancel_failures_);
    const bool end = end_on_cancel_;
    lock.unlock();
    if (end) Add(v1::JOB_STATE_CANCELLED);
    return grpc::Status::OK;
  }

  // Words that the server knows; others are refused by CreateJob with validate_only.
  std::set<std::string> known_sources;
  std::set<std::string> known_weights;
  std::set<std::string> known_datasets;

 private:
  static grpc::Status TakeFirst(std::vector<grpc::Status>& failures) {
    const grpc::Status first = failures.front();
    failures.erase(failures.begin());
    return first;
  }
  grpc::Status Validate(const v1::CreateJobRequest& request) const {
    const auto check = [](const std::set<std::string>& known, const v1::InputRef& ref,
                          const Reason& reason) {
      return ref.name().empty() || known.count(ref.name()) > 0
                 ? grpc::Status::OK
                 : rpc::ToGrpcStatus(MakeError(reason, "not there"));
    };
    const v1::JobSpec& spec = request.spec();
    if (auto status = check(known_weights, spec.weights(), reason::kWeightsNotFound);
        !status.ok()) {
      return status;
    }
    return spec.has_train() ? check(known_datasets, spec.train().data(), reason::kDatasetNotFound)
                            : check(known_sources, spec.infer().source(), reason::kSourceNotFound);
  }

  mutable std::mutex mu_;
  std::condition_variable changed_;
  std::vector<v1::JobEvent> events_;
  std::vector<int64_t> watched_after_;
  std::vector<std::string> request_ids_;
  std::vector<grpc::Status> create_failures_;
  std::vector<grpc::Status> cancel_failures_;
  int cancel_count_ = 0;
  bool hang_in_cancel_ = false;
  bool end_on_cancel_ = true;
  bool stopping_ = false;
};

// Used while no call runs, but for the calls themselves.
class FakeProfileService : public v1::ProfileService::Service {
 public:
  std::map<std::string, std::string> blobs;  // digest to content
  std::vector<std::string> uploaded;         // digests, in order
  size_t largest_chunk = 0;
  int failing_uploads = 0;  // that many end in the middle with UNAVAILABLE

  std::map<std::string, std::string> files;  // name to content
  std::vector<int64_t> offsets;              // that downloads were asked for
  int failing_downloads = 0;                 // that many end with UNAVAILABLE after two chunks
  int64_t offset_error = 0;                  // added to the offsets that chunks claim
  bool ends_early = false;                   // OK after two chunks
  size_t chunk_bytes = 10;

  grpc::Status FindMissingBlobs(grpc::ServerContext*, const v1::FindMissingBlobsRequest* request,
                                v1::FindMissingBlobsResponse* response) override {
    for (const std::string& digest : request->digests()) {
      if (blobs.count(digest) == 0) response->add_digests(digest);
    }
    return grpc::Status::OK;
  }
  grpc::Status UploadBlob(grpc::ServerContext*, grpc::ServerReader<v1::UploadBlobRequest>* reader,
                          v1::UploadBlobResponse* response) override {
    v1::UploadBlobRequest request;
    if (!reader->Read(&request) || !request.has_header()) {
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no header");
    }
    const v1::UploadBlobRequest::Header header = request.header();
    std::string content;
    while (reader->Read(&request)) {
      largest_chunk = std::max(largest_chunk, request.data().size());
      content += request.data();
      if (failing_uploads > 0) {
        --failing_uploads;
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
      }
    }
    if (Sha256Hex(content) != header.digest() ||
        static_cast<int64_t>(content.size()) != header.size_bytes()) {
      return rpc::ToGrpcStatus(MakeError(reason::kDigestMismatch, "another content"));
    }
    blobs[header.digest()] = content;
    uploaded.push_back(header.digest());
    response->set_digest(header.digest());
    return grpc::Status::OK;
  }
  grpc::Status DownloadProfile(grpc::ServerContext*, const v1::DownloadProfileRequest* request,
                               grpc::ServerWriter<v1::DownloadChunk>* writer) override {
    offsets.push_back(request->offset());
    const std::string& content = files[request->file()];
    size_t at = static_cast<size_t>(request->offset());
    if (at > content.size()) {
      return rpc::ToGrpcStatus(MakeError(reason::kArgumentOutOfRange, "past the file's end"));
    }
    for (int chunks = 0;; ++chunks) {
      if (chunks == 2 && failing_downloads > 0) {
        --failing_downloads;
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
      }
      if (chunks == 2 && ends_early) return grpc::Status::OK;
      v1::DownloadChunk chunk;
      chunk.set_offset(static_cast<int64_t>(at) + offset_error);
      chunk.set_data(content.substr(at, chunk_bytes));
      chunk.set_total_bytes(static_cast<int64_t>(content.size()));
      at += chunk.data().size();
      const bool last = at >= content.size();
      if (last) chunk.set_digest(Sha256Hex(content));
      writer->Write(chunk);
      if (last) return grpc::Status::OK;
    }
  }
};

class FakeServerService : public v1::ServerService::Service {
 public:
  v1::Capabilities about;
  int asked_count = 0;
  v1::GetCapabilitiesRequest asked;  // last
  grpc::Status GetCapabilities(grpc::ServerContext*, const v1::GetCapabilitiesRequest* request,
                               v1::Capabilities* response) override {
    ++asked_count;
    asked = *request;
    *response = about;
    return grpc::Status::OK;
  }
};

class FakeServer {
 public:
  explicit FakeServer(std::string socket_path) : address_("unix:" + socket_path) {
    about.about.set_api_version("v1");
    Start();
  }
  ~FakeServer() { Stop(); }

  void Start() {
    jobs.SetStopping(false);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(&jobs);
    builder.RegisterService(&profiles);
    builder.RegisterService(&about);
    server_ = builder.BuildAndStart();
  }
  void Stop() {
    if (server_ == nullptr) return;
    jobs.SetStopping(true);
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }
  // As a client sees it; remote, so that it is never started.
  Server AsRemote() const {
    Server server;
    server.address = address_;
    server.channel = MakeChannel(address_);
    return server;
  }

  FakeJobService jobs;
  FakeProfileService profiles;
  FakeServerService about;

 private:
  const std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace libreyolo::client
