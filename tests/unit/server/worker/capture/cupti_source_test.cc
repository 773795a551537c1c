#include "server/worker/capture/cupti_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "server/worker/capture/cupti_decoder.h"
#include "server/worker/capture/cupti_library.h"
#include "tests/fakes/cupti/gpu_script.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::worker {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Collected : public RecordSink {
 public:
  void OnActivity(ActivityRecord record) override { records.push_back(record); }
  std::vector<ActivityRecord> Of(ActivityKind kind) const {
    std::vector<ActivityRecord> out;
    for (const ActivityRecord& record : records) {
      if (record.kind == kind) out.push_back(record);
    }
    return out;
  }
  std::vector<ActivityRecord> records;
};

class CuptiSourceTest : public ::testing::Test {
 protected:
  CuptiSourceTest() : fake_(LoadFakeCupti(LIBREYOLO_FAKE_CUPTI)) { fake_.Reset(); }

  std::unique_ptr<ActivitySource> Make(const CuptiOptions& options = {}) {
    auto library = LoadCupti({LIBREYOLO_FAKE_CUPTI});
    EXPECT_OK(library);
    return MakeCuptiSource(*std::move(library), options);
  }

  FakeCupti& fake_;
  Collected sink_;
};

TEST_F(CuptiSourceTest, EveryKindOfRecordArrives) {
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  const uint32_t launch = fake_.Call(CUPTI_ACTIVITY_KIND_RUNTIME, kCudaLaunchKernel, 10, 20, 42);
  CUpti_ActivityKernel10 kernel = Kernel("_Z4gemmPfi", launch, 30, 90);
  kernel.deviceId = 1;
  kernel.gridX = 8;
  kernel.registersPerThread = 64;
  kernel.staticSharedMemory = 1024;
  kernel.dynamicSharedMemory = 512;
  fake_.Put(kernel);
  const uint32_t copy = fake_.Call(CUPTI_ACTIVITY_KIND_RUNTIME, kCudaMemcpyAsync, 21, 25, 42);
  fake_.Put(Copy(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 4096, copy, 91, 99));
  CUpti_ActivityMemset4 fill{};
  fill.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  fill.bytes = 256;
  fill.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  fake_.Put(fill);
  CUpti_ActivitySynchronization2 wait{};
  wait.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  wait.streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  fake_.Put(wait);
  CUpti_ActivityOverhead3 overhead{};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  overhead.overheadData = std::malloc(16);  // the source's to free: the address sanitizer watches
  fake_.Put(overhead);
  ASSERT_OK_AND_ASSIGN(const CaptureLoss loss, source->Stop());

  EXPECT_EQ(loss.record_count, 0);
  EXPECT_THAT(loss.missing_kinds, IsEmpty());
  ASSERT_EQ(sink_.records.size(), 7u);
  const ActivityRecord& call = sink_.records[0];
  EXPECT_EQ(call.kind, ActivityKind::kRuntimeCall);
  EXPECT_EQ(call.name, "cudaLaunchKernel");
  EXPECT_EQ(call.os_thread_id, 42);
  const ActivityRecord& work = sink_.records[1];
  EXPECT_EQ(work.name, "gemm(float*, int)");
  EXPECT_EQ(work.correlation_id, call.correlation_id);
  EXPECT_EQ(work.end_ns - work.start_ns, 60);
  EXPECT_EQ(work.device, 1);
  EXPECT_EQ(work.stream, 7);
  EXPECT_THAT(work.grid, ElementsAre(8, 1, 1));
  EXPECT_THAT(work.block, ElementsAre(128, 1, 1));
  EXPECT_EQ(work.registers, 64);
  EXPECT_EQ(work.shared_bytes, 1536);
  EXPECT_EQ(sink_.records[3].name, "Memcpy HtoD (Pinned -> Device)");
  EXPECT_EQ(sink_.records[3].bytes, 4096);
  EXPECT_EQ(sink_.records[4].name, "Memset (Device)");
  EXPECT_EQ(sink_.records[5].name, "Context Sync");
  EXPECT_EQ(sink_.records[5].stream, -1);
  EXPECT_EQ(sink_.records[6].name, "Buffer Flush");
}

TEST_F(CuptiSourceTest, HostAndDeviceShareTheMonotonicClock) {
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  const auto before = static_cast<uint64_t>(MonotonicNs());
  const uint64_t now = fake_.Now();
  EXPECT_GE(now, before);
  EXPECT_LE(now, static_cast<uint64_t>(MonotonicNs()));
  ASSERT_OK(source->Stop());
}

