// Length-prefixed frames on a stream: 4 bytes little-endian length, then the payload. Pure; for one
// thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace libreyolo::worker_link {

// A measurement with 100,000 latencies is below 3 MiB; anything near this limit is garbage on the
// link.
inline constexpr uint32_t kMaxFrameBytes = 64u << 20;

std::string EncodeFrame(absl::string_view payload);

// Takes bytes as they come and gives back whole payloads.
class FrameDecoder {
 public:
  void Feed(absl::string_view bytes) { buffer_.append(bytes.data(), bytes.size()); }
  // The next payload, or nullopt until more bytes come. InvalidArgument when a length is over the
  // limit; the stream is of no use after that.
  absl::StatusOr<std::optional<std::string>> Next();
  // True when a frame has begun but not ended.
  bool HasPartial() const { return buffer_.size() > start_; }

 private:
  std::string buffer_;
  size_t start_ = 0;
};

}  // namespace libreyolo::worker_link
