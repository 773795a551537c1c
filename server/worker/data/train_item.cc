#include "server/worker/data/train_item.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "server/worker/data/color_shift.h"
#include "server/worker/data/image_decode.h"
#include "server/worker/data/letterbox.h"
#include "server/worker/data/scale_warp.h"

namespace libreyolo::data {
namespace {

// Largest shift of hue, saturation and value.
constexpr std::array<double, 3> kColorSteps = {5, 30, 30};
constexpr int kMaxPartnerDraws = 20;
constexpr double kMinWarpedSide =
    2;                          // pixels; boxes that are not larger are dropped after the warp
constexpr double kMinSide = 1;  // likewise at the end
constexpr size_t kMaxExamples = 10;

struct Box {
  double x1, y1, x2, y2;
  int class_id;
};

bool IsLarger(const Box& box, double side) {
  return box.x2 - box.x1 > side && box.y2 - box.y1 > side;
}

ColorShift DrawColors(AugmentDraws& draws) {
  const std::array<double, 3> gains = draws.ColorGains();
  const std::array<int, 3> flags = draws.ColorFlags();
  const auto step = [&](size_t i) {
    return static_cast<int>(gains[i] * kColorSteps[i] * flags[i]);
  };
  return {step(0), step(1), step(2)};
}

void MirrorBoxes(int width, std::vector<Box>& boxes) {
  for (Box& box : boxes) {
    const double x1 = width - box.x2;
    box.x2 = width - box.x1;
    box.x1 = x1;
  }
}

void MirrorPixels(Image& image) {
  const size_t stride = static_cast<size_t>(image.width) * 3;
  for (int y = 0; y < image.height; ++y) {
    uint8_t* row = image.rgb.data() + static_cast<size_t>(y) * stride;
    for (int left = 0, right = image.width - 1; left < right; ++left, --right) {
      std::swap_ranges(row + 3 * left, row + 3 * left + 3, row + 3 * right);
    }
  }
}

}  // namespace

void BrokenImages::Mark(size_t index, const std::string& why) {
  if (is_broken_[index].exchange(true)) return;
  ++count_;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (examples_.size() < kMaxExamples) examples_.push_back(why);
}

std::vector<std::string> BrokenImages::examples() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return examples_;
}

struct TrainItemMaker::State {
  State(const Dataset& the_dataset, const AugmentOptions& the_options, BrokenImages& the_broken)
      : dataset(the_dataset), options(the_options), broken(the_broken) {}

  // The four pictures of a mosaic around its centre, before the warp.
  struct Mosaic {
    int center_x = 0;
    int center_y = 0;
    PixelRect visible;  // of the canvas; nothing else need be drawn
  };

  absl::Status DecodeUsable(size_t& index);
  absl::Status MakeMosaic(size_t index, AugmentDraws& draws);
  absl::Status MakePlain(size_t index);
  size_t DrawPartner(AugmentDraws& draws) const;
  absl::Status AddTile(size_t index, int tile, const Mosaic& mosaic);
  void WarpBoxes(const ScaleTransform& transform);
  void Finish(AugmentDraws& draws, float* chw, float* targets);
  void WriteTargets(double ratio, float* targets) const;
  bool AnyLarger(double ratio) const;

  const Dataset& dataset;
  const AugmentOptions options;
  BrokenImages& broken;
  ImageDecoder decoder;
  Letterboxer letterboxer;
  ScaleWarper warper;
  Image decoded;
  Image canvas;   // of a mosaic, twice the input
  Image picture;  // what is augmented in colour and mirrored
  std::vector<Box> boxes;
};

// Decodes picture `index` or, where that is broken, the next that is not.
absl::Status TrainItemMaker::State::DecodeUsable(size_t& index) {
  for (size_t tries = 0; tries < dataset.items.size(); ++tries) {
    const DatasetItem& item = dataset.items[index];
    if (!broken.IsBroken(index)) {
      const absl::Status status = decoder.DecodeFile(item.image_path, decoded);
      const bool is_same_size =
          decoded.width == item.size.width && decoded.height == item.size.height;
      if (status.ok() && is_same_size) return absl::OkStatus();
      broken.Mark(index, status.ok() ? absl::StrCat(item.image_path, ": not of the size stated")
                                     : std::string(status.message()));
    }
    index = (index + 1) % dataset.items.size();
  }
  return MakeError(reason::kDatasetInvalid, "none of the dataset's images can be decoded", {},
                   {{"image_count", absl::StrCat(dataset.items.size())}});
}

