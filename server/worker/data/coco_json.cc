#include "server/worker/data/coco_json.h"

#include <simdjson.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace libreyolo::data {
namespace {

namespace od = simdjson::ondemand;

// An annotation before its picture and category are known: the file may list them in any order.
struct Annotation {
  int64_t image_id = 0;
  int64_t category_id = 0;
  double box[4] = {0, 0, 0, 0};  // x, y, width, height
  double area = 0;
  bool is_crowd = false;
};

struct CocoFile {
  std::vector<CocoImage> images;
  std::unordered_map<int64_t, size_t> image_of_id;
  std::map<int64_t, std::string> category_names;
  std::vector<Annotation> annotations;
};

// simdjson throws on the wrong type or a broken document; Read is the one place that catches.
void ReadImage(od::object entry, CocoFile& file) {
  CocoImage image;
  int64_t id = 0;
  for (od::field field : entry) {
    const std::string_view key = field.unescaped_key();
    if (key == "id") {
      id = field.value().get_int64();
    } else if (key == "file_name") {
      image.file_name = std::string(std::string_view(field.value().get_string()));
    } else if (key == "width") {
      image.size.width = static_cast<int>(int64_t(field.value().get_int64()));
    } else if (key == "height") {
      image.size.height = static_cast<int>(int64_t(field.value().get_int64()));
    }
  }
  file.image_of_id[id] = file.images.size();
  file.images.push_back(std::move(image));
}

void ReadCategory(od::object entry, CocoFile& file) {
  int64_t id = 0;
  std::string name;
  for (od::field field : entry) {
    const std::string_view key = field.unescaped_key();
    if (key == "id") {
      id = field.value().get_int64();
    } else if (key == "name") {
      name = std::string(std::string_view(field.value().get_string()));
    }
  }
  file.category_names[id] = std::move(name);
}

void ReadAnnotation(od::object entry, CocoFile& file) {
  Annotation annotation;
  for (od::field field : entry) {
    const std::string_view key = field.unescaped_key();
    if (key == "image_id") {
      annotation.image_id = field.value().get_int64();
    } else if (key == "category_id") {
      annotation.category_id = field.value().get_int64();
    } else if (key == "area") {
      annotation.area = field.value().get_double();
    } else if (key == "iscrowd") {
      annotation.is_crowd = int64_t(field.value().get_int64()) != 0;
    } else if (key == "bbox") {
      size_t count = 0;
      for (const double value : field.value().get_array()) {
        if (count == 4) throw simdjson::simdjson_error(simdjson::INDEX_OUT_OF_BOUNDS);
        annotation.box[count++] = value;
      }
      if (count != 4) throw simdjson::simdjson_error(simdjson::INDEX_OUT_OF_BOUNDS);
    }
  }
  file.annotations.push_back(annotation);
}

void ReadDocument(od::document& document, CocoFile& file) {
  for (od::field field : document.get_object()) {
    const std::string_view key = field.unescaped_key();
    if (key == "images") {
      for (od::value entry : field.value().get_array()) ReadImage(entry.get_object(), file);
    } else if (key == "categories") {
      for (od::value entry : field.value().get_array()) ReadCategory(entry.get_object(), file);
    } else if (key == "annotations") {
      for (od::value entry : field.value().get_array()) ReadAnnotation(entry.get_object(), file);
    }
  }
}

absl::Status Invalid(const std::string& path, absl::string_view what) {
  return MakeError(reason::kDatasetInvalid, absl::StrCat("annotations ", path, ": ", what));
}

absl::StatusOr<CocoFile> Read(const std::string& text, const std::string& path) {
  CocoFile file;
  od::parser parser;
  try {
    od::document document =
        parser.iterate(simdjson::padded_string_view(text.data(), text.size(), text.capacity()));
    ReadDocument(document, file);
  } catch (const simdjson::simdjson_error& error) {
    return Invalid(path, absl::StrCat("not COCO JSON: ", error.what()));
  }
  return file;
}

// Class numbers by category id.
absl::StatusOr<std::unordered_map<int64_t, int>> MatchCategories(
    const CocoFile& file, const std::vector<std::string>& class_names, const std::string& path) {
  std::unordered_map<int64_t, int> classes;
  for (const auto& [id, name] : file.category_names) {
    const auto found = std::find(class_names.begin(), class_names.end(), name);
    if (found == class_names.end()) {
      return Invalid(path, absl::StrCat("the category \"", name,
                                        "\" is not among the `names` of the dataset"));
    }
    classes[id] = static_cast<int>(found - class_names.begin());
  }
  return classes;
}

absl::Status AddBoxes(const std::unordered_map<int64_t, int>& classes, const std::string& path,
                      CocoFile& file) {
  for (const Annotation& annotation : file.annotations) {
    const auto image = file.image_of_id.find(annotation.image_id);
    const auto category = classes.find(annotation.category_id);
    if (image == file.image_of_id.end()) {
      return Invalid(path, absl::StrCat("no image with the id ", annotation.image_id));
    }
    if (category == classes.end()) {
      return Invalid(path, absl::StrCat("no category with the id ", annotation.category_id));
    }
    if (annotation.is_crowd || !(annotation.area > 0)) continue;
    CocoImage& target = file.images[image->second];
    CocoBox box;
    box.x1 = std::max(0.0, annotation.box[0]);
    box.y1 = std::max(0.0, annotation.box[1]);
    box.x2 = std::min<double>(target.size.width, box.x1 + std::max(0.0, annotation.box[2]));
    box.y2 = std::min<double>(target.size.height, box.y1 + std::max(0.0, annotation.box[3]));
    box.class_id = category->second;
    if (box.x2 > box.x1 && box.y2 > box.y1) target.boxes.push_back(box);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<CocoImage>> ReadCocoJson(const std::string& path,
                                                    const std::vector<std::string>& class_names) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxCocoBytes);
  if (absl::IsNotFound(text.status())) {
    return MakeError(reason::kDatasetNotFound, absl::StrCat("no annotation file ", path));
  }
  if (!text.ok()) return Invalid(path, text.status().message());
  text->reserve(text->size() + simdjson::SIMDJSON_PADDING);
  LY_ASSIGN_OR_RETURN(CocoFile file, Read(*text, path));
  LY_ASSIGN_OR_RETURN(const auto classes, MatchCategories(file, class_names, path));
  for (const CocoImage& image : file.images) {
    if (image.file_name.empty() || image.size.width < 1 || image.size.height < 1) {
      return Invalid(path, "an image without its file_name, width or height");
    }
  }
  LY_RETURN_IF_ERROR(AddBoxes(classes, path, file));
  return std::move(file.images);
}

}  // namespace libreyolo::data
