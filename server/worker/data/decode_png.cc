#include <png.h>

#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "server/worker/data/image_codecs.h"

namespace libreyolo::data {
namespace {

// What libpng's callbacks work on. Its errors leave by longjmp, which skips destructors: no
// function between setjmp and the callbacks owns anything, all of it lives here and in the callers.
struct PngSession {
  absl::string_view bytes;
  size_t position = 0;
  char error[128] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;
  ImageSize size;
  int passes = 1;
};

void ReadBytes(png_structp png, png_bytep out, size_t count) {
  auto* session = static_cast<PngSession*>(png_get_io_ptr(png));
  if (session->bytes.size() - session->position < count) png_error(png, "the file is truncated");
  std::memcpy(out, session->bytes.data() + session->position, count);
  session->position += count;
}

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* session = static_cast<PngSession*>(png_get_error_ptr(png));
  std::strncpy(session->error, message, sizeof(session->error) - 1);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

bool ReadHeader(PngSession& session) {
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  png_read_info(session.png, session.info);
  session.size = {static_cast<int>(png_get_image_width(session.png, session.info)),
                  static_cast<int>(png_get_image_height(session.png, session.info))};
  return true;
}

// Asks for 8-bit RGB rows, whatever the file holds.
bool SetTransforms(PngSession& session) {
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  png_set_strip_16(session.png);
  png_set_expand(session.png);
  png_set_strip_alpha(session.png);
  png_set_gray_to_rgb(session.png);
  session.passes = png_set_interlace_handling(session.png);
  png_read_update_info(session.png, session.info);
  if (png_get_rowbytes(session.png, session.info) != static_cast<size_t>(session.size.width) * 3) {
    png_error(session.png, "unexpected row size");
  }
  return true;
}

bool ReadRows(PngSession& session, uint8_t* out) {
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  const size_t stride = static_cast<size_t>(session.size.width) * 3;
  // An interlaced picture comes in several passes over the same rows.
  for (int pass = 0; pass < session.passes; ++pass) {
    for (int y = 0; y < session.size.height; ++y) {
      png_read_row(session.png, out + static_cast<size_t>(y) * stride, nullptr);
    }
  }
  return true;
}

absl::Status Failed(const PngSession& session) {
  return absl::InvalidArgumentError(session.error[0] == '\0' ? "libpng failed" : session.error);
}

absl::Status Open(PngSession& session) {
  session.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &session, OnError, OnWarning);
  session.info = session.png == nullptr ? nullptr : png_create_info_struct(session.png);
  if (session.info == nullptr) {
    return MakeError(reason::kOutOfMemory, "no memory for libpng");
  }
  png_set_read_fn(session.png, &session, ReadBytes);
  return ReadHeader(session) ? absl::OkStatus() : Failed(session);
}

void Close(PngSession& session) { png_destroy_read_struct(&session.png, &session.info, nullptr); }

}  // namespace

absl::StatusOr<ImageSize> ReadPngSize(absl::string_view bytes) {
  PngSession session;
  session.bytes = bytes;
  const absl::Cleanup close = [&session] { Close(session); };
  LY_RETURN_IF_ERROR(Open(session));
  return session.size;
}

absl::Status DecodePng(absl::string_view bytes, const DecodeLimits& limits, Image& out) {
  PngSession session;
  session.bytes = bytes;
  const absl::Cleanup close = [&session] { Close(session); };
  LY_RETURN_IF_ERROR(Open(session));
  LY_RETURN_IF_ERROR(CheckSize(session.size, limits));
  if (!SetTransforms(session)) return Failed(session);
  out.Reset(session.size.width, session.size.height);
  if (!ReadRows(session, out.rgb.data())) return Failed(session);
  return absl::OkStatus();
}

}  // namespace libreyolo::data
