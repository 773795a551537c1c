// A JSON document as a tree that keeps key order and tells integers from floats, and its text as
// Python's json module writes it: profiles must be byte-compatible with the Python peer's. For
// small documents (profiles, metadata, answers); traces have a reader of their own (common/trace).
// A value is for one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace libreyolo {

class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Object = std::vector<std::pair<std::string, JsonValue>>;  // in order of appearance

  JsonValue() = default;  // null
  JsonValue(std::nullptr_t) {}
  JsonValue(bool value) : value_(value) {}
  JsonValue(int value) : value_(int64_t{value}) {}
  JsonValue(int64_t value) : value_(value) {}
  JsonValue(double value) : value_(value) {}  // not finite: written as null
  JsonValue(const char* value) : value_(std::string(value)) {}
  JsonValue(std::string value) : value_(std::move(value)) {}
  JsonValue(absl::string_view value) : value_(std::string(value)) {}
  JsonValue(Array value) : value_(std::move(value)) {}
  JsonValue(Object value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // The caller has asked is_x() first.
  bool bool_value() const { return std::get<bool>(value_); }
  int64_t int_value() const { return std::get<int64_t>(value_); }
  // An integer reads as a double too.
  double number() const {
    return is_int() ? static_cast<double>(int_value()) : std::get<double>(value_);
  }
  const std::string& string_value() const { return std::get<std::string>(value_); }
  const Array& array() const { return std::get<Array>(value_); }
  Array& array() { return std::get<Array>(value_); }
  const Object& object() const { return std::get<Object>(value_); }
  Object& object() { return std::get<Object>(value_); }

  // The member `key`, or null when this is no object or has no such member. The last one wins when
  // a key is repeated.
  const JsonValue* Find(absl::string_view key) const;
  // Sets a member of an object (null becomes an empty object first): in place when the key exists,
  // else at the end.
  void Set(absl::string_view key, JsonValue value);

  // One line, ", " and ": " between parts, ASCII only (other characters as \uXXXX).
  std::string ToCompact() const;
  // Indented by 2, ASCII only, no newline at the end. Empty containers are "[]" and "{}".
  std::string ToIndented() const;

  friend bool operator==(const JsonValue& a, const JsonValue& b) { return a.value_ == b.value_; }

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

// Python's repr of a float: the shortest text that reads back the same, "1.0", "1e-05", "1e+16".
std::string PythonFloat(double value);

// `text` as a JSON string with its quotes, ASCII only. Invalid UTF-8 becomes U+FFFD.
std::string JsonQuote(absl::string_view text);

// The value rounded to `digits` decimals as Python's round() does: correctly from the binary value,
// ties to even.
double RoundTo(double value, int digits);

struct JsonLimits {
  int64_t max_bytes = int64_t{256} << 20;
  int max_depth = 64;
};

// Parses a whole document. InvalidArgument with the byte offset when it is not JSON, nested too
// deeply or too large. A UTF-8 byte-order mark is skipped. Integers beyond 64 bits become doubles.
absl::StatusOr<JsonValue> ParseJson(absl::string_view text, const JsonLimits& limits = {});

}  // namespace libreyolo
