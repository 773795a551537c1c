#include "server/worker/data/label_rows.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace libreyolo::data {
namespace {

using Fields = std::vector<absl::string_view>;

// Reads fields[1..] as finite numbers; empty when one is not.
std::vector<double> ReadNumbers(const Fields& fields) {
  std::vector<double> numbers(fields.size() - 1);
  for (size_t i = 1; i < fields.size(); ++i) {
    if (!absl::SimpleAtod(fields[i], &numbers[i - 1]) || !std::isfinite(numbers[i - 1])) return {};
  }
  return numbers;
}

LabelRow BoundingBox(int class_id, const std::vector<double>& polygon) {
  double x1 = polygon[0];
  double x2 = polygon[0];
  double y1 = polygon[1];
  double y2 = polygon[1];
  for (size_t i = 2; i + 1 < polygon.size(); i += 2) {
    x1 = std::min(x1, polygon[i]);
    x2 = std::max(x2, polygon[i]);
    y1 = std::min(y1, polygon[i + 1]);
    y2 = std::max(y2, polygon[i + 1]);
  }
  return {class_id, (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1};
}

// What is wrong with the row, or nothing and the row in `out`.
std::string ParseRow(const Fields& fields, int class_count, LabelRow& out) {
  int class_id = 0;
  if (!absl::SimpleAtoi(fields[0], &class_id)) {
    return absl::StrCat("the class \"", fields[0].substr(0, 32), "\" is not a whole number");
  }
  const std::vector<double> numbers = ReadNumbers(fields);
  if (numbers.empty()) return "a coordinate is not a finite number";
  if (numbers.size() == 4) {
    out = {class_id, numbers[0], numbers[1], numbers[2], numbers[3]};
  } else if (numbers.size() % 2 != 0 || numbers.size() < 6) {
    return absl::StrCat("a polygon of ", numbers.size(), " numbers");
  } else {
    out = BoundingBox(class_id, numbers);
  }
  if (class_id < 0 || class_id >= class_count) {
    return absl::StrCat("class ", class_id, ", the dataset has ", class_count);
  }
  return {};
}

}  // namespace

LabelRows ParseLabelRows(absl::string_view text, int class_count) {
  LabelRows result;
  int line_number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    const Fields fields = absl::StrSplit(line, absl::ByAnyChar(" \t\r\f\v"), absl::SkipEmpty());
    if (fields.size() < 5) continue;
    LabelRow row;
    std::string problem = ParseRow(fields, class_count, row);
    if (problem.empty()) {
      result.rows.push_back(row);
    } else if (result.skipped_count++ == 0) {
      result.first_problem = absl::StrCat("line ", line_number, ": ", problem);
    }
  }
  return result;
}

bool ToPixels(const LabelRow& row, const ImageSize& size, double ratio, LabelBox& out) {
  const auto clip = [](double value, int limit) {
    return std::clamp(value * limit, 0.0, static_cast<double>(limit));
  };
  const double x1 = clip(row.center_x - row.width / 2, size.width);
  const double y1 = clip(row.center_y - row.height / 2, size.height);
  const double x2 = clip(row.center_x + row.width / 2, size.width);
  const double y2 = clip(row.center_y + row.height / 2, size.height);
  if (x2 <= x1 || y2 <= y1) return false;
  // Rounded before and after scaling: the reference keeps float32 arrays.
  const float scale = static_cast<float>(ratio);
  out = {static_cast<float>(x1) * scale, static_cast<float>(y1) * scale,
         static_cast<float>(x2) * scale, static_cast<float>(y2) * scale, row.class_id};
  return true;
}

}  // namespace libreyolo::data
