// The renderers against the Python peer's outputs: our analysis of its profiles, as messages, as
// text. Columns, order and numbers are its own; sentences are compared where they are stored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/render/json.h"
#include "client/render/table.h"
#include "client/render/text.h"
#include "common/analysis/kernels.h"
#include "common/analysis/load_profile.h"
#include "common/analysis/ops.h"
#include "common/analysis/phases.h"
#include "common/analysis/summary.h"
#include "common/analysis/what_if.h"
#include "common/base/file.h"
#include "common/rpc/convert_analysis.h"
#include "tests/support/fixtures.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;
using ::libreyolo::testing::DifferenceFrom;
using ::libreyolo::testing::ReadJsonFile;
using ::libreyolo::testing::SharedPath;
using ::testing::HasSubstr;
using ::testing::Not;

v1::KernelsReport MessageOf(const analysis::KernelsReport& report) {
  v1::KernelsReport out;
  out.set_trace(report.trace);
  out.set_matched(report.matched);
  for (const analysis::KernelRow& row : report.rows) {
    v1::KernelRow& to = *out.add_rows();
    to.set_label(row.kernel);
    to.set_name(row.raw_name);
    to.set_category(row.category);
    to.set_tensor_core(row.tensorcore);
    to.set_ms_per_step(*row.ms_per_step);
    to.set_percent_of_gpu(row.pct_of_gpu);
    to.set_count_per_step(static_cast<double>(*row.count_per_step));
  }
  return out;
}

v1::OpsReport MessageOf(const analysis::OpsReport& report) {
  v1::OpsReport out;
  out.set_trace(report.trace);
  out.set_matched(report.matched);
  for (const analysis::OpRow& row : report.rows) {
    v1::OpRow& to = *out.add_rows();
    to.set_name(row.op);
    to.set_self_ms_per_step(*row.ms_per_step);
    to.set_percent_of_ops(row.pct_of_cpu_ops);
    to.set_count_per_step(static_cast<double>(*row.count_per_step));
  }
  return out;
}

v1::SummaryReport SummaryOf(const std::string& profile) {
  const absl::StatusOr<analysis::Profile> loaded = analysis::LoadProfile(SharedPath(profile));
  EXPECT_OK(loaded);
  return rpc::ToProto(analysis::Summarize(*loaded), profile);
}

std::string Golden(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(SharedPath(path));
  EXPECT_OK(text);
  return text.value_or("");
}

class SyntheticTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string Path(const char* name) const {
    return absl::StrCat("synthetic-gpu/", GetParam(), "/", name);
  }
};

TEST_P(SyntheticTest, SummaryIsThePeersText) {
  LY_SKIP_WITHOUT_SHARED();
  EXPECT_EQ(SummaryText(SummaryOf(Path("profile.json"))), Golden(Path("reference/summary.txt")));
}

TEST_P(SyntheticTest, KernelsAreThePeersRows) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(const analysis::Profile profile,
                       analysis::LoadProfile(SharedPath(Path("profile.json"))));
  ASSERT_OK_AND_ASSIGN(const analysis::KernelsReport report, analysis::ReportKernels(profile, {}));
  EXPECT_EQ(KernelsText(MessageOf(report), 0), Golden(Path("reference/kernels.txt")));
  ASSERT_OK_AND_ASSIGN(const JsonValue want, ParseJson(Golden(Path("reference/kernels.json"))));
  EXPECT_EQ(DifferenceFrom(want, KernelsJson(MessageOf(report))), "");
}

