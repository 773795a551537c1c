#include "common/trace/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tests/support/fixtures.h"
#include "tests/support/status_matchers.h"

namespace libreyolo::trace {
namespace {

using ::libreyolo::testing::FailsWith;
using ::testing::HasSubstr;

std::string Event(absl::string_view category, absl::string_view name, double ts, double dur,
                  absl::string_view more = "") {
  return absl::StrCat(R"({"ph":"X","cat":")", category, R"(","name":")", name,
                      R"(","pid":1,"tid":2,"ts":)", ts, R"(,"dur":)", dur, more, "}");
}

std::string Trace(const std::vector<std::string>& events, absl::string_view header = "") {
  return absl::StrCat("{", header, "\"traceEvents\":[\n", absl::StrJoin(events, ",\n"), "\n]}\n");
}

std::string Gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// Events of all kinds, with arguments that try to look like an event's end.
std::string BusyTrace(int count) {
  std::vector<std::string> events;
  for (int i = 0; i < count; ++i) {
    events.push_back(
        Event("cpu_op", absl::StrCat("aten::op", i % 7), i, 0.5,
              R"(,"args":{"Input Dims":[[1,2],{"x":1},{"y":[{},{}]}],"s":"},{\"ph\""})"));
    events.push_back(
        Event("kernel", "k},{", i, 0.25,
              absl::StrCat(R"(,"args":{"device":0,"stream":7,"correlation":)", i, "}")));
    events.push_back(R"({"ph":"s","id":1,"cat":"ac2g","name":"ac2g","pid":1,"tid":2,"ts":1})");
  }
  return Trace(events, R"("schemaVersion":1,"nested":[{"a":"]"},{"b":2}],)");
}

TEST(TraceReaderTest, ReadsEveryKindOfRecord) {
  const std::string text = Trace(
      {Event("user_annotation", "ProfilerStep#5", 10, 100),
       Event("user_annotation", "step/forward", 11, 50),
       Event("cpu_op", "aten::add", 12.345, 5.001),
       Event("cuda_runtime", "cudaLaunchKernel", 13, 1, R"(,"args":{"correlation":77})"),
       Event("kernel", "k", 20, 3,
             R"(,"args":{"device":1,"stream":9,"correlation":77,"graph node id":4})"),
       Event("gpu_memcpy", "Memcpy HtoD", 21, 2, R"(,"args":{"device":1,"stream":9})"),
       Event("gpu_memset", "Memset", 22, 2), Event("gpu_user_annotation", "ProfilerStep#5", 20, 9),
       R"({"ph":"M","name":"thread_name","pid":1,"tid":2,"ts":0,"args":{"name":"main"}})",
       R"({"ph":"i","name":"x","ts":1,"s":"g","pid":1,"tid":1})"},
      R"("deviceProperties":[{"id":0,"name":"GPU","totalGlobalMem":8,"numSms":3}],)"
      R"("distributedInfo":{"rank":2,"world_size":8},"ERROR":["broken"],)"
      R"("libreyolo":{"schema":"libreyolo.trace/v1"},)");
  ASSERT_OK_AND_ASSIGN(const RecordedTrace trace, ParseTrace(text));
  ASSERT_EQ(trace.markers.size(), 1u);
  EXPECT_EQ(trace.markers[0].number, 5);
  EXPECT_EQ(trace.markers[0].start_ns, 10000);
  ASSERT_EQ(trace.ops.size(), 1u);
  EXPECT_EQ(trace.ops[0].start_ns, 12345);
  EXPECT_EQ(trace.ops[0].duration_ns, 5001);
  EXPECT_EQ(trace.Name(trace.ops[0].name), "aten::add");
  EXPECT_EQ(trace.threads[trace.ops[0].thread].name, "main");
  ASSERT_EQ(trace.calls.size(), 1u);
  EXPECT_EQ(trace.calls[0].correlation, 77);
  ASSERT_EQ(trace.kernels.size(), 1u);
  EXPECT_EQ(trace.kernels[0].device, 1);
  EXPECT_EQ(trace.kernels[0].stream, 9);
  EXPECT_EQ(trace.kernels[0].correlation, 77);
  EXPECT_TRUE(trace.kernels[0].in_graph);
  ASSERT_EQ(trace.copies.size(), 2u);
  EXPECT_FALSE(trace.copies[0].is_memset);
  EXPECT_TRUE(trace.copies[1].is_memset);
  EXPECT_EQ(trace.annotations.size(), 1u);
  EXPECT_EQ(trace.counts.device_markers, 1);
  EXPECT_EQ(trace.counts.events, 10);
  ASSERT_EQ(trace.devices.size(), 1u);
  EXPECT_EQ(trace.devices[0].sm_count, 3);
  EXPECT_EQ(trace.rank, 2);
  EXPECT_THAT(trace.profiler_messages, ::testing::ElementsAre("broken"));
  EXPECT_NE(trace.libreyolo.Find("schema"), nullptr);
}

