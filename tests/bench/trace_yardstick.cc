// Holds the analysis of a trace against two limits, on one core: at least 0.4 of the speed of a
// bare simdjson pass over the same bytes, and less memory than the file has. The two sides take
// turns; the ratio is of medians. Exits 0 when both limits are met, 1 when one is missed, 2 when
// it could not be measured.
//
//   trace_yardstick [FILE]           without a file: a trace of 200 MB is made in the temporary
//   folder trace_yardstick --make FILE MB   makes a trace of that size trace_yardstick --serve FILE
//   for scripts: each word on stdin is measured once, "bare" or a
//                                    number of threads; prints CPU and wall seconds
#include <simdjson.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/analysis/load_profile.h"
#include "common/base/file.h"

namespace libreyolo {
namespace {

constexpr int kRounds = 5;
constexpr double kSpeedLimit = 0.4;
constexpr double kMemoryLimit = 1.0;

std::string MakeTrace(size_t bytes) {
  constexpr const char* kOps[] = {"aten::conv2d", "aten::convolution", "aten::_convolution",
                                  "aten::mkldnn_convolution", "aten::empty"};
  std::string text = "{\n  \"schemaVersion\": 1,\n  \"traceEvents\": [\n";
  text.reserve(bytes + 4096);
  int64_t id = 0;
  const auto add = [&](const char* category, const std::string& name, double ts, double dur) {
    ++id;
    absl::StrAppendFormat(&text,
                          "%s  {\n    \"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": "
                          "22745, \"tid\": 22745,\n    \"ts\": %.3f, \"dur\": %.3f,\n    \"args\": "
                          "{\n      \"External id\": %d,\"Record function id\": 0, \"Sequence "
                          "number\": 0, \"Fwd thread id\": 0, \"Ev Idx\": %d\n    }\n  }",
                          id == 1 ? "" : ",\n", category, name, ts, dur, id, id);
  };
  double now = 5150375894783.594;
  for (int step = 0; text.size() < bytes; ++step, now += 20000) {
    add("user_annotation", absl::StrFormat("ProfilerStep#%d", step), now, 20000);
    add("user_annotation", "step/forward", now + 100, 19000);
    for (int layer = 0; layer < 900; ++layer) {
      for (int depth = 0; depth < 5; ++depth) {
        add("cpu_op", kOps[depth], now + 110 + 20.0 * layer + depth, 18.5 - 2 * depth);
      }
    }
  }
  return text + "\n  ]\n}\n";
}

// The process's CPU time: "on one core" should not depend on who else runs.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Every event's name, category, times and thread: nothing is kept.
double BarePass(const simdjson::padded_string& text) {
  const double start = CpuSeconds();
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document = parser.iterate(text);
  int64_t sum = 0;
  for (auto event : document["traceEvents"].get_array()) {
    simdjson::ondemand::object object = event.get_object();
    for (auto field : object) {
      const char key = field.key().value().raw()[0];
      if (key == 'n' || key == 'c' || key == 't' || key == 'd') {
        sum += static_cast<int64_t>(field.value().raw_json_token().value().size());
      }
    }
  }
  const double seconds = CpuSeconds() - start;
  if (sum == 0) std::exit(2);
  return seconds;
}

double Analyse(const std::string& path, int threads = 1) {
  const double start = CpuSeconds();
  analysis::LoadOptions options;
  options.limits.threads = threads;
  const auto profile = analysis::LoadProfile(path, options);
  if (!profile.ok()) {
    std::fprintf(stderr, "%s\n", std::string(profile.status().message()).c_str());
    std::exit(2);
  }
  return CpuSeconds() - start;
}

// Peak resident bytes of a process that does nothing but analyse the file.
int64_t AnalysisMemory(const std::string& path) {
  constexpr char kSelf[] = "/proc/self/exe";
  const pid_t child = fork();
  if (child == 0) {
    execl(kSelf, kSelf, "--analyse-once", path.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) std::exit(2);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Measure(const std::string& path) {
  // First, while this process is small: a child's peak begins with what it was forked from.
  const int64_t memory_bytes = AnalysisMemory(path);
  const auto bytes = ReadFile(path);
  if (!bytes.ok()) {
    std::fprintf(stderr, "%s\n", std::string(bytes.status().message()).c_str());
    return 2;
  }
  const double size = static_cast<double>(bytes->size());
  const simdjson::padded_string padded(*bytes);
  std::vector<double> bare;
  std::vector<double> ours;
  for (int round = 0; round < kRounds; ++round) {
    bare.push_back(BarePass(padded));
    ours.push_back(Analyse(path));
  }
  const double speed = Median(bare) / Median(ours);
  const double memory = static_cast<double>(memory_bytes) / size;
  std::printf("%.0f MB: bare simdjson pass %.0f MB/s, whole analysis %.0f MB/s\n", size / 1e6,
              size / 1e6 / Median(bare), size / 1e6 / Median(ours));
  std::printf("speed over the bare pass   %.2f  (at least %.1f)\n", speed, kSpeedLimit);
  std::printf("peak memory over the file  %.2f  (below %.1f)\n", memory, kMemoryLimit);
  return speed >= kSpeedLimit && memory < kMemoryLimit ? 0 : 1;
}

int Serve(const std::string& path) {
  const auto bytes = ReadFile(path);
  if (!bytes.ok()) return 2;
  const simdjson::padded_string padded(*bytes);
  std::string word;
  while (std::cin >> word) {
    const auto start = std::chrono::steady_clock::now();
    const double cpu = word == "bare" ? BarePass(padded) : Analyse(path, std::atoi(word.c_str()));
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    std::printf("%.6f %.6f\n", cpu, wall.count());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace libreyolo

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--analyse-once") {
    libreyolo::Analyse(argv[2]);
    return 0;
  }
  if (argc == 3 && std::string(argv[1]) == "--serve") return libreyolo::Serve(argv[2]);
  if (argc == 4 && std::string(argv[1]) == "--make") {
    const size_t size = static_cast<size_t>(std::atoi(argv[3])) * 1'000'000;
    return libreyolo::WriteFile(argv[2], libreyolo::MakeTrace(size)).ok() ? 0 : 2;
  }
  if (argc > 1) return libreyolo::Measure(argv[1]);
  std::string path = "/tmp/ly-trace-XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0) return 2;
  close(fd);
  int result = 2;
  if (libreyolo::WriteFile(path, libreyolo::MakeTrace(200'000'000)).ok()) {
    result = libreyolo::Measure(path);
  }
  unlink(path.c_str());
  return result;
}
