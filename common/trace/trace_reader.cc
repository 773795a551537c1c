#include "common/trace/trace_reader.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/trace/block_text.h"
#include "common/trace/byte_source.h"
#include "common/trace/event_parser.h"
#include "common/trace/parallel_parser.h"
#include "common/trace/read_limits.h"
#include "common/trace/text_buffer.h"
#include "common/trace/trace_parts.h"

namespace libreyolo::trace {
namespace {

absl::Status Unparsable(absl::string_view message, int64_t offset) {
  return MakeError(reason::kTraceUnparsable, absl::StrCat(message, " at byte ", offset),
                   {"name a whole trace of PyTorch's profiler or libreyolo; one that was cut short "
                    "must be copied or recorded again"},
                   {{"byte_offset", absl::StrCat(offset)}});
}

// The fault that ended the parse of `block`, which stands at `offset` of the trace.
absl::Status FaultIn(absl::string_view block, const BlockResult& result, int64_t offset) {
  const TextFault fault = FindTextFault(block);
  if (!fault.message.empty() && (result.syntax || fault.offset < result.offset)) {
    return Unparsable(fault.message, offset + static_cast<int64_t>(fault.offset));
  }
  return Unparsable(result.message, offset + static_cast<int64_t>(result.offset));
}

// The program that packed what begins like `text`, of those that are not read; null for others.
const char* PackedBy(absl::string_view text) {
  if (absl::StartsWith(text, "BZh")) return "bzip2";
  if (absl::StartsWith(text,
                       "\xFD"
                       "7zXZ"))
    return "xz";
  if (absl::StartsWith(text, "PK\x03\x04")) return "zip";
  if (absl::StartsWith(text, "\x1F\x8B")) return "gzip, twice";
  return nullptr;
}

class Reader {
 public:
  Reader(ByteSource& source, const ReadLimits& limits)
      : limits_(limits), buffer_(source, limits.max_bytes) {}

  absl::StatusOr<RecordedTrace> Read();

 private:
  absl::Status ReadDocument();
  absl::Status ReadMembers();
  absl::StatusOr<std::string> ReadKey();
  absl::StatusOr<absl::string_view> ReadValue();
  absl::Status ReadEvents();
  // Parses one block; true when the list of events has ended.
  absl::StatusOr<bool> ReadBlock();
  absl::Status SubmitBlocks(ParallelParser& parallel);
  bool IsWorthThreads() const;
  void ReserveRecords();
  absl::Status CheckWanted() const;
  absl::Status CheckLimits() const;
  int64_t KeptBytes() const;
  absl::StatusOr<BlockResult> ParseBlock(absl::string_view& block);
  absl::Status NoEventEnds(const BlockResult& result) const;
  absl::StatusOr<char> Next();  // the next character that is no space; not taken
  absl::Status Expect(char c, absl::string_view where);
  absl::Status Finish();