TEST_F(CuptiSourceTest, ClockAndThreadIdsAreSetBeforeAnyKindIsEnabled) {
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  ASSERT_OK(source->Stop());
  const std::vector<std::string> calls = fake_.Calls();
  const auto at = [&](const char* name) {
    return std::find(calls.begin(), calls.end(), name) - calls.begin();
  };
  EXPECT_LT(at("cuptiActivityRegisterTimestampCallback"), at("cuptiActivityEnable"));
  EXPECT_LT(at("cuptiSetThreadIdType"), at("cuptiActivityEnable"));
  EXPECT_LT(at("cuptiActivityRegisterCallbacks"), at("cuptiActivityEnable"));
  EXPECT_LT(at("cuptiActivityFlushAll"), at("cuptiActivityDisable"));
  EXPECT_THAT(fake_.EnabledKinds(), IsEmpty());
}

TEST_F(CuptiSourceTest, NothingIsLostInASecondOfAHundredThousandKernels) {
  // Less than the default, so that buffers are used again.
  const auto source = Make({.buffer_bytes = 1 << 20, .max_buffers = 2, .ready_buffers = 1});
  ASSERT_OK(source->Start(sink_));
  constexpr uint32_t kKernels = 100'000;
  for (uint32_t i = 0; i < kKernels; ++i) {
    const uint32_t id =
        fake_.Call(CUPTI_ACTIVITY_KIND_RUNTIME, kCudaLaunchKernel, i * 10, i * 10 + 5, 1);
    fake_.Put(Kernel("k", id, i * 10 + 6, i * 10 + 9));
    if (i % 20'000 == 0) fake_.Deliver();
  }
  ASSERT_OK_AND_ASSIGN(const CaptureLoss loss, source->Stop());
  EXPECT_EQ(loss.record_count, 0);
  EXPECT_EQ(sink_.Of(ActivityKind::kKernel).size(), kKernels);
  EXPECT_EQ(sink_.Of(ActivityKind::kRuntimeCall).size(), kKernels);
}

TEST_F(CuptiSourceTest, RefusedBuffersCountTheirRecords) {
  const auto source = Make({.buffer_bytes = 4096, .max_buffers = 0, .ready_buffers = 0});
  ASSERT_OK(source->Start(sink_));
  for (uint32_t i = 0; i < 50; ++i) fake_.Put(Kernel("k", i, 1, 2));
  ASSERT_OK_AND_ASSIGN(const CaptureLoss loss, source->Stop());
  EXPECT_EQ(loss.record_count, 50);
  EXPECT_THAT(sink_.records, IsEmpty());
}

TEST_F(CuptiSourceTest, OnlyWhatIsLostInsideTheCaptureCounts) {
  fake_.Drop(5);
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  fake_.Drop(3);
  ASSERT_OK_AND_ASSIGN(const CaptureLoss loss, source->Stop());
  EXPECT_EQ(loss.record_count, 3);
}

TEST_F(CuptiSourceTest, ADamagedBufferIsCountedAndTheRestArrives) {
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  fake_.Put(Kernel("before", 1, 1, 2));
  const uint32_t no_kind = 9999;
  fake_.PutBytes(&no_kind, sizeof no_kind);
  fake_.Deliver();
  fake_.Put(Kernel("after", 2, 3, 4));
  ASSERT_OK_AND_ASSIGN(const CaptureLoss loss, source->Stop());
  EXPECT_EQ(loss.record_count, 1);
  ASSERT_EQ(sink_.records.size(), 2u);
  EXPECT_EQ(sink_.records[1].name, "after");
}

TEST_F(CuptiSourceTest, RecordsThatNobodyAskedForAreLeftOut) {
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  CUpti_ActivityDevice5 device{};
  device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  fake_.Put(device);
  fake_.Put(Kernel("k", 1, 1, 2));
  ASSERT_OK(source->Stop());
  EXPECT_EQ(sink_.records.size(), 1u);
}

TEST_F(CuptiSourceTest, KernelNamesOutliveWhatCuptiFrees) {
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  std::string name = "first";
  fake_.Put(Kernel(name.data(), 1, 1, 2));
  fake_.Deliver();
  name = "other";  // the same address now holds another text
  fake_.Put(Kernel(name.data(), 2, 3, 4));
  fake_.Put(Kernel(nullptr, 3, 5, 6));
  ASSERT_OK(source->Stop());
  ASSERT_EQ(sink_.records.size(), 3u);
  EXPECT_EQ(sink_.records[0].name, "first");
  EXPECT_EQ(sink_.records[1].name, "other");
  EXPECT_EQ(sink_.records[2].name, "unnamed kernel");
}

TEST_F(CuptiSourceTest, CallsCarryThePhaseThatWasOpen) {
  const auto source = Make();
  source->PushPhase(9);  // before the capture: nothing happens
  ASSERT_OK(source->Start(sink_));
  source->PushPhase(1);
  fake_.Call(CUPTI_ACTIVITY_KIND_RUNTIME, kCudaLaunchKernel, 1, 2, 1);
  source->PushPhase(2);
  fake_.Call(CUPTI_ACTIVITY_KIND_RUNTIME, kCudaLaunchKernel, 3, 4, 1);
  source->PopPhase();
  fake_.Call(CUPTI_ACTIVITY_KIND_RUNTIME, kCudaLaunchKernel, 5, 6, 1);
  source->PopPhase();
  source->PopPhase();  // one too many is harmless
  fake_.Call(CUPTI_ACTIVITY_KIND_RUNTIME, kCudaLaunchKernel, 7, 8, 1);
  ASSERT_OK(source->Stop());
  std::vector<uint32_t> phases;
  for (const ActivityRecord& record : sink_.records) phases.push_back(record.phase_id);
  EXPECT_THAT(phases, ElementsAre(1, 2, 1, 0));
}

TEST_F(CuptiSourceTest, NoiseOfTheApisIsLeftOut) {
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  fake_.Call(CUPTI_ACTIVITY_KIND_RUNTIME, kCudaGetDevice, 1, 2, 1);
  fake_.Call(CUPTI_ACTIVITY_KIND_DRIVER, kCuCtxGetCurrent, 3, 4, 1);
  fake_.Call(CUPTI_ACTIVITY_KIND_DRIVER, kCuLaunchKernel, 5, 6, 1);
  fake_.Call(CUPTI_ACTIVITY_KIND_RUNTIME, 9999, 7, 8, 1);
  ASSERT_OK(source->Stop());
  ASSERT_EQ(sink_.records.size(), 2u);
  EXPECT_EQ(sink_.records[0].name, "cuLaunchKernel");
  EXPECT_EQ(sink_.records[0].kind, ActivityKind::kDriverCall);
  EXPECT_EQ(sink_.records[1].name, "runtime call 9999");
}

TEST_F(CuptiSourceTest, AWholeGraphIsOnePieceOfWorkWhereAskedFor) {
  const auto source = Make({.whole_graphs = true});
  ASSERT_OK(source->Start(sink_));
  CUpti_ActivityGraphTrace2 graph{};
  graph.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  graph.correlationId = 4;
  graph.graphId = 12;
  graph.start = 100;
  graph.end = 400;
  fake_.Put(graph);
  ASSERT_OK(source->Stop());
  ASSERT_EQ(sink_.records.size(), 1u);
  EXPECT_EQ(sink_.records[0].kind, ActivityKind::kKernel);
  EXPECT_EQ(sink_.records[0].name, "CUDA graph 12");
}

TEST_F(CuptiSourceTest, ABufferThatComesAfterTheCaptureHarmsNobody) {
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  fake_.HoldBuffer();
  ASSERT_OK(source->Stop());
  fake_.HandHeldBufferBack();
  EXPECT_THAT(sink_.records, IsEmpty());
}

TEST_F(CuptiSourceTest, OneSourceAtATime) {
  const auto first = Make();
  const auto second = Make();
  ASSERT_OK(first->Start(sink_));
  EXPECT_THAT(second->Start(sink_), FailsWith(reason::kCaptureBusy));
  ASSERT_OK(first->Stop());
  ASSERT_OK(second->Start(sink_));
  fake_.Put(Kernel("k", 1, 1, 2));
  ASSERT_OK(second->Stop());
  EXPECT_EQ(sink_.records.size(), 1u);
}

TEST_F(CuptiSourceTest, ASourceThatIsDroppedWhileItRunsGivesCuptiBack) {
  {
    const auto source = Make();
    ASSERT_OK(source->Start(sink_));
  }
  EXPECT_THAT(fake_.EnabledKinds(), IsEmpty());
  const auto next = Make();
  ASSERT_OK(next->Start(sink_));
  ASSERT_OK(next->Stop());
}

TEST_F(CuptiSourceTest, ARecordThatThisDriverDoesNotKnowIsNamed) {
  fake_.FailKind(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ERROR_NOT_SUPPORTED);
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  fake_.Put(Kernel("k", 1, 1, 2));
  ASSERT_OK_AND_ASSIGN(const CaptureLoss loss, source->Stop());
  EXPECT_THAT(loss.missing_kinds, ElementsAre("synchronization"));
  EXPECT_EQ(sink_.records.size(), 1u);
}

TEST_F(CuptiSourceTest, WithoutKernelsThereIsNoCapture) {
  fake_.FailKind(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ERROR_NOT_SUPPORTED);
  const auto source = Make();
  EXPECT_THAT(source->Start(sink_), FailsWith(reason::kCaptureUnavailable));
  EXPECT_THAT(fake_.EnabledKinds(), IsEmpty());
}

// An error code at every call, with the job's reason for it.
struct FailureCase {
  const char* name;
  const char* function;
  CUptiResult result;
  Reason want;
};

class CuptiFailureTest : public CuptiSourceTest,
                         public ::testing::WithParamInterface<FailureCase> {};

TEST_P(CuptiFailureTest, IsTypedAndNamesTheWaysOut) {
  const FailureCase& c = GetParam();
  fake_.Fail(c.function, c.result);
  const auto source = Make();
  const absl::Status failed = source->Start(sink_);
  ASSERT_THAT(failed, FailsWith(c.want));
  EXPECT_THAT(std::string(failed.message()), HasSubstr(c.function));
  EXPECT_THAT(GetErrorDetail(failed).hints, Contains(HasSubstr("--no-trace")));
  EXPECT_THAT(fake_.EnabledKinds(), IsEmpty());
  // It left nothing behind: the next capture works.
  fake_.Reset();
  const auto next = Make();
  ASSERT_OK(next->Start(sink_));
  ASSERT_OK(next->Stop());
}

INSTANTIATE_TEST_SUITE_P(
    Calls, CuptiFailureTest,
    ::testing::ValuesIn(std::vector<FailureCase>{
        {"SubscribeTaken", "cuptiSubscribe", CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
         reason::kCaptureBusy},
        {"SubscribeNoDriver", "cuptiSubscribe", CUPTI_ERROR_UNKNOWN, reason::kCaptureUnavailable},
        {"Clock", "cuptiActivityRegisterTimestampCallback", CUPTI_ERROR_UNKNOWN,
         reason::kCaptureUnavailable},
        {"ThreadIds", "cuptiSetThreadIdType", CUPTI_ERROR_INVALID_PARAMETER,
         reason::kCaptureUnavailable},
        {"Callbacks", "cuptiActivityRegisterCallbacks", CUPTI_ERROR_INVALID_PARAMETER,
         reason::kCaptureUnavailable},
        {"EnableForbidden", "cuptiActivityEnable", CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
         reason::kCaptureForbidden},
        {"EnableForbiddenInAVm", "cuptiActivityEnable",
         CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES, reason::kCaptureForbidden},
        {"EnableTaken", "cuptiActivityEnable", CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
         reason::kCaptureBusy},
        {"EnableNoMemory", "cuptiActivityEnable", CUPTI_ERROR_OUT_OF_MEMORY,
         reason::kCaptureUnavailable},
    }),
    [](const auto& info) { return info.param.name; });

// Failures that show only at the end of the window.
TEST_F(CuptiSourceTest, AFailedFlushIsNoQuietEnd) {
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  fake_.Fail("cuptiActivityFlushAll", CUPTI_ERROR_UNKNOWN);
  EXPECT_THAT(source->Stop(), FailsWith(reason::kCaptureUnavailable));
  EXPECT_THAT(fake_.EnabledKinds(), IsEmpty());
}

TEST_F(CuptiSourceTest, ALossThatCannotBeToldIsAFailure) {
  const auto source = Make();
  ASSERT_OK(source->Start(sink_));
  fake_.Fail("cuptiActivityGetNumDroppedRecords", CUPTI_ERROR_UNKNOWN);
  EXPECT_THAT(source->Stop(), FailsWith(reason::kCaptureUnavailable));
}

TEST(CuptiCallNameTest, VersionsAndVariantsGo) {
  EXPECT_EQ(PlainCallName("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(PlainCallName("cudaMemcpyAsync_ptsz_v7000"), "cudaMemcpyAsync");
  EXPECT_EQ(PlainCallName("cudaLaunchKernelExC_v11060"), "cudaLaunchKernelExC");
  EXPECT_EQ(PlainCallName("cuMemAlloc_v2"), "cuMemAlloc_v2");
  EXPECT_EQ(PlainCallName("cuLaunchKernel_ptsz"), "cuLaunchKernel");
}

class CuptiLibraryTest : public CuptiSourceTest {};

TEST_F(CuptiLibraryTest, SaysWhereItLooked) {
  const auto none = LoadCupti({"/nonexistent/libcupti.so.13", "libcupti-of-nobody.so"});
  ASSERT_THAT(none, FailsWith(reason::kCaptureUnavailable));
  const std::string message(none.status().message());
  EXPECT_THAT(message, HasSubstr("/nonexistent/libcupti.so.13"));
  EXPECT_THAT(message, HasSubstr("libcupti-of-nobody.so"));
  EXPECT_THAT(GetErrorDetail(none.status()).hints, Contains(HasSubstr("LIBREYOLO_CUPTI")));
}

TEST_F(CuptiLibraryTest, GoesOnToTheNextPlace) {
  ASSERT_OK_AND_ASSIGN(const CuptiLibrary library,
                       LoadCupti({"/nonexistent/libcupti.so.13", LIBREYOLO_FAKE_CUPTI}));
  EXPECT_EQ(library.path, LIBREYOLO_FAKE_CUPTI);
  EXPECT_EQ(library.version, uint32_t{CUPTI_API_VERSION});
}

TEST_F(CuptiLibraryTest, AnotherLibraryUnderItsNameIsFoundOut) {
  EXPECT_THAT(LoadCupti({"libm.so.6"}), FailsWith(reason::kCaptureUnavailable));
}

TEST_F(CuptiLibraryTest, AnOldOneIsRefused) {
  fake_.SetVersion(17);
  const auto old = LoadCupti({LIBREYOLO_FAKE_CUPTI});
  ASSERT_THAT(old, FailsWith(reason::kCaptureUnavailable));
  EXPECT_THAT(std::string(old.status().message()), HasSubstr("too old"));
}

TEST_F(CuptiLibraryTest, LooksBesideLibTorchThenInTheToolkitThenInTheSystem) {
  const auto env = [](const std::string& name) {
    return std::string(name == "CUDA_HOME" ? "/opt/cuda" : "");
  };
  const std::vector<std::string> places = CuptiCandidates(env, "/site/torch/lib");
  const auto at = [&](const std::string& place) {
    const auto found = std::find(places.begin(), places.end(), place);
    EXPECT_NE(found, places.end()) << place;
    return found - places.begin();
  };
  const auto wheel = at("/site/torch/lib/../../nvidia/cu13/lib/libcupti.so.13");
  const auto toolkit = at("/opt/cuda/extras/CUPTI/lib64/libcupti.so.13");
  EXPECT_LT(wheel, toolkit);
  EXPECT_LT(toolkit, at("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"));
  EXPECT_LT(toolkit, at("libcupti.so.12"));
}

TEST_F(CuptiLibraryTest, AFileNamedByTheUserIsTheOnlyPlace) {
  const auto env = [](const std::string& name) {
    return std::string(name == "LIBREYOLO_CUPTI" ? "/mine/libcupti.so" : "");
  };
  EXPECT_THAT(CuptiCandidates(env, "/site/torch/lib"), ElementsAre("/mine/libcupti.so"));
}

// The real library on a machine without a driver: what it answers is not ours to decide.
TEST(RealCuptiTest, WithoutADriverTheReasonIsTyped) {
  const auto library = LoadCupti({LIBREYOLO_REAL_CUPTI, "libcupti.so.13"});
  if (!library.ok()) GTEST_SKIP() << "no libcupti here: " << library.status().message();
  if (dlopen("libcuda.so.1", RTLD_NOW) != nullptr) GTEST_SKIP() << "this machine has a driver";
  EXPECT_THAT(library->path, Not(HasSubstr("fake")));
  EXPECT_GE(library->version, 130000u);
  Collected sink;
  const auto source = MakeCuptiSource(*library);
  const absl::Status failed = source->Start(sink);
  ASSERT_THAT(failed, FailsWith(reason::kCaptureUnavailable));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("(999)"));
  EXPECT_THAT(GetErrorDetail(failed).hints, Contains(HasSubstr("--no-trace")));
}

}  // namespace
}  // namespace libreyolo::worker
