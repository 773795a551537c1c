// Numbers as text that a page can hold: LEB128 bytes in base64. For one thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace libreyolo::analysis {

class ColumnEncoder {
 public:
  void Add(uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    bytes_.push_back(static_cast<char>(value));
  }
  // Small numbers of either sign stay short.
  void AddSigned(int64_t value) {
    Add((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }
  absl::string_view bytes() const { return bytes_; }
  // RFC 4648, padded.
  std::string ToBase64() const;

 private:
  std::string bytes_;
};

}  // namespace libreyolo::analysis
