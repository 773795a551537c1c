// Any bytes on the link to a worker: a worker that loaded a hostile checkpoint may send anything.
// The frames must not depend on how the bytes were cut into reads.
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "server/worker_link/frame.h"
#include "server/worker_link/worker_channel.h"

namespace {

namespace link = libreyolo::worker_link;

// The payloads of `bytes`, fed `step` bytes at a time; whether the stream broke.
bool Decode(absl::string_view bytes, size_t step, std::vector<std::string>& payloads) {
  link::FrameDecoder decoder;
  for (size_t at = 0; at < bytes.size(); at += step) {
    decoder.Feed(bytes.substr(at, step));
    while (true) {
      const auto payload = decoder.Next();
      if (!payload.ok()) return true;
      if (!payload->has_value()) break;
      payloads.push_back(**payload);
    }
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || size > (64 << 10)) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<std::string> whole;
  std::vector<std::string> pieces;
  const bool whole_broke = Decode(bytes, std::max<size_t>(bytes.size(), 1), whole);
  const bool pieces_broke = Decode(bytes, 1u + data[0] % 16, pieces);
  LY_CHECK(whole_broke == pieces_broke && whole == pieces) << "frames depend on the reads";
  for (const std::string& payload : whole) {
    const auto message = link::DecodeWorkerMessage(payload);
    if (message.ok()) {
      const auto again = link::DecodeWorkerMessage(link::EncodePayload(*message));
      LY_CHECK(again.ok()) << again.status();
      LY_CHECK(again->index() == message->index());
    }
    (void)link::DecodeDaemonMessage(payload);
  }
  return 0;
}
