#include "server/worker_link/frame.h"

#include <cstring>

#include "absl/base/internal/endian.h"
#include "absl/strings/str_cat.h"

namespace libreyolo::worker_link {
namespace {
constexpr size_t kHeaderBytes = 4;
}  // namespace

std::string EncodeFrame(absl::string_view payload) {
  std::string frame(kHeaderBytes, '\0');
  absl::little_endian::Store32(frame.data(), static_cast<uint32_t>(payload.size()));
  frame.append(payload.data(), payload.size());
  return frame;
}

absl::StatusOr<std::optional<std::string>> FrameDecoder::Next() {
  const size_t available = buffer_.size() - start_;
  if (available < kHeaderBytes) return std::nullopt;
  const uint32_t size = absl::little_endian::Load32(buffer_.data() + start_);
  if (size > kMaxFrameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame of ", size, " bytes is over the limit of ", kMaxFrameBytes));
  }
  if (available < kHeaderBytes + size) return std::nullopt;
  std::string payload = buffer_.substr(start_ + kHeaderBytes, size);
  start_ += kHeaderBytes + size;
  // Dropping consumed bytes only now and then keeps this linear.
  if (start_ > buffer_.size() / 2) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
  return payload;
}

}  // namespace libreyolo::worker_link
