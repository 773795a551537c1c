#include "common/analysis/timeline/column_encoder.h"

#include "absl/strings/escaping.h"

namespace libreyolo::analysis {

std::string ColumnEncoder::ToBase64() const { return absl::Base64Escape(bytes_); }

}  // namespace libreyolo::analysis
