#include "server/daemon/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

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

}  // namespace
}  // namespace libreyolo::daemon
