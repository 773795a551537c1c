// The commands against a server of the test's own: what they ask for, print and exit with.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/cli.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/json/json_value.h"
#include "common/rpc/status_convert.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Answers with what the test put in, and keeps what it was asked.
class FakeServer : public v1::JobService::Service,
                   public v1::ProfileService::Service,
                   public v1::DeviceService::Service {
 public:
  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request,
                         v1::Job* job) override {
    created = *request;
    if (!create_error.ok()) return rpc::ToGrpcStatus(create_error);
    job->set_id("j1");
    job->set_state(v1::JOB_STATE_QUEUED);
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    int64_t sequence = 0;
    for (const v1::Job& job : events) {
      v1::JobEvent event;
      event.set_sequence(++sequence);
      *event.mutable_job() = job;
      writer->Write(event);
    }
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* job) override {
    if (events.empty()) {
      return rpc::ToGrpcStatus(
          MakeError(reason::kJobNotFound, absl::StrCat("no job ", request->id())));
    }
    *job = events.back();
    return grpc::Status::OK;
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    const int page = request->page_token().empty() ? 0 : 1;
    for (int i = 0; i < 2; ++i) {
      v1::Job& job = *response->add_jobs();
      job.set_id(absl::StrCat("j", page * 2 + i));
      job.set_state(v1::JOB_STATE_QUEUED);
      job.mutable_spec()->mutable_infer();
      job.mutable_spec()->set_device("cpu");
    }
    if (page == 0) response->set_next_page_token("more");
    return grpc::Status::OK;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::Job* job) override {
    cancelled = request->id();
    *job = events.front();
    return grpc::Status::OK;
  }
  grpc::Status GetJobLog(grpc::ServerContext*, const v1::GetJobLogRequest*,
                         v1::GetJobLogResponse* response) override {
    response->set_text("last words");
    return grpc::Status::OK;
  }

  grpc::Status GetSummary(grpc::ServerContext*, const v1::GetSummaryRequest* request,
                          v1::SummaryReport* report) override {
    traces.push_back(request->trace());
    if (request->trace().has_name() && missing.count(request->trace().name()) > 0) {
      return rpc::ToGrpcStatus(MakeError(reason::kProfileNotFound, "not on the server"));
    }
    *report = summary;
    return grpc::Status::OK;
  }
  grpc::Status GetMetric(grpc::ServerContext*, const v1::GetMetricRequest* request,
                         v1::GetMetricResponse* response) override {
    traces.push_back(request->trace());
    if (request->trace().has_name() && missing.count(request->trace().name()) > 0) {
      return rpc::ToGrpcStatus(MakeError(reason::kProfileNotFound, "not on the server"));
    }
    if (request->field().empty()) {
      response->add_names("bound");
      response->add_names("img_per_s");
    } else if (request->field() == "img_per_s") {
      response->mutable_value()->set_double_value(160);
    } else {
      return rpc::ToGrpcStatus(MakeError(reason::kUnknownMetric, "no such metric", {"list them"}));
    }
    return grpc::Status::OK;
  }
  grpc::Status GetKernels(grpc::ServerContext*, const v1::GetKernelsRequest* request,
                          v1::KernelsReport* report) override {
    kernels_request = *request;
    report->set_trace("stored_trace.json");
    report->set_matched(3);
    const bool first = request->page_token().empty();
    for (int i = 0; i < (first ? 2 : 1); ++i) {
      v1::KernelRow& row = *report->add_rows();
      row.set_label(absl::StrCat(first ? "first" : "second", i));
      row.set_category("other");
      row.set_count_per_step(1);
    }
    if (first) report->set_next_page_token("2");
    return grpc::Status::OK;
  }
  grpc::Status Compare(grpc::ServerContext*, const v1::CompareRequest* request,
                       v1::CompareReport* report) override {
    compare_request = *request;
    for (const v1::TraceRef& ref : {request->before(), request->after()}) {
      if (ref.has_name() && missing.count(ref.name()) > 0) {
        return rpc::ToGrpcStatus(MakeError(reason::kProfileNotFound, "one is not there"));
      }
    }
    report->add_lines("img/s          1.0 -> 2.0");
    report->set_condition_met(!request->fail_on().empty());
    report->set_condition("img_per_s fell");
    report->set_document_json("{\"before\": 1}");
    return grpc::Status::OK;
  }
  grpc::Status FindMissingBlobs(grpc::ServerContext*, const v1::FindMissingBlobsRequest* request,
                                v1::FindMissingBlobsResponse* response) override {
    *response->mutable_digests() = request->digests();
    return grpc::Status::OK;
  }
  grpc::Status UploadBlob(grpc::ServerContext*, grpc::ServerReader<v1::UploadBlobRequest>* reader,
                          v1::UploadBlobResponse* response) override {
    v1::UploadBlobRequest request;
    while (reader->Read(&request)) {
      if (request.has_header()) response->set_digest(request.header().digest());
      uploaded += request.data();
    }
    return grpc::Status::OK;
  }
  grpc::Status ListDevices(grpc::ServerContext*, const v1::ListDevicesRequest*,
                           v1::ListDevicesResponse* response) override {
    v1::Device& device = *response->add_devices();
    device.set_id("cpu");
    device.set_usable(true);
    device.set_cpu_count(2);
    response->set_cuda_unusable_reason("no driver");
    return grpc::Status::OK;
  }

  v1::CreateJobRequest created;
  absl::Status create_error;
  std::vector<v1::Job> events;
  std::string cancelled;
  v1::SummaryReport summary;
  std::vector<v1::TraceRef> traces;
  std::set<std::string> missing;
  v1::GetKernelsRequest kernels_request;
  v1::CompareRequest compare_request;
  std::string uploaded;
};

