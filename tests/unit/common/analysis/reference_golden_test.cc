// The Python peer's own outputs on CPU profiles and hand-made GPU profiles: our documents hold its
// keys in its order with its values. Where they differ on purpose the exception names the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/analysis/compare.h"
#include "common/analysis/kernels.h"
#include "common/analysis/load_profile.h"
#include "common/analysis/metrics.h"
#include "common/analysis/ops.h"
#include "common/analysis/phases.h"
#include "common/analysis/profile_json.h"
#include "common/analysis/summary.h"
#include "common/analysis/what_if.h"
#include "tests/support/fixtures.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::analysis {
namespace {

using ::libreyolo::testing::DifferenceFrom;
using ::libreyolo::testing::FailsWith;
using ::libreyolo::testing::ReadJsonFile;
using ::libreyolo::testing::SharedPath;

using Exceptions = std::set<std::string>;

// On a CPU profile the GPU's figures are null: zeros would read as measured.
const Exceptions kCpuSummary = {"gpu_util",
                                "gpu_busy_ms_per_step",
                                "mean_kernel_us",
                                "kernels_per_step",
                                "unique_kernels",
                                "memcpy_ms_per_step",
                                "tensorcore_pct",
                                "peak_vram_mb",
                                "host_overhead_ms_per_step",
                                "launches_per_step",
                                "cuda_mallocs_per_step",
                                "gpu_util_raw",
                                "phases_gpu[].gpu_ms_per_step"};
// A CPU training run is not "host / launch bound": our CPU verdict replaces the stored word.
const Exceptions kCpuVerdict = {"bound", "bound_why"};

Exceptions Join(const Exceptions& a, const Exceptions& b) {
  Exceptions all = a;
  all.insert(b.begin(), b.end());
  return all;
}

std::vector<std::string> EveryPeerProfile() {
  std::vector<std::string> files;
  for (const char* name : {"infer", "infer-notrace", "train"}) {
    files.push_back(SharedPath(absl::StrCat("reference-cpu/", name, "/profile.json")));
  }
  for (const char* name :
       {"infer_b1_0", "infer_b1_1", "infer_b1_2", "infer_b1_repeat", "infer_b4_0", "infer_b4_1",
        "infer_b4_2", "infer_b4_repeat", "train_prof_0", "train_prof_1", "train_profile_repeat"}) {
    files.push_back(SharedPath(absl::StrCat("reference-cpu/repeat/", name, ".json")));
  }
  for (const char* name :
       {"gpu-markers-lag14", "gpu-markers-lag4", "infer-postprocess", "train-compute-bound",
        "train-cuda-graph", "train-dataload-bound", "train-launch-bound", "train-memory-pressure",
        "train-pinned-host", "train-two-streams"}) {
    files.push_back(SharedPath(absl::StrCat("synthetic-gpu/", name, "/profile.json")));
  }
  return files;
}

TEST(PeerProfileTest, IsWrittenBackByteForByte) {
  LY_SKIP_WITHOUT_SHARED();
  for (const std::string& file : EveryPeerProfile()) {
    ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(file));
    ASSERT_OK_AND_ASSIGN(const JsonValue json, ParseJson(text));
    ASSERT_OK_AND_ASSIGN(const Profile profile, ProfileFromJson(json));
    EXPECT_EQ(WriteProfileJson(profile), text) << file;
  }
}

struct SummaryCase {
  const char* name;
  const char* profile;
  const char* golden;
  bool cpu;
  bool cpu_verdict;
};

class SummaryGoldenTest : public ::testing::TestWithParam<SummaryCase> {};