TEST(TraceReaderTest, BlocksOfAnySizeGiveTheSame) {
  const std::string text = BusyTrace(200);
  ASSERT_OK_AND_ASSIGN(const RecordedTrace whole, ParseTrace(text));
  EXPECT_EQ(whole.ops.size(), 200u);
  EXPECT_EQ(whole.kernels.size(), 200u);
  for (const int64_t block : {64, 100, 333, 1000, 4096, 20000}) {
    ReadLimits limits;
    limits.block_bytes = block;
    ASSERT_OK_AND_ASSIGN(const RecordedTrace trace, ParseTrace(text, limits));
    EXPECT_EQ(trace.counts.events, whole.counts.events) << block;
    ASSERT_EQ(trace.ops.size(), whole.ops.size()) << block;
    ASSERT_EQ(trace.kernels.size(), whole.kernels.size()) << block;
    EXPECT_EQ(trace.names, whole.names) << block;
    for (size_t i = 0; i < trace.ops.size(); ++i) {
      ASSERT_EQ(trace.ops[i].start_ns, whole.ops[i].start_ns);
      ASSERT_EQ(trace.kernels[i].correlation, whole.kernels[i].correlation);
    }
  }
}

TEST(TraceReaderTest, ThreadsGiveTheSame) {
  const std::string text = BusyTrace(3000);
  ASSERT_OK_AND_ASSIGN(const RecordedTrace whole, ParseTrace(text));
  for (const int64_t block : {200, 1000, 30000, 100000}) {
    ReadLimits limits;
    limits.block_bytes = block;
    limits.threads = 3;
    limits.parallel_bytes = 0;
    ASSERT_OK_AND_ASSIGN(const RecordedTrace trace, ParseTrace(text, limits));
    EXPECT_EQ(trace.counts.events, whole.counts.events) << block;
    EXPECT_EQ(trace.counts.other_events, whole.counts.other_events) << block;
    ASSERT_EQ(trace.ops.size(), whole.ops.size()) << block;
    ASSERT_EQ(trace.kernels.size(), whole.kernels.size()) << block;
    for (size_t i = 0; i < trace.ops.size(); ++i) {
      ASSERT_EQ(trace.ops[i].start_ns, whole.ops[i].start_ns);
      ASSERT_EQ(trace.Name(trace.ops[i].name), whole.Name(whole.ops[i].name));
      ASSERT_EQ(trace.threads[trace.ops[i].thread].tid, "2");
      ASSERT_EQ(trace.kernels[i].correlation, whole.kernels[i].correlation);
    }
  }
}

TEST(TraceReaderTest, ThreadsFindTheSameFaults) {
  std::string text = BusyTrace(2000);
  text[text.find("\"cat\":\"kernel", text.size() / 2) + 5] = ';';
  ReadLimits limits;
  limits.block_bytes = 5000;
  const auto serial = ParseTrace(text, limits);
  limits.threads = 2;
  limits.parallel_bytes = 0;
  const auto parallel = ParseTrace(text, limits);
  ASSERT_THAT(serial, FailsWith(reason::kTraceUnparsable));
  EXPECT_EQ(parallel.status().message(), serial.status().message());

  std::string mended = BusyTrace(2000);
  mended[mended.find("aten::op3", mended.size() / 2)] = '\n';
  ASSERT_OK_AND_ASSIGN(const RecordedTrace trace, ParseTrace(mended, limits));
  EXPECT_EQ(trace.counts.replaced_bytes, 1);
  EXPECT_EQ(trace.ops.size(), 2000u);
}

