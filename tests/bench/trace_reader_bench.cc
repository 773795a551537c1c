// Reading and analysing traces of 20 and 200 MB, beside a bare simdjson pass over the same text
// that extracts the same fields of every event: bytes per second of each, in one run.
//
// The text is what PyTorch's profiler writes on a CPU: nested operations with its five arguments,
// step markers and phases. With a folder of real traces use bench_analysis_vs_peer.py.
#include <benchmark/benchmark.h>
#include <simdjson.h>

#include <map>
#include <string>

#include "absl/strings/str_format.h"
#include "common/analysis/build_profile.h"
#include "common/base/check.h"
#include "common/trace/trace_reader.h"

namespace libreyolo {
namespace {

constexpr const char* kOps[] = {"aten::conv2d", "aten::convolution", "aten::_convolution",
                                "aten::mkldnn_convolution", "aten::empty"};

void AppendEvent(std::string& out, const char* category, const std::string& name, double ts,
                 double dur, int64_t id) {
  absl::StrAppendFormat(
      &out,
      "  {\n    \"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 22745, \"tid\": 22745,\n"
      "    \"ts\": %.3f, \"dur\": %.3f,\n    \"args\": {\n      \"External id\": %d,\"Record "
      "function "
      "id\": 0, \"Sequence number\": 0, \"Fwd thread id\": 0, \"Ev Idx\": %d\n    }\n  },\n",
      category, name, ts, dur, id, id);
}

const std::string& TraceText(int64_t megabytes) {
  static auto& texts = *new std::map<int64_t, std::string>;
  std::string& text = texts[megabytes];
  if (!text.empty()) return text;
  text = "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n  ],\n  \"traceEvents\": [\n";
  const size_t size = static_cast<size_t>(megabytes) * 1000000;
  text.reserve(size + 100000);
  double now = 5150375894783.594;
  int64_t id = 0;
  for (int step = 0; text.size() < size; ++step) {
    AppendEvent(text, "user_annotation", absl::StrFormat("ProfilerStep#%d", step), now, 20000,
                ++id);
    AppendEvent(text, "user_annotation", "step/forward", now + 100, 19000, ++id);
    for (int layer = 0; layer < 900; ++layer) {
      const double start = now + 110 + 20.0 * layer;
      for (int depth = 0; depth < 5; ++depth) {
        AppendEvent(text, "cpu_op", kOps[depth], start + depth, 18.5 - 2 * depth, ++id);
      }
    }
    now += 20000;
  }
  text +=
      "  {\n    \"ph\": \"i\", \"name\": \"end\", \"ts\": 1, \"pid\": 1, \"tid\": 1, \"s\": "
      "\"g\"\n  }\n"
      "  ],\n  \"traceName\": \"x\"\n}\n";
  return text;
}

// What the notes on platforms call the ceiling: every event's name, category, times and thread.
void BM_BareSimdjson(benchmark::State& state) {
  const simdjson::padded_string padded(TraceText(state.range(0)));
  simdjson::ondemand::parser parser;
  for (auto _ : state) {
    int64_t sum = 0;
    simdjson::ondemand::document document = parser.iterate(padded);
    for (auto event : document["traceEvents"].get_array()) {
      simdjson::ondemand::object object = event.get_object();
      for (auto field : object) {
        const char* key = field.key().value().raw();
        switch (key[0]) {
          case 'n':
          case 'c':
            sum += static_cast<int64_t>(field.value().raw_json_token().value().size());
            break;
          case 't':
            sum += key[1] == 's'
                       ? static_cast<int64_t>(double(field.value().get_double()) * 1000)
                       : static_cast<int64_t>(field.value().raw_json_token().value().size());
            break;
          case 'd':
            sum += static_cast<int64_t>(double(field.value().get_double()) * 1000);
            break;
          default:
            break;
        }
      }
    }
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(padded.size()));
}

void BM_ReadTrace(benchmark::State& state) {
  const std::string& text = TraceText(state.range(0));
  trace::ReadLimits limits;
  limits.threads = static_cast<int>(state.range(1));
  limits.parallel_bytes = 0;  // also where it does not pay
  for (auto _ : state) {
    const auto trace = trace::ParseTrace(text, limits);
    LY_CHECK(trace.ok()) << trace.status();
    benchmark::DoNotOptimize(trace->ops.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}

void BM_ReadAndBuildProfile(benchmark::State& state) {
  const std::string& text = TraceText(state.range(0));
  trace::ReadLimits limits;
  limits.threads = static_cast<int>(state.range(1));
  limits.parallel_bytes = 0;  // also where it does not pay
  for (auto _ : state) {
    const auto trace = trace::ParseTrace(text, limits);
    LY_CHECK(trace.ok()) << trace.status();
    const auto profile = analysis::BuildProfile(*trace, nullptr);
    LY_CHECK(profile.ok()) << profile.status();
    benchmark::DoNotOptimize(profile->ops.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}

BENCHMARK(BM_BareSimdjson)->Arg(20)->Arg(200)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_ReadTrace)
    ->ArgsProduct({{5, 10, 20, 40, 80, 200}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(BM_ReadAndBuildProfile)
    ->ArgsProduct({{20, 200}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace libreyolo