TEST_P(SummaryGoldenTest, HoldsThePeersDocument) {
  LY_SKIP_WITHOUT_SHARED();
  const SummaryCase& c = GetParam();
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadProfile(SharedPath(c.profile)));
  ASSERT_OK_AND_ASSIGN(const JsonValue want, ReadJsonFile(SharedPath(c.golden)));
  Exceptions except;
  if (c.cpu) except = kCpuSummary;
  if (c.cpu_verdict) except = Join(except, kCpuVerdict);
  const JsonValue got = ToJson(Summarize(profile));
  EXPECT_EQ(DifferenceFrom(want, got, except), "");
  if (c.cpu) {
    EXPECT_TRUE(got.Find("gpu_util")->is_null());
    EXPECT_TRUE(got.Find("launches_per_step")->is_null());
  }
  if (c.cpu_verdict) {
    EXPECT_EQ(got.Find("bound")->string_value(), "compute");
    EXPECT_EQ(got.Find("bound_stored")->string_value(), "host / launch");
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SummaryGoldenTest,
    ::testing::ValuesIn(std::vector<SummaryCase>{
        {"Infer", "reference-cpu/infer/profile.json", "reference-cpu/infer/out/summary.json", true,
         false},
        {"InferNoTrace", "reference-cpu/infer-notrace/profile.json",
         "reference-cpu/infer-notrace/out/summary.json", true, false},
        {"Train", "reference-cpu/train/profile.json", "reference-cpu/train/out/summary.json", true,
         true},
        {"InferRepeat", "reference-cpu/repeat/infer_b1_repeat.json",
         "reference-cpu/repeat/out/infer-b1-summary.json", true, false},
        {"TrainRepeat", "reference-cpu/repeat/train_profile_repeat.json",
         "reference-cpu/repeat/out/train-summary.json", true, true},
        {"ComputeBound", "synthetic-gpu/train-compute-bound/profile.json",
         "synthetic-gpu/train-compute-bound/reference/summary.json", false, false},
        {"LaunchBound", "synthetic-gpu/train-launch-bound/profile.json",
         "synthetic-gpu/train-launch-bound/reference/summary.json", false, false},
        {"MemoryPressure", "synthetic-gpu/train-memory-pressure/profile.json",
         "synthetic-gpu/train-memory-pressure/reference/summary.json", false, false},
        {"Postprocess", "synthetic-gpu/infer-postprocess/profile.json",
         "synthetic-gpu/infer-postprocess/reference/summary.json", false, false},
    }),
    [](const auto& info) { return info.param.name; });

// From the trace: the window of the reference gives its figures again.
struct TraceCase {
  const char* name;
  const char* folder;
  const char* window;
};

class TraceGoldenTest : public ::testing::TestWithParam<TraceCase> {};

TEST_P(TraceGoldenTest, GivesThePeersFiguresAgain) {
  LY_SKIP_WITHOUT_SHARED();
  const std::string folder = SharedPath(absl::StrCat("reference-cpu/", GetParam().folder));
  LoadOptions options;
  options.window = *ParseWindowRange(GetParam().window);
  ASSERT_OK_AND_ASSIGN(const Profile profile,
                       LoadProfile(absl::StrCat(folder, "/profile_trace.json.gz"), options));
  ASSERT_OK_AND_ASSIGN(const JsonValue want, ReadJsonFile(folder + "/profile.json"));
  const Exceptions except = {
      "trace",                                // where it lies here
      "bound", "bound_why", "metrics.bound",  // our verdict
      // Our rows: ranked and shared by self time, and with a row for what is in no phase.
      "ops", "ops_by_phase", "phases", "phases_gpu", "kernels_by_phase",
      // On a traced inference the peer leaves the host time of a phase out.
      "metrics.preprocess_wall_ms", "metrics.forward_wall_ms", "metrics.postprocess_wall_ms"};
  EXPECT_EQ(DifferenceFrom(want, ProfileToJson(profile), except), "");

  // Operations: the peer's inclusive times and counts are all there.
  for (const JsonValue& row : want.Find("ops")->array()) {
    const std::string name = row.Find("op")->string_value();
    const auto own = std::find_if(profile.ops.begin(), profile.ops.end(),
                                  [&](const OpRow& op) { return op.op.substr(0, 70) == name; });
    ASSERT_NE(own, profile.ops.end()) << name;
    EXPECT_NEAR(*own->ms_per_step, row.Find("ms_per_step")->number(), 0.000051) << name;
    EXPECT_EQ(*own->count_per_step, row.Find("count_per_step")->int_value()) << name;
  }
  for (const JsonValue& row : want.Find("phases")->array()) {
    const auto own = std::find_if(
        profile.phases.begin(), profile.phases.end(),
        [&](const PhaseRow& p) { return p.phase == row.Find("phase")->string_value(); });
    ASSERT_NE(own, profile.phases.end());
    EXPECT_EQ(*own->ops_per_step, row.Find("ops_per_step")->int_value()) << own->phase;
    if (!row.Find("wall_ms_per_step")->is_null()) {
      EXPECT_EQ(*own->wall_ms_per_step, row.Find("wall_ms_per_step")->number()) << own->phase;
    }
  }
  int64_t ops = 0;
  for (const PhaseRow& row : profile.phases) ops += *row.ops_per_step;
  EXPECT_NEAR(static_cast<double>(ops), *profile.exact.ops_per_step,
              static_cast<double>(profile.phases.size()))
      << "every operation is in one phase row";
}