INSTANTIATE_TEST_SUITE_P(Cases, SyntheticTest,
                         ::testing::Values("infer-postprocess", "train-compute-bound",
                                           "train-dataload-bound", "train-launch-bound",
                                           "train-memory-pressure", "train-pinned-host",
                                           "train-two-streams", "train-cuda-graph"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(OpsTextTest, IsThePeersText) {
  LY_SKIP_WITHOUT_SHARED();
  for (const std::string folder :
       {"synthetic-gpu/train-compute-bound/reference/../", "reference-cpu/infer/"}) {
    ASSERT_OK_AND_ASSIGN(const analysis::Profile profile,
                         analysis::LoadProfile(SharedPath(folder + "profile.json")));
    ASSERT_OK_AND_ASSIGN(const analysis::OpsReport report, analysis::ReportOps(profile, {}));
    const std::string golden =
        folder == "reference-cpu/infer/" ? folder + "out/ops" : folder + "reference/ops";
    EXPECT_EQ(OpsText(MessageOf(report), 0), Golden(golden + ".txt"));
    ASSERT_OK_AND_ASSIGN(const JsonValue want, ParseJson(Golden(golden + ".json")));
    EXPECT_EQ(DifferenceFrom(want, OpsJson(MessageOf(report))), "");
  }
}

TEST(OpsTextTest, ShowsSelfAndTotalWhereBothAreKnown) {
  v1::OpsReport report;
  v1::OpRow& row = *report.add_rows();
  row.set_name("aten::conv2d");
  row.set_self_ms_per_step(0.1);
  row.set_total_ms_per_step(1.0);
  row.set_percent_of_ops(2.5);
  row.set_count_per_step(0.5);
  EXPECT_EQ(OpsText(report, 0),
            " %self   self ms  total ms  x/step  op\n"
            "  2.50     0.100     1.000     0.5  aten::conv2d\n");
  const JsonValue json = OpsJson(report);
  EXPECT_EQ(json.Find("ops")->array()[0].ToCompact(),
            "{\"op\": \"aten::conv2d\", \"ms_per_step\": 1.0, \"pct_of_cpu_ops\": 2.5, "
            "\"count_per_step\": 0.5, \"self_ms_per_step\": 0.1}");
}

TEST(KernelsTextTest, CutsNamesToTheTerminalOnly) {
  v1::KernelsReport report;
  v1::KernelRow& row = *report.add_rows();
  row.set_label(std::string(200, 'k'));
  row.set_category("other");
  EXPECT_THAT(KernelsText(report, 0), HasSubstr(std::string(200, 'k')));
  for (const absl::string_view line : absl::StrSplit(KernelsText(report, 80), '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

// The tables on a terminal of 40 columns: no line is longer, and no figure is cut.
TEST(NarrowTerminalTest, KernelsGiveUpTheCategory) {
  v1::KernelsReport report;
  for (const char* name : {"sm90_xmma_fprop_implicit_gemm_f16f16", "silu"}) {
    v1::KernelRow& row = *report.add_rows();
    row.set_label(name);
    row.set_category("gemm / conv");
    row.set_percent_of_gpu(42.86);
    row.set_ms_per_step(1234.567);
    row.set_count_per_step(1000);
    row.set_tensor_core(true);
  }
  EXPECT_EQ(KernelsText(report, 40),
            "  %GPU   ms/step  x/step TC  kernel\n"
            " 42.86  1234.567    1000  Y  sm90_xmm...\n"
            " 42.86  1234.567    1000  Y  silu\n");
  EXPECT_THAT(KernelsText(report, 60), HasSubstr("sm90_xmma_fpr...  [gemm / conv]\n"));
}

TEST(NarrowTerminalTest, OpsGiveUpTheTotal) {
  v1::OpsReport report;
  v1::OpRow& row = *report.add_rows();
  row.set_name("aten::cudnn_convolution_backward");
  row.set_self_ms_per_step(10.5);
  row.set_total_ms_per_step(11);
  row.set_percent_of_ops(99.5);
  row.set_count_per_step(3);
  EXPECT_EQ(OpsText(report, 40),
            " %self   self ms  x/step  op\n"
            " 99.50    10.500       3  aten::cudnn...\n");
  EXPECT_THAT(OpsText(report, 52), HasSubstr("11.000       3  aten::cudnn_c...\n"));
}

TEST(NarrowTerminalTest, PhasesMoveTogether) {
  v1::PhasesReport report;
  v1::PhaseRow& row = *report.add_rows();
  row.set_name("postprocess");
  row.set_gpu_ms(1234.5);
  row.set_wall_ms(12345.6);
  row.set_kernels_per_step(12345);
  row.set_ops_per_step(54321);
  EXPECT_EQ(PhasesText(report, 40),
            "phase       gpu_ms wall_ms kernels   ops\n"
            "postprocess 1234.5 12345.6   12345 54321\n");
}

TEST(PhasesTextTest, WithoutStepsShowsTheWholeRecording) {
  v1::PhasesReport report;
  v1::PhaseRow& row = *report.add_rows();
  row.set_name("forward");
  row.set_recording_gpu_ms(12.25);
  row.set_recording_kernels(70);
  row.set_recording_ops(140);
  EXPECT_EQ(PhasesText(report, 0),
            "phase         gpu_ms  wall_ms  kernels     ops\n"
            "forward         12.2        -       70     140\n"
            "(no step markers: all figures are of the whole recording)\n");
}

TEST(RowsTextTest, WithoutStepsShowTheWholeRecording) {
  v1::KernelsReport kernels;
  v1::KernelRow& kernel = *kernels.add_rows();
  kernel.set_label("gemm");
  kernel.set_category("gemm / conv");
  kernel.set_percent_of_gpu(100);
  kernel.set_recording_ms(12.5);
  kernel.set_recording_count(70);
  EXPECT_EQ(KernelsText(kernels, 0),
            "  %GPU   total ms   calls TC  kernel  [category]\n"
            "100.00    12.500      70     gemm  [gemm / conv]\n");
  v1::OpsReport ops;
  v1::OpRow& op = *ops.add_rows();
  op.set_name("aten::mm");
  op.set_percent_of_ops(50);
  op.set_recording_self_ms(1.5);
  op.set_recording_ms(3);
  op.set_recording_count(7);
  EXPECT_EQ(OpsText(ops, 0),
            " %self   self ms  total ms   calls  op\n"
            " 50.00     1.500     3.000       7  aten::mm\n");
}

TEST(PrintableTest, NothingSteersATerminal) {
  EXPECT_EQ(Printable("a\x1b[2Jb\x07\x7f"), "a?[2Jb??");
  EXPECT_EQ(Printable("c1 \xc2\x9b"
                      "31m"),
            "c1 ?31m");
  EXPECT_EQ(Printable("\xe2\x80\xae"
                      "turned\xe2\x81\xa6"),
            "?turned?");
  EXPECT_EQ(Printable("line\nnext"), "line?next");
  EXPECT_EQ(Printable("line\nnext", true), "line\nnext");
  EXPECT_EQ(Printable("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 stays"),
            "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 stays");
}

TEST(CompareTextTest, FitsTheTerminal) {
  v1::CompareReport report;
  report.add_lines("img/s          10.0 -> 12.0 (+20%)  [a long reason why it can not be told]");
  report.add_lines("  +0.100  1.000 -> 1.100  a_kernel_with_a_very_long_name_that_goes_on");
  EXPECT_EQ(CompareText(report, 40),
            "img/s          10.0 -> 12.0 (+20%)  [a\n"
            "               long reason why it can\n"
            "               not be told]\n"
            "  +0.100  1.000 -> 1.100  a_kernel_wi...\n");
  EXPECT_EQ(CompareText(report, 0), absl::StrCat(report.lines(0), "\n", report.lines(1), "\n"));
  report.clear_lines();
  report.add_lines("verdict        averyveryverylongword another");
  EXPECT_EQ(CompareText(report, 20),
            "verdict        averyveryverylongword\n               another\n");
}

TEST(PhasesTextTest, IsThePeersText) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(
      const analysis::Profile profile,
      analysis::LoadProfile(SharedPath("synthetic-gpu/train-compute-bound/profile.json")));
  v1::PhasesReport report;
  for (const analysis::PhaseRow& row : analysis::ReportPhases(profile).rows) {
    v1::PhaseRow& to = *report.add_rows();
    to.set_name(row.phase);
    to.set_gpu_ms(*row.gpu_ms_per_step);
    if (row.wall_ms_per_step.has_value()) to.set_wall_ms(*row.wall_ms_per_step);
    to.set_kernels_per_step(static_cast<double>(*row.kernels_per_step));
    to.set_ops_per_step(static_cast<double>(*row.ops_per_step));
  }
  EXPECT_EQ(PhasesText(report, 0),
            Golden("synthetic-gpu/train-compute-bound/reference/phases.txt"));
}

TEST(SummaryTextTest, CpuProfileHasCpuLinesInPlaceOfTheGpus) {
  LY_SKIP_WITHOUT_SHARED();
  const std::string text = SummaryText(SummaryOf("reference-cpu/infer/profile.json"));
  EXPECT_THAT(text, HasSubstr("model LibreYOLO9t.pt  |  59.64 img/s  |  step 16.77 ms\n"
                              "latency  p50 15.364 ms | p90 19.665 ms | p99 19.665 ms  "
                              "(5 samples)\n"
                              "stages   preprocess 0.578 ms | forward 15.667 ms | "
                              "postprocess/NMS 0.121 ms\n"
                              "device cpu  |  "));
  EXPECT_THAT(text, HasSubstr("phases   preprocess 3.5% | forward 95.7% | postprocess 0.7%\n"));
  EXPECT_THAT(text, HasSubstr("top ops/step (times include nested ops):\n"
                              "   18.2%   5.220 ms  x227  aten::conv2d\n"));
  EXPECT_THAT(text, Not(HasSubstr("GPU")));
  EXPECT_THAT(text, Not(HasSubstr("kernel")));
}

TEST(SummaryTextTest, FiguresThatAreNotKnownAreQuestionMarks) {
  v1::SummaryReport report;
  report.set_bound("GPU not recorded");
  report.set_bound_reason("no kernel came");
  report.set_validity("INVALID");
  v1::Finding& bad = *report.add_findings();
  bad.set_severity(v1::Finding::INVALID);
  bad.set_text("12 launches, no kernel");
  v1::Finding& info = *report.add_findings();
  info.set_severity(v1::Finding::INFO);
  info.set_text("imgsz rounded up");
  EXPECT_EQ(SummaryText(report),
            "model ?  |  ? img/s  |  step ? ms  |  ? kernels/step @ ~?us\n"
            "GPU util ?%  (? ms busy)  |  Tensor Cores ?%  |  peak VRAM ? MB  |  memcpy ? ms\n"
            "host overhead ? ms/step  |  ? kernel launches/step\n"
            ">> GPU NOT RECORDED: no kernel came\n"
            "kernel mix:\ntop kernels/step:\n"
            "validity INVALID\ninvalid: 12 launches, no kernel\nnote: imgsz rounded up\n");
}

TEST(SummaryTextTest, LimitsOfPercentilesStandOnALineOfTheirOwn) {
  v1::SummaryReport report;
  report.set_on_cpu(true);
  v1::LatencySummary& latency = *report.mutable_latency();
  latency.set_n(20);
  latency.set_p50_low_ms(9.25);
  latency.set_p50_high_ms(10.5);
  latency.set_p90_low_ms(11);
  EXPECT_THAT(SummaryText(report),
              HasSubstr("\n95% CI   p50 9.25 to 10.5 | p90 from 11.0 | p99 no limits ms\n"));
}

TEST(WhatIfTextTest, HasThePeersNumbers) {
  LY_SKIP_WITHOUT_SHARED();
  ASSERT_OK_AND_ASSIGN(
      const analysis::Profile profile,
      analysis::LoadProfile(SharedPath("synthetic-gpu/train-compute-bound/profile.json")));
  analysis::WhatIfQuery query;
  query.remove_category = "gemm";
  ASSERT_OK_AND_ASSIGN(const analysis::WhatIfReport from, analysis::ProjectWhatIf(profile, query));
  v1::WhatIfReport report;
  report.set_bound(from.bound);
  report.set_mechanism("less work");
  report.set_step_now_ms(*from.step_now_ms);
  report.set_step_projected_ms(*from.step_projected_ms);
  report.set_img_per_s_now(*from.img_per_s_now);
  report.set_img_per_s_projected(*from.img_per_s_projected);
  report.set_caveat("measure again");
  EXPECT_EQ(WhatIfText(report),
            "what-if [compute]: less work\n  step   100.0 -> ~30 ms\n"
            "  img/s  160.0 -> ~533 (+233%)\n  (measure again)\n");
}

TEST(WhatIfTextTest, RoundingIsNoLoss) {
  v1::WhatIfReport report;
  EXPECT_EQ(WhatIfText(report), "what-if []: \n") << "nothing to project, so nothing is shown";
  report.set_step_now_ms(103.7);
  report.set_step_projected_ms(104.2);
  report.set_img_per_s_now(9.64);
  report.set_img_per_s_projected(9.6);
  EXPECT_THAT(WhatIfText(report), HasSubstr("9.64 -> ~10 (+0%)"));
}

TEST(InferResultTest, IsThePeersTextAndDocument) {
  LY_SKIP_WITHOUT_SHARED();
  const v1::SummaryReport single = SummaryOf("reference-cpu/infer/profile.json");
  EXPECT_EQ(InferResultText(single),
            "latency  p50 15.364 ms | p90 19.665 ms | p99 19.665 ms  |  59.64 img/s\n"
            "stages   preprocess 0.578 ms | forward 15.667 ms | postprocess/NMS 0.121 ms\n"
            ">> COMPUTE: forward dominates the step (15.67 ms) \u2014 CPU-bound\n");
  const v1::SummaryReport repeat = SummaryOf("reference-cpu/repeat/infer_b1_repeat.json");
  const std::vector<std::string> golden =
      absl::StrSplit(Golden("reference-cpu/repeat/infer_b1.measure.stdout.txt"), '\n');
  const std::vector<std::string> lines = absl::StrSplit(InferResultText(repeat), '\n');
  EXPECT_EQ(lines[0], golden[0]);
  EXPECT_EQ(lines[1], golden[1]);
  v1::Job job;
  job.set_id("j1");
  job.set_profile("runs/b4/infer_repeat.json");
  ASSERT_OK_AND_ASSIGN(const JsonValue want,
                       ParseJson(Golden("reference-cpu/repeat/infer_b4.measure-json.stdout.txt")));
  const JsonValue got =
      InferResultJson(job, SummaryOf("reference-cpu/repeat/infer_b4_repeat.json"));
  EXPECT_EQ(DifferenceFrom(want, got), "");
  EXPECT_EQ(got.object()[got.object().size() - 3].first, "job");
  const JsonValue alone = InferResultJson(job, single);
  EXPECT_TRUE(alone.Find("img_per_s_std")->is_null());
  EXPECT_EQ(alone.Find("img_per_s_n")->int_value(), 1);
}

TEST(RunResultTest, IsThePeersText) {
  LY_SKIP_WITHOUT_SHARED();
  v1::SummaryReport report = SummaryOf("reference-cpu/repeat/train_profile_repeat.json");
  report.set_bound("host / launch");
  EXPECT_EQ(RunResultText(report), "img/s: 11.64 +/- 0.67 (n=2)  |  host / launch\n");
}

TEST(MetricTextTest, IsPythons) {
  v1::MetricValue value;
  EXPECT_EQ(MetricText(value), "None");
  EXPECT_EQ(MetricJson(value).ToCompact(), "null");
  value.set_bool_value(false);
  EXPECT_EQ(MetricText(value), "False");
  value.set_double_value(160);
  EXPECT_EQ(MetricText(value), "160.0");
  value.set_int_value(7);
  EXPECT_EQ(MetricText(value), "7");
  value.set_string_value("host / launch");
  EXPECT_EQ(MetricText(value), "host / launch");
}

TEST(TableTest, PadsByCharactersAndCutsThem) {
  Table table({{"name"}, {"n", Table::Align::kRight}});
  table.Add({"\u00e9t\u00e9", "1"});
  table.Add({"winter", "22"});
  EXPECT_EQ(table.ToText(), "name     n\n\u00e9t\u00e9      1\nwinter  22\n");
  EXPECT_EQ(FitWidth("\u00e9t\u00e9 and winter", 6), "\u00e9t\u00e9...");
  EXPECT_EQ(FitWidth("short", 5), "short");
}

}  // namespace
}  // namespace libreyolo::client
