#include "common/trace/raw_event.h"

#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"

namespace libreyolo::trace {
namespace {

namespace ondemand = simdjson::ondemand;

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

// inf, -inf, nan and their capital forms, which no JSON has.
bool IsBareNumber(absl::string_view token) {
  if (token.empty()) return false;
  const char first = token.front();
  if (first != 'i' && first != 'I' && first != 'n' && first != 'N' && first != '-') return false;
  const absl::string_view word = first == '-' ? token.substr(1) : token;
  return word == "inf" || word == "nan" || word == "NaN" || word == "Infinity" || word == "Inf" ||
         word == "NAN" || word == "INF";
}

inline bool KeyIs(const char* raw, const char* key, size_t size) {
  return std::memcmp(raw, key, size) == 0 && raw[size] == '"';
}

}  // namespace

int64_t IntOf(absl::string_view token) {
  token = Unquoted(token);
  if (token.substr(0, 7) == "stream ") token.remove_prefix(7);
  int64_t value = 0;
  return absl::SimpleAtoi(token, &value) ? value : -1;
}

void RawEvent::AddArgument(const char* key, absl::string_view token) {
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

simdjson::error_code RawEvent::ReadArguments(ondemand::value& value) {
  ondemand::object object;
  if (const auto error = value.get_object().get(object)) return error;
  for (auto result : object) {
    ondemand::field field;
    if (const auto error = std::move(result).get(field)) return error;
    AddArgument(field.key().raw(), Trim(field.value().raw_json_token()));
  }
  return simdjson::SUCCESS;
}

simdjson::error_code RawEvent::Read(ondemand::object& object) {
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

}  // namespace libreyolo::trace
