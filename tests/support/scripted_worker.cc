// A worker that does what a script says, for tests of the daemon. It speaks the real worker link.
//
//   scripted_worker DIR
//
// DIR holds the scripts: the one named after the job's project ("runs/crash" plays DIR/crash), else
// DIR/default. One step a line, empty lines and those with # are skipped:
//
//   hello [BUILD]             the greeting, of this build or another
//   stage starting|warming_up|measuring
//   progress STAGE DONE TOTAL
//   wait-file PATH            until PATH exists; ends by itself when cancelled or when the daemon
//   dies obey no                   from here on neither a cancel nor the daemon's death ends a wait
//   trace own|empty|FILE      writes profile_trace.json: a small valid one, none of it, a copy
//   finish [garbage]          a valid measurement of the plan, or text that is none
//   fail REASON MESSAGE...
//   log TEXT...               a line on stderr
//   say-garbage               bytes that are no message
//   child PATH                leaves a process that takes no SIGTERM and writes its pid to PATH
//   exit N | kill SIGNAL      ends at once
//   trial N STEP...           the step in trial N only
//
// The end of the script is exit 0.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/version.h"
#include "common/job/measurement_json.h"
#include "common/trace/trace_writer.h"
#include "server/worker_link/worker_channel.h"

namespace libreyolo {
namespace {

namespace fs = std::filesystem;
using worker_link::WorkerChannel;
using worker_link::WorkerPlan;
using worker_link::WorkerStage;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStepMs = 20;
constexpr int kTracedSteps = 3;
constexpr int kPollMs = 10;

job::Measurement MeasurementOf(const WorkerPlan& plan) {
  job::Measurement m;
  m.mode = plan.mode;
  m.model.weights = plan.weights;
  m.model.weights_path = plan.weights_path;
  m.model.weights_digest = plan.weights_digest;
  m.model.random_weights = plan.weights_path.empty();
  m.model.size = plan.size.empty() ? "t" : plan.size;
  m.device = plan.device;
  m.device_name = "scripted";
  m.batch = plan.batch;
  m.imgsz = m.imgsz_requested = plan.imgsz;
  m.warmup = plan.warmup;
  m.runs = plan.runs;
  m.conf = plan.conf;
  m.iou = plan.iou;
  m.max_det = plan.max_det;
  m.source = plan.source.empty() ? "sample" : plan.source;
  m.source_count = plan.source_paths.empty() ? 1 : static_cast<int>(plan.source_paths.size());
  for (int i = 0; i < plan.runs; ++i) m.latencies_ns.push_back((kStepMs + i % 3) * kMs);
  m.images_processed = int64_t{plan.runs} * plan.batch;
  m.untraced_wall_ns = plan.runs * (kStepMs + 1) * kMs;
  for (int i = 0; i < kTracedSteps; ++i) {
    m.traced_steps.push_back(
        {kStepMs * kMs, {{"preprocess", 4 * kMs}, {"forward", 15 * kMs}, {"postprocess", kMs}}});
  }
  m.traced = plan.trace;
  m.op_records = kTracedSteps;
  m.peak_rss_bytes = 100 << 20;
  m.environment.threads = 1;
  m.environment.worker_build = BuildId();
  return m;
}

absl::Status WriteOwnTrace(const WorkerPlan& plan, const std::string& path) {
  auto opened = trace::TraceWriter::Open(path, {"scripted", 0, {}});
  if (!opened.ok()) return opened.status();
  trace::TraceWriter& writer = **opened;
  const trace::Lane lane{1, 1};
  const trace::EventKind forward = writer.Register("user_annotation", "step/forward");
  const trace::EventKind conv = writer.Register("cpu_op", "aten::conv2d");
  for (int i = 0; i < kTracedSteps; ++i) {
    const int64_t start = i * kStepMs * kMs;
    writer.AddComplete(
        writer.Register("user_annotation", absl::StrCat("ProfilerStep#", plan.warmup + i)), lane,
        start, kStepMs * kMs);
    writer.AddComplete(forward, lane, start + 4 * kMs, 15 * kMs);
    writer.AddComplete(conv, lane, start + 5 * kMs, 10 * kMs);
  }
  JsonValue ours{JsonValue::Object{}};
  ours.Set("schema", trace::kTraceSchema);
  ours.Set("measurement", job::MeasurementToJson(MeasurementOf(plan)));
  return writer.Finish(ours);
}

class Player {
 public:
  Player(WorkerChannel& channel, const WorkerPlan& plan) : channel_(channel), plan_(plan) {}

