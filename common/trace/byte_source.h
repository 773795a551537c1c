// Streams of bytes that the trace reader pulls from: a file or memory, unpacked on the way when it
// is gzip or zstd. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace libreyolo::trace {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills up to `size` bytes; 0 only at the end.
  virtual absl::StatusOr<size_t> Read(char* buffer, size_t size) = 0;
  // About how many bytes it will give in all; 0 when that is not known.
  virtual int64_t SizeHint() const { return 0; }
};

// PROFILE_NOT_FOUND or TRACE_UNPARSABLE (a folder) when `path` cannot be opened.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path);

// `bytes` must outlive the source.
std::unique_ptr<ByteSource> MakeMemorySource(absl::string_view bytes);

// `source` itself, or a source that unpacks it, by its first bytes. A damaged archive fails with
// TRACE_UNPARSABLE while it is read.
absl::StatusOr<std::unique_ptr<ByteSource>> UnpackSource(std::unique_ptr<ByteSource> source);

}  // namespace libreyolo::trace
