#include "common/trace/event_parser.h"

#include <simdjson.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace libreyolo::trace {
namespace {

namespace ondemand = simdjson::ondemand;

enum class Category : uint8_t {
  kUnknown,  // not seen yet
  kOther,
  kOp,
  kKernel,
  kCopy,
  kMemset,
  kCall,
  kAnnotation,
  kGpuAnnotation,
};

struct CategoryName {
  absl::string_view text;
  Category category;
};

// Words of today, then those of 2021.
constexpr CategoryName kCategories[] = {
    {"cpu_op", Category::kOp},
    {"cuda_runtime", Category::kCall},
    {"kernel", Category::kKernel},
    {"user_annotation", Category::kAnnotation},
    {"gpu_user_annotation", Category::kGpuAnnotation},
    {"gpu_memcpy", Category::kCopy},
    {"gpu_memset", Category::kMemset},
    {"cuda_driver", Category::kCall},
    {"Operator", Category::kOp},
    {"Runtime", Category::kCall},
    {"Kernel", Category::kKernel},
    {"Memcpy", Category::kCopy},
    {"Memset", Category::kMemset},
};

Category CategoryOf(absl::string_view raw) {
  for (const CategoryName& entry : kCategories) {
    if (raw == entry.text) return entry.category;
  }
  return Category::kOther;
}

inline bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

inline absl::string_view Trim(std::string_view token) {
  size_t size = token.size();
  while (size > 0 && IsSpace(token[size - 1])) --size;
  return absl::string_view(token.data(), size);
}

// The inside of a string token; any other token as it is.
inline absl::string_view Unquoted(absl::string_view token) {
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"') {
    return token.substr(1, token.size() - 2);
  }
  return token;
}

// inf, -inf, nan and their capital forms, which no JSON has.
bool IsBareNumber(absl::string_view token) {
  if (token.empty()) return false;
  const char first = token.front();
  if (first != 'i' && first != 'I' && first != 'n' && first != 'N' && first != '-') return false;
  const absl::string_view word = first == '-' ? token.substr(1) : token;
  return word == "inf" || word == "nan" || word == "NaN" || word == "Infinity" || word == "Inf" ||
         word == "NAN" || word == "INF";
}

// A whole number, maybe in quotes or behind the word "stream" (2021). -1 when it is none.
int64_t IntOf(absl::string_view token) {
  token = Unquoted(token);
  if (token.substr(0, 7) == "stream ") token.remove_prefix(7);
  int64_t value = 0;
  return absl::SimpleAtoi(token, &value) ? value : -1;
}

inline bool KeyIs(const char* raw, const char* key, size_t size) {
  return std::memcmp(raw, key, size) == 0 && raw[size] == '"';
}

// Mantissa digits and exponent, for the rare numbers in scientific form.
bool ParseScientific(absl::string_view token, size_t exponent_at, int64_t& nanoseconds) {
  int64_t exponent = 0;
  absl::string_view exponent_text = token.substr(exponent_at + 1);
  if (!exponent_text.empty() && exponent_text[0] == '+') exponent_text.remove_prefix(1);
  if (!absl::SimpleAtoi(exponent_text, &exponent)) return false;
  absl::string_view mantissa = token.substr(0, exponent_at);
  const bool negative = !mantissa.empty() && mantissa[0] == '-';
  if (negative) mantissa.remove_prefix(1);
  const size_t dot = mantissa.find('.');
  std::string digits(mantissa.substr(0, dot));
  int64_t point = static_cast<int64_t>(digits.size());
  if (dot != absl::string_view::npos) {
    digits.append(mantissa.data() + dot + 1, mantissa.size() - dot - 1);
  }
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return false;
  const size_t zeros = digits.find_first_not_of('0');
  if (zeros == std::string::npos || exponent < -400) {
    nanoseconds = 0;
    return true;
  }
  if (exponent > 400) return false;
  digits.erase(0, zeros);
  point += exponent - static_cast<int64_t>(zeros);
  if (point > 18) return false;
  if (point < -6) {
    nanoseconds = 0;
    return true;
  }
  std::string plain = negative ? "-" : "";
  if (point <= 0) {
    absl::StrAppend(&plain, "0.", std::string(static_cast<size_t>(-point), '0'), digits);
  } else {
    const size_t whole = static_cast<size_t>(point);
    if (digits.size() < whole) digits.append(whole - digits.size(), '0');
    absl::StrAppend(&plain, digits.substr(0, whole), ".", digits.substr(whole), "0");
  }
  return ParseMicroseconds(plain, nanoseconds);
}

}  // namespace

