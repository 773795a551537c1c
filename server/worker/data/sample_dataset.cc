#include "server/worker/data/sample_dataset.h"

#include <turbojpeg.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "server/worker/data/augment_draws.h"

namespace libreyolo::data {
namespace {

namespace fs = std::filesystem;

// Part of the folder's name: a changed drawing gets a new one, so that profiles name what they
// used.
constexpr char kFolderName[] = "sample-v1";
constexpr char kClassNames[] = "[ball, box, cone]";
constexpr int kClassCount = 3;
constexpr int kJpegQuality = 88;
constexpr int kMaxObjects = 12;

struct Color {
  int red;
  int green;
  int blue;
};

Color DrawColor(AugmentDraws& draws, int low, int high) {
  const int red = draws.Integer(low, high);
  const int green = draws.Integer(low, high);
  return {red, green, draws.Integer(low, high)};
}

void SetPixel(Image& image, int x, int y, const Color& color, int shade) {
  uint8_t* pixel = &image.rgb[(static_cast<size_t>(y) * image.width + x) * 3];
  const auto channel = [shade](int value) {
    return static_cast<uint8_t>(std::clamp(value + shade, 0, 255));
  };
  pixel[0] = channel(color.red);
  pixel[1] = channel(color.green);
  pixel[2] = channel(color.blue);
}

// Two gradients, a coarse lattice and grain: a plain colour would compress to nothing and make
// decoding look cheaper than it is on photographs.
void DrawBackground(AugmentDraws& draws, Image& image) {
  const Color top = DrawColor(draws, 40, 220);
  const Color bottom = DrawColor(draws, 40, 220);
  const int lattice = draws.Integer(9, 41);
  for (int y = 0; y < image.height; ++y) {
    const auto mix = [&](int a, int b) { return a + (b - a) * y / image.height; };
    const Color row = {mix(top.red, bottom.red), mix(top.green, bottom.green),
                       mix(top.blue, bottom.blue)};
    for (int x = 0; x < image.width; ++x) {
      const int tile = ((x / lattice) ^ (y / lattice)) % 5 * 6;
      SetPixel(image, x, y, row, tile + draws.Integer(-9, 9));
    }
  }
}

// Whether the point, from -1 to 1 across the object's box, belongs to an object of this class.
bool IsInside(int class_id, double u, double v) {
  switch (class_id) {
    case 0:
      return u * u + v * v <= 1;
    case 1:
      return true;
    default:
      return std::abs(u) <= (v + 1) / 2;
  }
}

LabelRow DrawObject(AugmentDraws& draws, Image& image) {
  const int class_id = draws.Integer(0, kClassCount - 1);
  // Many small objects and some large ones.
  const double part = draws.Random();
  const int size = 16 + static_cast<int>(part * part * 280);
  const int width = std::max(size * draws.Integer(70, 130) / 100, 12);
  const int height = std::max(size * draws.Integer(70, 130) / 100, 12);
  const int left = draws.Integer(0, image.width - width);
  const int top = draws.Integer(0, image.height - height);
  const Color color = DrawColor(draws, 10, 245);
  const int stripe = draws.Integer(3, 17);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double u = (2.0 * x + 1) / width - 1;
      const double v = (2.0 * y + 1) / height - 1;
      if (!IsInside(class_id, u, v)) continue;
      // Lit from the upper left, with stripes.
      const int light = static_cast<int>(-24 * (u + v)) + ((x + y) / stripe % 2) * 14;
      SetPixel(image, left + x, top + y, color, light + draws.Integer(-5, 5));
    }
  }
  return {class_id, (left + width / 2.0) / image.width, (top + height / 2.0) / image.height,
          static_cast<double>(width) / image.width, static_cast<double>(height) / image.height};
}

