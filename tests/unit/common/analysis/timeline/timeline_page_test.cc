#include "common/analysis/timeline/timeline_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/analysis/build_profile.h"
#include "common/base/sha256.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/common/analysis/timeline/timeline_builder.h"

namespace libreyolo::analysis {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// What stands between the element's tags.
std::string Inside(const std::string& html, const std::string& open, const std::string& close) {
  const size_t begin = html.find(open);
  if (begin == std::string::npos) return "(none)";
  const size_t from = begin + open.size();
  return html.substr(from, html.find(close, from) - from);
}

JsonValue DataOf(const TimelinePage& page) {
  const auto json =
      ParseJson(Inside(page.html, "<script type=\"application/json\" id=\"data\">", "</script>"));
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *json : JsonValue();
}

absl::StatusOr<TimelinePage> PageOf(const trace::RecordedTrace& trace,
                                    std::optional<WindowRange> window = std::nullopt) {
  BuildOptions build;
  build.window = window;
  LY_ASSIGN_OR_RETURN(const Profile profile, BuildProfile(trace, nullptr, build));
  return RenderTimelinePage({profile, &trace, window, "some.json", {}, {}});
}

trace::RecordedTrace SmallTrace() {
  TraceMaker maker;
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t t = 1000 + i * 1000;
    maker.Step(i, t, t + 1000).Op("aten::mm", t + 10, t + 100).Launch(i + 1, t + 20, t + 40);
    maker.Kernel("ampere_sgemm_128x64_tn", i + 1, t + 200, t + 700);
  }
  return maker.trace();
}

TEST(TimelinePageTest, HoldsTheProfileAndTheTrace) {
  ASSERT_OK_AND_ASSIGN(const TimelinePage page, PageOf(SmallTrace()));
  const JsonValue data = DataOf(page);
  const JsonValue& timeline = *data.Find("timeline");
  EXPECT_EQ(timeline.Find("events")->int_value(), 12);
  EXPECT_EQ(timeline.Find("span_ns")->int_value(), 3000);
  // The first of three steps is not analysed.
  EXPECT_EQ(timeline.Find("window")->ToCompact(), "[1000, 3000]");
  EXPECT_EQ(timeline.Find("tracks")->array().size(), 3u);
  EXPECT_EQ(data.Find("kernels")->array()[0].array()[1].array().size(), 1u);
  EXPECT_EQ(data.Find("summary")->Find("kernels_per_step")->int_value(), 1);
  EXPECT_EQ(data.Find("shown_name")->string_value(), "some.json");
  EXPECT_EQ(page.event_count, 12);
}

TEST(TimelinePageTest, MarksTheWindowThatWasAskedFor) {
  ASSERT_OK_AND_ASSIGN(const TimelinePage page, PageOf(SmallTrace(), WindowRange{0, 1}));
  EXPECT_EQ(DataOf(page).Find("timeline")->Find("window")->ToCompact(), "[0, 1000]");
}

TEST(TimelinePageTest, NamesCannotLeaveTheData) {
  TraceMaker maker;
  const std::string evil = "</script><script>alert(1)</script><!-- {{script}} &amp; \"'";
  maker.Op(evil, 10, 20).Kernel(evil, 1, 10, 20);
  maker.trace().threads[0].name = evil;
  ASSERT_OK_AND_ASSIGN(const TimelinePage page, PageOf(maker.trace()));
  EXPECT_THAT(page.html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page.html, Not(HasSubstr("<!-- {{")));
  const JsonValue data = DataOf(page);
  bool found = false;
  for (const JsonValue& text : data.Find("texts")->array()) found |= text.string_value() == evil;
  EXPECT_TRUE(found) << "kept as it is";
}

TEST(TimelinePageTest, CutsMonstrousNamesVisibly) {
  TraceMaker maker;
  maker.Op(std::string(100'000, 'x'), 10, 20);
  ASSERT_OK_AND_ASSIGN(const TimelinePage page, PageOf(maker.trace()));
  EXPECT_LT(page.html.size(), 400'000u);
  EXPECT_THAT(page.html, HasSubstr("x... (100000 bytes)"));
}

TEST(TimelinePageTest, NothingButTheOwnScriptAndStyleMayRun) {
  ASSERT_OK_AND_ASSIGN(const TimelinePage page, PageOf(SmallTrace()));
  const std::string policy =
      Inside(page.html, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
  const auto hash = [](const std::string& text) {
    return absl::Base64Escape(absl::HexStringToBytes(Sha256Hex(text)));
  };
  EXPECT_EQ(policy,
            absl::StrCat("default-src 'none'; script-src 'sha256-",
                         hash(Inside(page.html, "<script>", "</script>")), "'; style-src 'sha256-",
                         hash(Inside(page.html, "<style>", "</style>")), "'"));
  for (const char* word : {"http://", "https://", "src=", "@import", "url(", "href=", "{{"}) {
    EXPECT_THAT(page.html, Not(HasSubstr(word)));
  }
}

TEST(TimelinePageTest, WithoutATraceThereAreTheTablesAndANote) {
  Profile profile;
  profile.bound = "compute";
  ASSERT_OK_AND_ASSIGN(const TimelinePage page,
                       RenderTimelinePage({profile, nullptr, {}, "p.json", {"no trace"}, {}}));
  const JsonValue data = DataOf(page);
  EXPECT_TRUE(data.Find("timeline")->is_null());
  EXPECT_EQ(data.Find("summary")->Find("bound")->string_value(), "compute");
  EXPECT_THAT(page.notes, ElementsAre("no trace"));
}

TEST(TimelinePageTest, SaysWhatIsNotDrawn) {
  TraceMaker maker;
  for (int64_t i = 0; i < 3000; ++i) maker.Op("op", i * 1000, i * 1000 + 10);
  maker.Kernel("k", 1, 0, 10).Kernel("k", 2, 5, 10);
  maker.trace().counts.other_events = 7;
  ASSERT_OK_AND_ASSIGN(const Profile profile, BuildProfile(maker.trace(), nullptr));
  TimelineOptions options;
  options.max_slices = 1000;
  ASSERT_OK_AND_ASSIGN(const TimelinePage page,
                       RenderTimelinePage({profile, &maker.trace(), {}, "x", {}, options}));
  EXPECT_LE(page.slice_count, 1000);
  EXPECT_THAT(page.notes, ElementsAre(HasSubstr("events are drawn in groups"),
                                      HasSubstr("1 kernels or copies have no time"),
                                      HasSubstr("7 events of kinds that are not analysed")));
}

TEST(TimelinePageTest, RefusesAWindowThatTheTraceDoesNotHave) {
  const trace::RecordedTrace trace = SmallTrace();
  ASSERT_OK_AND_ASSIGN(const Profile profile, BuildProfile(trace, nullptr));
  EXPECT_THAT(RenderTimelinePage({profile, &trace, WindowRange{9, 10}, "x", {}, {}}),
              FailsWith(reason::kArgumentOutOfRange));
}

}  // namespace
}  // namespace libreyolo::analysis
