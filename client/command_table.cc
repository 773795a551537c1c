#include "client/command_table.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace libreyolo::client {
namespace {

constexpr FlagType kSwitch = FlagType::kSwitch;
constexpr FlagType kInt = FlagType::kInt;
constexpr FlagType kNumber = FlagType::kNumber;
constexpr FlagType kText = FlagType::kText;

const FlagSpec kWeights = {"--weights", kText, "LibreYOLO9t.pt", "FILE|NAME",
                           "weights file or name; \"random\" asks for initialised weights"};
const FlagSpec kSize = {"--size", kText, "t", "t|s|m|c",
                        "size of the model; the weights file decides when it is not given"};
const FlagSpec kRepeat = {"--repeat", kInt, "1", "N",
                          "trials, each in a fresh process, for mean and standard deviation"};
const FlagSpec kDevice = {"--device", kText, "0", "DEVICE", "0, 1, cuda:0, a GPU's UUID, or cpu"};
const FlagSpec kProject = {"--project", kText, "runs/profile", "FOLDER",
                           "root of the results, inside the workspace"};
const FlagSpec kThreads = {
    "--threads", kInt, "", "N",
    "threads of the computation; default OMP_NUM_THREADS, else the CPU quota of the host"};
const FlagSpec kOnContention = {
    "--on-contention", kText, "warn", "wait|warn|fail",
    "when another process uses the GPU: wait for it, warn in the profile, or fail"};
const FlagSpec kDetach = {"--detach", kSwitch, "off", "", "print the job's id and do not wait"};
const FlagSpec kWindow = {
    "--window", kText, "", "A:B",
    "analyse the step markers A to B-1 of a trace, counted from 0 (either may be left out)"};
const FlagSpec kTop = {"--top", kInt, "20", "N", "rows to show, 0 for all"};
const FlagSpec kPhase = {"--phase", kText, "", "PHASE", "only what ran in this phase"};
const FlagSpec kListTop = {"--top", kInt, "50", "N", "rows to show, 0 for all"};

const PositionalSpec kTrace = {
    "trace", true, "a profile.json, a profile_trace.json, a job's id, or - for standard input"};
const PositionalSpec kResult = {"path", true,
                                "a profile's path or folder on the server, or a job's id; a "
                                "repeat is one result with all its trials"};
const PositionalSpec kJob = {"job", true, "a job's id"};

std::vector<CommandSpec> MakeMeasuring() {
  return {
      {CommandId::kProfileRun,
       "profile run",
       "Profile a short training",
       {{"data", true, "dataset YAML file or its folder, or a name: sample, coco128"}},
       {kWeights,
        kSize,
        {"--batch", kInt, "16", "N", "micro-batch; -1 picks one that uses about 70 % of VRAM"},
        {"--imgsz", kInt, "640", "PIXELS", "image size of the training"},
        {"--workers", kInt, "8", "N", "workers of the data loader"},
        {"--amp", kSwitch, "on", "", "the family's mixed-precision path", "", true},
        {"--steps", kInt, "20", "N", "measured steps"},
        {"--warmup", kInt, "5", "N", "steps before them"},
        kRepeat,
        kDevice,
        kProject,
        kThreads,
        kOnContention,
        kDetach}},
      {CommandId::kProfileInfer,
       "profile infer",
       "Profile inference",
       {{"source", false, "an image or a folder of images; default: the bundled sample image"}},
       {kWeights,
        kSize,
        {"--batch", kInt, "1", "N", "images in one forward pass"},
        {"--imgsz", kInt, "640", "PIXELS", "size of the input"},
        {"--half", kSwitch, "off", "", "forward under autocast, CUDA only", "", true},
        {"--amp-dtype", kText, "float16", "float16|bfloat16", "autocast type"},
        {"--warmup", kInt, "20", "N", "iterations before the measured ones"},
        {"--runs", kInt, "100", "N", "measured iterations"},
        kRepeat,
        {"--conf", kNumber, "0.25", "X", "confidence threshold, 0 to 1"},
        {"--iou", kNumber, "0.45", "X", "IoU threshold of the non-maximum suppression, 0 to 1"},
        {"--max-det", kInt, "300", "N", "detections kept per image"},
        kDevice,
        kProject,
        {"--trace", kSwitch, "on", "", "write a Chrome trace for the analysis of kernels and ops",
         "", true},
        kThreads,
        kOnContention,
        kDetach}},
  };
}

std::vector<CommandSpec> MakeReaders() {
  return {
      {CommandId::kProfileSummary,
       "profile summary",
       "Step time, throughput, utilisation, verdict and the costliest kernels",
       {kTrace},
       {kWindow}},
      {CommandId::kProfileGet,
       "profile get",
       "One metric and nothing else; without a field, the names of all",
       {kTrace, {"field", false, "the metric; none: list them"}},
       {kWindow}},
      {CommandId::kProfilePhases,
       "profile phases",
       "GPU time, wall time, kernels and ops per phase",
       {kTrace},
       {kWindow}},
      {CommandId::kProfileKernels,
       "profile kernels",
       "Each GPU kernel with its share of GPU time",
       {kTrace},
       {kTop,
        {"--category", kText, "", "TEXT", "a piece of the category's name, any case"},
        {"--grep", kText, "", "RE", "regular expression (RE2), any case, on name and label"},
        {"--tensorcore", kSwitch, "off", "", "only kernels on Tensor Cores"},
        {"--sort", kText, "time", "time|count|name", "order of the rows"},
        kPhase,
        kWindow}},
      {CommandId::kProfileOps,
       "profile ops",
       "The framework's operations by CPU time",
       {kTrace},
       {kTop, kPhase, kWindow}},
      {CommandId::kProfileCompare,
       "profile compare",
       "Two profiles side by side, and whether the difference is significant",
       {{"before", true, "a profile or trace, as for the other readers"},
        {"after", true, "the profile or trace to compare it with"}},
       {{"--force", kSwitch, "off", "", "compare unlike things too"},
        {"--fail-on", kText, "", "CONDITION",
         "exit 10 when it holds: a metric, < or >, a signed change in per cent or a number, such "
         "as \"img_per_s<-5%\"; given several times, when one of them does",
         "", false, true},
        kWindow}},
      {CommandId::kProfileWhatIf,
       "profile what-if",
       "What a change could gain, before it is written",
       {kTrace},
       {{"--remove-category", kText, "", "TEXT",
         "without the kernels of this category (a piece of its name)"},
        {"--remove-launches", kInt, "", "N", "without this many launches per step"},
        kWindow}},
      {CommandId::kProfileTimeline,
       "profile timeline",
       "Steps, phases, operations and kernels on one page for a browser, with verdict and tables",
       {kTrace},
       {{"--output", kText, "timeline.html", "FILE", "the page; - is standard output", "-o"},
        {"--force", kSwitch, "off", "", "replace a file that is there"},
        {"--max-events", kInt, "1000000", "N",
         "events drawn apart, 1000 to 5000000; above it short neighbours are drawn as one, with "
         "their count"},
        kWindow}},
      {CommandId::kProfileList,
       "profile list",
       "The profiles in the workspace, newest first",
       {},
       {kListTop, {"--history", kSwitch, "off", "", "also those that later ones replaced"}}},
      {CommandId::kProfileFetch,
       "profile fetch",
       "Copy a profile's files from the server",
       {{"path", true, "the profile's path or folder on the server, or a job's id"}},
       {{"--output", kText, ".", "FOLDER", "the same relative path is made below it", "-o"},
        {"--force", kSwitch, "off", "", "replace files that differ"}}},
      {CommandId::kProfilePin,
       "profile pin",
       "Keep a result from being removed by the server's retention",
       {kResult},
       {}},
      {CommandId::kProfileUnpin, "profile unpin", "Take a pin back", {kResult}, {}},
  };
}

std::vector<CommandSpec> MakeOthers() {
  return {
      {CommandId::kJobsList,
       "jobs list",
       "The server's jobs, newest first",
       {},
       {kListTop, {"--active", kSwitch, "off", "", "only those that have not ended"}}},
      {CommandId::kJobsShow, "jobs show", "One job, with its error when it failed", {kJob}, {}},
      {CommandId::kJobsWatch,
       "jobs watch",
       "Follow a job to its end; Ctrl-C leaves it running",
       {kJob},
       {}},
      {CommandId::kJobsCancel, "jobs cancel", "End a job and wait until it has", {kJob}, {}},
      {CommandId::kJobsLogs, "jobs logs", "The end of what a job's workers logged", {kJob}, {}},
      {CommandId::kDevices, "devices", "The devices of the server, and who holds them", {}, {}},
      {CommandId::kDoctor,
       "doctor",
       "Look at the server, its devices and what they need, and say what is wrong; exit 3 or 4 "
       "when something is",
       {},
       {}},
      {CommandId::kCompletion,
       "completion",
       "A script that lets a shell complete commands, flags, job ids, metrics and phases",
       {{"shell", true, "bash, zsh or fish"}},
       {}},
      {CommandId::kDaemonStatus,
       "daemon status",
       "The local daemon of the current folder; exit 4 when none runs",
       {},
       {}},
      {CommandId::kDaemonStop,
       "daemon stop",
       "End the local daemon",
       {},
       {{"--force", kSwitch, "off", "", "also while jobs have not ended"}}},
      {CommandId::kDaemonRestart,
       "daemon restart",
       "End the local daemon and start it again",
       {},
       {{"--force", kSwitch, "off", "", "also while jobs have not ended"}}},
      {CommandId::kDaemonLogs, "daemon logs", "The end of the local daemon's log", {}, {}},
      {CommandId::kDaemonCordon,
       "daemon cordon",
       "Let a server take no new jobs; what it has goes on (admins)",
       {},
       {}},
      {CommandId::kDaemonUncordon,
       "daemon uncordon",
       "Let a cordoned server take jobs again (admins)",
       {},
       {}},
      {CommandId::kDaemonDrain,
       "daemon drain",
       "Let a server end once its running jobs have; queued ones wait for its next start (admins)",
       {},
       {}},
      {CommandId::kContextAdd,
       "context add",
       "Keep a server's address and how to be let in under a name; --server says which",
       {{"name", true, "the name"}},
       {}},
      {CommandId::kContextUse,
       "context use",
       "Take a context where no server is named",
       {{"name", true, "a context's name; \"local\" is the local daemon again"}},
       {}},
      {CommandId::kContextList, "context list", "The contexts there are", {}, {}},
      {CommandId::kContextRemove,
       "context remove",
       "Forget a context",
       {{"name", true, "its name"}},
       {}},
  };
}

}  // namespace

