#include "client/render/table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace libreyolo::client {
namespace {

// UTF-8 continuation bytes take no place on the screen.
size_t ShownWidth(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

// How many bytes at the start of `text` make a character that must not be shown; 0 for others.
size_t Unprintable(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0) return 2;  // C1
  if (byte(0) != 0xe2) return 0;
  const bool marks = byte(1) == 0x80 && ((byte(2) >= 0x8e && byte(2) <= 0x8f) ||  // LRM, RLM
                                         (byte(2) >= 0xa8 && byte(2) <= 0xae));
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
  return marks || isolates ? 3 : 0;
}

}  // namespace

std::string Printable(absl::string_view text, bool keep_newlines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const bool stays = text.front() == '\t' || (keep_newlines && text.front() == '\n');
    const size_t size = stays ? 0 : Unprintable(text);
    if (size == 0) {
      out.push_back(text.front());
    } else {
      out.push_back('?');
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

std::string Table::ToText() const {
  std::vector<size_t> widths;
  for (const Column& column : columns_) widths.push_back(ShownWidth(column.title));
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], ShownWidth(row[i]));
  }
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string& cell = cell_of(i);
      const std::string padding(widths[i] - ShownWidth(cell), ' ');
      if (i > 0) line += "  ";
      line += columns_[i].align == Align::kRight ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  };
  add_line([&](size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) {
    add_line([&](size_t i) -> const std::string& { return row[i]; });
  }
  return text;
}

std::string FitWidth(absl::string_view text, int width) {
  if (width <= 0 || ShownWidth(text) <= static_cast<size_t>(width)) return std::string(text);
  if (width <= 3) return std::string(static_cast<size_t>(width), '.');
  size_t bytes = 0;
  for (int left = width - 3; bytes < text.size(); ++bytes) {
    const bool starts_character = (text[bytes] & 0xc0) != 0x80;
    if (starts_character && left-- == 0) break;
  }
  return absl::StrCat(text.substr(0, bytes), "...");
}

std::string WrapWords(absl::string_view text, int width, int indent) {
  if (width <= 0) return std::string(text);
  const std::string margin(static_cast<size_t>(std::max(indent, 0)), ' ');
  const auto limit = static_cast<size_t>(width);
  std::string out;
  std::string line(text);
  while (ShownWidth(line) > limit) {
    // The last space within the limit; where a word is longer than that, the first behind it.
    size_t cut = std::string::npos;
    for (size_t at = line.find(' ', margin.size() + 1); at != std::string::npos;
         at = line.find(' ', at + 1)) {
      const bool fits = ShownWidth(absl::string_view(line).substr(0, at)) <= limit;
      if (fits || cut == std::string::npos) cut = at;
      if (!fits) break;
    }
    if (cut == std::string::npos) break;
    absl::StrAppend(&out, line.substr(0, cut), "\n");
    line = margin + std::string(absl::StripLeadingAsciiWhitespace(line.substr(cut)));
  }
  return out + line;
}

}  // namespace libreyolo::client
