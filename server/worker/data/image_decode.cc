#include "server/worker/data/image_decode.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <turbojpeg.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "server/worker/data/image_codecs.h"

namespace libreyolo::data {
namespace {

absl::Status Unreadable(absl::string_view name, absl::string_view what) {
  return MakeError(reason::kSourceUnreadable, absl::StrCat("cannot read image ", name, ": ", what));
}

// Adds the picture's name and our reason to what a decoder said.
absl::Status Named(const absl::Status& status, ImageFormat format, absl::string_view name) {
  if (status.ok()) return status;
  return Unreadable(name, absl::StrCat(ImageFormatName(format), ": ", status.message()));
}

absl::Status UnsupportedFormat(ImageFormat format, absl::string_view name) {
  constexpr char kHint[] = "use JPEG, PNG, WebP or BMP";
  if (format == ImageFormat::kUnknown) {
    return MakeError(reason::kSourceUnreadable,
                     absl::StrCat("cannot read image ", name, ": not an image"), {kHint});
  }
  return MakeError(
      reason::kSourceUnreadable,
      absl::StrCat("cannot read image ", name, ": ", ImageFormatName(format), " is not supported"),
      {kHint});
}

// Reads at most `prefix_bytes` of a regular file into `out`, whose memory is reused. True: that was
// the whole file.
absl::StatusOr<bool> ReadPrefix(const std::string& path, int64_t limit_bytes, int64_t prefix_bytes,
                                std::string& out) {
  // Not blocking: a FIFO must be refused below, not waited for.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return MakeError(reason::kSourceNotFound, absl::StrCat("no images found at: ", path));
    }
    return Unreadable(path, strerror(errno));
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return Unreadable(path, strerror(errno));
  if (S_ISDIR(info.st_mode)) return Unreadable(path, "it is a folder");
  if (!S_ISREG(info.st_mode)) return Unreadable(path, "it is not a regular file");
  if (info.st_size > limit_bytes) {
    return Unreadable(
        path, absl::StrCat("the file has ", info.st_size, " bytes, the limit is ", limit_bytes));
  }
  const size_t wanted = static_cast<size_t>(std::min<int64_t>(info.st_size, prefix_bytes));
  out.resize(wanted);
  size_t have = 0;
  while (have < wanted) {
    const ssize_t got = read(fd.get(), &out[have], wanted - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unreadable(path, strerror(errno));
    if (got == 0) break;  // it shrank meanwhile; the decoder sees a truncated file
    have += static_cast<size_t>(got);
  }
  out.resize(have);
  return wanted == static_cast<size_t>(info.st_size);
}

}  // namespace

ImageFormat SniffImageFormat(absl::string_view bytes) {
  const auto starts = [bytes](absl::string_view prefix) { return absl::StartsWith(bytes, prefix); };
  if (starts("\xFF\xD8\xFF")) return ImageFormat::kJpeg;
  if (starts("\x89PNG\r\n\x1A\n")) return ImageFormat::kPng;
  if (starts("RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP") {
    return ImageFormat::kWebp;
  }
  if (starts("GIF87a") || starts("GIF89a")) return ImageFormat::kGif;
  if (starts(absl::string_view("II*\0", 4)) || starts(absl::string_view("MM\0*", 4)) ||
      starts(absl::string_view("II+\0", 4)) || starts(absl::string_view("MM\0+", 4))) {
    return ImageFormat::kTiff;
  }
  if (starts("PF\n") || starts("Pf\n")) return ImageFormat::kPfm;
  if (starts("BM") && bytes.size() >= 26) return ImageFormat::kBmp;
  return ImageFormat::kUnknown;
}

const char* ImageFormatName(ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg:
      return "JPEG";
    case ImageFormat::kPng:
      return "PNG";
    case ImageFormat::kWebp:
      return "WebP";
    case ImageFormat::kBmp:
      return "BMP";
    case ImageFormat::kTiff:
      return "TIFF";
    case ImageFormat::kGif:
      return "GIF";
    case ImageFormat::kPfm:
      return "PFM";
    case ImageFormat::kUnknown:
      break;
  }
  return "unknown";
}

absl::Status CheckSize(const ImageSize& size, const DecodeLimits& limits) {
  if (size.width < 1 || size.height < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a picture of %d x %d pixels", size.width, size.height));
  }
  if (int64_t{size.width} * size.height > limits.max_pixels) {
    return absl::InvalidArgumentError(absl::StrFormat("%d x %d pixels, more than the limit of %d",
                                                      size.width, size.height, limits.max_pixels));
  }
  return absl::OkStatus();
}

struct ImageDecoder::State {
  explicit State(const DecodeLimits& decode_limits)
      : limits(decode_limits), jpeg(tjInitDecompress()) {
    LY_CHECK(jpeg != nullptr) << "tjInitDecompress";
  }
  ~State() { tjDestroy(jpeg); }