const std::vector<CommandSpec>& Commands() {
  static const auto& commands = *new std::vector<CommandSpec>([] {
    std::vector<CommandSpec> all = MakeMeasuring();
    for (CommandSpec& command : MakeReaders()) all.push_back(std::move(command));
    for (CommandSpec& command : MakeOthers()) all.push_back(std::move(command));
    return all;
  }());
  return commands;
}

const std::vector<GroupSpec>& Groups() {
  static const auto& groups = *new std::vector<GroupSpec>{
      {"profile", "Measure where the time goes, and read the profiles"},
      {"jobs", "Look after the jobs of the server"},
      {"daemon", "Look after the local daemon of the current folder, or a server"},
      {"context", "Keep servers under names"},
  };
  return groups;
}

const std::vector<FlagSpec>& CommonFlags() {
  static const auto& flags = *new std::vector<FlagSpec>{
      {"--server", kText, "", "ADDRESS",
       "host[:7430], [v6]:port, unix:PATH or ssh://[user@]host; default LIBREYOLO_SERVER, else the "
       "context in use, else a local daemon"},
      {"--ca", kText, "", "FILE",
       "who signs the server's certificate (PEM); default LIBREYOLO_CA, else the system's"},
      {"--token-file", kText, "", "FILE",
       "holds your token; default LIBREYOLO_TOKEN_FILE, else LIBREYOLO_TOKEN is the token"},
      {"--cert", kText, "", "FILE", "your own certificate (PEM); default LIBREYOLO_CERT"},
      {"--key", kText, "", "FILE", "its private key (PEM); default LIBREYOLO_KEY"},
      {"--json", kSwitch, "off", "", "JSON on standard output, and an error as JSON"},
      {"--help", kSwitch, "off", "", "show this text", "-h"},
  };
  return flags;
}

const CommandSpec* FindCommand(absl::string_view path) {
  for (const CommandSpec& command : Commands()) {
    if (path == command.path) return &command;
  }
  return nullptr;
}

bool IsGroup(absl::string_view word) {
  for (const GroupSpec& group : Groups()) {
    if (word == group.name) return true;
  }
  return false;
}

const FlagSpec* FindFlag(const CommandSpec& command, absl::string_view name) {
  const bool is_no_form = absl::StartsWith(name, "--no-");
  const std::string positive =
      is_no_form ? absl::StrCat("--", absl::StripPrefix(name, "--no-")) : "";
  for (const std::vector<FlagSpec>* flags : {&command.flags, &CommonFlags()}) {
    for (const FlagSpec& flag : *flags) {
      if (name == flag.name || (flag.short_name[0] != '\0' && name == flag.short_name)) {
        return &flag;
      }
      if (flag.has_no_form && is_no_form && positive == flag.name) return &flag;
    }
  }
  return nullptr;
}

}  // namespace libreyolo::client
