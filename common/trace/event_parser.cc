#include "common/trace/event_parser.h"

#include <simdjson.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "common/trace/microseconds.h"
#include "common/trace/raw_event.h"

namespace libreyolo::trace {
namespace {

namespace ondemand = simdjson::ondemand;

inline bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// As ParseMicroseconds, and numbers that JSON does not allow but whose value nobody doubts.
inline bool ParseTime(absl::string_view token, int64_t& nanoseconds, bool& loose) {
  if (ParseMicroseconds(token, nanoseconds)) {
    const size_t first = token.front() == '-' ? 1 : 0;
    loose |= token[first] == '0' && token.size() > first + 1 && IsDigit(token[first + 1]);
    return true;
  }
  const absl::optional<std::string> mended = MendNumber(token);
  loose |= mended.has_value();
  return mended.has_value() && ParseMicroseconds(*mended, nanoseconds);
}

absl::string_view Words(simdjson::error_code error) {
  return error == simdjson::INCORRECT_TYPE ? "a value has another type than it should"
                                           : simdjson::error_message(error);
}

}  // namespace

static_assert(EventParser::kPadding > simdjson::SIMDJSON_PADDING);

struct EventParser::Simdjson {
  ondemand::parser parser;
};

EventParser::EventParser() : simdjson_(std::make_unique<Simdjson>()) {}
EventParser::~EventParser() = default;

BlockResult EventParser::Parse(char* text, size_t size, EventLists& out) {
  const char before = text[-1];
  const char after = text[size];
  text[-1] = '[';
  text[size] = ']';
  const size_t ops = out.ops.size();
  const size_t kernels = out.kernels.size();
  const size_t copies = out.copies.size();
  const size_t calls = out.calls.size();
  const size_t annotations = out.annotations.size();
  const size_t row_names = row_names_.size();
  const ReadCounts counts = out.counts;
  BlockResult result = Run(text, size, out);
  text[-1] = before;
  text[size] = after;
  if (result.outcome == BlockResult::Outcome::kFault ||
      result.outcome == BlockResult::Outcome::kBadText) {
    out.ops.resize(ops);
    out.kernels.resize(kernels);
    out.copies.resize(copies);
    out.calls.resize(calls);
    out.annotations.resize(annotations);
    row_names_.resize(row_names);
    out.counts = counts;
  }
  return result;
}

BlockResult EventParser::Run(char* text, size_t size, EventLists& out) {
  BlockResult result;
  const char* const begin = text - 1;
  const size_t whole = size + 2;
  // The place of a fault: where simdjson stands, or where the event begins.
  const char* event_start = text;
  ondemand::document document;
  const auto fault = [&](absl::string_view message) {
    const char* at = event_start;
    if (document.is_alive()) {
      const char* here = nullptr;
      if (document.current_location().get(here) == simdjson::SUCCESS) at = here;
    }
    result.outcome = BlockResult::Outcome::kFault;
    result.syntax = true;
    result.message = std::string(absl::StripSuffix(message, "."));
    result.offset = at < text ? 0 : std::min(static_cast<size_t>(at - text), size);
    return result;
  };
  auto error =
      simdjson_->parser.iterate(begin, whole, whole + simdjson::SIMDJSON_PADDING).get(document);
  if (error == simdjson::UTF8_ERROR || error == simdjson::UNESCAPED_CHARS) {
    result.outcome = BlockResult::Outcome::kBadText;
    return result;
  }
  ondemand::array list;
  if (!error) error = document.get_array().get(list);
  if (error) return fault(Words(error));

  for (auto element : list) {
    ondemand::value value;
    error = std::move(element).get(value);
    if (error) return fault(Words(error));
    event_start = value.raw_json_token().data();
    ++out.counts.events;
    ondemand::object object;
    if (*event_start == ']' && event_start < text + size) {
      // A comma before the list's end: no JSON, but browsers read it and some exporters write it.
      --out.counts.events;
      out.counts.trailing_comma = true;
      result.outcome = BlockResult::Outcome::kListEnded;
      result.offset = static_cast<size_t>(event_start - text);
      return result;
    }
    if (*event_start != '{') {
      result.outcome = BlockResult::Outcome::kFault;
      result.message = event_start < text + size ? "an event is no object" : "an event is missing";
      result.offset = static_cast<size_t>(event_start - text);
      return result;
    }
    RawEvent event;
    error = value.get_object().get(object);
    if (!error) error = event.Read(object);
    if (error) return fault(Words(error));
    if (const char* message = AddEvent(event, out)) {
      result.outcome = BlockResult::Outcome::kFault;
      result.message = message;
      result.offset = static_cast<size_t>(event_start - text);
      return result;
    }
  }
  const char* here = nullptr;
  if (document.current_location().get(here) == simdjson::SUCCESS && here < text + size) {
    // Something stands behind the list's end: step back over the space to its bracket.
    const char* bracket = here - 1;
    while (bracket > text && IsSpace(*bracket)) --bracket;
    result.outcome = BlockResult::Outcome::kListEnded;
    result.offset = static_cast<size_t>(bracket - text);
  } else if (document.current_location().get(here) == simdjson::SUCCESS) {
    // Only the bracket that was put behind the block is left, so the list ended before it.
    const char* bracket = text + size - 1;
    while (bracket > text && IsSpace(*bracket)) --bracket;
    result.outcome = BlockResult::Outcome::kListEnded;
    result.offset = static_cast<size_t>(bracket - text);
  }
  return result;
}

// Returns a fault's message, or null.
const char* EventParser::AddEvent(const RawEvent& event, EventLists& out) {
  if (event.phase != "X") {
    if (event.phase == "M") AddRowName(event);
    ++out.counts.other_events;
    return nullptr;
  }
  const absl::string_view raw_name = Unquoted(event.name);
  if (event.category == Category::kUnknown || event.category == Category::kOther) {
    // Not kept, but a damaged name tells that the exporter did not escape.
    if (std::memchr(raw_name.data(), '\\', raw_name.size()) != nullptr &&
        DecodeName(raw_name).illegal_escape) {
      ++out.counts.repaired_names;
    }
    ++out.counts.other_events;
    return nullptr;
  }
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  if (event.start.empty()) {
    ++out.counts.other_events;  // the format asks for a time; the reference leaves such events out
    return nullptr;
  }
  if (event.start.front() == '"' || event.start.front() == '{' || event.start.front() == '[' ||
      (!event.duration.empty() && (event.duration.front() == '"' || event.duration.front() == '{' ||
                                   event.duration.front() == '['))) {
    return "a time stamp (ts or dur) is no number";
  }
  bool loose = false;
  if (!ParseTime(event.start, start_ns, loose) ||
      (!event.duration.empty() && !ParseTime(event.duration, duration_ns, loose))) {
    ++out.counts.invalid_times;
    return nullptr;
  }
  if (loose) ++out.counts.loose_numbers;
  if (duration_ns < 0) {
    ++out.counts.negative_durations;
    duration_ns = 0;
  }
  out.counts.bare_numbers += event.bare_numbers;
  const NameId name = names_.Intern(raw_name);
  const NameTable::Info& info = names_.info(name);
  if (info.illegal_escape) ++out.counts.repaired_names;

  const auto device = [&] {
    return static_cast<int32_t>(event.device >= 0 ? event.device : IntOf(event.pid));
  };
  const auto stream = [&] {
    return static_cast<int32_t>(event.stream >= 0 ? event.stream : IntOf(event.tid));
  };
  switch (event.category) {
    case Category::kOp:
      if (info.kind == NameKind::kPlain) {
        out.ops.push_back({start_ns, duration_ns, name, InternThread(event.pid, event.tid)});
        break;
      }
      [[fallthrough]];
    case Category::kAnnotation:
      out.annotations.push_back(
          {start_ns, duration_ns, name, InternThread(event.pid, event.tid), false});
      break;
    case Category::kGpuAnnotation:
      out.annotations.push_back(
          {start_ns, duration_ns, name, InternThread(event.pid, event.tid), true});
      break;
    case Category::kCall:
      out.calls.push_back(
          {start_ns, duration_ns, event.correlation, name, InternThread(event.pid, event.tid)});
      break;
    case Category::kKernel:
      out.kernels.push_back({start_ns, duration_ns, event.correlation, name, device(), stream(),
                             InternThread(event.pid, event.tid), event.graph_node > 0});
      break;
    case Category::kCopy:
    case Category::kMemset:
      out.copies.push_back({start_ns, duration_ns, event.correlation, name, device(), stream(),
                            InternThread(event.pid, event.tid),
                            event.category == Category::kMemset});
      break;
    default:
      break;
  }
  return nullptr;
}

void EventParser::AddRowName(const RawEvent& event) {
  const absl::string_view what = Unquoted(event.name);
  const bool process = what == "process_name";
  if (!process && what != "thread_name") return;
  row_names_.push_back({process, DecodeName(Unquoted(event.pid)).text,
                        DecodeName(Unquoted(event.tid)).text,
                        DecodeName(event.argument_name).text});
}

void EventParser::AddRowNames(std::vector<RowName> names) {
  for (RowName& name : names) row_names_.push_back(std::move(name));
}

ThreadId EventParser::InternThread(absl::string_view pid, absl::string_view tid) {
  for (const RecentThread& recent : recent_) {
    if (recent.used && recent.tid == tid && recent.pid == pid) return recent.id;
  }
  // 2021 writes the same thread as a number in one event and as text in the next.
  const std::string key = absl::StrCat(Unquoted(pid), "\n", Unquoted(tid));
  const auto [it, inserted] = thread_ids_.emplace(key, static_cast<ThreadId>(threads_.size()));
  if (inserted) {
    threads_.push_back({DecodeName(Unquoted(pid)).text, DecodeName(Unquoted(tid)).text,
                        std::string(), std::string()});
  }
  recent_[next_recent_] = {std::string(pid), std::string(tid), it->second, true};
  next_recent_ = (next_recent_ + 1) % kRecentThreads;
  return it->second;
}

}  // namespace libreyolo::trace
