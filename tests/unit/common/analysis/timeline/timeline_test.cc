#include "common/analysis/timeline/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/trace/trace_reader.h"
#include "tests/support/fixtures.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/common/analysis/timeline/timeline_builder.h"

namespace libreyolo::analysis {
namespace {

using ::libreyolo::testing::SharedPath;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const TimelineTrack* Find(const Timeline& timeline, TrackKind kind) {
  for (const TimelineTrack& track : timeline.tracks) {
    if (track.kind == kind) return &track;
  }
  return nullptr;
}

std::vector<std::string> Names(const Timeline& timeline, const std::vector<Slice>& row) {
  std::vector<std::string> names;
  for (const Slice& slice : row) names.push_back(timeline.names[slice.name].text);
  return names;
}

// What every timeline promises.
void CheckPromises(const Timeline& timeline) {
  int64_t events = 0;
  int64_t slices = 0;
  for (const TimelineTrack& track : timeline.tracks) {
    for (const std::vector<Slice>& row : track.rows) {
      EXPECT_THAT(row, Not(IsEmpty()));
      int64_t end_ns = timeline.start_ns;
      for (const Slice& slice : row) {
        EXPECT_GE(slice.start_ns, end_ns) << track.name;
        EXPECT_LE(slice.busy_ns, slice.duration_ns);
        end_ns = slice.start_ns + slice.duration_ns;
        EXPECT_LE(end_ns, timeline.end_ns);
        EXPECT_LT(slice.name, timeline.names.size());
        events += slice.event_count;
        ++slices;
      }
    }
  }
  EXPECT_EQ(events, timeline.event_count);
  EXPECT_EQ(slices, timeline.slice_count);
}

TEST(TimelineTest, IsEmptyForAnEmptyTrace) {
  const Timeline timeline = LayOutTimeline({});
  EXPECT_THAT(timeline.tracks, IsEmpty());
  EXPECT_EQ(timeline.start_ns, 0);
  EXPECT_EQ(timeline.end_ns, 0);
}

TEST(TimelineTest, NestedOpsStandBelowTheOnesAround) {
  TraceMaker maker;
  maker.Op("inner", 20, 30).Op("outer", 10, 50).Op("next", 50, 60).Op("second", 30, 40);
  const Timeline timeline = LayOutTimeline(maker.trace());
  CheckPromises(timeline);
  const TimelineTrack* thread = Find(timeline, TrackKind::kThread);
  ASSERT_NE(thread, nullptr);
  ASSERT_EQ(thread->rows.size(), 2u);
  EXPECT_THAT(Names(timeline, thread->rows[0]), ElementsAre("outer", "next"));
  EXPECT_THAT(Names(timeline, thread->rows[1]), ElementsAre("inner", "second"));
  EXPECT_EQ(timeline.start_ns, 10);
  EXPECT_EQ(timeline.end_ns, 60);
}

TEST(TimelineTest, AnOpThatOutlastsTheOneAroundItOverlapsNothing) {
  TraceMaker maker;
  maker.Op("a", 0, 30).Op("b", 20, 60).Op("c", 40, 50).Op("d", 70, 80);
  const Timeline timeline = LayOutTimeline(maker.trace());
  CheckPromises(timeline);
  EXPECT_EQ(Find(timeline, TrackKind::kThread)->rows.size(), 3u);
}

TEST(TimelineTest, OfTwoThatStartTogetherTheAnnotationIsOutside) {
  TraceMaker maker;
  maker.Op("aten::conv2d", 10, 50).Annotation("block", 10, 50);
  const Timeline timeline = LayOutTimeline(maker.trace());
  EXPECT_THAT(Names(timeline, Find(timeline, TrackKind::kThread)->rows[0]), ElementsAre("block"));
}

TEST(TimelineTest, KernelsKnowTheSliceOfTheirLaunch) {
  TraceMaker maker;
  maker.Op("aten::mm", 5, 40).Launch(1, 10, 20).Launch(2, 25, 35);
  maker.Kernel("second", 2, 200, 300).Kernel("first", 1, 100, 200).Kernel("lost", 9, 300, 310);
  const Timeline timeline = LayOutTimeline(maker.trace());
  CheckPromises(timeline);
  std::vector<const Slice*> all;
  for (const TimelineTrack& track : timeline.tracks) {
    for (const std::vector<Slice>& row : track.rows) {
      for (const Slice& slice : row) all.push_back(&slice);
    }
  }
  const std::vector<Slice>& kernels = Find(timeline, TrackKind::kStream)->rows[0];
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(all[kernels[0].launch]->start_ns, 10);
  EXPECT_EQ(all[kernels[1].launch]->start_ns, 25);
  EXPECT_EQ(kernels[2].launch, kNoSlice);
}

// Each rank counts its calls by itself, so the same ids come twice.
TEST(TimelineTest, MergedRanksKeepTheirOwnStepsPhasesAndLaunches) {
  std::vector<std::string> events;
  const auto add = [&](const char* category, const char* name, int pid, int tid, int start,
                       int duration, int correlation) {
    events.push_back(absl::StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name,
                                  R"(","pid":)", pid, R"(,"tid":)", tid, R"(,"ts":)", start,
                                  R"(,"dur":)", duration, R"(,"args":{"device":)", pid,
                                  R"(,"stream":)", tid, R"(,"correlation":)", correlation, "}}"));
  };
  for (int rank = 0; rank < 2; ++rank) {
    const int host = 100 * (rank + 1);
    for (int step = 0; step < 3; ++step) {
      const int at = 1000 + 1000 * step + 300 * rank;
      add("user_annotation", absl::StrCat("ProfilerStep#", step).c_str(), host, 1, at, 1000, -1);
      add("user_annotation", "step/forward", host, 1, at + 100, 200, -1);
      add("cuda_runtime", "cudaLaunchKernel", host, 1, at + 150, 5, step + 1);
      add("kernel", rank == 0 ? "a" : "b", rank, 7, at + 170, 150, step + 1);
    }
  }
  ASSERT_OK_AND_ASSIGN(const trace::RecordedTrace trace,
                       trace::ParseTrace(absl::StrCat("[", absl::StrJoin(events, ","), "]")));
  const Timeline timeline = LayOutTimeline(trace);
  CheckPromises(timeline);
  std::vector<std::pair<const Slice*, const TimelineTrack*>> all;
  std::vector<std::string> titles;
  for (const TimelineTrack& track : timeline.tracks) {
    titles.push_back(track.name);
    for (const std::vector<Slice>& row : track.rows) {
      for (const Slice& slice : row) all.emplace_back(&slice, &track);
    }
  }
  EXPECT_THAT(titles,
              ElementsAre("Steps, pid 100", "Phases, pid 100", "Steps, pid 200", "Phases, pid 200",
                          "stream 7", "stream 7", "thread 1", "thread 1"));
  int kernels = 0;
  for (const auto& [slice, track] : all) {
    if (track->kind != TrackKind::kStream) continue;
    ASSERT_NE(slice->launch, kNoSlice);
    const auto& [launch, launch_track] = all[slice->launch];
    EXPECT_EQ(slice->start_ns - launch->start_ns, 20'000);
    EXPECT_EQ(launch_track->process, track->process);
    ++kernels;
  }
  EXPECT_EQ(kernels, 6);
}

TEST(TimelineTest, CountsWhatItCannotDraw) {
  TraceMaker maker;
  maker.Kernel("k", 1, 0, 5).Kernel("k", 2, 10, 20);
  for (int64_t i = 0; i < 140; ++i) maker.Op("deep", i, 1000 - i);
  const Timeline timeline = LayOutTimeline(maker.trace());
  CheckPromises(timeline);
  EXPECT_EQ(timeline.untimed_count, 1);
  EXPECT_EQ(timeline.too_deep_count, 140 - static_cast<int64_t>(TimelineOptions::kMaxRows));
}

TEST(TimelineTest, StreamsOfDevicesAreTracksOfTheirOwn) {
  TraceMaker maker;
  maker.Kernel("a", 1, 10, 20, 7, 1).Kernel("b", 2, 10, 20, 7, 0).Kernel("c", 3, 10, 20, 20, 0);
  maker.trace().devices.push_back({0, "NVIDIA H100"});
  const Timeline timeline = LayOutTimeline(maker.trace());
  std::vector<std::string> titles;
  for (const TimelineTrack& track : timeline.tracks) {
    titles.push_back(track.detail + " / " + track.name);
  }
  EXPECT_THAT(titles, ElementsAre("GPU 0 \xC2\xB7 NVIDIA H100 / stream 7",
                                  "GPU 0 \xC2\xB7 NVIDIA H100 / stream 20", "GPU 1 / stream 7"));
}

TEST(TimelineTest, DrawsEveryEventOfRealTraces) {
  LY_SKIP_WITHOUT_SHARED();
  for (const char* name : {"4-streams-overlap", "rtx3060-cudagraph-backlog", "v100-dlrm-worker0",
                           "v100-resnet50-2021-array-2steps", "rtx2080ti-resnet-loader-4iter"}) {
    ASSERT_OK_AND_ASSIGN(
        const trace::RecordedTrace trace,
        trace::ReadTrace(SharedPath(std::string("gpu-traces/") + name + ".json.gz")));
    const Timeline timeline = LayOutTimeline(trace);
    CheckPromises(timeline);
    int64_t phases = 0;
    if (const TimelineTrack* track = Find(timeline, TrackKind::kPhases); track != nullptr) {
      phases = static_cast<int64_t>(track->rows[0].size());
    }
    EXPECT_EQ(
        timeline.event_count + timeline.untimed_count + timeline.too_deep_count,
        static_cast<int64_t>(trace.ops.size() + trace.kernels.size() + trace.copies.size() +
                             trace.calls.size() + trace.annotations.size() + trace.markers.size()) +
            phases)
        << name;
    EXPECT_EQ(timeline.merged_count, 0);
  }
}

}  // namespace
}  // namespace libreyolo::analysis
