// A window on a stream of text: what has been read and not yet taken, in one piece, with writable
// room before and behind it as the event parser needs. One thread at a time.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/trace/byte_source.h"
#include "common/trace/event_parser.h"
#include "common/trace/read_limits.h"

namespace libreyolo::trace {

class TextBuffer {
 public:
  TextBuffer(ByteSource& source, int64_t max_bytes) : source_(source), max_bytes_(max_bytes) {
    Grow(512 << 10);
  }

  // Not yet taken. Views stay valid until the next Fill.
  absl::string_view text() const { return {data_.get() + begin_, end_ - begin_}; }
  char* mutable_text() { return data_.get() + begin_; }
  // Of the text's first byte in the stream.
  int64_t offset() const { return offset_; }
  // True when the text holds all that is left of the stream.
  bool at_end() const { return at_end_; }
  // About how long the stream is; 0 when that is not known.
  int64_t size_hint() const { return source_.SizeHint(); }

  void Take(size_t size) {
    begin_ += size;
    offset_ += static_cast<int64_t>(size);
  }

  // Puts text that was taken back before what is left.
  void PutBack(absl::string_view text) {
    if (begin_ < kBefore + text.size()) {
      const size_t used = end_ - begin_;
      std::unique_ptr<char[]> data(
          new char[kBefore + text.size() + used + EventParser::kPadding]());
      std::memcpy(data.get() + kBefore + text.size(), data_.get() + begin_, used);
      data_ = std::move(data);
      begin_ = kBefore + text.size();
      end_ = begin_ + used;
      capacity_ = end_;
    }
    begin_ -= text.size();
    offset_ -= static_cast<int64_t>(text.size());
    std::memcpy(data_.get() + begin_, text.data(), text.size());
  }

  // Reads until the text has at least `size` bytes, or the stream ends.
  absl::Status Fill(size_t size) {
    if (end_ - begin_ >= size || at_end_) return absl::OkStatus();
    if (begin_ + size > capacity_) {
      std::memmove(data_.get() + kBefore, data_.get() + begin_, end_ - begin_);
      end_ = kBefore + (end_ - begin_);
      begin_ = kBefore;
      if (kBefore + size > capacity_) Grow(2 * size);
    }
    while (end_ - begin_ < size && !at_end_) {
      LY_ASSIGN_OR_RETURN(const size_t got, source_.Read(data_.get() + end_, capacity_ - end_));
      end_ += got;
      at_end_ = got == 0;
      if (offset_ + static_cast<int64_t>(end_ - begin_) > max_bytes_) {
        return LimitPassed(absl::StrCat("the trace has more than ", max_bytes_, " bytes"),
                           kMaxTraceBytesFlag);
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kBefore = 1;

  void Grow(size_t capacity) {
    const size_t used = end_ - begin_;
    std::unique_ptr<char[]> data(new char[kBefore + capacity + EventParser::kPadding]());
    if (used > 0) std::memcpy(data.get() + kBefore, data_.get() + begin_, used);
    data_ = std::move(data);
    begin_ = kBefore;
    end_ = kBefore + used;
    capacity_ = kBefore + capacity;
  }

  ByteSource& source_;
  const int64_t max_bytes_;
  std::unique_ptr<char[]> data_;
  size_t begin_ = kBefore;
  size_t end_ = kBefore;
  size_t capacity_ = 0;  // text may reach here; padding follows
  int64_t offset_ = 0;
  bool at_end_ = false;
};

}  // namespace libreyolo::trace