class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(static_cast<v1::JobService::Service*>(&fake_));
    builder.RegisterService(static_cast<v1::ProfileService::Service*>(&fake_));
    builder.RegisterService(static_cast<v1::DeviceService::Service*>(&fake_));
    server_ = builder.BuildAndStart();
    // A folder of its own: what a word names here must not depend on where the test is started.
    char folder[] = "/tmp/ly-commands-XXXXXX";
    folder_ = mkdtemp(folder);
    std::filesystem::current_path(folder_);
    fake_.summary.set_model("LibreYOLO9t.pt");
    fake_.summary.set_bound("compute");
    fake_.summary.set_bound_reason("forward dominates");
    fake_.summary.set_img_per_s(50);
    fake_.summary.set_step_ms(20);
    fake_.summary.mutable_latency()->set_p50_ms(20);
    fake_.summary.set_validity("VALID");
    fake_.summary.set_document_json("{\n  \"trace\": null\n}");
  }
  ~CommandsTest() override {
    std::filesystem::current_path("/");
    std::filesystem::remove_all(folder_);
  }

  int Run(const std::vector<std::string>& args) {
    out_.str("");
    err_.str("");
    const Streams streams{out_, err_};
    const Deps deps{[this](const ServerOptions&, NeedDaemon need) -> absl::StatusOr<Server> {
                      need_ = need;
                      LY_RETURN_IF_ERROR(connect_error_);
                      Server server;
                      server.channel = server_->InProcessChannel(grpc::ChannelArguments());
                      server.local = local_;
                      server.address = "box:7430";
                      return server;
                    },
                    [this](const char* name) -> std::optional<std::string> {
                      const auto it = env_.find(name);
                      if (it == env_.end()) return std::nullopt;
                      return it->second;
                    },
                    clock_};
    return RunCli(args, streams, deps);
  }

  void JobEndsWith(v1::JobState state) {
    v1::Job job;
    job.set_id("j1");
    job.set_state(v1::JOB_STATE_MEASURING);
    fake_.events.push_back(job);
    job.set_state(state);
    if (state == v1::JOB_STATE_SUCCEEDED) {
      job.set_profile("runs/profile/infer/profile.json");
      job.set_trace("runs/profile/infer/profile_trace.json");
      job.add_notes("history holds 6 GiB");
    }
    fake_.events.push_back(job);
  }

  FakeServer fake_;
  std::unique_ptr<grpc::Server> server_;
  std::string folder_;
  std::ostringstream out_;
  std::ostringstream err_;
  std::map<std::string, std::string> env_;
  SystemClock clock_;
  absl::Status connect_error_;
  NeedDaemon need_ = NeedDaemon::kAny;
  bool local_ = true;
};

TEST_F(CommandsTest, InferSendsOnlyWhatWasTyped) {
  JobEndsWith(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Run({"profile", "infer", "--device", "cpu", "--runs", "20", "--no-trace"}), 0);
  const v1::JobSpec& spec = fake_.created.spec();
  EXPECT_EQ(spec.device(), "cpu");
  EXPECT_EQ(spec.infer().runs(), 20);
  EXPECT_TRUE(spec.infer().has_trace());
  EXPECT_FALSE(spec.infer().trace());
  EXPECT_FALSE(spec.has_batch());
  EXPECT_FALSE(spec.has_size());
  EXPECT_FALSE(spec.has_weights());
  EXPECT_FALSE(spec.infer().has_source());
  EXPECT_FALSE(spec.infer().has_half());
  EXPECT_FALSE(spec.has_threads());
  EXPECT_FALSE(fake_.created.request_id().empty());
  EXPECT_EQ(need_, NeedDaemon::kSameBuild);
}