TEST(TraceReaderTest, UnpacksGzipAndZstd) {
  const std::string text = BusyTrace(300);
  for (const std::string& packed :
       {Gzip(text), Zstd(text), Gzip(text.substr(0, 999)) + Gzip(text.substr(999))}) {
    ASSERT_OK_AND_ASSIGN(const RecordedTrace trace, ParseTrace(packed));
    EXPECT_EQ(trace.kernels.size(), 300u);
    EXPECT_EQ(trace.counts.bytes, static_cast<int64_t>(text.size()));
    EXPECT_THAT(ParseTrace(packed.substr(0, packed.size() - 9)),
                FailsWith(reason::kTraceUnparsable));
  }
}

TEST(TraceReaderTest, ReadsABareArrayOf2021) {
  ASSERT_OK_AND_ASSIGN(
      const RecordedTrace trace,
      ParseTrace(
          R"([{"ph":"X","cat":"Operator","name":"ProfilerStep#7","pid":5,"tid":"99","ts":1,"dur":9},
{"ph":"X","cat":"Operator","name":"aten::mm","pid":5,"tid":99,"ts":2,"dur":3},
{"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":5,"tid":"99","ts":3,"dur":1,"args":{"correlation":8}},
{"ph":"X","cat":"Kernel","name":"gemm","pid":0,"tid":"stream 7","ts":4,"dur":2,"args":{"correlation":8}},
{"ph":"X","cat":"Memcpy","name":"Memcpy","pid":0,"tid":"stream 7","ts":4,"dur":2,"args":{"stream":7}}])"));
  EXPECT_EQ(trace.markers.size(), 1u);
  EXPECT_EQ(trace.ops.size(), 1u);
  EXPECT_EQ(trace.ops[0].thread, trace.calls[0].thread) << "written as a number and as text";
  EXPECT_EQ(trace.threads.size(), 2u) << "and the device's row";
  EXPECT_EQ(trace.kernels[0].stream, 7);
  EXPECT_EQ(trace.copies.size(), 1u);
}

TEST(TraceReaderTest, TellsDevicesOfMergedRanksApart) {
  const auto kernel = [](const char* pid, int device) {
    return absl::StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":)", pid,
                        R"(,"tid":7,"ts":1,"dur":1,"args":{"stream":7,"device":)", device, "}}");
  };
  ASSERT_OK_AND_ASSIGN(const RecordedTrace trace,
                       ParseTrace(Trace({kernel("0", 0), kernel("1000", 0), kernel("\"rank 2\"", 0),
                                         kernel("0", 0), kernel("1", 1)})));
  ASSERT_EQ(trace.kernels.size(), 5u);
  EXPECT_EQ(trace.kernels[0].device, 0);
  EXPECT_EQ(trace.kernels[1].device, 1000) << "the number of its row";
  EXPECT_EQ(trace.kernels[2].device, 1001) << "the next that is free";
  EXPECT_EQ(trace.kernels[3].device, 0);
  EXPECT_EQ(trace.kernels[4].device, 1);
}

TEST(TraceReaderTest, AKernelOnAHostRowMakesItNoDeviceRow) {
  ASSERT_OK_AND_ASSIGN(
      const RecordedTrace trace,
      ParseTrace(Trace({Event("user_annotation", "ProfilerStep#1", 0, 100),
                        Event("cpu_op", "aten::mm", 1, 9), Event("kernel", "k", 5, 9)})));
  EXPECT_EQ(trace.markers.size(), 1u);
  EXPECT_EQ(trace.counts.device_markers, 0);
}

TEST(TraceReaderTest, AcceptsMembersInAnyOrderAndForm) {
  ASSERT_OK_AND_ASSIGN(
      const RecordedTrace trace,
      ParseTrace("\xEF\xBB\xBF { \"traceEvents\" : [ {\"args\":{\"correlation\":4,\"device\":2},"
                 "\"dur\":2,\"name\":\"k\",\"ts\":1,\"tid\":3,\"pid\":2,\"cat\":\"kernel\","
                 "\"ph\":\"X\"} , ] , \"x\" : null }"));
  ASSERT_EQ(trace.kernels.size(), 1u);
  EXPECT_EQ(trace.kernels[0].correlation, 4);
  EXPECT_EQ(trace.kernels[0].device, 2);
  EXPECT_TRUE(trace.counts.byte_order_mark);
}