bool ParseMicroseconds(absl::string_view token, int64_t& nanoseconds) {
  size_t i = 0;
  const bool negative = !token.empty() && token[0] == '-';
  if (negative) ++i;
  const size_t first_digit = i;
  uint64_t value = 0;
  // Fifteen digits fit in any case; time stamps seldom have more.
  const size_t unchecked = std::min(token.size(), i + 15);
  for (; i < unchecked && token[i] >= '0' && token[i] <= '9'; ++i) {
    value = value * 10 + static_cast<uint64_t>(token[i] - '0');
  }
  for (; i < token.size() && token[i] >= '0' && token[i] <= '9'; ++i) {
    if (value > 9'200'000'000'000'000ull) break;  // nanoseconds would not fit
    value = value * 10 + static_cast<uint64_t>(token[i] - '0');
  }
  if (i == first_digit || value > 9'200'000'000'000'000ull) {
    const size_t e = token.find_first_of("eE");
    return i != first_digit && e != absl::string_view::npos &&
           ParseScientific(token, e, nanoseconds);
  }
  value *= 1000;
  if (i < token.size() && token[i] == '.') {
    const size_t fraction = ++i;
    uint64_t scale = 100;
    for (; i < token.size() && token[i] >= '0' && token[i] <= '9'; ++i) {
      const uint64_t digit = static_cast<uint64_t>(token[i] - '0');
      if (scale > 0) {
        value += digit * scale;
        scale /= 10;
      } else if (i == fraction + 3 && digit >= 5) {
        ++value;
      }
    }
    if (i == fraction) return false;
  }
  if (i < token.size()) {
    if (token[i] != 'e' && token[i] != 'E') return false;
    return ParseScientific(token, i, nanoseconds);
  }
  nanoseconds = negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
  return true;
}

// The tokens of one event, as written.
struct EventParser::RawEvent {
  absl::string_view phase = "";  // without quotes
  absl::string_view name = "";   // token
  absl::string_view pid = "";    // token
  absl::string_view tid = "";    // token
  absl::string_view start = "";  // token
  absl::string_view duration = "";
  Category category = Category::kUnknown;
  int64_t correlation = kNoCorrelation;
  int64_t device = -1;
  int64_t stream = -1;
  int64_t graph_node = 0;
  int64_t bare_numbers = 0;
  absl::string_view argument_name = "";  // args.name, without quotes

  bool NeedsArguments() const {
    switch (category) {
      case Category::kUnknown:
      case Category::kKernel:
      case Category::kCopy:
      case Category::kMemset:
      case Category::kCall:
        return true;
      default:
        return false;
    }
  }

  void AddArgument(const char* key, absl::string_view token);
  simdjson::error_code ReadArguments(ondemand::value& value);
  simdjson::error_code Read(ondemand::object& object);
};

void EventParser::RawEvent::AddArgument(const char* key, absl::string_view token) {
  switch (key[0]) {
    case 'c':
      if (KeyIs(key, "correlation", 11)) correlation = IntOf(token);
      break;
    case 'd':
      if (KeyIs(key, "device", 6)) device = IntOf(token);
      break;
    case 's':
      if (KeyIs(key, "stream", 6)) stream = IntOf(token);
      break;
    case 'g':
      if (KeyIs(key, "graph node id", 13)) graph_node = IntOf(token);
      break;
    case 'n':
      if (KeyIs(key, "name", 4)) argument_name = Unquoted(token);
      break;
    default:
      break;
  }
  if (IsBareNumber(token)) ++bare_numbers;
}

simdjson::error_code EventParser::RawEvent::ReadArguments(ondemand::value& value) {
  ondemand::object object;
  if (const auto error = value.get_object().get(object)) return error;
  for (auto result : object) {
    ondemand::field field;
    if (const auto error = std::move(result).get(field)) return error;
    AddArgument(field.key().raw(), Trim(field.value().raw_json_token()));
  }
  return simdjson::SUCCESS;
}

simdjson::error_code EventParser::RawEvent::Read(ondemand::object& object) {
  for (auto result : object) {
    ondemand::field field;
    if (const auto error = std::move(result).get(field)) return error;
    const char* key = field.key().raw();
    ondemand::value& value = field.value();
    switch (key[0]) {
      case 'p':
        if (KeyIs(key, "ph", 2)) {
          phase = Trim(value.raw_json_token());
          if (phase.empty() || phase.front() != '"') return simdjson::INCORRECT_TYPE;
          phase = Unquoted(phase);
          // Half of a trace can be flow arrows: the list's iterator skips their rest faster.
          if (phase != "X" && phase != "M") return simdjson::SUCCESS;
        } else if (KeyIs(key, "pid", 3)) {
          pid = Trim(value.raw_json_token());
        }
        break;
      case 'c':
        if (KeyIs(key, "cat", 3)) category = CategoryOf(Unquoted(Trim(value.raw_json_token())));
        break;
      case 'n':
        if (KeyIs(key, "name", 4)) name = Trim(value.raw_json_token());
        break;
      case 't':
        if (KeyIs(key, "ts", 2)) {
          start = Trim(value.raw_json_token());
        } else if (KeyIs(key, "tid", 3)) {
          tid = Trim(value.raw_json_token());
        }
        break;
      case 'd':
        if (KeyIs(key, "dur", 3)) duration = Trim(value.raw_json_token());
        break;
      case 'a':
        if (KeyIs(key, "args", 4) && NeedsArguments() && value.raw_json_token()[0] == '{') {
          if (const auto error = ReadArguments(value)) return error;
        }
        break;
      default:
        break;
    }
  }
  return simdjson::SUCCESS;
}

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
    result.message = std::string(message);
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
  if (error) return fault(simdjson::error_message(error));

  for (auto element : list) {
    ondemand::value value;
    error = std::move(element).get(value);
    if (error) return fault(simdjson::error_message(error));
    event_start = value.raw_json_token().data();
    ++out.counts.events;
    ondemand::object object;
    if (*event_start == ']' && event_start < text + size) {
      // A comma before the list's end: no JSON, but browsers read it and some exporters write it.
      --out.counts.events;
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
    if (error) return fault(simdjson::error_message(error));
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
  if (!ParseMicroseconds(event.start, start_ns) ||
      (!event.duration.empty() && !ParseMicroseconds(event.duration, duration_ns))) {
    ++out.counts.invalid_times;
    return nullptr;
  }
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
                             event.graph_node > 0});
      break;
    case Category::kCopy:
    case Category::kMemset:
      out.copies.push_back({start_ns, duration_ns, event.correlation, name, device(), stream(),
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
  next_recent_ = 1 - next_recent_;
  return it->second;
}

int64_t CleanText(char* text, size_t size) {
  int64_t replaced = 0;
  bool in_string = false;
  for (size_t i = 0; i < size;) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      // The well-formed ranges of the Unicode standard, table 3-7.
      size_t extra = 0;
      unsigned char low = 0x80;
      unsigned char high = 0xBF;
      if (c >= 0xC2 && c <= 0xDF) extra = 1;
      if (c >= 0xE0 && c <= 0xEF) extra = 2;
      if (c >= 0xF0 && c <= 0xF4) extra = 3;
      if (c == 0xE0) low = 0xA0;
      if (c == 0xED) high = 0x9F;
      if (c == 0xF0) low = 0x90;
      if (c == 0xF4) high = 0x8F;
      bool valid = extra > 0 && i + extra < size;
      for (size_t k = 1; valid && k <= extra; ++k) {
        const unsigned char next = static_cast<unsigned char>(text[i + k]);
        valid = next >= (k == 1 ? low : 0x80) && next <= (k == 1 ? high : 0xBF);
      }
      if (valid) {
        i += extra + 1;
      } else {
        text[i++] = '?';
        ++replaced;
      }
      continue;
    }
    if (c == '"') in_string = !in_string;
    if (in_string && c < 0x20) {
      text[i] = ' ';
      ++replaced;
    }
    // An escaped character is passed over, unless it needs replacing itself.
    i += in_string && c == '\\' && i + 1 < size &&
                 static_cast<unsigned char>(text[i + 1]) >= 0x20 &&
                 static_cast<unsigned char>(text[i + 1]) < 0x80
             ? 2
             : 1;
  }
  return replaced;
}

}  // namespace libreyolo::trace
