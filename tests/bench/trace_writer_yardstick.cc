// Holds the trace writer against two ways to write the same bytes, in CPU time of one core: fprintf
// of each event (what one would do without it), and fwrite of the finished text (what no writer can
// be below). The three take turns; ratios are of medians. Exits 0 when both limits are met, 1 when
// one is missed, 2 when it could not be measured.
//
//   trace_writer_yardstick [--events N] [--rounds N]     half operations, half kernels
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/trace/trace_writer.h"

namespace libreyolo {
namespace {

constexpr double kFprintfLimit = 0.5;
constexpr double kFwriteLimit = 4.0;

constexpr const char* kOps[] = {"aten::conv2d", "aten::convolution", "aten::_convolution",
                                "aten::cudnn_convolution", "aten::empty"};
constexpr const char* kKernels[] = {
    "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize"
    "1x1x1_execute_kernel__5x_cudnn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel(c10::BFloat16), "
    "std::array<char*, 2ul> >(int)",
    "void cudnn::bn_fw_tr_1C11_kernel_NHWC<float, float, int, 512, true, 1, "
    "true>(cudnnTensorStruct)"};
constexpr int64_t kPid = 22745;

// The i-th event's times, in nanoseconds.
int64_t StartOf(int64_t i) { return 1'500'000'000 + 2347 * i; }
int64_t DurationOf(int64_t i) { return 1000 + 37 * (i % 1000); }

void Require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "error: %s\n", what);
  std::exit(2);
}

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void WithWriter(const std::string& path, int64_t events) {
  auto writer = trace::TraceWriter::Open(path, {.name = "bench"});
  Require(writer.ok(), "cannot open the trace");
  std::vector<trace::EventKind> ops;
  std::vector<trace::EventKind> kernels;
  for (const char* name : kOps) ops.push_back((*writer)->Register("cpu_op", name));
  for (const char* name : kKernels) kernels.push_back((*writer)->Register("kernel", name));
  for (int64_t i = 0; i < events; i += 2) {
    const size_t n = static_cast<size_t>(i / 2);
    (*writer)->AddComplete(ops[n % ops.size()], {kPid, kPid}, StartOf(i), DurationOf(i),
                           {{"External id", i}, {"Sequence number", i / 2}});
    (*writer)->AddComplete(kernels[n % kernels.size()], {0, 7}, StartOf(i + 1), DurationOf(i + 1),
                           {{"device", int64_t{0}},
                            {"stream", int64_t{7}},
                            {"correlation", i},
                            {"grid", trace::TraceArg::Triple{132, 1, 1}},
                            {"block", trace::TraceArg::Triple{384, 1, 1}}});
  }
  Require((*writer)->Finish(JsonValue()).ok(), "cannot finish the trace");
}

constexpr char kHead[] =
    "{\n\"schemaVersion\": 1,\n\"deviceProperties\": [],\n\"displayTimeUnit\": \"ms\",\n"
    "\"baseTimeNanoseconds\": 0,\n\"traceName\": \"bench\",\n\"traceEvents\": [";
constexpr char kTail[] = "\n],\n\"libreyolo\": null\n}\n";

void WithFprintf(const std::string& path, int64_t events) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  Require(file != nullptr, "cannot open the file");
  std::fputs(kHead, file);
  const auto begin = [&](int64_t i, const char* category, const char* name, int64_t pid,
                         int64_t tid) {
    std::fprintf(file,
                 "%s\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%" PRId64
                 ",\"tid\":%" PRId64 ",\"ts\":%" PRId64 ".%03" PRId64 ",\"dur\":%" PRId64
                 ".%03" PRId64,
                 i == 0 ? "" : ",", category, name, pid, tid, StartOf(i) / 1000, StartOf(i) % 1000,
                 DurationOf(i) / 1000, DurationOf(i) % 1000);
  };
  for (int64_t i = 0; i < events; i += 2) {
    const size_t n = static_cast<size_t>(i / 2);
    begin(i, "cpu_op", kOps[n % std::size(kOps)], kPid, kPid);
    std::fprintf(file, ",\"args\":{\"External id\":%" PRId64 ",\"Sequence number\":%" PRId64 "}}",
                 i, i / 2);
    begin(i + 1, "kernel", kKernels[n % std::size(kKernels)], 0, 7);
    std::fprintf(file,
                 ",\"args\":{\"device\":%d,\"stream\":%d,\"correlation\":%" PRId64
                 ",\"grid\":[%d,%d,%d],\"block\":[%d,%d,%d]}}",
                 0, 7, i, 132, 1, 1, 384, 1, 1);
  }
  std::fputs(kTail, file);
  Require(std::fclose(file) == 0, "cannot write the file");
}

void WithFwrite(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  Require(file != nullptr, "cannot open the file");
  Require(std::fwrite(text.data(), 1, text.size(), file) == text.size(), "cannot write the file");
  Require(std::fclose(file) == 0, "cannot write the file");
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename Work>
double Timed(const Work& work) {
  const double start = CpuSeconds();
  work();
  return CpuSeconds() - start;
}

int Measure(const std::string& path, int64_t events, int rounds) {
  WithFprintf(path, events);
  const auto want = ReadFile(path);
  Require(want.ok(), "cannot read the file back");
  WithWriter(path, events);
  const auto text = ReadFile(path);
  Require(text.ok() && *text == *want, "the two ways write different bytes");
  std::vector<double> ours;
  std::vector<double> formatted;
  std::vector<double> bare;
  for (int i = 0; i < rounds; ++i) {
    ours.push_back(Timed([&] { WithWriter(path, events); }));
    formatted.push_back(Timed([&] { WithFprintf(path, events); }));
    bare.push_back(Timed([&] { WithFwrite(path, *text); }));
  }
  const double megabytes = static_cast<double>(text->size()) / 1e6;
  std::printf("%" PRId64
              " events, %.1f MB: writer %.0f MB/s (%.0f ns/event), fprintf %.0f MB/s, "
              "fwrite %.0f MB/s\n",
              events, megabytes, megabytes / Median(ours),
              1e9 * Median(ours) / static_cast<double>(events), megabytes / Median(formatted),
              megabytes / Median(bare));
  const double over_fprintf = Median(ours) / Median(formatted);
  const double over_fwrite = Median(ours) / Median(bare);
  std::printf("time over fprintf of the same events  %.2f  (at most %.2f)  %s\n", over_fprintf,
              kFprintfLimit, over_fprintf <= kFprintfLimit ? "ok" : "MISS");
  std::printf("time over fwrite of the same bytes    %.2f  (at most %.1f)  %s\n", over_fwrite,
              kFwriteLimit, over_fwrite <= kFwriteLimit ? "ok" : "MISS");
  return over_fprintf <= kFprintfLimit && over_fwrite <= kFwriteLimit ? 0 : 1;
}

}  // namespace
}  // namespace libreyolo

int main(int argc, char** argv) {
  int64_t events = 200'000;
  int rounds = 9;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--events") == 0) events = std::atoll(argv[i + 1]) / 2 * 2;
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
  }
  if (events < 2 || rounds < 1) return 2;
  std::string path = "/tmp/ly-writer-XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0) return 2;
  close(fd);
  const int result = libreyolo::Measure(path, events, rounds);
  unlink(path.c_str());
  return result;
}