TEST(TraceReaderTest, MendsTextAndCountsIt) {
  ASSERT_OK_AND_ASSIGN(const RecordedTrace trace,
                       ParseTrace(Trace({Event("cpu_op", "line\nbreak", 1, 1),
                                         Event("cpu_op", "bad \xFF byte", 2, 1)})));
  EXPECT_EQ(trace.Name(trace.ops[0].name), "line break");
  EXPECT_EQ(trace.Name(trace.ops[1].name), "bad ? byte");
  EXPECT_EQ(trace.counts.replaced_bytes, 2);
}

TEST(TraceReaderTest, CountsTimesThatAreNone) {
  ASSERT_OK_AND_ASSIGN(const RecordedTrace trace,
                       ParseTrace(absl::StrReplaceAll(
                           Trace({Event("cpu_op", "a", 1, 1), Event("cpu_op", "b", 424242, 1),
                                  Event("cpu_op", "c", 3, 535353), Event("cpu_op", "d", 4, -5)}),
                           {{"424242", "NaN"}, {"535353", "Infinity"}})));
  EXPECT_EQ(trace.ops.size(), 2u);
  EXPECT_EQ(trace.counts.invalid_times, 2);
  EXPECT_EQ(trace.counts.negative_durations, 1);
  EXPECT_EQ(trace.ops[1].duration_ns, 0);
}

