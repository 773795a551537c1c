// The parts of the API beside jobs: uploads, downloads, paths, devices, health, reflection.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/version.h"
#include "common/rpc/status_convert.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/integration/daemon_fixture.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::testing {
namespace {

using ::testing::HasSubstr;

class DaemonApiTest : public DaemonTest {
 protected:
  grpc::Status Upload(const std::string& digest, int64_t size, const std::string& bytes) {
    grpc::ClientContext context;
    v1::UploadBlobResponse response;
    const auto stream = profiles_->UploadBlob(&context, &response);
    v1::UploadBlobRequest request;
    request.mutable_header()->set_digest(digest);
    request.mutable_header()->set_size_bytes(size);
    stream->Write(request);
    for (size_t at = 0; at < bytes.size(); at += 1000) {
      v1::UploadBlobRequest chunk;
      chunk.set_data(bytes.substr(at, 1000));
      if (!stream->Write(chunk)) break;
    }
    stream->WritesDone();
    return stream->Finish();
  }
  int MissingCount(const std::string& digest) {
    grpc::ClientContext context;
    v1::FindMissingBlobsRequest request;
    request.add_digests(digest);
    v1::FindMissingBlobsResponse missing;
    EXPECT_TRUE(profiles_->FindMissingBlobs(&context, request, &missing).ok());
    return missing.digests_size();
  }
  grpc::Status Download(const std::string& path, const std::string& file, int64_t offset,
                        std::string* bytes, std::string* digest) {
    grpc::ClientContext context;
    v1::DownloadProfileRequest request;
    request.set_path(path);
    request.set_file(file);
    request.set_offset(offset);
    const auto stream = profiles_->DownloadProfile(&context, request);
    v1::DownloadChunk chunk;
    while (stream->Read(&chunk)) {
      EXPECT_EQ(chunk.offset(), offset + static_cast<int64_t>(bytes->size()));
      bytes->append(chunk.data());
      *digest = chunk.digest();
    }
    return stream->Finish();
  }
  std::string ReasonOfSummary(const v1::TraceRef& ref) {
    grpc::ClientContext context;
    v1::GetSummaryRequest request;
    *request.mutable_trace() = ref;
    v1::SummaryReport report;
    return ReasonOf(profiles_->GetSummary(&context, request, &report));
  }
  std::string ReasonOfJob(const v1::JobSpec& spec) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = spec;
    v1::Job job;
    return ReasonOf(Create(request, &job));
  }
};

TEST_F(DaemonApiTest, AnUploadedSourceReachesTheWorker) {
  StartDaemon();
  const std::string image(5000, 'x');
  const std::string digest = Sha256Hex(image);
  v1::JobSpec spec = Spec();
  auto* blob = spec.mutable_infer()->mutable_source()->mutable_blobs()->add_blobs();
  blob->set_digest(digest);
  blob->set_name("cat.jpg");
  EXPECT_EQ(ReasonOfJob(spec), "BLOB_NOT_FOUND");
  EXPECT_EQ(MissingCount(digest), 1);
  ASSERT_TRUE(Upload(digest, 5000, image).ok());
  EXPECT_EQ(MissingCount(digest), 0);
  ASSERT_TRUE(Upload(digest, 5000, image).ok()) << "twice does no harm";
  const v1::Job job = WaitForEnd(Submit(spec).id());
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.ShortDebugString();
  EXPECT_TRUE(
      Eventually([&] { return !std::filesystem::exists(Path("store/inputs/" + job.id())); }));
}

