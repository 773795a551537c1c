#include "server/worker/capture/capture_session.h"

#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "server/worker/capture/null_source.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using ::libreyolo::testing::StatusIs;

// Hands over what a test prepared, as a GPU's records come: late, when the capture stops.
class FakeActivitySource : public ActivitySource {
 public:
  absl::Status Start(RecordSink& sink) override {
    sink_ = &sink;
    ++start_count;
    return start_status;
  }
  absl::StatusOr<CaptureLoss> Stop() override {
    ++stop_count;
    for (ActivityRecord& record : records) sink_->OnActivity(std::move(record));
    return loss;
  }

  absl::Status start_status;
  std::vector<ActivityRecord> records;
  CaptureLoss loss;
  int start_count = 0;
  int stop_count = 0;

 private:
  RecordSink* sink_ = nullptr;
};

class CaptureSessionTest : public ::testing::Test {
 protected:
  CaptureSessionTest()
      : path_(::testing::TempDir() + "/capture_session_" + std::to_string(getpid()) + ".json"),
        session_({.clock = clock_}, source_) {}
  ~CaptureSessionTest() override { unlink(path_.c_str()); }

  void RunPhase(const std::string& name) {
    const uint64_t begin = ReadTicks(clock_);
    at::ones({4}).add(1);
    session_.AddMark(name, begin, ReadTicks(clock_));
  }
  // The trace's events of one category, in order.
  std::vector<JsonValue> Events(const std::string& category) {
    auto text = ReadFile(path_);
    EXPECT_OK(text);
    auto json = ParseJson(*text);
    EXPECT_OK(json);
    trace_ = *json;
    std::vector<JsonValue> events;
    for (const JsonValue& event : trace_.Find("traceEvents")->array()) {
      const JsonValue* cat = event.Find("cat");
      if (cat != nullptr && cat->string_value() == category) events.push_back(event);
    }
    return events;
  }

  const ClockKind clock_ = ChooseClock();
  FakeActivitySource source_;
  std::string path_;
  CaptureSession session_;
  JsonValue trace_;
};

std::string Text(const JsonValue& event, const char* key) {
  return event.Find(key)->string_value();
}
double Number(const JsonValue& event, const char* key) { return event.Find(key)->number(); }

TEST_F(CaptureSessionTest, OpsLieInsideTheMarkThatRanThem) {
  ASSERT_OK(session_.Start());
  RunPhase("step/first");
  RunPhase("step/second");
  ASSERT_OK_AND_ASSIGN(const CaptureCounts counts, session_.Stop());
  EXPECT_GT(counts.op_count, 0);
  EXPECT_EQ(counts.dropped_count, 0);
  JsonValue metadata;
  metadata.Set("schema", trace::kTraceSchema);
  ASSERT_OK(session_.WriteTrace(path_, {"t", "worker", "CPU", {}}, metadata));

  const std::vector<JsonValue> marks = Events("user_annotation");
  const std::vector<JsonValue> ops = Events("cpu_op");
  ASSERT_EQ(marks.size(), 2u);
  EXPECT_EQ(Text(marks[0], "name"), "step/first");
  EXPECT_EQ(static_cast<int64_t>(ops.size()), counts.op_count);
  for (size_t i = 0; i < ops.size(); ++i) {
    const JsonValue& op = ops[i];
    const JsonValue& mark = marks[i < ops.size() / 2 ? 0 : 1];
    EXPECT_GE(Number(op, "ts"), Number(mark, "ts")) << Text(op, "name");
    EXPECT_LE(Number(op, "ts") + Number(op, "dur"), Number(mark, "ts") + Number(mark, "dur"));
    EXPECT_EQ(Number(op, "tid"), gettid());
    EXPECT_EQ(op.Find("args")->Find("External id")->int_value(), static_cast<int64_t>(i) + 1);
  }
  EXPECT_EQ(Text(*trace_.Find("libreyolo"), "schema"), "libreyolo.trace/v1");
}

TEST_F(CaptureSessionTest, BaseTimeIsTheWallClockOfTimeZero) {
  const int64_t before_ns = absl::ToUnixNanos(SystemClock().Wall());
  ASSERT_OK(session_.Start());
  ASSERT_OK(session_.Stop());
  const int64_t after_ns = absl::ToUnixNanos(SystemClock().Wall());
  ASSERT_OK(session_.WriteTrace(path_, {}, JsonValue()));
  Events("");
  const int64_t base_ns = trace_.Find("baseTimeNanoseconds")->int_value();
  EXPECT_GE(base_ns, before_ns - 1'000'000);
  EXPECT_LE(base_ns, after_ns + 1'000'000);
}

