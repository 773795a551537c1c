#include <simdjson.h>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"

namespace libreyolo {
namespace {

JsonValue Convert(simdjson::dom::element element) {
  switch (element.type()) {
    case simdjson::dom::element_type::ARRAY: {
      JsonValue::Array items;
      for (simdjson::dom::element item : simdjson::dom::array(element))
        items.push_back(Convert(item));
      return JsonValue(std::move(items));
    }
    case simdjson::dom::element_type::OBJECT: {
      JsonValue::Object members;
      for (auto [key, item] : simdjson::dom::object(element)) {
        members.emplace_back(std::string(key), Convert(item));
      }
      return JsonValue(std::move(members));
    }
    case simdjson::dom::element_type::INT64:
      return JsonValue(int64_t(element));
    case simdjson::dom::element_type::UINT64:
      return JsonValue(double(uint64_t(element)));
    case simdjson::dom::element_type::DOUBLE:
      return JsonValue(double(element));
    case simdjson::dom::element_type::STRING:
      return JsonValue(std::string(std::string_view(element)));
    case simdjson::dom::element_type::BOOL:
      return JsonValue(bool(element));
    case simdjson::dom::element_type::NULL_VALUE:
      return JsonValue();
  }
  return JsonValue();
}

}  // namespace

absl::StatusOr<JsonValue> ParseJson(absl::string_view text, const JsonLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the JSON document has ", text.size(),
                                                   " bytes, more than the limit of ",
                                                   limits.max_bytes));
  }
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(text.data(), text.size());
  simdjson::error_code error =
      parser.allocate(padded.size(), static_cast<size_t>(limits.max_depth));
  simdjson::dom::element root;
  if (!error) error = parser.parse(padded).get(root);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("not JSON: ", simdjson::error_message(error)));
  }
  return Convert(root);
}

}  // namespace libreyolo
