#include "client/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_join.h"
#include "client/help.h"
#include "common/json/json_value.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::client {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::Contains;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

TEST(ParseCommandLineTest, InferHasTheContractsDefaults) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line, ParseCommandLine({"profile", "infer"}));
  ASSERT_EQ(line.command->id, CommandId::kProfileInfer);
  const Arguments& args = line.arguments;
  EXPECT_EQ(args.Text("--weights"), "LibreYOLO9t.pt");
  EXPECT_EQ(args.Text("--size"), "t");
  EXPECT_EQ(args.Int("--batch"), 1);
  EXPECT_EQ(args.Int("--imgsz"), 640);
  EXPECT_FALSE(args.Switch("--half"));
  EXPECT_EQ(args.Text("--amp-dtype"), "float16");
  EXPECT_EQ(args.Int("--warmup"), 20);
  EXPECT_EQ(args.Int("--runs"), 100);
  EXPECT_EQ(args.Int("--repeat"), 1);
  EXPECT_EQ(args.Number("--conf"), 0.25);
  EXPECT_EQ(args.Number("--iou"), 0.45);
  EXPECT_EQ(args.Int("--max-det"), 300);
  EXPECT_EQ(args.Text("--device"), "0");
  EXPECT_EQ(args.Text("--project"), "runs/profile");
  EXPECT_TRUE(args.Switch("--trace"));
  EXPECT_FALSE(args.Switch("--detach"));
  EXPECT_FALSE(args.HasWord(0));
  EXPECT_FALSE(args.IsTyped("--weights"));
  EXPECT_FALSE(line.json);
}

TEST(ParseCommandLineTest, RunHasTheContractsDefaults) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line, ParseCommandLine({"profile", "run", "coco128"}));
  const Arguments& args = line.arguments;
  EXPECT_EQ(args.Word(0), "coco128");
  EXPECT_EQ(args.Text("--weights"), "LibreYOLO9t.pt");
  EXPECT_EQ(args.Int("--batch"), 16);
  EXPECT_EQ(args.Int("--imgsz"), 640);
  EXPECT_EQ(args.Int("--workers"), 8);
  EXPECT_TRUE(args.Switch("--amp"));
  EXPECT_EQ(args.Int("--steps"), 20);
  EXPECT_EQ(args.Int("--warmup"), 5);
  EXPECT_EQ(args.Int("--repeat"), 1);
  EXPECT_EQ(args.Text("--device"), "0");
}

TEST(ParseCommandLineTest, ReadersHaveTheContractsDefaults) {
  ASSERT_OK_AND_ASSIGN(const CommandLine kernels, ParseCommandLine({"profile", "kernels", "p"}));
  EXPECT_EQ(kernels.arguments.Int("--top"), 20);
  EXPECT_EQ(kernels.arguments.Text("--sort"), "time");
  EXPECT_FALSE(kernels.arguments.Switch("--tensorcore"));
  ASSERT_OK_AND_ASSIGN(const CommandLine ops, ParseCommandLine({"profile", "ops", "p"}));
  EXPECT_EQ(ops.arguments.Int("--top"), 20);
  ASSERT_OK_AND_ASSIGN(const CommandLine what_if, ParseCommandLine({"profile", "what-if", "p"}));
  EXPECT_FALSE(what_if.arguments.IsTyped("--remove-launches"));
}

TEST(ParseCommandLineTest, FlagsMayStandAnywhereAndTheLastWins) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line,
                       ParseCommandLine({"--server", "box", "profile", "--json", "infer", "--batch",
                                         "2", "a.jpg", "--batch=4", "--half", "--no-half",
                                         "--server=unix:/tmp/s", "--no-trace", "--conf", "-0.5"}));
  EXPECT_EQ(line.server, "unix:/tmp/s");
  EXPECT_TRUE(line.json);
  EXPECT_EQ(line.arguments.Int("--batch"), 4);
  EXPECT_TRUE(line.arguments.IsTyped("--half"));
  EXPECT_FALSE(line.arguments.Switch("--half"));
  EXPECT_FALSE(line.arguments.Switch("--trace"));
  EXPECT_EQ(line.arguments.Number("--conf"), -0.5);
  EXPECT_EQ(line.arguments.Word(0), "a.jpg");
}

TEST(ParseCommandLineTest, ValuesAreTakenAsTheyAre) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line,
                       ParseCommandLine({"profile", "kernels", "-", "--grep", "[a,b]", "--category",
                                         "", "--phase", "x=y", "--top", "0"}));
  EXPECT_EQ(line.arguments.Word(0), "-");
  EXPECT_EQ(line.arguments.Text("--grep"), "[a,b]");
  EXPECT_TRUE(line.arguments.IsTyped("--category"));
  EXPECT_EQ(line.arguments.Text("--category"), "");
  EXPECT_EQ(line.arguments.Text("--phase"), "x=y");
  ASSERT_OK_AND_ASSIGN(const CommandLine batch,
                       ParseCommandLine({"profile", "run", "sample", "--batch", "-1"}));
  EXPECT_EQ(batch.arguments.Int("--batch"), -1);
  ASSERT_OK_AND_ASSIGN(const CommandLine fetch,
                       ParseCommandLine({"profile", "fetch", "runs", "-o", "out"}));
  EXPECT_EQ(fetch.arguments.Text("--output"), "out");
}

struct BadCase {
  const char* name;
  Words words;
  const char* says;
};

class BadLineTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadLineTest, IsAUsageErrorThatSaysSo) {
  const absl::Status status = ParseCommandLine(GetParam().words).status();
  ASSERT_THAT(status, FailsWith(reason::kArgumentInvalid));
  const ErrorDetail detail = GetErrorDetail(status);
  EXPECT_THAT(detail.message + "\n" + absl::StrJoin(detail.hints, "\n"),
              HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Words, BadLineTest,
    ::testing::ValuesIn(std::vector<BadCase>{
        {"KeyValue", {"profile", "infer", "weights=LibreYOLO9t.pt"}, "--weights LibreYOLO9t.pt"},
        {"KeyValueUnderscore", {"profile", "infer", "max_det=3"}, "--max-det 3"},
        {"KeyValuePositional", {"profile", "run", "data=coco128"}, "libreyolo profile run coco128"},
        {"KeyValueSwitch", {"profile", "run", "coco128", "amp=false"}, "write --no-amp"},
        {"KeyValueEarly", {"profile", "weights=a.pt"}, "--weights a.pt"},
        {"UnknownCommand", {"profile", "bogus"}, "libreyolo profile --help"},
        {"UnknownGroup", {"bogus"}, "libreyolo --help"},
        {"UnknownFlag", {"profile", "summary", "p", "--foo"}, "--foo"},
        {"UnknownShortFlag", {"profile", "summary", "-x"}, "-x"},
        {"DashWord", {"profile", "summary", "--", "-x"}, "./-x"},
        {"Missing", {"profile", "summary"}, "<trace>"},
        {"MissingSecond", {"profile", "compare", "a"}, "<after>"},
        {"TooMany", {"profile", "summary", "a", "b"}, "\"b\""},
        {"SwitchWithValue", {"profile", "summary", "p", "--json=false"}, "takes no value"},
        {"SwitchWithValueEarly", {"--json=false", "profile", "summary", "p"}, "takes no value"},
        {"NoNoJson", {"profile", "summary", "p", "--no-json"}, "--no-json"},
        {"NoNoDetach", {"profile", "infer", "--no-detach"}, "--no-detach"},
        {"FlagAsValue", {"profile", "infer", "--weights", "--json"}, "--weights needs a value"},
        {"NoValue", {"profile", "infer", "--weights"}, "--weights needs a value"},
        {"NotWhole", {"profile", "kernels", "p", "--top", "abc"}, "whole number"},
        {"Fraction", {"profile", "kernels", "p", "--top", "1.5"}, "whole number"},
        {"TooLarge", {"profile", "infer", "--batch", "99999999999"}, "32 bits"},
        {"NotANumber", {"profile", "infer", "--conf", "high"}, "takes a number"},
        {"NaN", {"profile", "infer", "--conf", "nan"}, "takes a number"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(ParseCommandLineTest, PathsWithAnEqualsSignAreWords) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line, ParseCommandLine({"profile", "summary", "./a=b"}));
  EXPECT_EQ(line.arguments.Word(0), "./a=b");
}

TEST(ParseCommandLineTest, HelpIsAskedForEverywhere) {
  for (const Words& words :
       {Words{}, Words{"-h"}, Words{"profile"}, Words{"profile", "--help"},
        Words{"profile", "infer", "-h"}, Words{"profile", "infer", "--bogus", "--help"},
        Words{"jobs"}, Words{"daemon", "-h"}, Words{"--help", "profile", "run"}}) {
    ASSERT_OK_AND_ASSIGN(const CommandLine line, ParseCommandLine(words));
    EXPECT_EQ(line.kind, CommandLine::Kind::kHelp) << absl::StrJoin(words, " ");
  }
  ASSERT_OK_AND_ASSIGN(const CommandLine version, ParseCommandLine({"--version"}));
  EXPECT_EQ(version.kind, CommandLine::Kind::kVersion);
}

TEST(AsksForJsonTest, SeesItInALineThatDoesNotParse) {
  EXPECT_TRUE(AsksForJson({"profile", "bogus", "--json"}));
  EXPECT_FALSE(AsksForJson({"profile", "bogus"}));
}

TEST(HelpTextTest, BareProfileListsTheSubcommands) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line, ParseCommandLine({"profile"}));
  const std::string text = HelpText(line);
  for (const char* name : {"run", "infer", "summary", "get", "phases", "kernels", "ops", "compare",
                           "what-if", "list", "fetch"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n  ") + name + " "));
  }
}

TEST(HelpTextTest, EveryCommandShowsItsFlagsAndDefaults) {
  for (const CommandSpec& command : Commands()) {
    CommandLine line;
    line.command = &command;
    const std::string text = HelpText(line);
    for (const FlagSpec& flag : command.flags) {
      EXPECT_THAT(text, HasSubstr(flag.name)) << command.path;
      EXPECT_THAT(text, HasSubstr(flag.type == FlagType::kSwitch ? "" : flag.default_value));
    }
    for (const FlagSpec& flag : CommonFlags()) EXPECT_THAT(text, HasSubstr(flag.name));
  }
}

TEST(CommandTableTest, NamesAreUniqueAndEveryFlagFindsItself) {
  std::set<std::string> paths;
  for (const CommandSpec& command : Commands()) {
    EXPECT_TRUE(paths.insert(command.path).second) << command.path;
    std::set<std::string> names;
    for (const FlagSpec& flag : command.flags) {
      EXPECT_TRUE(names.insert(flag.name).second) << command.path << " " << flag.name;
      EXPECT_EQ(FindFlag(command, flag.name), &flag);
    }
  }
}

TEST(DumpFlagsTest, IsJsonWithEveryCommand) {
  ASSERT_OK_AND_ASSIGN(const JsonValue json, ParseJson(DumpFlags()));
  EXPECT_EQ(json.Find("commands")->array().size(), Commands().size());
}

}  // namespace
}  // namespace libreyolo::client
