// Columns of text for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace libreyolo::client {

class Table {
 public:
  // A column is as wide as its longest cell. The last is not padded.
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // As many cells as columns.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Title and rows, two spaces between columns.
  std::string ToText() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// `text` cut to `width` characters with "..." at its end when it is longer; 0 leaves it whole.
std::string FitWidth(absl::string_view text, int width);

// `text` in lines of at most `width` characters, broken at spaces; all lines but the first begin
// with `indent` spaces. A word that is longer than a line stands alone in one; 0 leaves it whole.
std::string WrapWords(absl::string_view text, int width, int indent);

}  // namespace libreyolo::client
