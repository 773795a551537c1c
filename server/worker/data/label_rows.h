// Reads the rows of a label text file.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/worker/data/image.h"

namespace libreyolo::data {

// A labelled object in pixels of the picture as the network's input holds it (before padding).
struct LabelBox {
  float x1 = 0;
  float y1 = 0;
  float x2 = 0;
  float y2 = 0;
  int class_id = 0;

  friend bool operator==(const LabelBox&, const LabelBox&) = default;
};

// One row: a box as parts of the picture's width and height, not yet clipped.
struct LabelRow {
  int class_id = 0;
  double center_x = 0;
  double center_y = 0;
  double width = 0;
  double height = 0;
};

struct LabelRows {
  std::vector<LabelRow> rows;
  int skipped_count = 0;      // rows that say something and are wrong
  std::string first_problem;  // of the first of these: "line 3: class 7, the dataset has 3"
};

// A row is a class and a box (center x, y, width, height) or a polygon of at least three x, y
// pairs, whose bounding box counts. Rows of fewer than five fields are no labels and are passed
// over.
LabelRows ParseLabelRows(absl::string_view text, int class_count);

// Clips to the picture and scales to `ratio` times its size. False when nothing is left of the box.
bool ToPixels(const LabelRow& row, const ImageSize& size, double ratio, LabelBox& out);

}  // namespace libreyolo::data
