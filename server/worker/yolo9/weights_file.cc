#include "server/worker/yolo9/weights_file.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "server/worker/yolo9/upstream_keys.h"

namespace libreyolo::yolo9 {
namespace {

template <typename T>
std::optional<T> Get(const PickleDict& dict, absl::string_view key) {
  const PickleValue* value = dict.Find(key);
  const T* typed = value ? value->As<T>() : nullptr;
  return typed ? std::optional<T>(*typed) : std::nullopt;
}

void ReadNames(const PickleDict& root, WeightsMetadata& metadata) {
  const PickleValue* names = root.Find("names");
  if (names == nullptr) return;
  if (const auto* list = names->As<PickleList>()) {
    metadata.has_names = true;
    for (size_t i = 0; i < list->items.size(); ++i) {
      const auto* text = list->items[i]->As<std::string>();
      if (text != nullptr) metadata.names.emplace_back(static_cast<int64_t>(i), *text);
    }
  } else if (const auto* dict = names->As<PickleDict>()) {
    metadata.has_names = true;
    for (const auto& [key, value] : dict->items) {
      const auto* id = key->As<int64_t>();
      const auto* text = value->As<std::string>();
      if (id != nullptr && text != nullptr) metadata.names.emplace_back(*id, *text);
    }
  }
}

WeightsMetadata ReadMetadata(const PickleDict& root) {
  WeightsMetadata metadata;
  metadata.family = Get<std::string>(root, "model_family");
  metadata.size = Get<std::string>(root, "size");
  metadata.task = Get<std::string>(root, "task");
  metadata.class_count = Get<int64_t>(root, "nc");
  metadata.letterbox = Get<std::string>(root, "letterbox_pad");
  metadata.input_height = Get<int64_t>(root, "imgsz_h");
  metadata.input_width = Get<int64_t>(root, "imgsz_w");
  ReadNames(root, metadata);
  return metadata;
}

bool HoldsTensors(const PickleDict& dict) {
  return std::any_of(dict.items.begin(), dict.items.end(),
                     [](const auto& item) { return item.second->template As<PickleTensor>(); });
}

// The dict of weights: the file's "model", else its "state_dict", else the file itself.
const PickleDict* FindWeights(const PickleDict& root) {
  for (const char* key : {"model", "state_dict"}) {
    const PickleValue* value = root.Find(key);
    const PickleDict* dict = value ? value->As<PickleDict>() : nullptr;
    if (dict != nullptr && HoldsTensors(*dict)) return dict;
  }
  return HoldsTensors(root) ? &root : nullptr;
}

absl::Status Mismatch(const std::string& path, absl::string_view what) {
  return MakeError(reason::kWeightsMismatch, absl::StrCat("weights ", path, " ", what),
                   {"name a YOLO9 detection checkpoint of size t, s, m or c",
                    "--weights random runs without a file"},
                   {{"path", path}});
}

int64_t FirstDimension(const PickleTensor* tensor) {
  return tensor == nullptr || tensor->sizes.empty() ? 0 : tensor->sizes[0];
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightsFile>> WeightsFile::Open(const std::string& path) {
  std::unique_ptr<WeightsFile> file(new WeightsFile(path));
  LY_ASSIGN_OR_RETURN(file->checkpoint_, Checkpoint::Open(path));
  LY_RETURN_IF_ERROR(file->ReadRoot());
  LY_RETURN_IF_ERROR(file->CheckFamily());
  return file;
}

absl::Status WeightsFile::ReadRoot() {
  const auto* root = checkpoint_->root().As<PickleDict>();
  const PickleDict* weights = root ? FindWeights(*root) : nullptr;
  if (weights == nullptr) return Mismatch(path_, "holds no named tensors");
  metadata_ = ReadMetadata(*root);
  AddTensors(*weights);
  return absl::OkStatus();
}

void WeightsFile::AddTensors(const PickleDict& dict) {
  bool has_module_prefix = false;
  for (const auto& [key, value] : dict.items) {
    const auto* text = key->As<std::string>();
    if (text == nullptr) continue;
    has_module_prefix = has_module_prefix || absl::StartsWith(*text, "module.");
    is_upstream_ = is_upstream_ || IsUpstreamKey(*text);
  }
  std::set<std::string> seen;
  // From the back, because the last of equal keys counts.
  for (auto it = dict.items.rbegin(); it != dict.items.rend(); ++it) {
    const auto* key = it->first->As<std::string>();
    const auto* tensor = it->second->As<PickleTensor>();
    if (key == nullptr || tensor == nullptr) continue;
    std::string name = *key;
    // Wrapped by a data-parallel trainer; the head was once called "detect".
    if (has_module_prefix && absl::StartsWith(name, "module.")) name = name.substr(7);
    if (absl::StartsWith(name, "detect.")) name = "head." + name.substr(7);
    if (is_upstream_) {
      if (const auto renamed = RenameUpstreamKey(name)) name = *renamed;
    }
    // Fixed weights 0 to 15 of the decoding, which are not kept as a tensor.
    if (name.empty() || absl::EndsWith(name, "dfl.conv.weight")) continue;
    if (seen.insert(name).second) tensors_.emplace_back(name, tensor);
  }
  std::reverse(tensors_.begin(), tensors_.end());
}

const PickleTensor* WeightsFile::Find(absl::string_view name) const {
  const auto it = std::find_if(tensors_.begin(), tensors_.end(),
                               [&](const auto& entry) { return name == entry.first; });
  return it == tensors_.end() ? nullptr : it->second;
}

absl::Status WeightsFile::CheckFamily() const {
  if (metadata_.family.has_value() && *metadata_.family != "yolo9") {
    return Mismatch(path_, absl::StrCat("are of the family \"", *metadata_.family,
                                        "\"; only yolo9 can be profiled"));
  }
  if (metadata_.task.has_value() && *metadata_.task != "detect") {
    return Mismatch(path_, absl::StrCat("are for the task \"", *metadata_.task,
                                        "\"; only detect can be profiled"));
  }
  const auto has = [&](auto predicate) {
    return std::any_of(tensors_.begin(), tensors_.end(),
                       [&](const auto& entry) { return predicate(entry.first); });
  };
  if (has([](const std::string& n) {
        return absl::StrContains(n, "one2one_cv2") || absl::StrContains(n, "one2one_cv3");
      })) {
    return Mismatch(path_, "are of the family yolo9_e2e (they have a one-to-one head)");
  }
  if (has([](const std::string& n) {
        return absl::StartsWith(n, "neck.elan_up3") || absl::StartsWith(n, "neck.elan_down0");
      })) {
    return Mismatch(path_, "are of the family yolo9_p2 (they have a fourth level)");
  }
  if (!has([](const std::string& n) {
        return absl::StartsWith(n, "backbone.") || absl::StartsWith(n, "neck.elan");
      })) {
    std::vector<std::string> first;
    for (const auto& [name, tensor] : tensors_) {
      if (first.size() < 3) first.push_back(name);
    }
    return Mismatch(path_, absl::StrCat("are not of a YOLO9 model: the first tensors are ",
                                        absl::StrJoin(first, ", ")));
  }
  return absl::OkStatus();
}

std::string WeightsFile::SizeByShapes() const {
  const int64_t conv0 = FirstDimension(Find("backbone.conv0.conv.weight"));
  const int64_t elan1 = FirstDimension(Find("backbone.elan1.cv1.conv.weight"));
  if (conv0 == 16) return "t";
  if (conv0 == 64) return "c";
  if (conv0 == 32 && elan1 == 64) return "s";
  if (conv0 == 32 && elan1 == 128) return "m";
  return "";
}

}  // namespace libreyolo::yolo9
