#include "server/daemon/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace libreyolo::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest() : path_(folder_.path() + "/d.textproto") {}

  absl::StatusOr<CommandLine> Parse(std::vector<const char*> words) {
    words.insert(words.begin(), "libreyolod");
    return ParseCommandLine(static_cast<int>(words.size()), words.data());
  }
  absl::StatusOr<CommandLine> ParseFile(const std::string& text,
                                        std::vector<const char*> words = {}) {
    EXPECT_OK(WriteFile(path_, text));
    words.insert(words.begin(), {"--config", path_.c_str()});
    return Parse(words);
  }
  std::string Refusal(const std::string& text, const std::vector<const char*>& words = {}) {
    const auto line = ParseFile(text, words);
    EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(line.status().message());
  }

  static constexpr char kBase[] = "listen: '127.0.0.1:7430'\nstore: '/s'\n";
  testing::TempDir folder_;
  const std::string path_;
};

TEST_F(SettingsTest, EveryFieldHasOneFlag) {
  std::set<std::string> fields;
  std::set<std::string> flags;
  for (const Setting& setting : Settings()) {
    EXPECT_TRUE(fields.insert(setting.field).second) << setting.field;
    EXPECT_TRUE(flags.insert(setting.flag).second) << setting.flag;
  }
  const auto& message = *config::v1::DaemonConfig::descriptor();
  for (int i = 0; i < message.field_count(); ++i)
    EXPECT_EQ(fields.count(message.field(i)->name()), 1) << message.field(i)->name();
  EXPECT_EQ(static_cast<int>(fields.size()), message.field_count());
}

// What --check-config prints is a file that gives the same: no setting is lost or changed on its
// way into a Config and back.
TEST_F(SettingsTest, WhatIsDescribedCanBeReadAgain) {
  std::string text;
  for (const Setting& setting : Settings()) {
    const auto& field = *config::v1::DaemonConfig::descriptor()->FindFieldByName(setting.field);
    const std::string value =
        std::string(setting.field) == "socket_mode"                     ? "'660'"
        : field.type() == google::protobuf::FieldDescriptor::TYPE_BOOL  ? "true"
        : field.type() == google::protobuf::FieldDescriptor::TYPE_INT64 ? "12345"
        : field.type() == google::protobuf::FieldDescriptor::TYPE_DOUBLE
            ? "7.5"
            : absl::StrCat("'/", setting.field, "'");
    absl::StrAppend(&text, setting.field, ": ", value, "\n");
  }
  EXPECT_OK(WriteFile(path_, text));
  GivenSettings given;
  ASSERT_OK(given.TakeFile(path_));
  Config config;
  ASSERT_OK(given.Apply(config));
  const std::string described = given.Describe(config);

  GivenSettings again;
  ASSERT_OK(WriteFile(path_, described));
  ASSERT_OK(again.TakeFile(path_));
  Config second;
  ASSERT_OK(again.Apply(second));
  EXPECT_EQ(again.Describe(second), described);
  for (const Setting& setting : Settings())
    EXPECT_THAT(described, HasSubstr(absl::StrCat(setting.field, ": "))) << setting.field;
  EXPECT_THAT(described, Not(HasSubstr("# default")));
}

TEST_F(SettingsTest, AFlagWinsOverTheFileAndTheFileOverTheDefault) {
  const std::string file = absl::StrCat(kBase, "heartbeat_seconds: 5\nmax_upload_bytes: 7\n");
  ASSERT_OK_AND_ASSIGN(const CommandLine line, ParseFile(file, {"--heartbeat", "9"}));
  EXPECT_EQ(line.config.heartbeat, absl::Seconds(9));
  EXPECT_EQ(line.config.max_upload_bytes, 7);
  EXPECT_EQ(line.config.trace_limits.max_bytes, trace::ReadLimits().max_bytes);
  EXPECT_EQ(line.config.state_dir, "/s");
  EXPECT_EQ(line.show, "");
}

TEST_F(SettingsTest, AListOfFlagsTakesThePlaceOfTheFiles) {
  const std::string file = absl::StrCat(kBase, "weights_dir: ['/a', '/b']\nweights_dir: '/c'\n");
  ASSERT_OK_AND_ASSIGN(const CommandLine from_file, ParseFile(file));
  EXPECT_THAT(from_file.config.weights_folders, ElementsAre("/a", "/b", "/c"));
  ASSERT_OK_AND_ASSIGN(const CommandLine from_flags,
                       ParseFile(file, {"--weights-dir=/x", "--weights-dir", "/y"}));
  EXPECT_THAT(from_flags.config.weights_folders, ElementsAre("/x", "/y"));
}

TEST_F(SettingsTest, ASwitchOfTheFileCanBeTakenBack) {
  const std::string file = absl::StrCat(kBase, "worker_network: true\n");
  ASSERT_OK_AND_ASSIGN(const CommandLine on, ParseFile(file));
  EXPECT_TRUE(on.config.worker_network);
  ASSERT_OK_AND_ASSIGN(const CommandLine off, ParseFile(file, {"--worker-network=false"}));
  EXPECT_FALSE(off.config.worker_network);
}

TEST_F(SettingsTest, ALimitOfTheFileWinsOverTheEnvironment) {
  setenv("LIBREYOLO_MAX_TRACE_EVENTS", "11", 1);
  ASSERT_OK_AND_ASSIGN(const CommandLine neither, ParseFile(kBase));
  const auto both = ParseFile(absl::StrCat(kBase, "max_trace_events: 12\n"));
  unsetenv("LIBREYOLO_MAX_TRACE_EVENTS");
  EXPECT_EQ(neither.config.trace_limits.max_events, 11);
  ASSERT_OK(both);
  EXPECT_EQ(both->config.trace_limits.max_events, 12);
}