TEST_F(DaemonApiTest, AnUploadThatIsNotWhatItSaysLeavesNothing) {
  StartDaemon();
  const std::string bytes(3000, 'x');
  const std::string digest = Sha256Hex(bytes);
  EXPECT_EQ(ReasonOf(Upload(digest, 3000, std::string(3000, 'y'))), "DIGEST_MISMATCH");
  EXPECT_EQ(ReasonOf(Upload(digest, 2000, bytes)), "LIMIT_EXCEEDED");
  EXPECT_EQ(ReasonOf(Upload(digest, 3001, bytes)), "DIGEST_MISMATCH");
  EXPECT_EQ(ReasonOf(Upload(digest, int64_t{1} << 50, bytes)), "LIMIT_EXCEEDED");
  EXPECT_EQ(ReasonOf(Upload("../../etc/passwd", 3000, bytes)), "ARGUMENT_INVALID");
  EXPECT_EQ(MissingCount(digest), 1);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("store/blobs"))) {
    EXPECT_FALSE(entry.is_regular_file()) << entry.path();
  }
}

TEST_F(DaemonApiTest, ADownloadGoesOnFromItsOffset) {
  StartDaemon();
  const v1::Job job = WaitForEnd(Submit().id());
  ASSERT_OK_AND_ASSIGN(const std::string whole,
                       ReadFile(Workspace("runs/profile/infer/profile_trace.json")));
  std::string bytes;
  std::string digest;
  ASSERT_TRUE(Download(job.profile(), "profile_trace.json", 0, &bytes, &digest).ok());
  EXPECT_EQ(bytes, whole);
  EXPECT_EQ(digest, Sha256Hex(whole));
  bytes.clear();
  ASSERT_TRUE(Download(job.profile(), "profile_trace.json", 100, &bytes, &digest).ok());
  EXPECT_EQ(bytes, whole.substr(100));
  EXPECT_EQ(digest, Sha256Hex(whole));
  bytes.clear();
  const auto size = static_cast<int64_t>(whole.size());
  ASSERT_TRUE(Download(job.profile(), "profile_trace.json", size, &bytes, &digest).ok());
  EXPECT_EQ(bytes, "");
  EXPECT_EQ(digest, Sha256Hex(whole)) << "all was there: the digest says that it is right";
  EXPECT_EQ(ReasonOf(Download(job.profile(), "profile_trace.json", size + 1, &bytes, &digest)),
            "ARGUMENT_OUT_OF_RANGE");
  EXPECT_EQ(ReasonOf(Download(job.profile(), "../infer/profile.json", 0, &bytes, &digest)),
            "PATH_REFUSED");
  EXPECT_EQ(ReasonOf(Download(job.profile(), "other.json", 0, &bytes, &digest)),
            "PROFILE_NOT_FOUND");
}

TEST_F(DaemonApiTest, NoPathLeavesTheWorkspace) {
  StartDaemon();
  WaitForEnd(Submit().id());
  ASSERT_OK(WriteFile(Path("secret.json"), "{}"));
  ASSERT_EQ(symlink(Path("secret.json").c_str(), Workspace("link.json").c_str()), 0);
  ASSERT_EQ(symlink(folder_.c_str(), Workspace("out").c_str()), 0);

  for (const char* name : {"../../../secret.json", "/etc/passwd", "runs/../../x.json", "link.json",
                           "out/secret.json"}) {
    v1::TraceRef ref;
    ref.set_name(name);
    EXPECT_EQ(ReasonOfSummary(ref), "PATH_REFUSED") << name;
    v1::JobSpec spec = Spec();
    spec.mutable_infer()->mutable_source()->set_name(name);
    EXPECT_EQ(ReasonOfJob(spec), "PATH_REFUSED") << name;
    spec = Spec();
    spec.mutable_weights()->set_name(name);
    EXPECT_EQ(ReasonOfJob(spec), "PATH_REFUSED") << name;
  }
  v1::TraceRef local;
  local.set_local_path(Path("secret.json"));
  EXPECT_EQ(ReasonOfSummary(local), "PATH_REFUSED");
  v1::JobSpec spec = Spec();
  spec.mutable_weights()->set_local_path(Path("secret.json"));
  EXPECT_EQ(ReasonOfJob(spec), "PATH_REFUSED");
  for (const char* project : {"../up", "/abs", "runs/infer", "history"}) {
    EXPECT_EQ(ReasonOfJob(Spec(project)), "PROJECT_REFUSED") << project;
  }
  EXPECT_EQ(ReasonOfJob(Spec("out/runs")), "PATH_REFUSED");
  spec = Spec();
  spec.set_workspace("../other");
  EXPECT_EQ(ReasonOfJob(spec), "ARGUMENT_INVALID");
}