TEST_F(CommandsTest, InferPrintsTheResultAndProgressApart) {
  JobEndsWith(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Run({"profile", "infer"}), 0);
  EXPECT_EQ(out_.str(),
            "latency  p50 20.0 ms | p90 0.0 ms | p99 0.0 ms  |  50.0 img/s\n"
            "stages   \n"
            ">> COMPUTE: forward dominates\n"
            "profile: runs/profile/infer/profile.json\n"
            "next:    libreyolo profile summary runs/profile/infer/profile.json\n");
  EXPECT_EQ(err_.str(), "measuring\nnote: history holds 6 GiB\n");
  EXPECT_EQ(fake_.traces.at(0).name(), "runs/profile/infer/profile.json");
}

TEST_F(CommandsTest, InferJsonKeepsStderrEmpty) {
  JobEndsWith(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Run({"profile", "infer", "--json"}), 0);
  ASSERT_OK_AND_ASSIGN(const JsonValue json, ParseJson(out_.str()));
  EXPECT_EQ(json.Find("job")->string_value(), "j1");
  EXPECT_EQ(json.Find("trace")->string_value(), "runs/profile/infer/profile_trace.json");
  EXPECT_THAT(err_.str(), IsEmpty());
}

TEST_F(CommandsTest, TheClientsEnvironmentGoesWithTheJob) {
  JobEndsWith(v1::JOB_STATE_SUCCEEDED);
  env_ = {{"OMP_NUM_THREADS", "3,1"}, {"CUDA_VISIBLE_DEVICES", "1"}};
  EXPECT_EQ(Run({"profile", "infer"}), 0);
  EXPECT_EQ(fake_.created.spec().threads(), 3);
  EXPECT_EQ(fake_.created.spec().cuda_visible_devices(), "1");
  EXPECT_EQ(Run({"profile", "infer", "--threads", "2"}), 0);
  EXPECT_EQ(fake_.created.spec().threads(), 2);
  env_["CUDA_VISIBLE_DEVICES"] = "";
  EXPECT_EQ(Run({"profile", "infer"}), 0);
  EXPECT_EQ(fake_.created.spec().cuda_visible_devices(), "-1");
  local_ = false;
  env_["OMP_NUM_THREADS"] = "many";
  EXPECT_EQ(Run({"profile", "infer"}), 0);
  EXPECT_EQ(fake_.created.spec().cuda_visible_devices(), "");
  EXPECT_FALSE(fake_.created.spec().has_threads());
}

TEST_F(CommandsTest, DetachPrintsTheIdAlone) {
  EXPECT_EQ(Run({"profile", "infer", "--detach"}), 0);
  EXPECT_EQ(out_.str(), "j1\n");
  EXPECT_THAT(err_.str(), IsEmpty());
  EXPECT_EQ(Run({"profile", "infer", "--detach", "--json"}), 0);
  EXPECT_EQ(out_.str(), "{\n  \"job\": \"j1\"\n}\n");
}

TEST_F(CommandsTest, AFailedJobExitsByItsReason) {
  JobEndsWith(v1::JOB_STATE_FAILED);
  v1::Error& error = *fake_.events.back().mutable_error();
  error.set_reason("WEIGHTS_UNREADABLE");
  error.set_message("bad.pt holds no tensors");
  error.add_hints("--weights random");
  EXPECT_EQ(Run({"profile", "infer"}), 2);
  EXPECT_THAT(out_.str(), IsEmpty());
  EXPECT_EQ(err_.str(), "measuring\nerror: bad.pt holds no tensors\nhint:  --weights random\n");
  error.set_reason("WINDOW_NOT_FILLED");
  EXPECT_EQ(Run({"profile", "infer", "--json"}), 3);
  EXPECT_THAT(out_.str(), IsEmpty());
  EXPECT_EQ(err_.str(),
            "{\"reason\": \"WINDOW_NOT_FILLED\", \"message\": \"bad.pt holds no tensors\", "
            "\"hints\": [\"--weights random\"]}\n");
}

TEST_F(CommandsTest, AJobThatSomebodyElseCancelledIsNoProfile) {
  JobEndsWith(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Run({"profile", "infer"}), 3);
  EXPECT_THAT(err_.str(), HasSubstr("error: job j1 was cancelled"));
}