size_t TrainItemMaker::State::DrawPartner(AugmentDraws& draws) const {
  const int last = static_cast<int>(dataset.items.size()) - 1;
  size_t partner = 0;
  for (int i = 0; i < kMaxPartnerDraws; ++i) {
    partner = static_cast<size_t>(draws.Integer(0, last));
    if (!dataset.items[partner].boxes.empty()) break;
  }
  return partner;
}

// Draws tile 0 (top left), 1 (top right), 2 (bottom left) or 3 (bottom right): the picture's corner
// that is nearest to the centre lies there, the rest reaches outwards as far as the canvas does.
absl::Status TrainItemMaker::State::AddTile(size_t index, int tile, const Mosaic& mosaic) {
  const bool is_left = tile % 2 == 0;
  const bool is_top = tile < 2;
  ImageSize size = ScaledSize(dataset.items[index].size, dataset.input_width, dataset.input_height);
  const auto place = [&](int& left, int& top, PixelRect& shown) {
    left = is_left ? mosaic.center_x - size.width : mosaic.center_x;
    top = is_top ? mosaic.center_y - size.height : mosaic.center_y;
    const PixelRect& visible = mosaic.visible;
    const int x1 = std::max(left, visible.x);
    const int y1 = std::max(top, visible.y);
    const int x2 = std::min(left + size.width, visible.x + visible.width);
    const int y2 = std::min(top + size.height, visible.y + visible.height);
    shown = {x1 - left, y1 - top, std::max(x2 - x1, 0), std::max(y2 - y1, 0)};
  };
  int left = 0;
  int top = 0;
  PixelRect shown;
  place(left, top, shown);
  // A tile that nobody sees need not be decoded, and none of its boxes survives the warp.
  if (shown.width == 0 || shown.height == 0) return absl::OkStatus();
  const size_t wanted = index;
  LY_RETURN_IF_ERROR(DecodeUsable(index));
  if (index != wanted) {
    size = ScaledSize(dataset.items[index].size, dataset.input_width, dataset.input_height);
    place(left, top, shown);
    if (shown.width == 0 || shown.height == 0) return absl::OkStatus();
  }
  const size_t stride = static_cast<size_t>(canvas.width) * 3;
  letterboxer.ResizePart(
      decoded, size.width, size.height, shown,
      canvas.rgb.data() + (top + shown.y) * stride + static_cast<size_t>(left + shown.x) * 3,
      stride);
  const auto clip_x = [&](double x) { return std::clamp<double>(x + left, 0, canvas.width); };
  const auto clip_y = [&](double y) { return std::clamp<double>(y + top, 0, canvas.height); };
  for (const LabelBox& box : dataset.items[index].boxes) {
    boxes.push_back({clip_x(box.x1), clip_y(box.y1), clip_x(box.x2), clip_y(box.y2), box.class_id});
  }
  return absl::OkStatus();
}

void TrainItemMaker::State::WarpBoxes(const ScaleTransform& transform) {
  const auto map = [&transform](double value, double offset, int limit) {
    return std::clamp<double>(value * transform.scale + offset, 0, limit);
  };
  for (Box& box : boxes) {
    box.x1 = map(box.x1, transform.offset_x, dataset.input_width);
    box.x2 = map(box.x2, transform.offset_x, dataset.input_width);
    box.y1 = map(box.y1, transform.offset_y, dataset.input_height);
    box.y2 = map(box.y2, transform.offset_y, dataset.input_height);
  }
  const auto is_small = [](const Box& box) { return !IsLarger(box, kMinWarpedSide); };
  boxes.erase(std::remove_if(boxes.begin(), boxes.end(), is_small), boxes.end());
}

absl::Status TrainItemMaker::State::MakeMosaic(size_t index, AugmentDraws& draws) {
  const int width = dataset.input_width;
  const int height = dataset.input_height;
  Mosaic mosaic;
  mosaic.center_y = static_cast<int>(draws.Uniform(0.5 * height, 1.5 * height));
  mosaic.center_x = static_cast<int>(draws.Uniform(0.5 * width, 1.5 * width));
  std::array<size_t, 4> tiles = {index};
  for (size_t i = 1; i < tiles.size(); ++i) tiles[i] = DrawPartner(draws);
  // Angle and shear are drawn from an empty range, so that the sequence is the reference's.
  draws.Uniform(0, 0);
  ScaleTransform transform;
  transform.scale = draws.Uniform(options.scale_min, options.scale_max);
  draws.Uniform(0, 0);
  draws.Uniform(0, 0);
  transform.offset_x = draws.Uniform(-options.translate, options.translate) * width;
  transform.offset_y = draws.Uniform(-options.translate, options.translate) * height;

  canvas.Reset(2 * width, 2 * height);
  std::fill(canvas.rgb.begin(), canvas.rgb.end(), kPadValue);
  mosaic.visible = VisiblePart(transform, canvas.width, canvas.height, width, height);
  boxes.clear();
  for (int tile = 0; tile < 4; ++tile) {
    LY_RETURN_IF_ERROR(AddTile(tiles[static_cast<size_t>(tile)], tile, mosaic));
  }
  warper.Warp(canvas, transform, width, height, picture);
  WarpBoxes(transform);
  return absl::OkStatus();
}