TEST_F(DaemonApiTest, ARefusedJobSaysWhatIsWrong) {
  StartDaemon();
  v1::JobSpec spec = Spec();
  spec.mutable_weights()->set_name("absent.pt");
  EXPECT_EQ(ReasonOfJob(spec), "WEIGHTS_NOT_FOUND");
  spec = Spec();
  spec.mutable_infer()->mutable_source()->set_name("absent.jpg");
  EXPECT_EQ(ReasonOfJob(spec), "SOURCE_NOT_FOUND");
  spec = Spec();
  spec.mutable_infer()->set_runs(0);
  EXPECT_EQ(ReasonOfJob(spec), "ARGUMENT_OUT_OF_RANGE");
  v1::TraceRef absent;
  absent.set_name("runs/absent/profile.json");
  EXPECT_EQ(ReasonOfSummary(absent), "PROFILE_NOT_FOUND");
}

TEST_F(DaemonApiTest, WorkspacesDoNotMix) {
  StartDaemon();
  v1::JobSpec spec = Spec();
  spec.set_workspace("other");
  const v1::Job job = WaitForEnd(Submit(spec).id());
  ASSERT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.ShortDebugString();
  EXPECT_TRUE(ReadFile(Path("store/workspaces/other/" + job.profile())).ok());
  v1::TraceRef ref;
  ref.set_name(job.profile());
  EXPECT_EQ(ReasonOfSummary(ref), "PROFILE_NOT_FOUND");
  ref.set_workspace("other");
  EXPECT_EQ(ReasonOfSummary(ref), "");
}

TEST_F(DaemonApiTest, TheDeviceSaysWhoHoldsIt) {
  Script("long", Until(Path("go"), "trace own\nfinish\n"));
  StartDaemon();
  const v1::Job job = Submit("runs/long");
  WaitFor(job.id(), v1::JOB_STATE_MEASURING);
  const auto cpu = [&] {
    grpc::ClientContext context;
    v1::ListDevicesResponse devices;
    EXPECT_TRUE(devices_->ListDevices(&context, {}, &devices).ok());
    EXPECT_GE(devices.devices_size(), 1);
    return devices.devices(0);
  };
  EXPECT_EQ(cpu().id(), "cpu");
  EXPECT_THAT(cpu().ShortDebugString(), HasSubstr(job.id()));
  Touch("go");
  WaitForEnd(job.id());
  EXPECT_THAT(cpu().ShortDebugString(), ::testing::Not(HasSubstr(job.id())));
}

TEST_F(DaemonApiTest, TwoDaemonsOfAHostMeasureOneAfterTheOther) {
  Script("long", Until(Path("go"), "trace own\nfinish\n"));
  StartDaemon();
  const v1::Job running = Submit("runs/long");
  WaitFor(running.id(), v1::JOB_STATE_MEASURING);
  DaemonProcess other({"--listen", "unix:" + Path("e.sock"), "--store", Path("other"), "--worker",
                       Path("worker"), "--lock-dir", Path("locks"), "--worker-read",
                       LIBREYOLO_TEST_BIN_DIR "/scripted_worker", "--worker-read",
                       Path("scripts")});
  ASSERT_TRUE(Eventually([&] { return other.Output().find("listening") != std::string::npos; }));
  jobs_ = v1::JobService::NewStub(
      grpc::CreateChannel("unix:" + Path("e.sock"), grpc::InsecureChannelCredentials()));
  const v1::Job waiting = Submit("runs/second");
  EXPECT_EQ(Get(waiting.id()).state(), v1::JOB_STATE_QUEUED);
  EXPECT_THAT(Get(waiting.id()).waiting_for(), HasSubstr("another process on this host"));
  Touch("go");
  EXPECT_EQ(WaitForEnd(waiting.id()).state(), v1::JOB_STATE_SUCCEEDED);
}

