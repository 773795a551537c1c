// From CUPTI's records to the figures of a profile: a fake CUPTI replays four steps, and source,
// session, trace file, reader and analysis must give the numbers that were put in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

#include "common/analysis/trace_figures.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/trace/trace_reader.h"
#include "server/worker/capture/capture_session.h"
#include "server/worker/capture/cupti_library.h"
#include "server/worker/capture/cupti_source.h"
#include "tests/fakes/cupti/gpu_script.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using analysis::ComputeFigures;
using analysis::KernelTotals;
using analysis::PhaseFigures;
using analysis::TraceFigures;
using ::libreyolo::testing::FailsWith;

constexpr int kSteps = 4;
constexpr uint64_t kStepNs = 100'000;
constexpr uint64_t kForwardNs = 60'000;
constexpr uint64_t kLagNs = 30'000;  // the GPU behind the host
constexpr ClockKind kClock = ClockKind::kClockGettime;

class CuptiTraceTest : public ::testing::Test {
 protected:
  CuptiTraceTest()
      : fake_(LoadFakeCupti(LIBREYOLO_FAKE_CUPTI)),
        path_(::testing::TempDir() + "/cupti_trace_" + std::to_string(getpid()) + ".json") {
    fake_.Reset();
  }
  ~CuptiTraceTest() override { unlink(path_.c_str()); }

  void Begin(const CuptiOptions& options = {}) {
    auto library = LoadCupti({LIBREYOLO_FAKE_CUPTI});
    ASSERT_OK(library);
    source_ = MakeCuptiSource(*std::move(library), options);
    session_.emplace(CaptureSession::Options{.clock = kClock, .expects_kernels = true}, *source_);
    ASSERT_OK(session_->Start());
    base_ = static_cast<uint64_t>(MonotonicNs());
  }

  uint32_t Launch(uint32_t cbid, uint64_t at) {
    return fake_.Call(CUPTI_ACTIVITY_KIND_RUNTIME, cbid, at, at + 2'000,
                      static_cast<uint32_t>(gettid()));
  }