// Without a mosaic the original picture is augmented and fitted into the input at the end.
absl::Status TrainItemMaker::State::MakePlain(size_t index) {
  LY_RETURN_IF_ERROR(DecodeUsable(index));
  std::swap(picture, decoded);
  const DatasetItem& item = dataset.items[index];
  const double ratio = FitRatio(item.size, dataset.input_width, dataset.input_height);
  boxes.clear();
  for (const LabelBox& box : item.boxes) {
    boxes.push_back({box.x1 / ratio, box.y1 / ratio, box.x2 / ratio, box.y2 / ratio, box.class_id});
  }
  return absl::OkStatus();
}

bool TrainItemMaker::State::AnyLarger(double ratio) const {
  return std::any_of(boxes.begin(), boxes.end(),
                     [ratio](const Box& box) { return IsLarger(box, kMinSide / ratio); });
}

void TrainItemMaker::State::WriteTargets(double ratio, float* targets) const {
  std::fill_n(targets, kMaxTargets * kTargetFields, 0.0F);
  int row = 0;
  const bool keep_all = !AnyLarger(ratio);  // then the picture is the untouched one, see Finish
  for (const Box& box : boxes) {
    if (row == kMaxTargets) break;
    if (!keep_all && !IsLarger(box, kMinSide / ratio)) continue;
    const auto part = [ratio](double value, int length) {
      return static_cast<float>(std::clamp(value * ratio / length, 0.0, 1.0));
    };
    float* out = targets + row * kTargetFields;
    out[0] = static_cast<float>(box.class_id);
    out[1] = part(box.x1, dataset.input_width);
    out[2] = part(box.y1, dataset.input_height);
    out[3] = part(box.x2, dataset.input_width);
    out[4] = part(box.y2, dataset.input_height);
    ++row;
  }
  for (; row < kMaxTargets; ++row) targets[row * kTargetFields] = -1.0F;
}

void TrainItemMaker::State::Finish(AugmentDraws& draws, float* chw, float* targets) {
  const double ratio =
      FitRatio({picture.width, picture.height}, dataset.input_width, dataset.input_height);
  draws.Random();  // against the probability of a colour shift, which is 1
  const ColorShift colors = DrawColors(draws);
  const bool is_mirrored = draws.Random() < options.flip_probability;
  draws.Random();  // against that of an upside-down picture, which is 0
  // Boxes too small for any target: the reference then takes the picture before colours and mirror.
  const bool is_untouched = !boxes.empty() && !AnyLarger(ratio);
  if (!is_untouched) {
    ShiftColors(colors, picture);
    if (is_mirrored) {
      MirrorPixels(picture);
      MirrorBoxes(picture.width, boxes);
    }
  }
  if (picture.width == dataset.input_width && picture.height == dataset.input_height) {
    ToFloatPlanes(picture, chw);
  } else {
    letterboxer.Letterbox(picture, dataset.input_width, dataset.input_height, PadMode::kTopLeft,
                          chw);
  }
  WriteTargets(ratio, targets);
}

TrainItemMaker::TrainItemMaker(const Dataset& dataset, const AugmentOptions& options,
                               BrokenImages& broken)
    : state_(std::make_unique<State>(dataset, options, broken)) {}
TrainItemMaker::~TrainItemMaker() = default;

absl::Status TrainItemMaker::Make(size_t index, AugmentDraws& draws, float* chw, float* targets) {
  if (draws.Random() < state_->options.mosaic_probability) {
    LY_RETURN_IF_ERROR(state_->MakeMosaic(index, draws));
  } else {
    LY_RETURN_IF_ERROR(state_->MakePlain(index));
  }
  state_->Finish(draws, chw, targets);
  return absl::OkStatus();
}

}  // namespace libreyolo::data