TEST(TraceReaderTest, ReadsLooseNumbersAsMeantAndCountsThem) {
  ASSERT_OK_AND_ASSIGN(
      const RecordedTrace trace,
      ParseTrace(absl::StrReplaceAll(
          Trace({Event("cpu_op", "a", 111111, 222222), Event("cpu_op", "b", 333333, 444444)}),
          {{"111111", "007"}, {"222222", "1400."}, {"333333", "+8"}, {"444444", ".5"}})));
  ASSERT_EQ(trace.ops.size(), 2u);
  EXPECT_EQ(trace.ops[0].start_ns, 7'000);
  EXPECT_EQ(trace.ops[0].duration_ns, 1'400'000);
  EXPECT_EQ(trace.ops[1].start_ns, 8'000);
  EXPECT_EQ(trace.ops[1].duration_ns, 500);
  EXPECT_EQ(trace.counts.loose_numbers, 2);
  EXPECT_EQ(trace.counts.invalid_times, 0);
}

TEST(TraceReaderTest, NamesAPackerThatItDoesNotKnow) {
  for (const auto& [bytes, name] :
       std::vector<std::pair<std::string, std::string>>{{"BZh91AY", "bzip2"},
                                                        {std::string("\xFD"
                                                                     "7zXZ\0",
                                                                     6),
                                                         "xz"},
                                                        {"PK\x03\x04rest", "zip"},
                                                        {Gzip(Gzip("[]")), "gzip, twice"}}) {
    const auto trace = ParseTrace(bytes);
    EXPECT_THAT(trace, FailsWith(reason::kTraceUnparsable));
    EXPECT_THAT(std::string(trace.status().message()), ::testing::HasSubstr(name));
  }
}

TEST(TraceReaderTest, EndsWhenNobodyWantsItAnyMore) {
  ReadLimits limits;
  limits.block_bytes = 64;
  int asked = 0;
  limits.is_cancelled = [&] { return ++asked > 3; };
  EXPECT_THAT(ParseTrace(BusyTrace(100), limits), FailsWith(reason::kCancelled));
  // Blanks are no reason to go on either.
  EXPECT_THAT(ParseTrace("{\"traceEvents\":[" + std::string(1 << 20, ' ') + "]}", limits),
              FailsWith(reason::kCancelled));
}

TEST(TraceReaderTest, TellsOfACommaBehindTheLastEvent) {
  const std::string one = Event("cpu_op", "a", 1, 1);
  for (const auto& [text, trailing] : std::vector<std::pair<std::string, bool>>{
           {absl::StrCat("[", one, ",]"), true},
           {absl::StrCat("[", one, ",", one, " , ]"), true},
           {absl::StrCat("{\"traceEvents\":[", one, ",\n],\"x\":[]}"), true},
           {absl::StrCat("[", one, ",", one, " ]"), false},
           {absl::StrCat("{\"traceEvents\":[", one, "],\"x\":1}"), false}}) {
    for (const int64_t block_bytes : {int64_t{1}, int64_t{100}, int64_t{1} << 20}) {
      ReadLimits limits;
      limits.block_bytes = block_bytes;
      ASSERT_OK_AND_ASSIGN(const RecordedTrace trace, ParseTrace(text, limits));
      EXPECT_EQ(trace.counts.trailing_comma, trailing) << text << " in blocks of " << block_bytes;
    }
  }
}

// The error says what was passed, by its number, and which flag of the daemon raises it.
void ExpectPassed(const absl::Status& status, const std::string& number, const std::string& flag) {
  ASSERT_THAT(status, FailsWith(reason::kTraceTooLarge));
  const ErrorDetail detail = GetErrorDetail(status);
  EXPECT_THAT(detail.message, ::testing::HasSubstr(number));
  ASSERT_EQ(detail.hints.size(), 1u);
  EXPECT_THAT(detail.hints[0], ::testing::HasSubstr("libreyolod " + flag));
}

TEST(TraceReaderTest, KeepsTheLimitOfEvents) {
  const std::string text = BusyTrace(50);
  ReadLimits limits;
  limits.max_events = 10;
  ExpectPassed(ParseTrace(text, limits).status(), "more than 10 events", "--max-trace-events");
  ASSERT_OK_AND_ASSIGN(const RecordedTrace trace, ParseTrace(text));
  limits.max_events = trace.counts.events;
  EXPECT_OK(ParseTrace(text, limits).status());
  --limits.max_events;
  EXPECT_THAT(ParseTrace(text, limits), FailsWith(reason::kTraceTooLarge));
}

TEST(TraceReaderTest, KeepsTheLimitOfBytes) {
  const std::string text = BusyTrace(50);
  ReadLimits limits;
  limits.max_bytes = 1000;
  ExpectPassed(ParseTrace(text, limits).status(), "more than 1000 bytes", "--max-trace-bytes");
  ExpectPassed(ParseTrace(Gzip(text), limits).status(), "more than 1000 bytes",
               "--max-trace-bytes");
  limits.max_bytes = static_cast<int64_t>(text.size());
  EXPECT_OK(ParseTrace(text, limits).status());
}

TEST(TraceReaderTest, KeepsTheLimitOfMemory) {
  std::vector<std::string> events;
  for (int i = 0; i < 10000; ++i) events.push_back(Event("cpu_op", "a", i, 1));
  const std::string text = Trace(events);
  ReadLimits limits;
  limits.max_memory_bytes = 100'000;
  limits.block_bytes = 4096;
  ExpectPassed(ParseTrace(text, limits).status(), "more than 100000 bytes of memory",
               "--max-trace-memory");
  limits.threads = 2;
  limits.parallel_bytes = 0;
  ExpectPassed(ParseTrace(text, limits).status(), "more than 100000 bytes of memory",
               "--max-trace-memory");
  limits.max_memory_bytes = 10000 * static_cast<int64_t>(sizeof(OpRecord)) + 100'000;
  ASSERT_OK_AND_ASSIGN(const RecordedTrace trace, ParseTrace(text, limits));
  EXPECT_EQ(trace.ops.size(), 10000u);

  events.clear();  // names count too, each once
  for (int i = 0; i < 100; ++i) {
    events.push_back(Event("cpu_op", absl::StrCat(std::string(1000, 'x'), i), i, 1));
  }
  limits.max_memory_bytes = 100'000;
  ExpectPassed(ParseTrace(Trace(events), limits).status(), "bytes of memory", "--max-trace-memory");
}

TEST(TraceReaderTest, KeepsTheLimitOfOneValue) {
  ReadLimits limits;
  limits.max_value_bytes = 1000;
  const std::string huge =
      Trace({Event("cpu_op", std::string(5000, 'x'), 1, 1), Event("cpu_op", "y", 2, 1)});
  ASSERT_OK(ParseTrace(huge).status());
  limits.block_bytes = 64;
  ExpectPassed(ParseTrace(huge + std::string(20000, ' '), limits).status(),
               "larger than 1000 bytes", "--max-trace-value");
}

struct BadCase {
  const char* name;
  const char* text;
  const Reason& reason;
  const char* message;
};

class BadTraceTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadTraceTest, IsRefusedWithItsPlace) {
  const auto result = ParseTrace(GetParam().text);
  ASSERT_THAT(result, FailsWith(GetParam().reason));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadTraceTest,
    ::testing::ValuesIn(std::vector<BadCase>{
        {"Empty", "", reason::kTraceEmpty, "empty"},
        {"Blank", " \n", reason::kTraceEmpty, "empty"},
        {"Number", "5", reason::kTraceUnparsable, "at byte 0"},
        {"Text", "\"x\"", reason::kTraceUnparsable, "at byte 0"},
        {"EmptyObject", "{}", reason::kTraceEmpty, "no list of events"},
        {"EmptyList", "[]", reason::kTraceEmpty, "is empty"},
        {"NoEvents", R"({"traceEvents":[]})", reason::kTraceEmpty, "is empty"},
        {"NullEvents", R"({"traceEvents":null})", reason::kTraceUnparsable, "at byte 15"},
        {"CutInList", R"({"traceEvents":[)", reason::kTraceUnparsable, "ends"},
        {"CutInEvent", R"([{"ph":"X"},{"ph":"X","na)", reason::kTraceUnparsable,
         "ends inside the event that begins at byte 12"},
        {"MissingComma", R"([{"ph":"X" "name":"a"}])", reason::kTraceUnparsable,
         "\",\" is missing behind a value at byte 11"},
        {"MissingValue", R"([{"ph":"X","dur":}])", reason::kTraceUnparsable,
         "a value is missing at byte 17"},
        {"WrongBracket", R"([{"ph":"X","cat":"kernel","name":"k","args":{"a":1]}])",
         reason::kTraceUnparsable, "closes what \"{\" opened at byte 50"},
        {"CutBehindEvent", R"([{"ph":"X"})", reason::kTraceUnparsable, "at byte 11"},
        {"CutBehindList", R"({"traceEvents":[{"ph":"X"}])", reason::kTraceUnparsable, "ends"},
        {"EventIsText", R"([{"ph":"X"},"x"])", reason::kTraceUnparsable, "no object at byte 12"},
        {"TimeIsText", R"([{"ph":"X","cat":"cpu_op","name":"a","ts":"10","dur":5}])",
         reason::kTraceUnparsable, "no number at byte 1"},
        {"NoColon", R"([{"ph" "X"}])", reason::kTraceUnparsable, "at byte"},
        {"GarbageBehind", R"([{"ph":"X","cat":"cpu_op","name":"a","ts":1}]x)",
         reason::kTraceUnparsable, "behind the trace's end at byte 45"},
        {"TwoLists", R"({"traceEvents":[{"ph":"X"}],"traceEvents":[]})", reason::kTraceUnparsable,
         "second list"},
        {"NothingKnown", R"([{"ph":"X","cat":"mystery","name":"a","ts":1}])", reason::kTraceEmpty,
         "1 events, but no"},
        {"OwnMetadataBroken",
         R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","ts":1}],"libreyolo":{x}})",
         reason::kTraceUnparsable, "\"libreyolo\""},
    }),
    [](const auto& info) { return info.param.name; });

