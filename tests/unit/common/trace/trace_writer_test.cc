#include "common/trace/trace_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "common/base/file.h"
#include "common/json/json_value.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::trace {
namespace {

using ::libreyolo::testing::StatusIs;
using ::testing::HasSubstr;

std::string TempPath(const std::string& name) {
  return ::testing::TempDir() + "/trace_writer_" + std::to_string(getpid()) + "_" + name;
}

class TraceWriterTest : public ::testing::Test {
 protected:
  TraceWriterTest() : path_(TempPath("trace.json")) {}
  ~TraceWriterTest() override { unlink(path_.c_str()); }

  std::unique_ptr<TraceWriter> Open(const TraceHeader& header = {}) {
    auto writer = TraceWriter::Open(path_, header);
    EXPECT_OK(writer);
    return std::move(writer).value();
  }
  // The document as any JSON reader sees it.
  JsonValue Parse() {
    auto text = ReadFile(path_);
    EXPECT_OK(text);
    text_ = *text;
    auto json = ParseJson(text_);
    EXPECT_OK(json);
    return json.ok() ? *json : JsonValue();
  }

  std::string path_;
  std::string text_;
};

const JsonValue& At(const JsonValue& object, const char* key) {
  static const JsonValue null;
  const JsonValue* found = object.Find(key);
  EXPECT_NE(found, nullptr) << key;
  return found == nullptr ? null : *found;
}

TEST_F(TraceWriterTest, WritesHeaderEventsAndMetadata) {
  auto writer = Open({.name = "infer", .base_time_ns = 1'790'857'026'000'000'001});
  const EventKind conv = writer->Register("cpu_op", "aten::conv2d");
  writer->AddProcess(41, "libreyolo-worker", "CPU", 41);
  writer->AddThread({41, 42}, "main", 0);
  writer->AddComplete(conv, {41, 42}, 1'234'567, 89, {{"External id", int64_t{7}}});
  JsonValue metadata;
  metadata.Set("schema", kTraceSchema);
  ASSERT_OK(writer->Finish(metadata));

  const JsonValue trace = Parse();
  EXPECT_EQ(At(trace, "schemaVersion").int_value(), 1);
  EXPECT_EQ(At(trace, "displayTimeUnit").string_value(), "ms");
  EXPECT_EQ(At(trace, "baseTimeNanoseconds").int_value(), 1'790'857'026'000'000'001);
  EXPECT_EQ(At(trace, "traceName").string_value(), "infer");
  EXPECT_TRUE(At(trace, "deviceProperties").array().empty());
  EXPECT_EQ(At(At(trace, "libreyolo"), "schema").string_value(), "libreyolo.trace/v1");
  const JsonValue::Array& events = At(trace, "traceEvents").array();
  ASSERT_EQ(events.size(), 6u);
  const JsonValue& event = events.back();
  EXPECT_EQ(At(event, "ph").string_value(), "X");
  EXPECT_EQ(At(event, "cat").string_value(), "cpu_op");
  EXPECT_EQ(At(event, "name").string_value(), "aten::conv2d");
  EXPECT_EQ(At(event, "pid").int_value(), 41);
  EXPECT_EQ(At(event, "tid").int_value(), 42);
  EXPECT_DOUBLE_EQ(At(event, "ts").number(), 1234.567);
  EXPECT_DOUBLE_EQ(At(event, "dur").number(), 0.089);
  EXPECT_EQ(At(At(event, "args"), "External id").int_value(), 7);
  EXPECT_EQ(At(events[3], "name").string_value(), "thread_name");
  EXPECT_EQ(At(At(events[3], "args"), "name").string_value(), "main");
}

TEST_F(TraceWriterTest, AnEmptyTraceIsADocument) {
  auto writer = Open();
  ASSERT_OK(writer->Finish(JsonValue(JsonValue::Object{})));
  EXPECT_TRUE(At(Parse(), "traceEvents").array().empty());
}

TEST_F(TraceWriterTest, TimesKeepEveryNanosecond) {
  auto writer = Open();
  const EventKind kind = writer->Register("cpu_op", "op");
  const int64_t times[] = {0, 1, 999, 1000, 1001, 59'999'999'999, 5'150'375'894'783'594, -1500};
  for (const int64_t time : times) writer->AddComplete(kind, {1, 1}, time, time);
  ASSERT_OK(writer->Finish(JsonValue()));
  Parse();
  EXPECT_THAT(text_, HasSubstr("\"ts\":0.000,\"dur\":0.000"));
  EXPECT_THAT(text_, HasSubstr("\"ts\":0.999,\"dur\":0.999"));
  EXPECT_THAT(text_, HasSubstr("\"ts\":1.001,\"dur\":1.001"));
  EXPECT_THAT(text_, HasSubstr("\"ts\":5150375894783.594,"));
  EXPECT_THAT(text_, HasSubstr("\"ts\":-1.500,\"dur\":0.000"));
}

TEST_F(TraceWriterTest, EscapesNames) {
  const std::string name = "void f<\"a\\b\">(\n\x01\xc3\xa9\xff)";
  auto writer = Open();
  const EventKind kind = writer->Register("kernel", name);
  writer->AddComplete(kind, {0, 7}, 0, 1, {{"grid", TraceArg::Triple{1, 2, 3}}, {"kind", "a\"b"}});
  ASSERT_OK(writer->Finish(JsonValue()));
  const JsonValue trace = Parse();
  const JsonValue& event = At(trace, "traceEvents").array()[0];
  EXPECT_EQ(At(event, "name").string_value(), "void f<\"a\\b\">(\n\x01\xc3\xa9\xef\xbf\xbd)");
  EXPECT_EQ(At(At(event, "args"), "kind").string_value(), "a\"b");
  EXPECT_EQ(At(At(event, "args"), "grid").array()[2].int_value(), 3);
}

TEST_F(TraceWriterTest, FlowsJoinTheSameId) {
  auto writer = Open();
  const EventKind flow = writer->Register("ac2g", "ac2g");
  writer->AddFlowStart(flow, {1, 2}, 10'000, 77);
  writer->AddFlowEnd(flow, {0, 7}, 20'000, 77);
  ASSERT_OK(writer->Finish(JsonValue()));
  const JsonValue trace = Parse();
  const JsonValue::Array& events = At(trace, "traceEvents").array();
  EXPECT_EQ(At(events[0], "ph").string_value(), "s");
  EXPECT_EQ(At(events[1], "ph").string_value(), "f");
  EXPECT_EQ(At(events[1], "bp").string_value(), "e");
  EXPECT_EQ(At(events[0], "id").int_value(), At(events[1], "id").int_value());
}

TEST_F(TraceWriterTest, LongTracesAreWhole) {
  constexpr int kEvents = 20'000;  // several buffers
  auto writer = Open();
  const EventKind kind = writer->Register("cpu_op", "aten::add");
  for (int i = 0; i < kEvents; ++i) writer->AddComplete(kind, {1, 1}, i * 1000, 500);
  EXPECT_EQ(writer->event_count(), kEvents);
  ASSERT_OK(writer->Finish(JsonValue()));
  const JsonValue trace = Parse();
  const JsonValue::Array& events = At(trace, "traceEvents").array();
  ASSERT_EQ(events.size(), static_cast<size_t>(kEvents));
  for (int i = 0; i < kEvents; i += 997) EXPECT_EQ(At(events[i], "ts").number(), i);
}

TEST_F(TraceWriterTest, OpenSaysWhyItFailed) {
  const absl::Status status = TraceWriter::Open("/nonexistent/folder/t.json", {}).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/folder/t.json"));
}

TEST_F(TraceWriterTest, AFullDiskIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  ASSERT_OK_AND_ASSIGN(auto writer, TraceWriter::Open("/dev/full", {}));
  const EventKind kind = writer->Register("cpu_op", "op");
  for (int i = 0; i < 10'000; ++i) writer->AddComplete(kind, {1, 1}, i, 1);
  EXPECT_FALSE(writer->status().ok());  // seen while writing, not only at the end
  EXPECT_THAT(writer->Finish(JsonValue()), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(TraceWriterTest, AFileSizeLimitIsAnError) {
  // In a child: the limit would bind this process for good.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(10);
    auto writer = TraceWriter::Open(path_, {});
    if (!writer.ok()) _exit(11);
    const EventKind kind = (*writer)->Register("cpu_op", "op");
    for (int i = 0; i < 1'000; ++i) (*writer)->AddComplete(kind, {1, 1}, i, 1);
    _exit((*writer)->Finish(JsonValue()).ok() ? 12 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace libreyolo::trace
