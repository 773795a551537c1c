#include "common/json/json_value.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace libreyolo {
namespace {

// Decodes one UTF-8 character at `text[i]` and moves `i` behind it; U+FFFD for anything malformed.
uint32_t NextCodePoint(absl::string_view text, size_t& i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(i++);
  if (lead < 0x80) return lead;
  int extra = 0;
  uint32_t code = 0;
  uint32_t lowest = 0;
  if (lead >= 0xC2 && lead < 0xE0) {
    extra = 1, code = lead & 0x1Fu, lowest = 0x80;
  } else if (lead >= 0xE0 && lead < 0xF0) {
    extra = 2, code = lead & 0x0Fu, lowest = 0x800;
  } else if (lead >= 0xF0 && lead < 0xF5) {
    extra = 3, code = lead & 0x07u, lowest = 0x10000;
  } else {
    return 0xFFFD;
  }
  for (int k = 0; k < extra; ++k) {
    if (i >= text.size() || (byte(i) & 0xC0u) != 0x80) return 0xFFFD;
    code = (code << 6) | (byte(i++) & 0x3Fu);
  }
  if (code < lowest || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0xFFFD;
  return code;
}

void AppendQuoted(absl::string_view text, std::string& out) {
  out.push_back('"');
  char buffer[8];
  const auto unit = [&](uint32_t code) {
    std::snprintf(buffer, sizeof buffer, "\\u%04x", code);
    out.append(buffer);
  };
  for (size_t i = 0; i < text.size();) {
    const uint32_t code = NextCodePoint(text, i);
    switch (code) {
      case '"':
        out.append("\\\"");
        break;
      case '\\':
        out.append("\\\\");
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\r':
        out.append("\\r");
        break;
      case '\t':
        out.append("\\t");
        break;
      case '\b':
        out.append("\\b");
        break;
      case '\f':
        out.append("\\f");
        break;
      default:
        if (code >= 0x20 && code < 0x7F) {
          out.push_back(static_cast<char>(code));
        } else if (code < 0x10000) {
          unit(code);
        } else {
          unit(0xD800 + ((code - 0x10000) >> 10));
          unit(0xDC00 + ((code - 0x10000) & 0x3FF));
        }
    }
  }
  out.push_back('"');
}

// `indent` below 0 is the compact form.
void Append(const JsonValue& value, int indent, std::string& out) {
  const int inner = indent < 0 ? -1 : indent + 2;
  const auto newline = [&](int spaces) {
    if (indent >= 0) {
      out.push_back('\n');
      out.append(static_cast<size_t>(spaces), ' ');
    }
  };
  const auto separator = [&](bool first) {
    if (!first) out.append(indent < 0 ? ", " : ",");
    newline(inner);
  };
  if (value.is_null()) {
    out.append("null");
  } else if (value.is_bool()) {
    out.append(value.bool_value() ? "true" : "false");
  } else if (value.is_int()) {
    absl::StrAppend(&out, value.int_value());
  } else if (value.is_double()) {
    out.append(std::isfinite(value.number()) ? PythonFloat(value.number()) : "null");
  } else if (value.is_string()) {
    AppendQuoted(value.string_value(), out);
  } else if (value.is_array()) {
    out.push_back('[');
    bool first = true;
    for (const JsonValue& item : value.array()) {
      separator(first);
      Append(item, inner, out);
      first = false;
    }
    if (!first) newline(indent);
    out.push_back(']');
  } else {
    out.push_back('{');
    bool first = true;
    for (const auto& [key, item] : value.object()) {
      separator(first);
      AppendQuoted(key, out);
      out.append(": ");
      Append(item, inner, out);
      first = false;
    }
    if (!first) newline(indent);
    out.push_back('}');
  }
}

}  // namespace

const JsonValue* JsonValue::Find(absl::string_view key) const {
  if (!is_object()) return nullptr;
  const Object& members = object();
  for (auto it = members.rbegin(); it != members.rend(); ++it) {
    if (it->first == key) return &it->second;
  }
  return nullptr;
}

void JsonValue::Set(absl::string_view key, JsonValue value) {
  if (!is_object()) value_ = Object{};
  for (auto& [name, member] : object()) {
    if (name == key) {
      member = std::move(value);
      return;
    }
  }
  object().emplace_back(std::string(key), std::move(value));
}

std::string JsonValue::ToCompact() const {
  std::string out;
  Append(*this, -1, out);
  return out;
}

std::string JsonValue::ToIndented() const {
  std::string out;
  Append(*this, 0, out);
  return out;
}

std::string PythonFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  // Shortest digits in scientific form: d.ddde[+-]xx; Python shows them plainly for exponents from
  // -4 to 15.
  auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string text(buffer, result.ptr);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) return text;
  result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  text.assign(buffer, result.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string JsonQuote(absl::string_view text) {
  std::string out;
  AppendQuoted(text, out);
  return out;
}

double RoundTo(double value, int digits) {
  if (!std::isfinite(value)) return value;
  char buffer[512];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return std::strtod(buffer, nullptr);
}

}  // namespace libreyolo