INSTANTIATE_TEST_SUITE_P(All, TraceGoldenTest,
                         ::testing::ValuesIn(std::vector<TraceCase>{{"Infer", "infer", "2:8"},
                                                                    {"Train", "train", "2:5"}}),
                         [](const auto& info) { return info.param.name; });

TEST(TraceGoldenTest, SelfTimesOfOneThreadFitIntoTheStep) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const Profile profile,
                       LoadProfile(SharedPath("reference-cpu/train/profile_trace.json.gz")));
  double self_ms = 0;
  double shares = 0;
  for (const OpRow& row : profile.ops) {
    self_ms += *row.self_ms_per_step;
    shares += row.pct_of_cpu_ops;
  }
  EXPECT_LT(self_ms, profile.window_wall_ms / 5);
  EXPECT_NEAR(shares, 100, 0.5);
  EXPECT_EQ(profile.bound, "compute");
  EXPECT_THAT(profile.bound_why, ::testing::HasSubstr("forward"));
}

absl::StatusOr<JsonValue> Answer(const std::string& command, const Profile& profile) {
  std::vector<std::string> words = absl::StrSplit(command, ' ');
  words.erase(std::remove(words.begin(), words.end(), "--json"), words.end());
  KernelQuery kernels;
  OpQuery ops;
  WhatIfQuery what_if;
  for (size_t i = 2; i < words.size(); ++i) {
    const std::string next = i + 1 < words.size() ? words[i + 1] : "";
    if (words[i] == "--top") kernels.top = ops.top = std::stoll(next);
    if (words[i] == "--phase") kernels.phase = ops.phase = next;
    if (words[i] == "--category") kernels.category = next;
    if (words[i] == "--grep") kernels.grep = next;
    if (words[i] == "--tensorcore") kernels.tensorcore = true;
    if (words[i] == "--sort") {
      LY_ASSIGN_OR_RETURN(kernels.sort, ParseKernelSort(next));
    }
    if (words[i] == "--remove-category") what_if.remove_category = next;
    if (words[i] == "--remove-launches") what_if.remove_launches = std::stoll(next);
  }
  if (words[0] == "phases") return ToJson(ReportPhases(profile));
  if (words[0] == "kernels") {
    LY_ASSIGN_OR_RETURN(const KernelsReport report, ReportKernels(profile, kernels));
    return ToJson(report);
  }
  if (words[0] == "ops") {
    LY_ASSIGN_OR_RETURN(const OpsReport report, ReportOps(profile, ops));
    return ToJson(report);
  }
  if (words[0] == "what-if") {
    LY_ASSIGN_OR_RETURN(const WhatIfReport report, ProjectWhatIf(profile, what_if));
    return ToJson(report);
  }
  if (words[0] == "get" && words.size() == 2) return MetricNamesToJson(ListMetrics(profile));
  if (words[0] == "get") {
    LY_ASSIGN_OR_RETURN(const JsonValue value, GetMetric(profile, words[2], "PATH"));
    return MetricToJson(words[2], value);
  }
  if (words[0] == "summary") return ToJson(Summarize(profile));
  return absl::UnimplementedError(words[0]);
}

