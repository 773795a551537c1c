#include "common/analysis/timeline/merge_slices.h"

#include <gtest/gtest.h>

#include "tests/unit/common/analysis/timeline/timeline_builder.h"

namespace libreyolo::analysis {
namespace {

TimelineOptions AtMost(int64_t slices) {
  TimelineOptions options;
  options.max_slices = slices;
  return options;
}

// A thousand short ops in a row, each 100 ns long and 1 us after the one before, and a long one.
trace::RecordedTrace ManyShortOps() {
  TraceMaker maker;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t start_ns = i * 1000 + (i >= 500 ? 1'000'000 : 0);
    maker.Op(i % 2 == 0 ? "even" : "odd", start_ns, start_ns + (i % 2 == 0 ? 100 : 101));
  }
  maker.Op("long", 500'000, 1'400'000);
  return maker.trace();
}

TEST(MergeSlicesTest, LeavesWhatFits) {
  const Timeline timeline = LayOutTimeline(ManyShortOps(), AtMost(1001));
  EXPECT_EQ(timeline.slice_count, 1001);
  EXPECT_EQ(timeline.merged_count, 0);
  EXPECT_EQ(timeline.merge_ns, 0);
}

TEST(MergeSlicesTest, MergesShortNeighboursAndCountsThem) {
  const Timeline timeline = LayOutTimeline(ManyShortOps(), AtMost(100));
  EXPECT_LE(timeline.slice_count, 100);
  EXPECT_GT(timeline.slice_count, 20) << "the shortest stretch that suffices";
  EXPECT_EQ(timeline.event_count, 1001);
  EXPECT_GT(timeline.merged_count, 900);
  int64_t events = 0;
  int64_t busy_ns = 0;
  int64_t end_ns = 0;
  bool long_stands_alone = false;
  for (const Slice& slice : timeline.tracks[0].rows[0]) {
    EXPECT_GE(slice.start_ns, end_ns);
    end_ns = slice.start_ns + slice.duration_ns;
    events += slice.event_count;
    busy_ns += slice.busy_ns;
    const std::string& name = timeline.names[slice.name].text;
    if (slice.event_count > 1) {
      EXPECT_EQ(name, "odd") << "named for the longest";
    }
    long_stands_alone |= name == "long" && slice.event_count == 1;
  }
  EXPECT_EQ(events, 1001);
  EXPECT_EQ(busy_ns, 500 * 100 + 500 * 101 + 900'000);
  EXPECT_TRUE(long_stands_alone);
}

TEST(MergeSlicesTest, EndsWithOneSliceARow) {
  const Timeline timeline = LayOutTimeline(ManyShortOps(), AtMost(1));
  EXPECT_EQ(timeline.slice_count, 1);
  EXPECT_EQ(timeline.tracks[0].rows[0][0].event_count, 1001u);
}

TEST(MergeSlicesTest, KernelsFindLaunchesThatWereMerged) {
  TraceMaker maker;
  for (int64_t i = 0; i < 200; ++i) {
    maker.Launch(i + 1, i * 1000, i * 1000 + 50);
    maker.Kernel("k", i + 1, 1'000'000 + i * 1'000'000, 1'900'000 + i * 1'000'000);
  }
  const Timeline timeline = LayOutTimeline(maker.trace(), AtMost(250));
  std::vector<const Slice*> all;
  for (const TimelineTrack& track : timeline.tracks) {
    for (const std::vector<Slice>& row : track.rows) {
      for (const Slice& slice : row) all.push_back(&slice);
    }
  }
  int64_t linked = 0;
  for (const Slice& kernel : timeline.tracks[0].rows[0]) {
    if (kernel.event_count > 1) continue;
    const int64_t i = (kernel.start_ns - 1'000'000) / 1'000'000;
    ASSERT_NE(kernel.launch, kNoSlice);
    const Slice& launch = *all[kernel.launch];
    EXPECT_LE(launch.start_ns, i * 1000);
    EXPECT_GE(launch.start_ns + launch.duration_ns, i * 1000 + 50);
    ++linked;
  }
  EXPECT_EQ(linked, 200);
  EXPECT_LE(timeline.slice_count, 250);
}

}  // namespace
}  // namespace libreyolo::analysis
