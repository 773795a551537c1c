// The life of a job, through the shipped daemon's API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/json/json_value.h"
#include "tests/integration/daemon_fixture.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The states of `events`, each once.
std::vector<std::string> StatesOf(const std::vector<v1::JobEvent>& events) {
  std::vector<std::string> states;
  for (const v1::JobEvent& event : events) {
    const std::string name = v1::JobState_Name(event.job().state()).substr(10);
    if (states.empty() || states.back() != name) states.push_back(name);
  }
  return states;
}

// The member `job` of a profile file; empty when there is no such file.
std::string JobIn(const std::string& path) {
  const auto text = ReadFile(path);
  if (!text.ok()) return "";
  const auto json = ParseJson(*text);
  const JsonValue* job = json.ok() ? json->Find("job") : nullptr;
  return job == nullptr ? "" : job->string_value();
}

TEST_F(DaemonTest, AJobGoesThroughItsStatesAndLeavesAProfile) {
  StartDaemon();
  const v1::Job job = Submit();
  EXPECT_EQ(job.trial_count(), 1);
  const auto events = Watch(job.id(), 0);
  EXPECT_THAT(StatesOf(events), ElementsAre("QUEUED", "STARTING", "WARMING_UP", "MEASURING",
                                            "ANALYZING", "SUCCEEDED"));
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_GT(events[i].sequence(), events[i - 1].sequence());
  }
  const v1::Job end = events.back().job();
  EXPECT_EQ(end.profile(), "runs/profile/infer/profile.json");
  EXPECT_EQ(end.trace(), "runs/profile/infer/profile_trace.json");
  EXPECT_TRUE(end.has_start_time() && end.has_end_time());
  EXPECT_EQ(JobIn(Workspace(end.profile())), job.id());
  EXPECT_TRUE(ReadFile(Workspace("runs/profile/infer/profile_summary.json")).ok());
  EXPECT_FALSE(ReadFile(Workspace("runs/profile/.staging")).ok());

  grpc::ClientContext summary_context;
  v1::GetSummaryRequest summary;
  summary.mutable_trace()->set_name(end.profile());
  v1::SummaryReport report;
  EXPECT_TRUE(profiles_->GetSummary(&summary_context, summary, &report).ok());

  grpc::ClientContext metric_context;
  v1::GetMetricRequest metric;
  metric.mutable_trace()->set_name(job.id());
  metric.set_field("img_per_s");
  v1::GetMetricResponse value;
  const grpc::Status status = profiles_->GetMetric(&metric_context, metric, &value);
  EXPECT_TRUE(status.ok()) << status.error_message();

  grpc::ClientContext list_context;
  v1::ListProfilesResponse profiles;
  EXPECT_TRUE(profiles_->ListProfiles(&list_context, {}, &profiles).ok());
  ASSERT_EQ(profiles.profiles_size(), 1);
  EXPECT_EQ(profiles.profiles(0).job(), job.id());
}

TEST_F(DaemonTest, AWatcherReattachesWhereItWas) {
  StartDaemon();
  const v1::Job job = Submit();
  const auto all = Watch(job.id(), 0);
  ASSERT_GE(all.size(), 6u);
  const auto rest = Watch(job.id(), all[1].sequence());
  EXPECT_THAT(StatesOf(rest), ElementsAre("WARMING_UP", "MEASURING", "ANALYZING", "SUCCEEDED"));
  EXPECT_GT(rest.front().sequence(), all[1].sequence());
  // Nothing new since: the newest event all the same.
  const auto last = Watch(job.id(), all.back().sequence());
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].sequence(), all.back().sequence());
}