TEST_F(SettingsTest, UsersGetLimitsThatMayBeLifted) {
  const std::string file = absl::StrCat(kBase, "tokens: '/t'\n");
  ASSERT_OK_AND_ASSIGN(const CommandLine line, ParseFile(file));
  EXPECT_EQ(line.config.max_queued_per_user, 20);
  ASSERT_OK_AND_ASSIGN(const CommandLine lifted,
                       ParseFile(file + "max_queued_per_user: 0\n", {"--max-stored-per-user=0"}));
  EXPECT_EQ(lifted.config.max_queued_per_user, 0);
  EXPECT_EQ(lifted.config.max_stored_bytes_per_user, 0);
}

TEST_F(SettingsTest, CheckConfigSaysWhereEachValueComesFrom) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line,
                       ParseFile(kBase, {"--check-config", "--heartbeat", "9"}));
  EXPECT_TRUE(line.check_only);
  EXPECT_THAT(line.show, HasSubstr(absl::StrCat("store: \"/s\"  # ", path_, ":2:1\n")));
  EXPECT_THAT(line.show, HasSubstr("heartbeat_seconds: 9  # --heartbeat\n"));
  EXPECT_THAT(line.show, HasSubstr("max_upload_bytes: 4294967296  # default\n"));
}

struct BadFile {
  const char* name;
  const char* text;  // after kBase, so its first line is the third
  const char* wanted;
};

class BadFileTest : public SettingsTest, public ::testing::WithParamInterface<BadFile> {};

TEST_P(BadFileTest, NamesFileLineAndColumn) {
  EXPECT_EQ(Refusal(absl::StrCat(kBase, GetParam().text)),
            absl::StrReplaceAll(GetParam().wanted, {{"FILE", path_}}));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadFileTest,
    ::testing::ValuesIn(std::vector<BadFile>{
        {"Unknown", "weigths_dir: '/a'\n",
         "FILE:3:12: no setting is called \"weigths_dir\"; the nearest is \"weights_dir\""},
        {"NameOfTheFlag", "\n  max_upload: 7\n",
         "FILE:4:13: no setting is called \"max_upload\"; the nearest is \"max_upload_bytes\""},
        {"Twice", "store: '/x'\n",
         "FILE:3:6: non-repeated field \"store\" is specified multiple times"},
        {"NoInteger", "max_upload_bytes: 'x'\n", "FILE:3:19: expected integer, got: 'x'"},
        {"TooLarge", "max_upload_bytes: 99999999999999999999\n",
         "FILE:3:19: integer out of range (99999999999999999999)"},
        {"Negative", "max_upload_bytes: -1\n",
         "max_upload_bytes (FILE:3:1) takes a whole number from 0 on, not \"-1\""},
        {"NoSeconds", "heartbeat_seconds: 0\n",
         "heartbeat_seconds (FILE:3:1) takes a number of seconds above 0, at most 1e9, not \"0\""},
        {"Mode", "socket_mode: '777'\n",
         "socket_mode (FILE:3:1) takes 600, 660 or 666, not \"777\""},
        {"CutShort", "hub: 'x\n", "FILE:3:8: string literals cannot cross line boundaries"},
        {"KeyMissing", "tls_cert: '/c'\n",
         "tls_cert (FILE:3:1) needs --tls-key, the certificate's private key"},
    }),
    [](const auto& info) { return info.param.name; });

TEST_F(SettingsTest, BadCommandLinesSayWhatIsTaken) {
  EXPECT_THAT(Refusal(kBase, {"--hartbeat", "5"}),
              HasSubstr("unknown argument \"--hartbeat\"; the nearest is --heartbeat;"));
  EXPECT_THAT(Refusal(kBase, {"--heartbeat"}), EndsWith("needs a value: --heartbeat SECONDS"));
  EXPECT_THAT(Refusal(kBase, {"--heartbeat", "soon"}), HasSubstr("a number of seconds above 0"));
  EXPECT_THAT(Refusal(kBase, {"--max-upload", "1GB"}), HasSubstr("a whole number from 0 on"));
  EXPECT_THAT(Refusal(kBase, {"--max-upload", "-1"}), HasSubstr("a whole number from 0 on"));
  EXPECT_THAT(Refusal(kBase, {"--worker-network=maybe"}), HasSubstr("true or false"));
  EXPECT_THAT(Refusal(kBase, {"--config", "x"}), HasSubstr("once"));
  EXPECT_THAT(std::string(Parse({"--config", "/no/such"}).status().message()),
              AllOf(HasSubstr("/no/such"), HasSubstr("name a file")));
  EXPECT_THAT(std::string(Parse({"--store", "/s"}).status().message()), HasSubstr("--listen"));
  EXPECT_THAT(std::string(Parse({"--listen", "unix:/a"}).status().message()), HasSubstr("--store"));
}

TEST_F(SettingsTest, HelpNamesEveryFlag) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line, Parse({"--help"}));
  for (const Setting& setting : Settings())
    EXPECT_THAT(line.show, HasSubstr(absl::StrCat("\n  ", setting.flag, " "))) << setting.flag;
}

}  // namespace
}  // namespace libreyolo::daemon
