// Reads records of a ZIP file whose entries are stored, not compressed, as torch.save writes them.
// Positions and sizes come from the central directory and are checked against the file; every
// record that is read is checked against its CRC-32 (about a second per gigabyte). Zip64 included.
// One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"

namespace libreyolo::yolo9 {

class ZipReader {
 public:
  struct Record {
    int64_t header_offset;  // of the local header
    int64_t byte_count;
    uint32_t crc32;
  };

  // InvalidArgument when it is no such ZIP file; errno's status when it cannot be read.
  static absl::StatusOr<ZipReader> Open(const std::string& path);

  const std::unordered_map<std::string, Record>& records() const { return records_; }
  const Record* Find(absl::string_view name) const;
  // Reads the whole record into `out`, which has room for its byte_count.
  absl::Status Read(absl::string_view name, const Record& record, char* out) const;

 private:
  absl::Status ReadDirectory();
  absl::Status ReadEntries(absl::string_view directory, uint64_t count, uint64_t end);
  absl::Status ReadAt(uint64_t offset, uint64_t count, char* out) const;

  UniqueFd fd_;
  uint64_t file_bytes_ = 0;
  std::unordered_map<std::string, Record> records_;
};

}  // namespace libreyolo::yolo9