TEST(TraceReaderTest, SaysThatATextIsUtf16) {
  for (const std::string& head : {std::string("\xFF\xFE[\0", 4), std::string("\xFE\xFF\0[", 4),
                                  std::string("[\0{\0", 4), std::string("\0[\0{", 4)}) {
    const auto result = ParseTrace(head);
    ASSERT_THAT(result, FailsWith(reason::kTraceUnparsable));
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("UTF-16"));
  }
}

TEST(TraceReaderTest, SaysWhatIsWrongWithThePath) {
  EXPECT_THAT(ReadTrace("/no/such/trace.json"), FailsWith(reason::kProfileNotFound));
  EXPECT_THAT(ReadTrace(LIBREYOLO_SOURCE_DIR), FailsWith(reason::kTraceUnparsable));
}

TEST(TraceReaderTest, AnErrorDeepInAFileHasItsByte) {
  std::string text = BusyTrace(3000);
  const size_t at = text.find("\"cat\":\"kernel", text.size() / 2);
  text[at + 5] = ';';  // in place of the colon
  const auto result = ParseTrace(text);
  ASSERT_THAT(result, FailsWith(reason::kTraceUnparsable));
  const ErrorDetail detail = GetErrorDetail(result.status());
  ASSERT_EQ(detail.metadata.size(), 1u);
  EXPECT_EQ(detail.metadata[0].first, "byte_offset");
  const int64_t offset = std::stoll(detail.metadata[0].second);
  EXPECT_EQ(offset, static_cast<int64_t>(at) + 5);
}

}  // namespace
}  // namespace libreyolo::trace