// Runs every recorded reader command of a folder again. Keys of `differs` are file names with the
// reason why ours is another answer; "" means that only what stands in `except` differs.
void CheckFolder(const std::string& folder, const std::string& out,
                 const std::map<std::string, Exceptions>& except,
                 const std::map<std::string, const char*>& differs) {
  ASSERT_OK_AND_ASSIGN(const std::string commands,
                       ReadFile(absl::StrCat(folder, "/", out, "/commands.tsv")));
  ASSERT_OK_AND_ASSIGN(const Profile profile, LoadProfile(folder + "/profile.json"));
  int checked = 0;
  for (absl::string_view line : absl::StrSplit(commands, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> columns = absl::StrSplit(line, '\t');
    const std::string& file = columns[0];
    if (!absl::EndsWith(file, ".json") || absl::StrContains(columns[2], "profile_trace")) continue;
    const std::string command = columns[2].substr(std::string("libreyolo profile ").size());
    const auto got = Answer(command, profile);
    if (differs.count(file) > 0) {
      ++checked;
      continue;  // its own test says what is right
    }
    if (columns[1] != "0") {
      EXPECT_FALSE(got.ok()) << command;
      continue;
    }
    ASSERT_TRUE(got.ok()) << command << got.status();
    ASSERT_OK_AND_ASSIGN(const JsonValue want,
                         ReadJsonFile(absl::StrCat(folder, "/", out, "/", file)));
    const auto found = except.find(file);
    EXPECT_EQ(DifferenceFrom(want, *got, found == except.end() ? Exceptions{} : found->second), "")
        << command;
    ++checked;
  }
  EXPECT_GE(checked, 5) << folder;
}

TEST(ReaderGoldenTest, CpuTraining) {
  LY_SKIP_WITHOUT_SHARED();
  CheckFolder(SharedPath("reference-cpu/train"), "out",
              {{"summary.json", Join(kCpuSummary, kCpuVerdict)}},
              {{"get-bound.json", "the CPU verdict"},
               {"what-if-launches100.json", "a CPU profile has no launch to remove"}});
}

TEST(ReaderGoldenTest, CpuInference) {
  LY_SKIP_WITHOUT_SHARED();
  CheckFolder(SharedPath("reference-cpu/infer"), "out", {{"summary.json", kCpuSummary}},
              {{"what-if-launches100.json", "a CPU profile has no launch to remove"}});
}

TEST(ReaderGoldenTest, CpuInferenceWithoutTrace) {
  LY_SKIP_WITHOUT_SHARED();
  CheckFolder(SharedPath("reference-cpu/infer-notrace"), "out", {{"summary.json", kCpuSummary}},
              {});
}

TEST(ReaderGoldenTest, ComputeBound) {
  LY_SKIP_WITHOUT_SHARED();
  const Exceptions mechanism = {"mechanism", "caveat"};  // sentences are ours
  CheckFolder(SharedPath("synthetic-gpu/train-compute-bound"), "reference",
              {{"what-if-gemm.json", Join(mechanism, {"removed.launches"})},  // 3 kernels, 3 calls
               {"what-if-both.json", Join(mechanism, {"removed.launches"})},
               {"kernels-top2.json", {"matched"}}},  // counted before --top
              {{"kernels-top0.json", "--top 0 is all rows"},
               {"kernels-top-neg1.json", "a negative --top is refused"},
               {"kernels-sort-bogus.json", "an unknown --sort is refused"},
               {"what-if-launches2.json", "says that launches alone save nothing"}});
}

TEST(ReaderGoldenTest, LaunchBound) {
  LY_SKIP_WITHOUT_SHARED();
  CheckFolder(SharedPath("synthetic-gpu/train-launch-bound"), "reference",
              {{"what-if-launches2.json", {"mechanism", "caveat"}}},
              {{"what-if-gemm.json", "a category's launches are counted, not guessed by time"},
               {"what-if-both.json", "likewise"}});
}

TEST(ReaderGoldenTest, WhatDiffersOnPurpose) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const Profile gpu,
                       LoadProfile(SharedPath("synthetic-gpu/train-compute-bound/profile.json")));
  KernelQuery query;
  query.top = 0;
  ASSERT_OK_AND_ASSIGN(KernelsReport report, ReportKernels(gpu, query));
  EXPECT_EQ(report.rows.size(), gpu.kernels.size()) << "--top 0 is all";
  query.top = 2;
  ASSERT_OK_AND_ASSIGN(report, ReportKernels(gpu, query));
  EXPECT_EQ(report.matched, 7) << "matched counts before --top";
  EXPECT_EQ(report.rows.size(), 2u);
  query.top = -1;
  EXPECT_THAT(ReportKernels(gpu, query), FailsWith(reason::kArgumentOutOfRange));
  EXPECT_THAT(ParseKernelSort("bogus"), FailsWith(reason::kArgumentInvalid));
  query = {};
  query.grep = "[";
  EXPECT_THAT(ReportKernels(gpu, query), FailsWith(reason::kArgumentInvalid));
  query = {};
  query.phase = "nosuch";
  const auto unknown = ReportKernels(gpu, query);
  ASSERT_THAT(unknown, FailsWith(reason::kUnknownPhase));
  EXPECT_EQ(std::string(unknown.status().message()),
            "unknown phase 'nosuch'. available: forward, backward, optimizer, unphased");
  EXPECT_THAT(ReportOps(gpu, {.top = 20, .phase = "nosuch"}), FailsWith(reason::kUnknownPhase));

  ASSERT_OK_AND_ASSIGN(const Profile cpu,
                       LoadProfile(SharedPath("reference-cpu/train/profile.json")));
  WhatIfQuery what_if;
  what_if.remove_launches = 1;
  ASSERT_OK_AND_ASSIGN(const WhatIfReport projected, ProjectWhatIf(cpu, what_if));
  EXPECT_EQ(projected.removed_launches, 0);
  EXPECT_EQ(projected.step_projected_exact_ms, 207.56) << "nothing to gain without a GPU";
  what_if.remove_launches = -1;
  EXPECT_THAT(ProjectWhatIf(cpu, what_if), FailsWith(reason::kArgumentOutOfRange));
  what_if.remove_launches.reset();
  EXPECT_THAT(ProjectWhatIf(cpu, what_if), FailsWith(reason::kArgumentInvalid));
  what_if.remove_category = "";
  EXPECT_THAT(ProjectWhatIf(cpu, what_if), FailsWith(reason::kArgumentInvalid));
  what_if.remove_category = "gemm";
  const auto no_category = ProjectWhatIf(cpu, what_if);
  ASSERT_THAT(no_category, FailsWith(reason::kUnknownCategory));
  EXPECT_EQ(std::string(no_category.status().message()),
            "no category matching 'gemm'. have: none, the profile has no kernels");

  ASSERT_OK_AND_ASSIGN(const JsonValue bound, GetMetric(cpu, "bound", "p"));
  EXPECT_EQ(bound.string_value(), "compute");
  ASSERT_OK_AND_ASSIGN(const JsonValue util, GetMetric(cpu, "gpu_util", "p"));
  EXPECT_TRUE(util.is_null()) << "null, never a measured-looking 0";
  const auto no_metric = GetMetric(cpu, "nosuch", "a/profile.json");
  ASSERT_THAT(no_metric, FailsWith(reason::kUnknownMetric));
  EXPECT_EQ(GetErrorDetail(no_metric.status()).hints[0],
            "run 'profile get a/profile.json' to list metrics");
}

