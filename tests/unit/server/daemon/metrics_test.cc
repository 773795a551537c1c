#include "server/daemon/metrics/metrics.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/daemon/metrics/process_figures.h"

namespace libreyolo::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<StoreFigures> NoStore() { return absl::UnavailableError("no disk"); }

TEST(MetricsTest, EveryStateIsThereFromTheStart) {
  const Metrics metrics(&NoStore);
  for (const char* line :
       {"libreyolod_jobs{state=\"queued\"} 0", "libreyolod_jobs{state=\"measuring\"} 0",
        "libreyolod_jobs_finished_total{state=\"failed\"} 0", "libreyolod_rpcs_in_flight 0"})
    EXPECT_THAT(metrics.Text(), HasSubstr(absl::StrCat(line, "\n")));
  // What is not known is not told as nought.
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("libreyolod_store_bytes")));
}

TEST(MetricsTest, AJobIsInOneState) {
  Metrics metrics(&NoStore);
  metrics.JobAdded(JobState::kQueued);
  metrics.JobMoved(JobState::kQueued, JobState::kStarting, "");
  EXPECT_THAT(metrics.Text(), HasSubstr("libreyolod_jobs{state=\"queued\"} 0\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("libreyolod_jobs{state=\"starting\"} 1\n"));
  metrics.JobMoved(JobState::kStarting, JobState::kFailed, "OUT_OF_MEMORY");
  EXPECT_THAT(metrics.Text(), HasSubstr("libreyolod_jobs{state=\"starting\"} 0\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("libreyolod_jobs_finished_total{state=\"failed\"} 1\n"));
  EXPECT_THAT(metrics.Text(),
              HasSubstr("libreyolod_jobs_failed_total{reason=\"OUT_OF_MEMORY\"} 1\n"));
}

// A worker's words become labels, which a scraper keeps for ever.
TEST(MetricsTest, ForeignReasonsAreBounded) {
  Metrics metrics(&NoStore);
  const auto fail = [&](const std::string& reason) {
    metrics.JobAdded(JobState::kStarting);
    metrics.JobMoved(JobState::kStarting, JobState::kFailed, reason);
  };
  fail("");
  fail("no reason at all\n");
  fail(std::string(1000, 'A'));
  EXPECT_THAT(metrics.Text(), HasSubstr("libreyolod_jobs_failed_total{reason=\"OTHER\"} 3\n"));
  for (int i = 0; i < 150; ++i) fail(std::string(1, 'A' + i / 12) + std::string(1, 'A' + i % 12));
  EXPECT_THAT(metrics.Text(), HasSubstr("libreyolod_jobs_failed_total{reason=\"OTHER\"} 53\n"));
}

TEST(MetricsTest, LeasesHaveAnAgeWhileTheyLast) {
  Metrics metrics(&NoStore);
  metrics.LeaseTaken("GPU-1", absl::Seconds(3));
  EXPECT_THAT(metrics.Text(), HasSubstr("libreyolod_lease_age_seconds{device=\"GPU-1\"} "));
  EXPECT_THAT(metrics.Text(), HasSubstr("libreyolod_job_queue_wait_seconds_sum 3\n"));
  metrics.LeaseEnded("GPU-1", absl::Seconds(60));
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("libreyolod_lease_age_seconds")));
  EXPECT_THAT(metrics.Text(), HasSubstr("libreyolod_lease_seconds_bucket{le=\"60\"} 1\n"));
}

TEST(MetricsTest, WhatTheStoreHoldsIsAskedForEachTime) {
  int64_t bytes = 5;
  const Metrics metrics([&]() -> absl::StatusOr<StoreFigures> {
    StoreFigures figures;
    figures.upload_bytes = bytes++;
    return figures;
  });
  EXPECT_THAT(metrics.Text(), HasSubstr("libreyolod_store_bytes{kind=\"uploads\"} 5\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("libreyolod_store_bytes{kind=\"uploads\"} 6\n"));
}

TEST(MetricsTest, TellsWhatRetentionRemoved) {
  StoreFigures figures;
  figures.removed_by_age = 1;
  figures.removed_by_bytes = 2;
  figures.removed_bytes = 12345;
  figures.failed_removals = 3;
  const Metrics metrics([figures]() -> absl::StatusOr<StoreFigures> { return figures; });
  for (const char* line : {"libreyolod_retention_removed_total{limit=\"age\"} 1",
                           "libreyolod_retention_removed_total{limit=\"count\"} 0",
                           "libreyolod_retention_removed_total{limit=\"bytes\"} 2",
                           "libreyolod_retention_removed_bytes_total 12345",
                           "libreyolod_retention_failures_total 3"}) {
    EXPECT_THAT(metrics.Text(), HasSubstr(absl::StrCat(line, "\n")));
  }
}

TEST(ProcessFiguresTest, AreThoseOfThisProcess) {
  const ProcessFigures before = ReadProcessFigures();
  const std::string held(64 << 20, 'x');
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const ProcessFigures after = ReadProcessFigures();
  close(file);
  EXPECT_GE(after.resident_bytes, before.resident_bytes + (32 << 20)) << held.size();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they have their own heap
  EXPECT_GE(after.heap_bytes, before.heap_bytes + (64 << 20));
#endif
  EXPECT_EQ(after.open_files, before.open_files + 1);
  EXPECT_GE(after.threads, 1);
  EXPECT_GT(after.cpu_seconds, 0);
  EXPECT_NEAR(after.start_unix_seconds, static_cast<double>(time(nullptr)), 3600);
}

TEST(MetricsTest, TellsOfTheProcess) {
  const Metrics metrics(&NoStore);
  for (const char* name : {"process_resident_memory_bytes ", "process_open_fds ",
                           "process_cpu_seconds_total ", "libreyolod_heap_bytes "}) {
    EXPECT_THAT(metrics.Text(), HasSubstr(absl::StrCat("\n", name)));
  }
}

}  // namespace
}  // namespace libreyolo::daemon