  void Play(const std::vector<std::string>& words) {
    const std::string& verb = words[0];
    const auto word = [&](size_t i) { return i < words.size() ? words[i] : std::string(); };
    const auto rest = [&](size_t i) {
      return absl::StrJoin(words.begin() + static_cast<std::ptrdiff_t>(i), words.end(), " ");
    };
    if (verb == "hello") {
      Say(worker_link::Hello{word(1).empty() ? BuildId() : word(1), getpid()});
    } else if (verb == "stage") {
      Say(worker_link::StageBegan{word(1) == "warming_up"  ? WorkerStage::kWarmingUp
                                  : word(1) == "measuring" ? WorkerStage::kMeasuring
                                                           : WorkerStage::kStarting,
                                  "scripted"});
    } else if (verb == "progress") {
      Say(worker_link::Progress{word(1), Number(word(2)), Number(word(3))});
    } else if (verb == "wait-file") {
      WaitForFile(word(1));
    } else if (verb == "obey") {
      obeys_ = false;
    } else if (verb == "trace") {
      WriteTrace(word(1));
    } else if (verb == "finish") {
      Say(worker_link::Finished{
          word(1).empty() ? job::MeasurementToJson(MeasurementOf(plan_)).ToCompact() : word(1), 0});
    } else if (verb == "fail") {
      Say(worker_link::Failed{
          MakeErrorFromDetail(absl::StatusCode::kInternal, {word(1), rest(2), {"a way out"}, {}})});
    } else if (verb == "log") {
      std::fprintf(stderr, "%s\n", rest(1).c_str());
    } else if (verb == "say-garbage") {
      const std::string frame = worker_link::EncodeFrame("\xff\xff\xff no message");
      send(worker_link::kWorkerLinkFd, frame.data(), frame.size(), MSG_NOSIGNAL);
    } else if (verb == "child") {
      LeaveChild(word(1));
    } else if (verb == "exit") {
      _exit(static_cast<int>(Number(word(1))));
    } else if (verb == "kill") {
      const int number = static_cast<int>(Number(word(1)));
      signal(number, SIG_DFL);  // a sanitizer would make an exit of it
      kill(getpid(), number);
    } else if (verb == "trial") {
      if (Number(word(1)) == plan_.trial) Play({words.begin() + 2, words.end()});
    } else {
      LY_CHECK(false) << "unknown step " << verb;
    }
  }

 private:
  static int64_t Number(const std::string& text) {
    int64_t value = 0;
    LY_CHECK(absl::SimpleAtoi(text, &value)) << "not a number: " << text;
    return value;
  }

  void Say(const worker_link::WorkerMessage& message) {
    if (!channel_.Send(message).ok() && obeys_) _exit(1);
  }

  void WriteTrace(const std::string& what) {
    const std::string path = plan_.staging_dir + "/profile_trace.json";
    if (what == "own") {
      const absl::Status status = WriteOwnTrace(plan_, path);
      LY_CHECK(status.ok()) << status.ToString();
    } else if (what == "empty") {
      LY_CHECK(WriteFile(path, "").ok());
    } else {
      // Without the file's permissions, which a worker may not set.
      std::ofstream(path) << std::ifstream(what).rdbuf();
    }
  }

  void WaitForFile(const std::string& path) {
    while (access(path.c_str(), F_OK) != 0) {
      pollfd link{worker_link::kWorkerLinkFd, POLLIN, 0};
      if (poll(obeys_ ? &link : nullptr, obeys_ ? 1 : 0, kPollMs) <= 0) continue;
      const auto message = channel_.Receive();
      if (!message.ok()) _exit(1);  // the daemon died
      if (std::holds_alternative<worker_link::Cancel>(*message)) {
        Say(worker_link::Failed{MakeError(reason::kCancelled, "cancelled")});
        _exit(0);
      }
    }
  }

  static void LeaveChild(const std::string& pid_path) {
    if (fork() != 0) {
      while (access(pid_path.c_str(), F_OK) != 0) poll(nullptr, 0, kPollMs);
      return;
    }
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    LY_CHECK(WriteFileAtomically(pid_path, absl::StrCat(getpid())).ok());
    for (;;) pause();
  }

  WorkerChannel& channel_;
  const WorkerPlan& plan_;
  bool obeys_ = true;
};

int Main(const std::string& folder) {
  WorkerChannel channel{UniqueFd(worker_link::kWorkerLinkFd)};
  auto first = channel.Receive();
  if (!first.ok()) return 1;
  const auto* plan = std::get_if<WorkerPlan>(&*first);
  LY_CHECK(plan != nullptr);
  // <project>/.staging/<job>/<trial>
  const std::string project =
      fs::path(plan->staging_dir).parent_path().parent_path().parent_path().filename();
  auto script = ReadFile(absl::StrCat(folder, "/", project));
  if (!script.ok()) script = ReadFile(folder + "/default");
  LY_CHECK(script.ok()) << script.status().ToString();
  Player player(channel, *plan);
  for (absl::string_view line : absl::StrSplit(*script, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (!words.empty() && words[0][0] != '#') player.Play(words);
  }
  return 0;
}

}  // namespace
}  // namespace libreyolo

int main(int argc, char** argv) {
  LY_CHECK(argc == 2) << "usage: scripted_worker DIR";
  return libreyolo::Main(argv[1]);
}
