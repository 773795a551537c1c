#include "client/render/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace libreyolo::client {
namespace {

// UTF-8 continuation bytes take no place on the screen.
size_t ShownWidth(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

}  // namespace

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

}  // namespace libreyolo::client