// "0", "1" or "?" for each service: the whole server, jobs, profiles, devices, the server itself.
std::string HealthOf(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  std::string out;
  for (const char* service :
       {"", "libreyolo.profile.v1.JobService", "libreyolo.profile.v1.ProfileService",
        "libreyolo.profile.v1.DeviceService", "libreyolo.profile.v1.ServerService"}) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    const grpc::Status status = stub->Check(&context, request, &response);
    out += !status.ok()                                                          ? '?'
           : response.status() == grpc::health::v1::HealthCheckResponse::SERVING ? '1'
                                                                                 : '0';
  }
  return out;
}

TEST_F(DaemonApiTest, HealthIsToldForEachService) {
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return HealthOf(channel_) == "11111"; })) << HealthOf(channel_);

  grpc::health::v1::HealthCheckRequest unknown;
  unknown.set_service("libreyolo.profile.v1.NoService");
  grpc::ClientContext unknown_context;
  grpc::health::v1::HealthCheckResponse response;
  EXPECT_EQ(grpc::health::v1::Health::NewStub(channel_)
                ->Check(&unknown_context, unknown, &response)
                .error_code(),
            grpc::StatusCode::NOT_FOUND);

  // A cordoned server is alive and read from, but no place for jobs; also after a restart.
  grpc::ClientContext cordon;
  v1::SetCordonRequest request;
  request.set_cordoned(true);
  v1::Capabilities capabilities;
  ASSERT_TRUE(server_->SetCordon(&cordon, request, &capabilities).ok());
  EXPECT_EQ(HealthOf(channel_), "10111");
  KillDaemon();
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return HealthOf(channel_) == "10111"; })) << HealthOf(channel_);
  grpc::ClientContext uncordon;
  request.set_cordoned(false);
  ASSERT_TRUE(server_->SetCordon(&uncordon, request, &capabilities).ok());
  EXPECT_EQ(HealthOf(channel_), "11111");

  // A store that cannot be written to takes no jobs, until it can.
  std::filesystem::rename(Path("store"), Path("away"));
  ASSERT_TRUE(Eventually([&] { return HealthOf(channel_) == "10111"; })) << HealthOf(channel_);
  EXPECT_THAT(daemon_->Output(), HasSubstr("store not writable"));
  std::filesystem::rename(Path("away"), Path("store"));
  ASSERT_TRUE(Eventually([&] { return HealthOf(channel_) == "11111"; })) << HealthOf(channel_);
  EXPECT_THAT(daemon_->Output(), HasSubstr("store writable again"));

  // Draining, with a job that holds it up: nothing is to be sent here.
  Script("held", Until(Path("go"), "trace own\nfinish\n"));
  const v1::Job job = Submit("runs/held");
  WaitFor(job.id(), v1::JOB_STATE_MEASURING);
  daemon_->Signal(SIGTERM);
  ASSERT_TRUE(Eventually([&] { return HealthOf(channel_) == "00000"; })) << HealthOf(channel_);
  Touch("go");
  EXPECT_EQ(daemon_->Wait(), 0);
}