TEST_F(CommandsTest, RefusedJobsExitByTheirReason) {
  fake_.create_error = MakeError(reason::kUnimplemented, "training is not there yet");
  EXPECT_EQ(Run({"profile", "run", "coco128"}), 3);
  EXPECT_THAT(err_.str(), HasSubstr("error: training is not there yet"));
  EXPECT_EQ(fake_.created.spec().train().data().name(), "coco128");
  fake_.create_error = MakeError(reason::kQueueFull, "64 jobs wait");
  EXPECT_EQ(Run({"profile", "infer"}), 5);
}

TEST_F(CommandsTest, NoServerIsExitFour) {
  connect_error_ = MakeError(reason::kServerUnreachable, "nobody listens", {"start it"});
  EXPECT_EQ(Run({"profile", "summary", "p", "--json"}), 4);
  EXPECT_THAT(out_.str(), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const JsonValue json, ParseJson(err_.str()));
  EXPECT_EQ(json.Find("reason")->string_value(), "SERVER_UNREACHABLE");
}

TEST_F(CommandsTest, UsageErrorsAreJsonUnderJson) {
  EXPECT_EQ(Run({"profile", "infer", "weights=LibreYOLO9t.pt", "--json"}), 2);
  EXPECT_THAT(out_.str(), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const JsonValue json, ParseJson(err_.str()));
  EXPECT_EQ(json.Find("reason")->string_value(), "ARGUMENT_INVALID");
  EXPECT_THAT(json.Find("hints")->ToCompact(), HasSubstr("--weights LibreYOLO9t.pt"));
}