// Encoder and its output buffer.
class JpegWriter {
 public:
  JpegWriter() : handle_(tjInitCompress()) {}
  ~JpegWriter() {
    tjFree(buffer_);
    tjDestroy(handle_);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  absl::Status Write(const Image& image, const std::string& path) {
    if (handle_ == nullptr ||
        tjCompress2(handle_, image.rgb.data(), image.width, 0, image.height, TJPF_RGB, &buffer_,
                    &buffer_bytes_, TJSAMP_420, kJpegQuality, TJFLAG_ACCURATEDCT) != 0) {
      return absl::InternalError(
          absl::StrCat("cannot encode ", path, ": ", tjGetErrorStr2(handle_)));
    }
    return WriteFile(path, {reinterpret_cast<const char*>(buffer_), buffer_bytes_});
  }

 private:
  tjhandle handle_;
  unsigned char* buffer_ = nullptr;
  unsigned long buffer_bytes_ = 0;  // NOLINT: TurboJPEG's type
};

std::string RowsText(const std::vector<LabelRow>& rows) {
  std::string text;
  for (const LabelRow& row : rows) {
    absl::StrAppendFormat(&text, "%d %.6f %.6f %.6f %.6f\n", row.class_id, row.center_x,
                          row.center_y, row.width, row.height);
  }
  return text;
}

absl::Status WriteDataset(const std::string& folder, absl::FunctionRef<void(int done)> progress) {
  LY_RETURN_IF_ERROR(MakeDirectories(folder + "/images/train"));
  LY_RETURN_IF_ERROR(MakeDirectories(folder + "/labels/train"));
  JpegWriter jpeg;
  for (int i = 0; i < kSampleDatasetCount; ++i) {
    const SamplePicture picture = DrawSamplePicture(i);
    const std::string stem = absl::StrFormat("train/%04d", i);
    LY_RETURN_IF_ERROR(jpeg.Write(picture.image, absl::StrCat(folder, "/images/", stem, ".jpg")));
    LY_RETURN_IF_ERROR(
        WriteFile(absl::StrCat(folder, "/labels/", stem, ".txt"), RowsText(picture.rows)));
    progress(i + 1);
  }
  return WriteFile(folder + "/data.yaml",
                   absl::StrCat("# Made by libreyolo; deleted, it is made again.\n",
                                "train: images/train\nval: images/train\nnc: ", kClassCount,
                                "\nnames: ", kClassNames, "\n"));
}

}  // namespace

SamplePicture DrawSamplePicture(int index) {
  SeededDraws draws(0x5A3D1E00ULL + static_cast<uint64_t>(index) * 0x10001ULL);
  SamplePicture picture;
  picture.image.Reset(kSampleDatasetWidth, kSampleDatasetHeight);
  DrawBackground(draws, picture.image);
  const int count = draws.Integer(1, kMaxObjects);
  for (int i = 0; i < count; ++i) picture.rows.push_back(DrawObject(draws, picture.image));
  return picture;
}

absl::StatusOr<std::string> EnsureSampleDataset(const std::string& cache_folder,
                                                absl::FunctionRef<void(int done)> progress) {
  const std::string folder = absl::StrCat(cache_folder, "/", kFolderName);
  const std::string yaml = folder + "/data.yaml";
  std::error_code error;
  if (fs::exists(yaml, error)) return yaml;
  if (fs::exists(fs::symlink_status(folder, error))) {
    return MakeError(reason::kDatasetInvalid, absl::StrCat(folder, " is not the sample dataset"),
                     {absl::StrCat("delete ", folder, "; it is made again when needed")});
  }
  LY_RETURN_IF_ERROR(MakeDirectories(cache_folder));
  const std::string staging = absl::StrCat(folder, ".", getpid(), ".tmp");
  const absl::Cleanup remove_staging = [&staging] {
    std::error_code ignored;
    fs::remove_all(staging, ignored);
  };
  LY_RETURN_IF_ERROR(WriteDataset(staging, progress));
  if (rename(staging.c_str(), folder.c_str()) != 0 && !fs::exists(yaml, error)) {
    return ErrnoStatus(errno, "make", folder);  // nor did another process make it meanwhile
  }
  return yaml;
}

absl::StatusOr<std::string> EnsureSampleDataset(const std::string& cache_folder) {
  return EnsureSampleDataset(cache_folder, [](int) {});
}

}  // namespace libreyolo::data