struct CompareCase {
  const char* name;
  const char* before;
  const char* after;
  bool force;
  Exceptions except;
};

class CompareGoldenTest : public ::testing::TestWithParam<CompareCase> {};

TEST_P(CompareGoldenTest, HoldsThePeersDocumentAndLines) {
  LY_SKIP_WITHOUT_SHARED();
  const CompareCase& c = GetParam();
  const std::string root = SharedPath("reference-cpu/");
  ASSERT_OK_AND_ASSIGN(const Profile before, LoadProfile(root + c.before));
  ASSERT_OK_AND_ASSIGN(const Profile after, LoadProfile(root + c.after));
  CompareQuery query;
  query.before_name = c.before;
  query.after_name = c.after;
  if (c.force) {
    EXPECT_THAT(Compare(before, after, query), FailsWith(reason::kNotComparable));
  }
  query.force = c.force;
  ASSERT_OK_AND_ASSIGN(const CompareReport report, Compare(before, after, query));
  ASSERT_OK_AND_ASSIGN(const JsonValue want,
                       ReadJsonFile(absl::StrCat(root, "compare/out/", c.name, ".json")));
  EXPECT_EQ(DifferenceFrom(want, ToJson(report), c.except), "");
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ReadFile(absl::StrCat(root, "compare/out/", c.name, ".txt")));
  const std::vector<std::string> want_lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  const std::vector<std::string> lines = CompareLines(report);
  ASSERT_GE(lines.size(), want_lines.size());
  for (size_t i = 0; i < want_lines.size(); ++i) {
    if (c.except.count("bound") > 0 && absl::StartsWith(want_lines[i], "verdict")) continue;
    EXPECT_EQ(lines[i], want_lines[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, CompareGoldenTest,
    ::testing::ValuesIn(std::vector<CompareCase>{
        {"infer-b1-vs-b1", "repeat/infer_b1_repeat.json", "repeat/infer_b1_repeat.json", false, {}},
        {"infer-b1-vs-b4", "repeat/infer_b1_repeat.json", "repeat/infer_b4_repeat.json", false, {}},
        {"train-vs-train", "train/profile.json", "train/profile.json", false, {"bound"}},
        {"trainrepeat-vs-single",
         "repeat/train_profile_repeat.json",
         "train/profile.json",
         false,
         {"bound"}},
        // Unlike things: the peer compares them without a word, ours only when forced.
        {"train-vs-infer", "train/profile.json", "infer/profile.json", true, {"bound"}},
    }),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

struct EdgeCase {
  const char* file;
  const Reason* reason;  // null: it is read
};

class EdgeCaseTest : public ::testing::TestWithParam<EdgeCase> {};

TEST_P(EdgeCaseTest, IsReadOrRefused) {
  LY_SKIP_WITHOUT_SHARED();
  const auto profile =
      LoadProfile(SharedPath(absl::StrCat("reference-cpu/edge-cases/in/", GetParam().file)));
  if (GetParam().reason == nullptr) {
    ASSERT_OK(profile.status());
    EXPECT_EQ(profile->window_real_steps, 0);
    EXPECT_FALSE(profile->step_ms.has_value());
    EXPECT_EQ(profile->completeness->kernels, 1);
  } else {
    EXPECT_THAT(profile, FailsWith(*GetParam().reason));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EdgeCaseTest,
    ::testing::ValuesIn(std::vector<EdgeCase>{
        {"nope.json", &reason::kProfileNotFound},
        {"adir", &reason::kTraceUnparsable},
        {"malformed.json", &reason::kTraceUnparsable},
        {"emptyfile.json", &reason::kTraceEmpty},
        {"obj.json", &reason::kTraceEmpty},            // the peer invents a profile of zeros
        {"arr.json", &reason::kTraceEmpty},            // likewise
        {"noevents.json", &reason::kTraceEmpty},       // likewise
        {"foreignschema.json", &reason::kTraceEmpty},  // likewise
        {"num.json", &reason::kTraceUnparsable},
        {"null.json", &reason::kTraceUnparsable},
        {"str.json", &reason::kTraceUnparsable},
        {"nullevents.json", &reason::kTraceUnparsable},
        {"schemaonly.json", &reason::kTraceUnparsable},  // the peer prints a stack trace
        {"badevent.json", &reason::kTraceUnparsable},
        {"tsstring.json", &reason::kTraceUnparsable},
        {"bom.json", &reason::kTraceEmpty},  // the mark is skipped; it holds no event
        {"bin.json", &reason::kTraceEmpty},  // a gzip of "{}": unpacked
        {"laterschema.json", &reason::kTraceSchemaUnsupported},  // the peer reads it unchecked
        {"nosteps.json", nullptr},
    }),
    [](const auto& info) {
      std::string name = info.param.file;
      return name.substr(0, name.find('.'));
    });

}  // namespace
}  // namespace libreyolo::analysis
