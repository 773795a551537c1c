#include "common/trace/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"

namespace libreyolo::trace {
namespace {

constexpr size_t kPackedChunk = 128 << 10;

class FileSource : public ByteSource {
 public:
  FileSource(UniqueFd fd, std::string path, int64_t size)
      : fd_(std::move(fd)), path_(std::move(path)), size_(size) {}

  int64_t SizeHint() const override { return size_; }

  absl::StatusOr<size_t> Read(char* buffer, size_t size) override {
    while (true) {
      const ssize_t got = ::read(fd_.get(), buffer, size);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return ErrnoStatus(errno, "read", path_);
    }
  }

 private:
  UniqueFd fd_;
  std::string path_;
  const int64_t size_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(absl::string_view bytes)
      : rest_(bytes), size_(static_cast<int64_t>(bytes.size())) {}

  int64_t SizeHint() const override { return size_; }

  absl::StatusOr<size_t> Read(char* buffer, size_t size) override {
    const size_t count = std::min(size, rest_.size());
    std::memcpy(buffer, rest_.data(), count);
    rest_.remove_prefix(count);
    return count;
  }

 private:
  absl::string_view rest_;
  const int64_t size_;
};

// Gives `head` first, then the rest of `source`.
class PeekedSource : public ByteSource {
 public:
  PeekedSource(std::string head, std::unique_ptr<ByteSource> source)
      : head_(std::move(head)), source_(std::move(source)) {}

  int64_t SizeHint() const override { return source_->SizeHint(); }

  absl::StatusOr<size_t> Read(char* buffer, size_t size) override {
    if (used_ == head_.size()) return source_->Read(buffer, size);
    const size_t count = std::min(size, head_.size() - used_);
    std::memcpy(buffer, head_.data() + used_, count);
    used_ += count;
    return count;
  }

 private:
  std::string head_;
  size_t used_ = 0;
  std::unique_ptr<ByteSource> source_;
};

// `offset` is of the packed bytes.
absl::Status Damaged(const char* format, int64_t offset, const char* what) {
  return MakeError(reason::kTraceUnparsable,
                   absl::StrCat("the ", format, " archive is damaged or cut short at its byte ",
                                offset, ": ", what),
                   {"copy it again from where it was made, or measure again"});
}

// Archives of several members (as parallel compressors write) read as their concatenation.
class GzipSource : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> source)
      : source_(std::move(source)), packed_(kPackedChunk) {
    ready_ = inflateInit2(&stream_, 15 + 16) == Z_OK;
  }
  ~GzipSource() override {
    if (ready_) inflateEnd(&stream_);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  absl::StatusOr<size_t> Read(char* buffer, size_t size) override {
    if (!ready_)
      return MakeError(reason::kOutOfMemory, "no memory to unpack gzip",
                       {"end other programs on the server's host, or try again later"});
    stream_.next_out = reinterpret_cast<Bytef*>(buffer);
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(size, 1u << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0) {
        LY_ASSIGN_OR_RETURN(const size_t got, source_->Read(packed_.data(), packed_.size()));
        if (got == 0) {
          if (member_open_) return Damaged("gzip", packed_end_, "the last member has no end");
          return size_t{0};
        }
        stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
        stream_.avail_in = static_cast<uInt>(got);
        packed_end_ += static_cast<int64_t>(got);
      }
      member_open_ = true;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        member_open_ = false;
        inflateReset(&stream_);
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return Damaged("gzip", packed_end_ - static_cast<int64_t>(stream_.avail_in),
                       stream_.msg != nullptr ? stream_.msg : "invalid data");
      }
    }
    return static_cast<size_t>(wanted - stream_.avail_out);
  }

 private:
  std::unique_ptr<ByteSource> source_;
  std::vector<char> packed_;
  int64_t packed_end_ = 0;  // bytes of the archive read so far
  z_stream stream_{};
  bool ready_ = false;
  bool member_open_ = true;  // an empty archive has not even a header
};

class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> source)
      : source_(std::move(source)), packed_(kPackedChunk), stream_(ZSTD_createDStream()) {
    // A frame may ask for a window of gigabytes; 128 MiB is what the zstd tool itself accepts.
    if (stream_ != nullptr) ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, 27);
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  absl::StatusOr<size_t> Read(char* buffer, size_t size) override {
    if (stream_ == nullptr)
      return MakeError(reason::kOutOfMemory, "no memory to unpack zstd",
                       {"end other programs on the server's host, or try again later"});
    ZSTD_outBuffer out{buffer, size, 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size && !pending_) {
        LY_ASSIGN_OR_RETURN(const size_t got, source_->Read(packed_.data(), packed_.size()));
        if (got == 0) {
          if (frame_open_) return Damaged("zstd", packed_end_, "the last frame has no end");
          return size_t{0};
        }
        in_ = {packed_.data(), got, 0};
        packed_end_ += static_cast<int64_t>(got);
      }
      const size_t left = ZSTD_decompressStream(stream_, &out, &in_);
      if (ZSTD_isError(left)) {
        return Damaged("zstd", packed_end_ - static_cast<int64_t>(in_.size - in_.pos),
                       ZSTD_getErrorName(left));
      }
      frame_open_ = left != 0;
      pending_ = frame_open_ && out.pos == out.size;
    }
    return out.pos;
  }

 private:
  std::unique_ptr<ByteSource> source_;
  std::vector<char> packed_;
  int64_t packed_end_ = 0;
  ZSTD_DStream* stream_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool frame_open_ = true;
  bool pending_ = false;  // the decoder may hold output although all input is taken
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path) {
  // A pipe that nobody writes to would hold up the thread for good.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return MakeError(reason::kProfileNotFound, absl::StrCat("not found: ", path));
    }
    return ErrnoStatus(errno, "open", path);
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  if (S_ISDIR(info.st_mode)) {
    return MakeError(reason::kTraceUnparsable, absl::StrCat(path, " is a folder"),
                     {"name the profile.json or the trace in it"});
  }
  if (!S_ISREG(info.st_mode)) {
    return MakeError(reason::kTraceUnparsable,
                     absl::StrCat(path, " is a pipe, a socket or a device, not a file"),
                     {"give its content to - as standard input"});
  }
  return std::unique_ptr<ByteSource>(new FileSource(std::move(fd), path, info.st_size));
}

std::unique_ptr<ByteSource> MakeMemorySource(absl::string_view bytes) {
  return std::make_unique<MemorySource>(bytes);
}

absl::StatusOr<std::unique_ptr<ByteSource>> UnpackSource(std::unique_ptr<ByteSource> source) {
  std::string head(4, '\0');
  size_t used = 0;
  while (used < head.size()) {
    LY_ASSIGN_OR_RETURN(const size_t got, source->Read(&head[used], head.size() - used));
    if (got == 0) break;
    used += got;
  }
  head.resize(used);
  const bool gzip = absl::string_view(head).substr(0, 2) == "\x1f\x8b";
  const bool zstd = head == "\x28\xb5\x2f\xfd";
  source = std::make_unique<PeekedSource>(std::move(head), std::move(source));
  if (gzip) return std::unique_ptr<ByteSource>(new GzipSource(std::move(source)));
  if (zstd) return std::unique_ptr<ByteSource>(new ZstdSource(std::move(source)));
  return source;
}

}  // namespace libreyolo::trace