TEST_F(CaptureSessionTest, KernelsAreTiedToTheCallThatLaunchedThem) {
  ASSERT_OK(session_.Start());
  const int64_t now_ns = MonotonicNs();
  source_.records = {
      {.kind = ActivityKind::kRuntimeCall,
       .name = "cudaLaunchKernel",
       .start_ns = now_ns,
       .end_ns = now_ns + 5'000,
       .correlation_id = 9,
       .os_thread_id = gettid()},
      {.kind = ActivityKind::kKernel,
       .name = "gemm",
       .start_ns = now_ns + 20'000,
       .end_ns = now_ns + 50'000,
       .correlation_id = 9,
       .device = 1,
       .stream = 7,
       .grid = {3, 2, 1}},
      {.kind = ActivityKind::kMemcpy,
       .name = "Memcpy HtoD (Pageable -> Device)",
       .start_ns = now_ns,
       .end_ns = now_ns + 1'000,
       .device = 1,
       .stream = 7,
       .bytes = 4096},
  };
  ASSERT_OK_AND_ASSIGN(const CaptureCounts counts, session_.Stop());
  EXPECT_EQ(counts.activity_count, 3);
  ASSERT_OK(session_.WriteTrace(path_, {}, JsonValue()));

  const std::vector<JsonValue> kernels = Events("kernel");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_DOUBLE_EQ(Number(kernels[0], "dur"), 30.0);
  EXPECT_EQ(Number(kernels[0], "pid"), 1);
  EXPECT_EQ(Number(kernels[0], "tid"), 7);
  const std::vector<JsonValue> flows = Events("ac2g");
  ASSERT_EQ(flows.size(), 2u);  // the copy has no call: no arrow
  EXPECT_EQ(Number(flows[0], "tid"), gettid());
  EXPECT_EQ(Number(flows[1], "ts"), Number(kernels[0], "ts"));
  EXPECT_EQ(Events("gpu_memcpy").at(0).Find("args")->Find("bytes")->int_value(), 4096);
  EXPECT_EQ(Events("cuda_runtime").size(), 1u);
}

TEST_F(CaptureSessionTest, CountsWhatTheSourceLost) {
  ASSERT_OK(session_.Start());
  source_.loss.record_count = 3;
  ASSERT_OK_AND_ASSIGN(const CaptureCounts counts, session_.Stop());
  EXPECT_EQ(counts.dropped_count, 3);
}

TEST_F(CaptureSessionTest, CountsOpsThatDidNotEnd) {
  ASSERT_OK(session_.Start());
  std::optional<at::RecordFunction> open;
  open.emplace(at::RecordScope::USER_SCOPE);
  open->before("open");
  ASSERT_OK_AND_ASSIGN(const CaptureCounts counts, session_.Stop());
  open.reset();
  EXPECT_EQ(counts.op_count, 0);
  EXPECT_EQ(counts.dropped_count, 1);
  ASSERT_OK(session_.WriteTrace(path_, {}, JsonValue()));
  EXPECT_TRUE(Events("user_annotation").empty());
}

TEST_F(CaptureSessionTest, ASourceThatDoesNotStartLeavesNoCallback) {
  source_.start_status = absl::InternalError("no counters");
  EXPECT_THAT(session_.Start(), StatusIs(absl::StatusCode::kInternal));
  EXPECT_FALSE(at::hasGlobalCallbacks());
}

TEST_F(CaptureSessionTest, ATakenRecorderStopsTheSource) {
  OpRecorder other({});
  ASSERT_OK(other.Start());
  EXPECT_THAT(session_.Start(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(source_.start_count, 1);
  EXPECT_EQ(source_.stop_count, 1);
}

TEST_F(CaptureSessionTest, ATraceThatCannotBeWrittenIsAnError) {
  ASSERT_OK(session_.Start());
  ASSERT_OK(session_.Stop());
  EXPECT_THAT(session_.WriteTrace("/nonexistent/t.json", {}, JsonValue()),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(NullSourceTest, SeesAndLosesNothing) {
  NullSource source;
  CaptureSession session({}, source);
  ASSERT_OK(session.Start());
  ASSERT_OK_AND_ASSIGN(const CaptureCounts counts, session.Stop());
  EXPECT_EQ(counts.activity_count, 0);
  EXPECT_EQ(counts.dropped_count, 0);
}

}  // namespace
}  // namespace libreyolo::worker
