// Phases add nothing twice: whatever way the annotations nest and overlap, the phases and what lies
// outside of them are the step.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/analysis/phase_map.h"
#include "common/analysis/trace_figures.h"
#include "common/trace/trace_reader.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

struct Span {
  std::string name;
  int start_us;
  int end_us;
};

std::string Event(absl::string_view category, absl::string_view name, int start_us, int end_us,
                  absl::string_view more = "") {
  return absl::StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name,
                      R"(","pid":1,"tid":1,"ts":)", start_us, ",\"dur\":", end_us - start_us, more,
                      "}");
}

// Two steps of 1000 us each, a kernel with its launch and an operation every 25 us, and the spans.
absl::StatusOr<trace::RecordedTrace> TraceOf(const std::vector<Span>& spans) {
  std::vector<std::string> events = {Event("user_annotation", "ProfilerStep#1", 0, 1000),
                                     Event("user_annotation", "ProfilerStep#2", 1000, 2000)};
  for (const Span& span : spans) {
    events.push_back(Event("user_annotation", span.name, span.start_us, span.end_us));
  }
  for (int at = 1; at < 2000; at += 25) {
    const std::string link =
        absl::StrCat(R"(,"args":{"device":0,"stream":7,"correlation":)", at, "}");
    events.push_back(Event("cpu_op", "aten::outer", at, at + 20));
    events.push_back(Event("cpu_op", "aten::inner", at + 2, at + 12));
    events.push_back(Event("cuda_runtime", "cudaLaunchKernel", at + 3, at + 5, link));
    events.push_back(Event("kernel", "k", at + 40, at + 60, link));
  }
  return trace::ParseTrace(absl::StrCat("[", absl::StrJoin(events, ",\n"), "]"));
}

// What each microsecond of the steps belongs to: of the spans that hold it the one that began last,
// and of several that began together the shortest. "" outside of all.
std::map<std::string, int64_t> CountByHand(const std::vector<Span>& spans) {
  std::map<std::string, int64_t> ns;
  for (int us = 0; us < 2000; ++us) {
    const Span* owner = nullptr;
    for (const Span& span : spans) {
      if (us < span.start_us || us >= span.end_us) continue;
      if (owner == nullptr || span.start_us > owner->start_us ||
          (span.start_us == owner->start_us && span.end_us <= owner->end_us)) {
        owner = &span;
      }
    }
    ns[owner == nullptr ? "" : owner->name.substr(5)] += 1000;
  }
  return ns;
}

void ExpectSums(const std::vector<Span>& spans) {
  ASSERT_OK_AND_ASSIGN(const trace::RecordedTrace trace, TraceOf(spans));
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, ComputeFigures(trace, {}));
  std::map<std::string, int64_t> by_hand = CountByHand(spans);
  int64_t wall_ns = by_hand[""];
  int64_t gpu_ns = 0;
  int64_t kernels = 0;
  int64_t ops = 0;
  int64_t self_ns = 0;
  for (const PhaseFigures& phase : figures.phases) {
    if (phase.name != "unphased") {
      EXPECT_EQ(phase.wall_ns, by_hand[phase.name]) << phase.name;
      wall_ns += phase.wall_ns;
    }
    gpu_ns += phase.gpu_ns;
    kernels += phase.kernel_count;
    ops += phase.op_count;
    for (const OpTotals& op : phase.ops) self_ns += op.self_ns;
  }
  EXPECT_EQ(wall_ns, figures.window_end_ns - figures.window_start_ns)
      << "the phases and the rest are the steps";
  EXPECT_EQ(wall_ns, 2'000'000);
  EXPECT_EQ(gpu_ns, figures.sum_ns);
  EXPECT_EQ(kernels, figures.completeness.kernels);
  EXPECT_EQ(kernels, 80);
  EXPECT_EQ(ops, figures.op_count);
  EXPECT_EQ(self_ns, figures.op_self_ns);
}

TEST(PhaseSumsTest, Apart) {
  ExpectSums({{"step/forward", 0, 400}, {"step/backward", 400, 900}, {"step/forward", 1000, 1500}});
}

TEST(PhaseSumsTest, Nested) {
  ExpectSums({{"step/forward", 0, 900},
              {"step/loss", 100, 500},
              {"step/inner", 200, 300},
              {"step/forward", 1000, 2000},
              {"step/forward", 1100, 1200}});
}

TEST(PhaseSumsTest, Overlapping) {
  ExpectSums({{"step/forward", 0, 500}, {"step/backward", 400, 900}, {"step/optimizer", 450, 700}});
}

TEST(PhaseSumsTest, AcrossTheBorderOfSteps) {
  ExpectSums({{"step/forward", 900, 1100}, {"step/backward", 1050, 1990}});
}

TEST(PhaseSumsTest, TheSameSpanTwice) {
  ExpectSums({{"step/forward", 100, 200}, {"step/forward", 100, 200}, {"step/forward", 150, 200}});
}

TEST(PhaseSumsTest, AnyWayTheyLie) {
  std::mt19937 random(7);
  const char* const names[] = {"step/dataload", "step/forward", "step/backward", "step/optimizer"};
  for (int round = 0; round < 200; ++round) {
    std::vector<Span> spans;
    const int count = static_cast<int>(random() % 12) + 1;
    for (int i = 0; i < count; ++i) {
      const int start = static_cast<int>(random() % 1990);
      const int end = start + 1 + static_cast<int>(random() % (1999 - start));
      // Each its own name: the phase of a microsecond is then one span's.
      spans.push_back({absl::StrCat(names[random() % 4], i), start, end});
    }
    ExpectSums(spans);
    if (::testing::Test::HasFailure()) {
      FAIL() << "round " << round << ": "
             << absl::StrJoin(spans, " ", [](std::string* out, const Span& span) {
                  absl::StrAppend(out, span.name, "[", span.start_us, ",", span.end_us, ")");
                });
    }
  }
}

}  // namespace
}  // namespace libreyolo::analysis
