// Columns of text for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace libreyolo::client {

// `text` with "?" for what would steer a terminal or turn the order of what is shown: control
// characters (of C1 too), and Unicode's line and direction marks. A newline stays with
// `keep_newlines`.
std::string Printable(absl::string_view text, bool keep_newlines = false);

class Table {
 public:
  // A column is as wide as its longest cell. The last is not padded.
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // As many cells as columns. What cannot be printed becomes "?".
  void Add(std::vector<std::string> cells) {
    for (std::string& cell : cells) cell = Printable(cell);
    rows_.push_back(std::move(cells));
  }
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