  DecodeLimits limits;
  tjhandle jpeg;
  std::string file;  // the encoded bytes of the current file
};

ImageDecoder::ImageDecoder(const DecodeLimits& limits) : state_(std::make_unique<State>(limits)) {}
ImageDecoder::~ImageDecoder() = default;

absl::Status ImageDecoder::Decode(absl::string_view bytes, absl::string_view name, Image& out) {
  const ImageFormat format = SniffImageFormat(bytes);
  switch (format) {
    case ImageFormat::kJpeg:
      return Named(DecodeJpeg(state_->jpeg, bytes, state_->limits, out), format, name);
    case ImageFormat::kPng:
      return Named(DecodePng(bytes, state_->limits, out), format, name);
    case ImageFormat::kWebp:
      return Named(DecodeWebp(bytes, state_->limits, out), format, name);
    case ImageFormat::kBmp:
      return Named(DecodeBmp(bytes, state_->limits, out), format, name);
    default:
      return UnsupportedFormat(format, name);
  }
}

absl::StatusOr<ImageSize> ImageDecoder::ReadSize(absl::string_view bytes, absl::string_view name) {
  const ImageFormat format = SniffImageFormat(bytes);
  absl::StatusOr<ImageSize> size;
  switch (format) {
    case ImageFormat::kJpeg:
      size = ReadJpegSize(state_->jpeg, bytes);
      break;
    case ImageFormat::kPng:
      size = ReadPngSize(bytes);
      break;
    case ImageFormat::kWebp:
      size = ReadWebpSize(bytes);
      break;
    case ImageFormat::kBmp:
      size = ReadBmpSize(bytes);
      break;
    default:
      return UnsupportedFormat(format, name);
  }
  LY_RETURN_IF_ERROR(Named(size.status(), format, name));
  LY_RETURN_IF_ERROR(Named(CheckSize(*size, state_->limits), format, name));
  return size;
}

absl::Status ImageDecoder::DecodeFile(const std::string& path, Image& out) {
  LY_RETURN_IF_ERROR(
      ReadPrefix(path, state_->limits.max_file_bytes, INT64_MAX, state_->file).status());
  return Decode(state_->file, path, out);
}

absl::StatusOr<ImageSize> ImageDecoder::ReadFileSize(const std::string& path) {
  // Enough for nearly every header; a JPEG may carry a large colour profile before its own.
  constexpr int64_t kPrefixBytes = int64_t{64} << 10;
  LY_ASSIGN_OR_RETURN(const bool is_whole,
                      ReadPrefix(path, state_->limits.max_file_bytes, kPrefixBytes, state_->file));
  absl::StatusOr<ImageSize> size = ReadSize(state_->file, path);
  if (size.ok() || is_whole) return size;
  LY_RETURN_IF_ERROR(
      ReadPrefix(path, state_->limits.max_file_bytes, INT64_MAX, state_->file).status());
  return ReadSize(state_->file, path);
}

absl::StatusOr<Image> DecodeImage(absl::string_view bytes, absl::string_view name,
                                  const DecodeLimits& limits) {
  Image image;
  LY_RETURN_IF_ERROR(ImageDecoder(limits).Decode(bytes, name, image));
  return image;
}

absl::StatusOr<Image> DecodeImageFile(const std::string& path, const DecodeLimits& limits) {
  Image image;
  LY_RETURN_IF_ERROR(ImageDecoder(limits).DecodeFile(path, image));
  return image;
}

}  // namespace libreyolo::data