TEST_F(DaemonTest, TheSameRequestGivesTheSameJob) {
  StartDaemon();
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec();
  request.set_request_id("r-1");
  v1::Job first;
  v1::Job second;
  ASSERT_TRUE(Create(request, &first).ok());
  ASSERT_TRUE(Create(request, &second).ok());
  EXPECT_EQ(first.id(), second.id());
  request.mutable_spec()->mutable_infer()->set_runs(6);
  const grpc::Status other = Create(request, &second);
  EXPECT_EQ(other.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ReasonOf(other), "REQUEST_ID_REUSED");
  WaitForEnd(first.id());
  request.mutable_spec()->mutable_infer()->set_runs(5);
  ASSERT_TRUE(Create(request, &second).ok());
  EXPECT_EQ(first.id(), second.id()) << "also after its end";
}

TEST_F(DaemonTest, ValidateOnlyMakesNoJob) {
  StartDaemon();
  v1::CreateJobRequest request;
  *request.mutable_spec() = Spec();
  request.set_validate_only(true);
  v1::Job job;
  ASSERT_TRUE(Create(request, &job).ok());
  EXPECT_THAT(job.id(), IsEmpty());
  grpc::ClientContext context;
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(jobs_->ListJobs(&context, {}, &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 0);
}

TEST_F(DaemonTest, AQueuedJobSaysWhatItWaitsForAndCanBeCancelled) {
  Script("long", Until(Path("go"), "trace own\nfinish\n"));
  StartDaemon();
  const v1::Job running = Submit("runs/long");
  WaitFor(running.id(), v1::JOB_STATE_MEASURING);
  const v1::Job second = Submit("runs/b");
  const v1::Job third = Submit("runs/c");
  EXPECT_EQ(Get(second.id()).queue_position(), 0);
  EXPECT_THAT(Get(second.id()).waiting_for(), HasSubstr(running.id()));
  EXPECT_EQ(Get(third.id()).queue_position(), 1);
  EXPECT_THAT(Get(third.id()).waiting_for(), HasSubstr("1 job is ahead"));

  Cancel(second.id());
  const v1::Job end = WaitForEnd(second.id());
  EXPECT_EQ(end.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(end.error().reason(), "CANCELLED");
  EXPECT_FALSE(end.has_start_time());
  Touch("go");
  EXPECT_EQ(WaitForEnd(running.id()).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(WaitForEnd(third.id()).state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(DaemonTest, CancelLetsAWorkerEndByItself) {
  Script("long", Until(Path("never"), ""));
  StartDaemon();
  const v1::Job job = Submit("runs/long");
  WaitFor(job.id(), v1::JOB_STATE_MEASURING);
  Cancel(job.id());
  EXPECT_EQ(WaitForEnd(job.id()).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Cancel(job.id()).state(), v1::JOB_STATE_CANCELLED) << "a terminal job stays as it is";
  ExpectGoodJobRuns();
}

TEST_F(DaemonTest, CancelEndsTheWholeProcessGroupBeforeTheJobIsCancelled) {
  Script("stubborn", absl::StrCat("hello\nobey no\nchild ", WorkersPath("child"),
                                  "\nstage measuring\nwait-file ", Path("never"), "\n"));
  StartDaemon();
  const v1::Job job = Submit("runs/stubborn");
  WaitFor(job.id(), v1::JOB_STATE_MEASURING);
  ASSERT_OK_AND_ASSIGN(const std::string child, ReadFile(WorkersPath("child")));
  ASSERT_TRUE(ProcessLives(std::stoi(child)));
  Cancel(job.id());
  EXPECT_EQ(WaitForEnd(job.id()).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_FALSE(ProcessLives(std::stoi(child)));
  ExpectGoodJobRuns();
}

TEST_F(DaemonTest, AnOrphanOfAGoodWorkerIsGoneBeforeTheNextJob) {
  Script("leaver", absl::StrCat("hello\nchild ", WorkersPath("child"),
                                "\nstage measuring\ntrace own\nfinish\n"));
  StartDaemon();
  EXPECT_EQ(WaitForEnd(Submit("runs/leaver").id()).state(), v1::JOB_STATE_SUCCEEDED);
  ASSERT_OK_AND_ASSIGN(const std::string child, ReadFile(WorkersPath("child")));
  EXPECT_FALSE(ProcessLives(std::stoi(child)));
  ExpectGoodJobRuns();
}

TEST_F(DaemonTest, AReplacedResultStandsInTheHistoryUnderItsJob) {
  StartDaemon();
  const v1::Job first = WaitForEnd(Submit().id());
  const v1::Job second = WaitForEnd(Submit().id());
  EXPECT_EQ(JobIn(Workspace("runs/profile/infer/profile.json")), second.id());
  EXPECT_EQ(
      JobIn(Workspace(absl::StrCat("runs/profile/history/", first.id(), "/infer/profile.json"))),
      first.id());
  // By its job's id the old one still is readable.
  for (const v1::Job& job : {first, second}) {
    grpc::ClientContext context;
    v1::GetProfileRequest request;
    request.set_name(job.id());
    v1::ProfileInfo info;
    const grpc::Status status = profiles_->GetProfile(&context, request, &info);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(info.job(), job.id());
  }
}

TEST_F(DaemonTest, ARepeatHasAFolderATrialAndReplacesALongerOneWhole) {
  StartDaemon();
  v1::JobSpec spec = Spec();
  spec.set_repeat(3);
  const auto events = Watch(Submit(spec).id(), 0);
  const v1::Job three = events.back().job();
  ASSERT_EQ(three.state(), v1::JOB_STATE_SUCCEEDED) << three.ShortDebugString();
  EXPECT_THAT(StatesOf(events),
              ElementsAre("QUEUED", "STARTING", "WARMING_UP", "MEASURING", "ANALYZING", "STARTING",
                          "WARMING_UP", "MEASURING", "ANALYZING", "STARTING", "WARMING_UP",
                          "MEASURING", "ANALYZING", "SUCCEEDED"));
  EXPECT_EQ(three.trial_count(), 3);
  EXPECT_EQ(three.profile(), "runs/profile/infer_repeat.json");
  EXPECT_EQ(three.trace(), "runs/profile/infer_2/profile_trace.json");
  const std::vector<std::string> files = {"infer_0/profile.json", "infer_1/profile.json",
                                          "infer_2/profile.json", "infer_repeat.json"};
  for (const std::string& file : files) {
    EXPECT_EQ(JobIn(Workspace("runs/profile/" + file)), three.id()) << file;
  }
  spec.set_repeat(2);
  const v1::Job two = WaitForEnd(Submit(spec).id());
  ASSERT_EQ(two.state(), v1::JOB_STATE_SUCCEEDED) << two.ShortDebugString();
  for (const std::string& file : files) {
    EXPECT_EQ(JobIn(Workspace(absl::StrCat("runs/profile/history/", three.id(), "/", file))),
              three.id())
        << file;
    EXPECT_EQ(JobIn(Workspace("runs/profile/" + file)),
              file == "infer_2/profile.json" ? "" : two.id())
        << file;
  }
  // A fetch of a repeat brings the trials that stand beside it.
  grpc::ClientContext context;
  v1::GetProfileRequest request;
  request.set_name(three.id());
  v1::ProfileInfo info;
  ASSERT_TRUE(profiles_->GetProfile(&context, request, &info).ok());
  const std::string history = absl::StrCat("runs/profile/history/", three.id());
  EXPECT_EQ(info.path(), history + "/infer_repeat.json");
  EXPECT_THAT(info.trials(),
              ElementsAre(history + "/infer_0/profile.json", history + "/infer_1/profile.json",
                          history + "/infer_2/profile.json"));
  EXPECT_EQ(info.trial_count(), 3);
}

TEST_F(DaemonTest, OneFailedTrialFailsTheJobAndCommitsNothing) {
  Script("third",
         "hello\ntrial 1 fail OUT_OF_MEMORY not enough memory\ntrial 1 exit 0\nstage measuring\n"
         "trace own\nfinish\n");
  StartDaemon();
  v1::JobSpec spec = Spec("runs/third");
  spec.set_repeat(3);
  const v1::Job job = WaitForEnd(Submit(spec).id());
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.error().reason(), "OUT_OF_MEMORY");
  EXPECT_EQ(job.error().message(), "not enough memory");
  EXPECT_THAT(job.error().hints(), ElementsAre("a way out"));
  EXPECT_TRUE(Eventually([&] { return !ReadFile(Workspace("runs/third/.staging")).ok(); }));
  EXPECT_FALSE(ReadFile(Workspace("runs/third/infer_0/profile.json")).ok());
}

TEST_F(DaemonTest, WithoutATraceTheProfileStandsAlone) {
  Script("bare", "hello\nstage measuring\nfinish\n");
  StartDaemon();
  v1::JobSpec spec = Spec("runs/bare");
  spec.mutable_infer()->set_trace(false);
  const v1::Job job = WaitForEnd(Submit(spec).id());
  ASSERT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.ShortDebugString();
  EXPECT_EQ(job.trace(), "");
  EXPECT_EQ(JobIn(Workspace("runs/bare/infer/profile.json")), job.id());
}

TEST_F(DaemonTest, ListsAreNewestFirstAndPaged) {
  StartDaemon();
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(WaitForEnd(Submit().id()).id());
  std::vector<std::string> got;
  v1::ListJobsRequest request;
  request.set_page_size(2);
  do {
    grpc::ClientContext context;
    v1::ListJobsResponse page;
    ASSERT_TRUE(jobs_->ListJobs(&context, request, &page).ok());
    for (const v1::Job& job : page.jobs()) got.push_back(job.id());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(got, std::vector<std::string>(ids.rbegin(), ids.rend()));
  request.set_page_token("nonsense");
  grpc::ClientContext context;
  v1::ListJobsResponse page;
  EXPECT_EQ(jobs_->ListJobs(&context, request, &page).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(DaemonTest, ADeletedJobIsGoneButItsProfileStays) {
  Script("long", Until(Path("never"), ""));
  StartDaemon();
  const v1::Job done = WaitForEnd(Submit().id());
  const v1::Job running = Submit("runs/long");
  const auto remove = [&](const std::string& id) {
    grpc::ClientContext context;
    v1::DeleteJobRequest request;
    request.set_id(id);
    v1::DeleteJobResponse response;
    return ReasonOf(jobs_->DeleteJob(&context, request, &response));
  };
  EXPECT_EQ(remove(running.id()), "JOB_NOT_FINISHED");
  EXPECT_EQ(remove(done.id()), "");
  EXPECT_EQ(remove(done.id()), "JOB_NOT_FOUND");
  EXPECT_EQ(JobIn(Workspace(done.profile())), done.id());
}

TEST_F(DaemonTest, TheLogOfAJobIsWhatItsWorkerWrote) {
  Script("talker", "hello\nlog one line of it\nstage measuring\ntrace own\nfinish\n");
  StartDaemon();
  const v1::Job job = WaitForEnd(Submit("runs/talker").id());
  grpc::ClientContext context;
  v1::GetJobLogRequest request;
  request.set_id(job.id());
  v1::GetJobLogResponse log;
  ASSERT_TRUE(jobs_->GetJobLog(&context, request, &log).ok());
  EXPECT_EQ(log.text(), "one line of it\n");
}

TEST_F(DaemonTest, WatchersThatLeaveAtOnceDoNoHarm) {
  Script("long", Until(Path("go"), "trace own\nfinish\n"));
  StartDaemon();
  const v1::Job job = Submit("runs/long");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        grpc::ClientContext context;
        v1::WatchJobRequest request;
        request.set_id(job.id());
        const auto stream = jobs_->WatchJob(&context, request);
        context.TryCancel();
        v1::JobEvent event;
        while (stream->Read(&event)) {
        }
        (void)stream->Finish();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Touch("go");
  EXPECT_EQ(WaitForEnd(job.id()).state(), v1::JOB_STATE_SUCCEEDED);
}

}  // namespace
}  // namespace libreyolo::testing
