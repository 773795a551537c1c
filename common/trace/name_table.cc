#include "common/trace/name_table.h"

#include "absl/strings/match.h"

namespace libreyolo::trace {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The four hex digits at `text[i]`, or -1.
int32_t HexUnit(absl::string_view text, size_t i) {
  if (i + 4 > text.size()) return -1;
  int32_t code = 0;
  for (size_t k = i; k < i + 4; ++k) {
    const int digit = HexValue(text[k]);
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  return code;
}

void AppendUtf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code >> 6)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code >> 12)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | (code >> 18)));
    out.push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

// Decodes the \u escape whose first hex digit is `text[i]`; returns the length of what was used
// from there, 0 when it is illegal.
size_t DecodeUnicode(absl::string_view text, size_t i, DecodedName& out) {
  const int32_t unit = HexUnit(text, i);
  if (unit < 0) return 0;
  if (unit < 0x20 || unit == 0x7F) {
    out.control_escape = true;
    out.text.append("\\u").append(text.data() + i, 4);
    return 4;
  }
  if (unit >= 0xD800 && unit < 0xDC00 && text.substr(i + 4, 2) == "\\u") {
    const int32_t low = HexUnit(text, i + 6);
    if (low >= 0xDC00 && low < 0xE000) {
      AppendUtf8(0x10000 + ((static_cast<uint32_t>(unit) - 0xD800) << 10) +
                     (static_cast<uint32_t>(low) - 0xDC00),
                 out.text);
      return 10;
    }
  }
  if (unit >= 0xD800 && unit < 0xE000) return 0;  // half of a pair alone
  AppendUtf8(static_cast<uint32_t>(unit), out.text);
  return 4;
}

}  // namespace

DecodedName DecodeName(absl::string_view raw) {
  DecodedName out;
  out.text.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out.text.push_back(raw[i]);
      continue;
    }
    const char escape = ++i < raw.size() ? raw[i] : '\0';
    size_t used = 0;
    switch (escape) {
      case '"':
      case '\\':
      case '/':
        out.text.push_back(escape);
        continue;
      case 'b':
      case 'f':
      case 'n':
      case 'r':
      case 't':
        out.control_escape = true;
        out.text.push_back('\\');
        out.text.push_back(escape);
        continue;
      case 'u':
        used = DecodeUnicode(raw, i + 1, out);
        break;
      default:
        break;
    }
    if (used == 0) {
      return DecodedName{.text = std::string(raw), .illegal_escape = true, .control_escape = false};
    }
    i += used;
  }
  return out;
}

NameKind KindOfName(absl::string_view name) {
  if (absl::StartsWith(name, "ProfilerStep")) return NameKind::kStepMarker;
  for (const char* prefix : {"step/", "enumerate(DataLoader)#", "Optimizer.", "## "}) {
    if (absl::StartsWith(name, prefix)) return NameKind::kAnnotation;
  }
  return NameKind::kPlain;
}

NameId NameTable::Add(absl::string_view raw) {
  DecodedName decoded = DecodeName(raw);
  const NameId id = static_cast<NameId>(names_.size());
  infos_.push_back({KindOfName(decoded.text), decoded.illegal_escape});
  if (decoded.control_escape) ++control_escapes_;
  bytes_ += raw.size() + decoded.text.size() + 2 * sizeof(std::string) + sizeof(Info) +
            2 * sizeof(absl::string_view);
  names_.push_back(std::move(decoded.text));
  ids_.emplace(raw_.emplace_back(raw), id);
  return id;
}

}  // namespace libreyolo::trace