  // forward: two gemms of 10 us on one stream and a relu of 4 us that overlaps the second on
  // another. postprocess: a graph of four 1 us nodes, a copy of 3 us, an allocation and a release.
  void RunStep(int step) {
    const uint64_t at = base_ + static_cast<uint64_t>(step) * kStepNs;
    session_->EnterPhase("forward");
    const uint64_t gpu = at + kLagNs;
    fake_.Put(
        Kernel("sm80_xmma_gemm_f16", Launch(kCudaLaunchKernel, at + 1'000), gpu, gpu + 10'000));
    fake_.Put(Kernel("sm80_xmma_gemm_f16", Launch(kCudaLaunchKernel, at + 5'000), gpu + 10'000,
                     gpu + 20'000));
    fake_.Put(Kernel("relu_kernel", Launch(kCudaLaunchKernel, at + 9'000), gpu + 14'000,
                     gpu + 18'000, 13));
    session_->LeavePhase();
    session_->EnterPhase("postprocess");
    const uint64_t late = at + kForwardNs;
    const uint32_t graph = Launch(kCudaGraphLaunch, late + 1'000);
    for (uint64_t node = 0; node < 4; ++node) {
      CUpti_ActivityKernel10 kernel = Kernel("nms_kernel", graph, late + kLagNs + node * 2'000,
                                             late + kLagNs + node * 2'000 + 1'000);
      kernel.graphNodeId = (uint64_t{3} << 32) | (node + 1);
      fake_.Put(kernel);
    }
    fake_.Put(Copy(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, 800, Launch(kCudaMemcpyAsync, late + 5'000),
                   late + 45'000, late + 48'000));
    Launch(kCudaMalloc, late + 10'000);
    Launch(kCudaFree, late + 15'000);
    session_->LeavePhase();
    session_->AddMark("ProfilerStep#" + std::to_string(step), at, at + kStepNs);
    session_->AddMark("step/forward", at, late);
    session_->AddMark("step/postprocess", late, at + kStepNs);
  }
  void RunSteps() {
    for (int step = 0; step < kSteps; ++step) RunStep(step);
  }

  absl::StatusOr<CaptureCounts> End() {
    // The script lies in the future of its own begin: the window must reach it.
    while (static_cast<uint64_t>(MonotonicNs()) < base_ + kSteps * kStepNs) {
    }
    return session_->Stop();
  }

  absl::StatusOr<TraceFigures> Analyze() {
    EXPECT_OK(session_->WriteTrace(path_, {"t", "worker", "CPU, GPU", {}}, JsonValue()));
    auto trace = trace::ReadTrace(path_);
    if (!trace.ok()) return trace.status();
    trace_ = *std::move(trace);
    return ComputeFigures(trace_, {.all_markers = true});
  }

  std::optional<KernelTotals> TotalsOf(const TraceFigures& figures, const std::string& name) {
    for (const KernelTotals& totals : figures.kernels) {
      if (trace_.Name(totals.name) == name) return totals;
    }
    return std::nullopt;
  }

  void ExpectScriptedFigures(const TraceFigures& figures) {
    EXPECT_EQ(figures.steps, kSteps);
    EXPECT_EQ(figures.kernels_by_step, std::vector<int64_t>(kSteps, 7));
    EXPECT_EQ(figures.launches, kSteps * 4);
    EXPECT_EQ(figures.graph_launches, kSteps);
    EXPECT_EQ(figures.device_allocs, kSteps * 2);
    EXPECT_EQ(figures.sum_ns, kSteps * 28'000);   // 10 + 10 + 4 + 4 us
    EXPECT_EQ(figures.busy_ns, kSteps * 24'000);  // the relu runs beside a gemm
    EXPECT_EQ(figures.tensor_ns, kSteps * 20'000);
    EXPECT_EQ(figures.copy_ns, kSteps * 3'000);
    EXPECT_EQ(figures.completeness.kernels, kSteps * 7);
    EXPECT_EQ(figures.completeness.by_launch, kSteps * 7);
    EXPECT_EQ(figures.completeness.graph_kernels, kSteps * 4);
    EXPECT_EQ(figures.completeness.launches_without_kernel, 0);
    ASSERT_EQ(figures.devices.size(), 1u);
    EXPECT_EQ(figures.devices[0].stream_count, 2);
    ASSERT_GE(figures.phases.size(), 2u);
    EXPECT_EQ(figures.phases[0].name, "forward");
    EXPECT_EQ(figures.phases[0].kernel_count, kSteps * 3);
    EXPECT_EQ(figures.phases[0].gpu_ns, kSteps * 24'000);
    // The nodes run after their phase's span has ended: their launch call decides.
    EXPECT_EQ(figures.phases[1].name, "postprocess");
    EXPECT_EQ(figures.phases[1].kernel_count, kSteps * 4);
    EXPECT_EQ(figures.phases[1].gpu_ns, kSteps * 4'000);
    const auto gemm = TotalsOf(figures, "sm80_xmma_gemm_f16");
    ASSERT_TRUE(gemm.has_value());
    EXPECT_EQ(gemm->count, kSteps * 2);
    EXPECT_EQ(gemm->time_ns, kSteps * 20'000);
  }

  FakeCupti& fake_;
  const std::string path_;
  std::unique_ptr<ActivitySource> source_;
  std::optional<CaptureSession> session_;
  uint64_t base_ = 0;
  trace::RecordedTrace trace_;
};

TEST_F(CuptiTraceTest, FiguresAreThoseOfTheScript) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  RunSteps();
  ASSERT_OK_AND_ASSIGN(const CaptureCounts counts, End());
  EXPECT_EQ(counts.kernel_count, kSteps * 7);
  EXPECT_EQ(counts.launch_count, kSteps * 4);
  EXPECT_EQ(counts.launches_without_kernel, 0);
  EXPECT_EQ(counts.dropped_count, 0);
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, Analyze());
  ExpectScriptedFigures(figures);
}

TEST_F(CuptiTraceTest, TheOrderOfRecordsAndBuffersDoesNotMatter) {
  ASSERT_NO_FATAL_FAILURE(Begin({.buffer_bytes = 1024, .max_buffers = 2, .ready_buffers = 1}));
  fake_.ReverseOrder();
  RunSteps();
  ASSERT_OK(End());
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, Analyze());
  ExpectScriptedFigures(figures);
}

TEST_F(CuptiTraceTest, IdsThatWrapAroundDoNotMixSteps) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  fake_.SetNextCorrelation(0xFFFF'FFFA);
  RunStep(0);  // passes 2^32 on its way
  for (int step = 1; step < kSteps; ++step) {
    fake_.SetNextCorrelation(5);  // the same ids again
    RunStep(step);
  }
  ASSERT_OK(End());
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, Analyze());
  ExpectScriptedFigures(figures);
}

TEST_F(CuptiTraceTest, WorkOutsideOfTheWindowStaysOutside) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  // Launched before the capture began, running into it; and without a call, long before.
  fake_.SetNextCorrelation(1000);
  fake_.Put(
      Kernel("warm_up", Launch(kCudaLaunchKernel, base_ - 1'000'000'000), base_, base_ + 5'000));
  fake_.Put(Kernel("warm_up", 2000, base_ - 2'000'000'000, base_ - 1'900'000'000));
  RunSteps();
  fake_.Put(Kernel("later", Launch(kCudaLaunchKernel, base_ + 60'000'000'000),
                   base_ + 60'000'001'000, base_ + 60'000'002'000));
  ASSERT_OK(End());
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, Analyze());
  ExpectScriptedFigures(figures);
  EXPECT_EQ(figures.completeness.kernels_in_trace, kSteps * 7);
}

TEST_F(CuptiTraceTest, LostBuffersShowAsLaunchesWithoutKernels) {
  ASSERT_NO_FATAL_FAILURE(Begin({.buffer_bytes = 4096, .max_buffers = 1, .ready_buffers = 1}));
  RunStep(0);
  RunStep(1);
  fake_.Deliver();
  const uint64_t at = base_ + 2 * kStepNs;
  Launch(kCudaLaunchKernel, at + 1'000);
  Launch(kCudaLaunchKernel, at + 2'000);
  fake_.Deliver();
  fake_.Drop(2);  // their kernels
  session_->AddMark("ProfilerStep#2", at, at + kStepNs);
  ASSERT_OK_AND_ASSIGN(const CaptureCounts counts, End());
  EXPECT_EQ(counts.dropped_count, 2);
  EXPECT_EQ(counts.launches_without_kernel, 2);
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, Analyze());
  EXPECT_EQ(figures.completeness.launches_without_kernel, 2);
  EXPECT_EQ(figures.completeness.kernels, 14);
}

TEST_F(CuptiTraceTest, KernelsWithoutATimeAreKnownAsSuch) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  RunSteps();
  fake_.Put(Kernel("lost_time", Launch(kCudaLaunchKernel, base_ + 50'000), 0, 0));
  ASSERT_OK_AND_ASSIGN(const CaptureCounts counts, End());
  EXPECT_EQ(counts.work_without_time, 1);
  EXPECT_EQ(counts.launches_without_kernel, 0);
  ASSERT_OK_AND_ASSIGN(const TraceFigures figures, Analyze());
  EXPECT_EQ(figures.completeness.untimed_kernels, 1);
  EXPECT_EQ(figures.completeness.launches_without_kernel, 0);
  EXPECT_EQ(figures.sum_ns, kSteps * 28'000);
}

TEST_F(CuptiTraceTest, ACaptureWithoutAKernelIsAFailure) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  Launch(kCudaLaunchKernel, base_ + 1'000);
  const auto counts = End();
  ASSERT_THAT(counts, FailsWith(reason::kGpuNotRecorded));
  EXPECT_THAT(GetErrorDetail(counts.status()).hints,
              ::testing::Contains(::testing::HasSubstr("--no-trace")));
}

TEST_F(CuptiTraceTest, CallsNameTheirPhaseAndKernelsTheirGraphNode) {
  ASSERT_NO_FATAL_FAILURE(Begin());
  RunStep(0);
  ASSERT_OK(End());
  ASSERT_OK(Analyze());
  const auto text = ReadFile(path_);
  ASSERT_OK(text);
  ASSERT_OK_AND_ASSIGN(const JsonValue json, ParseJson(*text));
  int forward = 0, postprocess = 0, nodes = 0;
  for (const JsonValue& event : json.Find("traceEvents")->array()) {
    const JsonValue* args = event.Find("args");
    if (args == nullptr) continue;
    if (const JsonValue* phase = args->Find("phase"); phase != nullptr) {
      ++(phase->string_value() == "forward" ? forward : postprocess);
    }
    if (args->Find("graph node id") != nullptr) ++nodes;
  }
  EXPECT_EQ(forward, 3);
  EXPECT_EQ(postprocess, 4);
  EXPECT_EQ(nodes, 4);
}

}  // namespace
}  // namespace libreyolo::worker
