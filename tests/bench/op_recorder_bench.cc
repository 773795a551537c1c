// What recording adds to an op, for our recorder and for LibTorch's own profiler (Kineto, CPU
// activities) on the same ops. Prints both and their ratio; the yardstick is at most 0.4.
//
//   op_recorder_bench [--ops N] [--rounds N]
//
// Not a Google Benchmark: the three ways alternate inside one run, so that a change of the
// machine's speed meets all of them, and the median over the rounds is compared.
#include <ATen/ops/alias.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "common/base/clock.h"
#include "server/worker/capture/op_recorder.h"

namespace libreyolo::worker {
namespace {

namespace profiler = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

// A dispatched op that does next to nothing.
double NsPerOp(int op_count) {
  c10::InferenceMode guard;
  const at::Tensor x = at::ones({4});
  const int64_t begin = MonotonicNs();
  for (int i = 0; i < op_count; ++i) at::alias(x);
  return static_cast<double>(MonotonicNs() - begin) / op_count;
}

double WithRecorder(int op_count, ClockKind clock) {
  OpRecorder recorder(
      {.clock = clock, .max_records = 2 * op_count, .expected_records = 2 * op_count});
  if (!recorder.Start().ok()) std::abort();
  const double ns = NsPerOp(op_count);
  if (recorder.Stop().dropped_count != 0) std::abort();
  return ns;
}

double WithKineto(int op_count) {
  const impl::ProfilerConfig config(impl::ProfilerState::KINETO);
  const std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  const double ns = NsPerOp(op_count);
  profiler::disableProfiler();
  return ns;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Run(int op_count, int rounds) {
  const ClockKind best = ChooseClock();
  std::vector<double> bare, ours, fallback, kineto;
  for (int round = 0; round < rounds; ++round) {
    bare.push_back(NsPerOp(op_count));
    ours.push_back(WithRecorder(op_count, best));
    fallback.push_back(WithRecorder(op_count, ClockKind::kClockGettime));
    kineto.push_back(WithKineto(op_count));
  }
  const double base = Median(bare);
  const double ours_ns = Median(ours) - base;
  const double fallback_ns = Median(fallback) - base;
  const double kineto_ns = Median(kineto) - base;
  std::printf("ops per round %d, rounds %d\n", op_count, rounds);
  std::printf("unobserved                 %7.1f ns per op\n", base);
  std::printf("op_recorder (%-13s) +%7.1f ns   ratio to Kineto %.2f (at most 0.40)\n", Name(best),
              ours_ns, ours_ns / kineto_ns);
  std::printf("op_recorder (%-13s) +%7.1f ns   ratio to Kineto %.2f\n", "clock_gettime",
              fallback_ns, fallback_ns / kineto_ns);
  std::printf("Kineto, while recording    +%7.1f ns\n", kineto_ns);
  return 0;
}

}  // namespace
}  // namespace libreyolo::worker

int main(int argc, char** argv) {
  int op_count = 50'000;
  int rounds = 15;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--ops") == 0) op_count = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
  }
  if (op_count < 1 || rounds < 1) return 2;
  return libreyolo::worker::Run(op_count, rounds);
}