  const ReadLimits limits_;
  TextBuffer buffer_;
  EventParser parser_;
  EventLists lists_;
  RecordedTrace trace_;
  bool has_events_ = false;
  size_t wanted_ = 0;  // text for the next block
};

absl::StatusOr<RecordedTrace> Reader::Read() {
  LY_RETURN_IF_ERROR(ReadDocument());
  LY_RETURN_IF_ERROR(Finish());
  return std::move(trace_);
}

absl::StatusOr<char> Reader::Next() {
  while (true) {
    const absl::string_view text = buffer_.text();
    const size_t skip = text.find_first_not_of(" \n\r\t");
    if (skip != absl::string_view::npos) {
      buffer_.Take(skip);
      return buffer_.text().front();
    }
    buffer_.Take(text.size());
    LY_RETURN_IF_ERROR(CheckWanted());
    LY_RETURN_IF_ERROR(buffer_.Fill(1));
    if (buffer_.text().empty()) return '\0';
  }
}

absl::Status Reader::Expect(char c, absl::string_view where) {
  LY_ASSIGN_OR_RETURN(const char next, Next());
  if (next == c && !buffer_.text().empty()) {
    buffer_.Take(1);
    return absl::OkStatus();
  }
  if (buffer_.text().empty()) {
    return Unparsable(absl::StrCat("the trace ends ", where), buffer_.offset());
  }
  return Unparsable(absl::StrCat("\"", std::string(1, c), "\" is missing ", where),
                    buffer_.offset());
}

absl::Status Reader::ReadDocument() {
  LY_RETURN_IF_ERROR(buffer_.Fill(8));
  const absl::string_view head = buffer_.text().substr(0, 2);
  if (head == "\xFF\xFE" || head == "\xFE\xFF" ||
      (head.size() == 2 && (head[0] == '\0') != (head[1] == '\0'))) {
    return MakeError(reason::kTraceUnparsable,
                     "not a trace: the text is UTF-16 from its first byte, at byte 0",
                     {"convert it: iconv -f UTF-16 -t UTF-8"}, {{"byte_offset", "0"}});
  }
  if (absl::StartsWith(buffer_.text(), "\xEF\xBB\xBF")) {
    buffer_.Take(3);
    lists_.counts.byte_order_mark = true;
  }
  LY_ASSIGN_OR_RETURN(const char first, Next());
  if (buffer_.text().empty()) {
    return MakeError(reason::kTraceEmpty, "the file is empty",
                     {"measure again, or name a profile.json"});
  }
  if (first == '[') {
    has_events_ = true;
    buffer_.Take(1);
    LY_RETURN_IF_ERROR(ReadEvents());
  } else if (first == '{') {
    buffer_.Take(1);
    LY_RETURN_IF_ERROR(ReadMembers());
  } else {
    const char* const packed = PackedBy(buffer_.text());
    if (buffer_.offset() == 0 && packed != nullptr) {
      return MakeError(reason::kTraceUnparsable,
                       absl::StrCat("not a trace: the file is packed by ", packed, ", at byte 0"),
                       {"unpack it, or pack it by gzip or zstd"}, {{"byte_offset", "0"}});
    }
    return Unparsable("not a trace: neither an object nor an array begins", buffer_.offset());
  }
  LY_RETURN_IF_ERROR(Next().status());
  if (!buffer_.text().empty()) {
    return Unparsable("something stands behind the trace's end", buffer_.offset());
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadMembers() {
  LY_ASSIGN_OR_RETURN(char next, Next());
  if (next == '}' && !buffer_.text().empty()) {
    buffer_.Take(1);
    return absl::OkStatus();
  }
  while (true) {
    LY_ASSIGN_OR_RETURN(const std::string key, ReadKey());
    LY_RETURN_IF_ERROR(Expect(':', absl::StrCat("behind the key \"", key, "\"")));
    LY_ASSIGN_OR_RETURN(next, Next());
    if (key == "traceEvents") {
      if (has_events_) {
        return Unparsable("a second list of events (traceEvents) begins", buffer_.offset());
      }
      if (next != '[') return Unparsable("traceEvents is no list", buffer_.offset());
      has_events_ = true;
      buffer_.Take(1);
      LY_RETURN_IF_ERROR(ReadEvents());
    } else {
      LY_ASSIGN_OR_RETURN(const absl::string_view value, ReadValue());
      LY_RETURN_IF_ERROR(
          AddHeaderMember(key, value, limits_.max_value_bytes, buffer_.offset(), trace_));
      buffer_.Take(value.size());
    }
    LY_ASSIGN_OR_RETURN(next, Next());
    if (next == '}' && !buffer_.text().empty()) {
      buffer_.Take(1);
      return absl::OkStatus();
    }
    LY_RETURN_IF_ERROR(Expect(',', absl::StrCat("behind the value of \"", key, "\"")));
  }
}

absl::StatusOr<std::string> Reader::ReadKey() {
  LY_ASSIGN_OR_RETURN(const char next, Next());
  if (next != '"' || buffer_.text().empty()) {
    return Unparsable(
        buffer_.text().empty() ? "the trace ends where a key should be" : "no key in quotes",
        buffer_.offset());
  }
  LY_ASSIGN_OR_RETURN(const absl::string_view token, ReadValue());
  std::string key = DecodeName(token.substr(1, token.size() - 2)).text;
  buffer_.Take(token.size());
  return key;
}

// The text of the value that begins here, not taken. It stays valid until the buffer is used again.
absl::StatusOr<absl::string_view> Reader::ReadValue() {
  size_t i = 0;
  int64_t depth = 0;
  bool in_string = false;
  while (true) {
    const absl::string_view text = buffer_.text();
    for (; i < text.size(); ++i) {
      const char c = text[i];
      if (in_string) {
        if (c == '\\') {
          if (i + 1 >= text.size()) break;  // the escaped character is not read yet
          ++i;
        } else if (c == '"') {
          in_string = false;
          if (depth == 0) return text.substr(0, i + 1);
        }
      } else if (c == '"') {
        in_string = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        if (depth == 0) return text.substr(0, i);  // the end of a scalar
        if (--depth == 0) return text.substr(0, i + 1);
      } else if (depth == 0 && (c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t')) {
        return text.substr(0, i);
      }
    }
    if (static_cast<int64_t>(text.size()) > limits_.max_value_bytes) {
      return LimitPassed(absl::StrCat("one value is larger than ", limits_.max_value_bytes,
                                      " bytes, at byte ", buffer_.offset()),
                         kMaxTraceValueFlag);
    }
    const size_t before = text.size();
    LY_RETURN_IF_ERROR(buffer_.Fill(before + 1));
    if (buffer_.text().size() == before) {
      return Unparsable("the trace ends inside a value that begins", buffer_.offset());
    }
  }
}

// Parses `block`, a prefix of the buffer's text that ends at a guessed cut; mends its text where
// that is needed. Where the guess was wrong the block is shortened to the exact cut, or becomes
// empty when no event ends in it.
absl::StatusOr<BlockResult> Reader::ParseBlock(absl::string_view& block) {
  char* const text = buffer_.mutable_text();
  bool cleaned = false;
  bool exact = block.size() == buffer_.text().size() && buffer_.at_end();
  while (true) {
    BlockResult result = parser_.Parse(text, block.size(), lists_);
    if (result.outcome == BlockResult::Outcome::kBadText && !cleaned) {
      cleaned = true;
      lists_.counts.replaced_bytes += CleanText(text, block.size());
      continue;
    }
    if (result.outcome != BlockResult::Outcome::kFault || exact) return result;
    const size_t cut = ExactCut(block);
    if (cut == block.size()) return result;
    block = block.substr(0, cut);
    if (block.empty()) return result;
    exact = true;
  }
}

absl::Status Reader::ReadEvents() {
  wanted_ = static_cast<size_t>(std::max<int64_t>(limits_.block_bytes, 64));
  LY_ASSIGN_OR_RETURN(bool ended, ReadBlock());
  ReserveRecords();
  std::unique_ptr<ParallelParser> parallel;
  std::string rest;
  while (!ended) {
    if (parallel == nullptr && IsWorthThreads()) {
      parallel = std::make_unique<ParallelParser>(limits_.threads);
    }
    if (parallel != nullptr) {
      LY_RETURN_IF_ERROR(SubmitBlocks(*parallel));
      if (!parallel->idle()) {
        if (!parallel->TakeOldest(parser_, lists_, rest)) buffer_.PutBack(rest);
        if (!rest.empty()) {
          // The list ends in this block, its guessed cut was wrong, or it needs mending.
          rest.clear();
          LY_ASSIGN_OR_RETURN(ended, ReadBlock());
        }
        LY_RETURN_IF_ERROR(CheckLimits());
        continue;
      }
    }
    LY_ASSIGN_OR_RETURN(ended, ReadBlock());
  }
  return absl::OkStatus();
}

// Threads cost their start and a copy of the text. How long packed text is shows when half of what
// is worth them has been read.
bool Reader::IsWorthThreads() const {
  if (limits_.threads <= 1) return false;
  const int64_t size = buffer_.size_hint();
  return size > 0 ? size >= limits_.parallel_bytes : buffer_.offset() >= limits_.parallel_bytes / 2;
}

// Vectors that grow by doubling would copy the records again and again.
void Reader::ReserveRecords() {
  const int64_t taken = buffer_.offset();
  const int64_t size = std::min(buffer_.size_hint(), limits_.max_bytes);
  if (taken <= 0 || size <= 2 * taken) return;
  const double scale = 1.02 * static_cast<double>(size) / static_cast<double>(taken);
  const double limit = static_cast<double>(limits_.max_memory_bytes);
  if (scale * static_cast<double>(KeptBytes()) > limit) return;  // it may well fail
  const auto reserve = [&](auto& records) {
    records.reserve(static_cast<size_t>(scale * static_cast<double>(records.size())));
  };
  reserve(lists_.ops);
  reserve(lists_.kernels);
  reserve(lists_.calls);
}

absl::Status Reader::CheckWanted() const {
  if (!limits_.is_cancelled || !limits_.is_cancelled()) return absl::OkStatus();
  return MakeError(reason::kCancelled, "nobody waits for this trace any more");
}

absl::Status Reader::CheckLimits() const {
  LY_RETURN_IF_ERROR(CheckWanted());
  if (lists_.counts.events > limits_.max_events) {
    return LimitPassed(absl::StrCat("the trace has more than ", limits_.max_events, " events"),
                       kMaxTraceEventsFlag);
  }
  if (KeptBytes() > limits_.max_memory_bytes) {
    return LimitPassed(absl::StrCat("the trace's records take more than ", limits_.max_memory_bytes,
                                    " bytes of memory, after ", lists_.counts.events, " events"),
                       kMaxTraceMemoryFlag);
  }
  return absl::OkStatus();
}

int64_t Reader::KeptBytes() const {
  size_t bytes = parser_.names().bytes();
  const auto add = [&](const auto& records) { bytes += records.size() * sizeof(records[0]); };
  add(lists_.ops);
  add(lists_.kernels);
  add(lists_.copies);
  add(lists_.calls);
  add(lists_.annotations);
  return static_cast<int64_t>(bytes);
}

// Hands guessed blocks to the workers while they want more and the text is long enough; the end of
// the text is left to ReadBlock.
absl::Status Reader::SubmitBlocks(ParallelParser& parallel) {
  const size_t block_bytes = static_cast<size_t>(std::max<int64_t>(limits_.block_bytes, 64));
  while (parallel.wants_more()) {
    LY_RETURN_IF_ERROR(buffer_.Fill(2 * block_bytes + 1));
    const absl::string_view text = buffer_.text();
    if (text.size() <= 2 * block_bytes) break;
    const size_t cut = GuessCut(text.substr(0, block_bytes));
    if (cut == 0) break;
    const size_t next = text.find('{', cut);  // behind the comma that the guess has seen
    parallel.Submit(text.substr(0, next), cut);
    buffer_.Take(next);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Reader::ReadBlock() {
  LY_ASSIGN_OR_RETURN(const char next, Next());
  if (next == ']' && !buffer_.text().empty()) {
    buffer_.Take(1);
    lists_.counts.trailing_comma = lists_.counts.events > 0;
    return true;
  }
  LY_RETURN_IF_ERROR(buffer_.Fill(wanted_));
  absl::string_view block = buffer_.text();
  if (block.empty()) {
    return Unparsable("the trace ends inside the list of events", buffer_.offset());
  }
  if (!buffer_.at_end() || block.size() > 2 * wanted_) {
    block = block.substr(0, std::min(wanted_, block.size()));
    block = block.substr(0, GuessCut(block));
  }
  const int64_t offset = buffer_.offset();
  BlockResult result;
  if (!block.empty()) {
    LY_ASSIGN_OR_RETURN(result, ParseBlock(block));
  }
  if (block.empty()) {  // no event ends in it: one is larger than the block, or is damaged
    if (static_cast<int64_t>(wanted_) > limits_.max_value_bytes) return NoEventEnds(result);
    wanted_ *= 2;
    return ReadBlock();
  }
  wanted_ = static_cast<size_t>(std::max<int64_t>(limits_.block_bytes, 64));
  LY_RETURN_IF_ERROR(CheckLimits());
  switch (result.outcome) {
    case BlockResult::Outcome::kWhole: {
      buffer_.Take(block.size());
      LY_ASSIGN_OR_RETURN(const char behind, Next());
      if (behind == ']') {
        buffer_.Take(1);
        return true;
      }
      LY_RETURN_IF_ERROR(Expect(',', "in the list of events"));
      return false;
    }
    case BlockResult::Outcome::kListEnded:
      buffer_.Take(result.offset + 1);
      return true;
    case BlockResult::Outcome::kBadText:
      return Unparsable("text that cannot be mended", offset);
    case BlockResult::Outcome::kFault:
      break;
  }
  return FaultIn(block, result, offset);
}

// The text is longer than any event may be, and no event ends in it.
absl::Status Reader::NoEventEnds(const BlockResult& result) const {
  const int64_t offset = buffer_.offset();
  if (result.outcome == BlockResult::Outcome::kFault && !FindTextFault(buffer_.text()).cut_short) {
    return FaultIn(buffer_.text(), result, offset);
  }
  return LimitPassed(absl::StrCat("one event is larger than ", limits_.max_value_bytes,
                                  " bytes, at byte ", offset),
                     kMaxTraceValueFlag);
}

absl::Status Reader::Finish() {
  if (!has_events_) {
    return MakeError(
        reason::kTraceEmpty, "not a trace: it has no list of events (traceEvents)",
        {"name a profile.json, or a trace that PyTorch's profiler or libreyolo wrote"});
  }
  if (lists_.counts.events == 0) {
    return MakeError(reason::kTraceEmpty, "the trace's list of events is empty",
                     {"measure again without --no-trace, or read the profile.json beside it"});
  }
  trace_.threads = std::move(parser_.threads());
  NameThreads(parser_.row_names(), trace_.threads);
  SplitMarkers(parser_.names(), lists_, trace_);
  SeparateDevices(lists_, trace_);
  trace_.ops = std::move(lists_.ops);
  trace_.kernels = std::move(lists_.kernels);
  trace_.copies = std::move(lists_.copies);
  trace_.calls = std::move(lists_.calls);
  trace_.annotations = std::move(lists_.annotations);
  trace_.counts = lists_.counts;
  trace_.counts.bytes = buffer_.offset();
  trace_.counts.control_escapes = parser_.names().control_escapes();
  trace_.names = parser_.names().TakeNames();
  if (trace_.ops.empty() && trace_.kernels.empty() && trace_.copies.empty() &&
      trace_.calls.empty() && trace_.annotations.empty() && trace_.markers.empty()) {
    return MakeError(
        reason::kTraceEmpty,
        absl::StrCat("the trace has ", trace_.counts.events,
                     " events, but no operation, kernel, copy, CUDA call or annotation "
                     "with a time"),
        {"record the trace with CPU or CUDA activities, as libreyolo profile does"});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RecordedTrace> ReadTraceFrom(std::unique_ptr<ByteSource> source,
                                            const ReadLimits& limits) {
  LY_ASSIGN_OR_RETURN(source, UnpackSource(std::move(source)));
  return Reader(*source, limits).Read();
}

absl::StatusOr<RecordedTrace> ReadTrace(const std::string& path, const ReadLimits& limits) {
  LY_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenFileSource(path));
  return ReadTraceFrom(std::move(source), limits);
}

absl::StatusOr<RecordedTrace> ParseTrace(absl::string_view bytes, const ReadLimits& limits) {
  return ReadTraceFrom(MakeMemorySource(bytes), limits);
}

}  // namespace libreyolo::trace