TEST_F(CommandsTest, BareProfileListsTheSubcommandsOnStdout) {
  EXPECT_EQ(Run({"profile"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("what-if"));
  EXPECT_THAT(err_.str(), IsEmpty());
}

TEST_F(CommandsTest, ReadersPrintTheDocumentWhole) {
  EXPECT_EQ(Run({"profile", "summary", "p.json", "--json"}), 0);
  EXPECT_EQ(out_.str(), "{\n  \"trace\": null\n}\n");
  EXPECT_EQ(fake_.traces.back().name(), "p.json");
  EXPECT_EQ(fake_.traces.back().typed(), "p.json");
  EXPECT_EQ(need_, NeedDaemon::kAny);
  EXPECT_EQ(Run({"profile", "summary", "p.json", "--window", "2:8"}), 0);
  EXPECT_EQ(fake_.traces.back().window(), "2:8");
}

TEST_F(CommandsTest, GetPrintsTheValueAndNothingElse) {
  EXPECT_EQ(Run({"profile", "get", "p", "img_per_s"}), 0);
  EXPECT_EQ(out_.str(), "160.0\n");
  EXPECT_EQ(Run({"profile", "get", "p", "img_per_s", "--json"}), 0);
  EXPECT_EQ(out_.str(), "{\"img_per_s\": 160.0}\n");
  EXPECT_EQ(Run({"profile", "get", "p", ""}), 0);
  EXPECT_EQ(out_.str(), "available metrics:\n  bound\n  img_per_s\n");
  EXPECT_EQ(Run({"profile", "get", "p", "--json"}), 0);
  EXPECT_EQ(out_.str(), "[\"bound\", \"img_per_s\"]\n");
  EXPECT_EQ(Run({"profile", "get", "p", "fps"}), 2);
  EXPECT_EQ(err_.str(), "error: no such metric\nhint:  list them\n");
}

TEST_F(CommandsTest, KernelsGatherAllPagesAndCheckTheirOwnFlags) {
  EXPECT_EQ(Run({"profile", "kernels", "p", "--json", "--top", "0", "--sort", "name",
                 "--tensorcore", "--category", "gemm"}),
            0);
  ASSERT_OK_AND_ASSIGN(const JsonValue json, ParseJson(out_.str()));
  EXPECT_EQ(json.Find("trace")->string_value(), "stored_trace.json");
  EXPECT_EQ(json.Find("matched")->int_value(), 3);
  std::vector<std::string> names;
  for (const JsonValue& row : json.Find("kernels")->array()) {
    names.push_back(row.Find("kernel")->string_value());
  }
  EXPECT_THAT(names, ElementsAre("first0", "first1", "second0"));
  EXPECT_EQ(fake_.kernels_request.sort(), "name");
  EXPECT_TRUE(fake_.kernels_request.tensor_core_only());
  EXPECT_EQ(Run({"profile", "kernels", "p", "--top", "-1"}), 2);
  EXPECT_EQ(Run({"profile", "ops", "p", "--top", "-1"}), 2);
  EXPECT_EQ(Run({"profile", "kernels", "p", "--sort", "bogus"}), 2);
}

TEST_F(CommandsTest, CompareExitsTenWhenItsConditionHolds) {
  EXPECT_EQ(Run({"profile", "compare", "a", "b"}), 0);
  EXPECT_EQ(out_.str(), "img/s          1.0 -> 2.0\n");
  EXPECT_EQ(Run({"profile", "compare", "a", "b", "--fail-on", "img_per_s<-5%", "--force"}), 10);
  EXPECT_TRUE(fake_.compare_request.force());
  EXPECT_THAT(err_.str(), HasSubstr("img_per_s fell"));
  EXPECT_EQ(Run({"profile", "compare", "a", "b", "--fail-on", "x<1", "--json"}), 10);
  EXPECT_THAT(err_.str(), IsEmpty());
}

TEST_F(CommandsTest, WhatIfNeedsAChange) {
  EXPECT_EQ(Run({"profile", "what-if", "p"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--remove-category"));
  EXPECT_EQ(Run({"profile", "what-if", "p", "--remove-category", ""}), 2);
}

TEST_F(CommandsTest, ARemoteServersFileComesFirstThenOnesOwn) {
  local_ = false;
  ASSERT_OK(WriteFile("p.json", "{\"own\": 1}"));
  EXPECT_EQ(Run({"profile", "summary", "p.json"}), 0);
  EXPECT_THAT(err_.str(), HasSubstr("note: read p.json of the server box:7430"));
  EXPECT_EQ(Run({"profile", "summary", "p.json", "--json"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("\"source\": \"server\""));
  EXPECT_THAT(err_.str(), IsEmpty());
  fake_.missing = {"p.json", "q.json"};
  EXPECT_EQ(Run({"profile", "summary", "p.json"}), 0);
  EXPECT_EQ(fake_.uploaded, "{\"own\": 1}");
  EXPECT_TRUE(fake_.traces.back().has_blob_digest());
  EXPECT_THAT(err_.str(), IsEmpty());
  EXPECT_EQ(Run({"profile", "summary", "q.json"}), 2);
  EXPECT_EQ(err_.str(), "error: not on the server\n");
}

TEST_F(CommandsTest, CompareFindsEachOfItsTwoWords) {
  local_ = false;
  ASSERT_OK(WriteFile("own.json", "{}"));
  fake_.missing = {"own.json", "none.json"};
  EXPECT_EQ(Run({"profile", "compare", "stored.json", "own.json"}), 0);
  EXPECT_EQ(fake_.compare_request.before().name(), "stored.json");
  EXPECT_TRUE(fake_.compare_request.after().has_blob_digest());
  EXPECT_EQ(Run({"profile", "compare", "stored.json", "none.json"}), 2);
}

TEST_F(CommandsTest, JobsAreListedOverPagesShownAndCancelled) {
  EXPECT_EQ(Run({"jobs", "list", "--json"}), 0);
  ASSERT_OK_AND_ASSIGN(const JsonValue json, ParseJson(out_.str()));
  EXPECT_EQ(json.Find("jobs")->array().size(), 4u);
  EXPECT_EQ(Run({"jobs", "list", "--top", "3", "--json"}), 0);
  ASSERT_OK_AND_ASSIGN(const JsonValue three, ParseJson(out_.str()));
  EXPECT_EQ(three.Find("jobs")->array().size(), 3u);
  EXPECT_EQ(Run({"jobs", "show", "j9"}), 2);
  JobEndsWith(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Run({"jobs", "cancel", "j1"}), 0);
  EXPECT_EQ(fake_.cancelled, "j1");
  EXPECT_EQ(out_.str(), "j1 CANCELLED\n");
  EXPECT_EQ(Run({"jobs", "show", "j1"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("state:    CANCELLED\n"));
  EXPECT_EQ(Run({"jobs", "watch", "j1"}), 3);
  EXPECT_EQ(Run({"jobs", "logs", "j1"}), 0);
  EXPECT_EQ(out_.str(), "last words\n");
}

TEST_F(CommandsTest, DevicesSayWhoHoldsThemAndWhyThereIsNoGpu) {
  EXPECT_EQ(Run({"devices"}), 0);
  EXPECT_EQ(out_.str(),
            "device  state  memory  cpus  description\ncpu     free              2\n"
            "no GPU: no driver\n");
}

TEST_F(CommandsTest, DaemonCommandsAreForTheLocalOneOnly) {
  EXPECT_EQ(Run({"daemon", "status", "--server", "box"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("local daemon"));
}

}  // namespace
}  // namespace libreyolo::client