TEST_F(DaemonApiTest, EveryCallHasARequestId) {
  StartDaemon();
  std::set<std::string> ids;
  const auto note = [&](const grpc::ClientContext& context) {
    const auto& trailing = context.GetServerTrailingMetadata();
    ASSERT_EQ(trailing.count("x-libreyolo-request-id"), 1u);
    const auto id = trailing.find("x-libreyolo-request-id")->second;
    ids.emplace(id.data(), id.size());
  };
  grpc::ClientContext good;
  // What a caller claims to be its id counts for nothing.
  good.AddMetadata("x-libreyolo-request-id", "forged");
  v1::Capabilities capabilities;
  ASSERT_TRUE(server_->GetCapabilities(&good, {}, &capabilities).ok());
  note(good);

  grpc::ClientContext bad;
  v1::GetJobRequest request;
  request.set_id("no-such-job");
  v1::Job job;
  const grpc::Status refused = jobs_->GetJob(&bad, request, &job);
  note(bad);
  EXPECT_EQ(ReasonOf(refused), "JOB_NOT_FOUND");
  const ErrorDetail detail = GetErrorDetail(rpc::FromGrpcStatus(refused));
  ASSERT_FALSE(detail.metadata.empty());
  EXPECT_EQ(detail.metadata.back().first, "request_id");
  EXPECT_EQ(ids.count(detail.metadata.back().second), 1u);

  grpc::ClientContext stream_context;
  v1::WatchJobRequest watch;
  watch.set_id("no-such-job");
  const auto stream = jobs_->WatchJob(&stream_context, watch);
  v1::JobEvent event;
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_EQ(ReasonOf(stream->Finish()), "JOB_NOT_FOUND");
  note(stream_context);

  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids.count("forged"), 0u);
}

TEST_F(DaemonApiTest, CapabilitiesAndReflectionAnswer) {
  StartDaemon();
  grpc::ClientContext context;
  v1::Capabilities capabilities;
  ASSERT_TRUE(server_->GetCapabilities(&context, {}, &capabilities).ok());
  EXPECT_EQ(capabilities.version(), Version());
  EXPECT_EQ(capabilities.build_id(), BuildId());
  EXPECT_EQ(capabilities.pid(), daemon_->pid());
  EXPECT_FALSE(capabilities.local());
  EXPECT_TRUE(capabilities.worker_available());
  EXPECT_EQ(context.GetServerInitialMetadata().count("x-libreyolo-build"), 1u);

  // This gRPC ships no messages of the reflection service: field 7 (list_services) by hand.
  grpc::ClientContext reflection_context;
  const grpc::internal::RpcMethod method(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      grpc::internal::RpcMethod::BIDI_STREAMING);
  const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
          channel_.get(), method, &reflection_context));
  const grpc::Slice list(std::string("\x3a\x01*", 3));
  ASSERT_TRUE(stream->Write(grpc::ByteBuffer(&list, 1)));
  stream->WritesDone();
  grpc::ByteBuffer answer;
  ASSERT_TRUE(stream->Read(&answer));
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(answer.Dump(&slices).ok());
  std::string names;
  for (const grpc::Slice& slice : slices)
    names.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  for (const char* service : {"JobService", "ProfileService", "DeviceService", "ServerService"})
    EXPECT_THAT(names, HasSubstr(absl::StrCat("libreyolo.profile.v1.", service)));
  EXPECT_THAT(names, HasSubstr("grpc.health.v1.Health"));
}

TEST_F(DaemonApiTest, ALocalDaemonEndsWhenIdleAndServesItsFolder) {
  std::filesystem::create_directories(Path("work"));
  daemon_ = std::make_unique<DaemonProcess>(std::vector<std::string>{
      "--local", "--listen", address(), "--workspace", Path("work"), "--state", Path("state"),
      "--worker", Path("worker"), "--worker-read", LIBREYOLO_TEST_BIN_DIR "/scripted_worker",
      "--worker-read", Path("scripts"), "--lock-dir", Path("locks"), "--idle-timeout", "2"});
  // A channel that found no socket would try again only later than the daemon waits.
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(Path("d.sock")); }));
  channel_ = grpc::CreateChannel(address(), grpc::InsecureChannelCredentials());
  jobs_ = v1::JobService::NewStub(channel_);
  const v1::Job job = WaitForEnd(Submit().id());
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(ReadFile(Path("work/" + job.profile())).ok());
  EXPECT_EQ(daemon_->Wait(), 0);
  EXPECT_THAT(ReadFile(Path("state/daemon.log")).value_or(""), HasSubstr("ending: idle"));
  daemon_.reset();
}

}  // namespace
}  // namespace libreyolo::testing
