#include "server/worker/data/dataset.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "server/worker/data/coco_json.h"
#include "server/worker/data/dataset_images.h"
#include "server/worker/data/image_decode.h"

namespace libreyolo::data {
namespace {

constexpr size_t kMaxExamples = 10;
constexpr int kMaxReaders = 8;
constexpr int64_t kMaxLabelBytes = int64_t{64} << 20;

// What one reader found about one picture; merged in the pictures' order, so that the result does
// not depend on the threads.
struct ReadResult {
  DatasetItem item;
  bool is_readable = false;
  int skipped_label_count = 0;
  std::string problem;
  absl::Status refused;  // a link that leads over the fence
};

void ReadLabels(const std::string& image_path, const Fence& fence, const DatasetOptions& options,
                int class_count, ReadResult& result) {
  const std::string path = LabelPathOf(image_path);
  result.refused = fence.Check(path);
  if (!result.refused.ok()) return;
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxLabelBytes);
  if (absl::IsNotFound(text.status())) return;  // a background picture
  if (!text.ok()) {
    result.skipped_label_count = 1;
    result.problem = std::string(text.status().message());
    return;
  }
  const LabelRows labels = ParseLabelRows(*text, class_count);
  const double ratio = FitRatio(result.item.size, options.input_width, options.input_height);
  for (const LabelRow& row : labels.rows) {
    LabelBox box;
    if (ToPixels(row, result.item.size, ratio, box)) result.item.boxes.push_back(box);
  }
  result.skipped_label_count = labels.skipped_count;
  if (labels.skipped_count > 0) result.problem = absl::StrCat(path, ": ", labels.first_problem);
}

ReadResult ReadItem(ImageDecoder& decoder, const std::string& image_path, const Fence& fence,
                    const DatasetOptions& options, int class_count) {
  ReadResult result;
  result.item.image_path = image_path;
  const absl::StatusOr<ImageSize> size = decoder.ReadFileSize(image_path);
  if (!size.ok()) {
    result.problem = std::string(size.status().message());
    return result;
  }
  result.is_readable = true;
  result.item.size = *size;
  ReadLabels(image_path, fence, options, class_count, result);
  return result;
}

std::vector<ReadResult> ReadItems(const std::vector<std::string>& paths, const Fence& fence,
                                  const DatasetOptions& options, int class_count) {
  std::vector<ReadResult> results(paths.size());
  std::atomic<size_t> next{0};
  const auto read = [&] {
    ImageDecoder decoder;
    for (size_t i = next++; i < paths.size(); i = next++) {
      results[i] = ReadItem(decoder, paths[i], fence, options, class_count);
    }
  };
  const size_t reader_count = std::min<size_t>(
      static_cast<size_t>(std::clamp(options.thread_count, 1, kMaxReaders)), paths.size());
  std::vector<std::thread> readers;
  for (size_t i = 1; i < reader_count; ++i) readers.emplace_back(read);
  read();
  for (std::thread& reader : readers) reader.join();
  return results;
}

void AddExample(const std::string& text, DatasetProblems& problems) {
  if (!text.empty() && problems.examples.size() < kMaxExamples) problems.examples.push_back(text);
}

absl::Status NoImages(const DatasetConfig& config, const DatasetProblems& problems) {
  std::string message = absl::StrCat("dataset ", config.yaml_path, ": no images for training");
  if (config.train.empty()) absl::StrAppend(&message, ", the file has no `train`");
  if (problems.unreadable_image_count > 0) {
    absl::StrAppend(&message, ", ", problems.unreadable_image_count,
                    " cannot be read, the first: ", problems.examples.front());
  }
  if (problems.unsupported_image_count > 0) {
    absl::StrAppend(&message, ", ", problems.unsupported_image_count,
                    " in an unsupported format (GIF, TIFF, PFM)");
  }
  return MakeError(reason::kDatasetInvalid, message,
                   {"check `path` and `train` in the file; paths start at " + config.root});
}

absl::Status LoadTextLabels(const DatasetConfig& config, const DatasetOptions& options,
                            Dataset& dataset) {
  LY_ASSIGN_OR_RETURN(const ImageFiles files, FindImages(config.root, config.train, config.fence));
  dataset.problems.unsupported_image_count = files.unsupported_count;
  for (ReadResult& result : ReadItems(files.paths, config.fence, options, dataset.class_count)) {
    LY_RETURN_IF_ERROR(result.refused);
    AddExample(result.problem, dataset.problems);
    dataset.problems.skipped_label_count += result.skipped_label_count;
    if (result.is_readable) {
      dataset.items.push_back(std::move(result.item));
    } else {
      ++dataset.problems.unreadable_image_count;
    }
  }
  return absl::OkStatus();
}

absl::Status LoadCoco(const DatasetConfig& config, const DatasetOptions& options,
                      Dataset& dataset) {
  LY_ASSIGN_OR_RETURN(const std::vector<CocoImage> images,
                      ReadCocoJson(config.train_annotations, config.class_names));
  const std::filesystem::path folder = std::filesystem::path(config.root) / config.train.front();
  for (const CocoImage& image : images) {
    DatasetItem item;
    item.image_path = (folder / image.file_name).lexically_normal().string();
    LY_RETURN_IF_ERROR(config.fence.Check(item.image_path, image.file_name));
    item.size = image.size;
    const float ratio =
        static_cast<float>(FitRatio(image.size, options.input_width, options.input_height));
    for (const CocoBox& box : image.boxes) {
      item.boxes.push_back({static_cast<float>(box.x1) * ratio, static_cast<float>(box.y1) * ratio,
                            static_cast<float>(box.x2) * ratio, static_cast<float>(box.y2) * ratio,
                            box.class_id});
    }
    dataset.items.push_back(std::move(item));
  }
  return absl::OkStatus();
}

}  // namespace

double FitRatio(const ImageSize& size, int input_width, int input_height) {
  return std::min(static_cast<double>(input_height) / size.height,
                  static_cast<double>(input_width) / size.width);
}

ImageSize ScaledSize(const ImageSize& size, int input_width, int input_height) {
  const double ratio = FitRatio(size, input_width, input_height);
  return {std::max(static_cast<int>(size.width * ratio), 1),
          std::max(static_cast<int>(size.height * ratio), 1)};
}

absl::StatusOr<Dataset> LoadTrainSplit(const DatasetConfig& config, const DatasetOptions& options) {
  Dataset dataset;
  dataset.input_width = options.input_width;
  dataset.input_height = options.input_height;
  dataset.class_count = config.class_count.value_or(options.default_class_count);
  LY_RETURN_IF_ERROR(config.train_annotations.empty() ? LoadTextLabels(config, options, dataset)
                                                      : LoadCoco(config, options, dataset));
  if (dataset.items.empty()) return NoImages(config, dataset.problems);
  return dataset;
}

}  // namespace libreyolo::data
