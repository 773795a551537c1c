#include "server/worker/yolo9/model_loader.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "server/worker/torch_call.h"
#include "server/worker/yolo9/weights_file.h"

namespace libreyolo::yolo9 {
namespace {

constexpr int kDefaultClassCount = 80;
constexpr int64_t kMaxClassCount = 65536;
constexpr int64_t kMaxTowerWidth = 4096;
constexpr size_t kNamedInMessages = 3;

absl::Status Mismatch(const std::string& path, absl::string_view what,
                      std::vector<std::string> hints) {
  return MakeError(reason::kWeightsMismatch, absl::StrCat("weights ", path, " ", what),
                   std::move(hints), {{"path", path}});
}

// "a, b, c and 7 more"
std::string FirstFew(const std::vector<std::string>& items) {
  const size_t shown = std::min(items.size(), kNamedInMessages);
  std::string text =
      absl::StrJoin(items.begin(), items.begin() + static_cast<ptrdiff_t>(shown), ", ");
  if (items.size() > shown) absl::StrAppend(&text, " and ", items.size() - shown, " more");
  return text;
}

std::vector<std::string> PlainNames(int class_count) {
  std::vector<std::string> names;
  for (int i = 0; i < class_count; ++i) names.push_back(absl::StrCat("class_", i));
  return names;
}

// The size that request, metadata and shapes agree on.
absl::StatusOr<std::string> DecideSize(const WeightsFile& file, const std::string& requested) {
  if (!requested.empty() && FindVariant(requested) == nullptr) {
    return MakeError(reason::kArgumentInvalid, absl::StrCat("no YOLO9 size \"", requested, "\""),
                     {absl::StrCat("the sizes are ", absl::StrJoin(VariantSizes(), ", "))});
  }
  const std::string by_shapes = file.SizeByShapes();
  const std::string by_metadata = file.metadata().size.value_or("");
  if (!by_metadata.empty() && FindVariant(by_metadata) == nullptr) {
    return Mismatch(
        file.path(),
        absl::StrCat("say that they are of size \"", by_metadata, "\", which YOLO9 does not have"),
        {absl::StrCat("the sizes are ", absl::StrJoin(VariantSizes(), ", "))});
  }
  if (!by_metadata.empty() && !by_shapes.empty() && by_metadata != by_shapes) {
    return Mismatch(file.path(),
                    absl::StrCat("contradict themselves: the metadata says size ", by_metadata,
                                 ", the tensors have the shapes of size ", by_shapes),
                    {"save the model again with its own metadata, or name another file"});
  }
  const std::string of_file = by_shapes.empty() ? by_metadata : by_shapes;
  if (!requested.empty() && !of_file.empty() && requested != of_file) {
    return Mismatch(file.path(),
                    absl::StrCat("are of size ", of_file, ", but --size says ", requested),
                    {absl::StrCat("use --size ", of_file, ", or leave --size out"),
                     absl::StrCat("name weights of size ", requested)});
  }
  if (!of_file.empty()) return of_file;
  if (!requested.empty()) return requested;
  return Mismatch(file.path(), "do not show which size they are",
                  {absl::StrCat("name it with --size: ", absl::StrJoin(VariantSizes(), ", "))});
}

// Classes that the head's tensors have; 0 when it has none.
int64_t ClassCountByShapes(const WeightsFile& file) {
  for (int level = 0; level < kLevelCount; ++level) {
    const PickleTensor* weight = file.Find(absl::StrCat("head.cv3.", level, ".2.weight"));
    if (weight != nullptr && !weight->sizes.empty()) return weight->sizes[0];
  }
  return 0;
}

absl::StatusOr<int> DecideClassCount(const WeightsFile& file, std::vector<std::string>& findings) {
  const WeightsMetadata& metadata = file.metadata();
  const int64_t by_shapes = ClassCountByShapes(file);
  const int64_t by_names = static_cast<int64_t>(metadata.names.size());
  int64_t count = by_shapes;
  if (metadata.class_count.has_value()) {
    if (by_shapes > 0 && by_shapes != *metadata.class_count) {
      return Mismatch(file.path(),
                      absl::StrCat("contradict themselves: the metadata says ",
                                   *metadata.class_count, " classes, the tensors have ", by_shapes),
                      {"save the model again with its own metadata, or name another file"});
    }
    count = *metadata.class_count;
  } else if (metadata.has_names && by_names > 0) {
    if (by_shapes == 0) count = by_names;
    if (count != by_names) {
      findings.push_back(absl::StrCat("the weights name ", by_names, " classes, but have ", count));
    }
  }
  if (count == 0) count = kDefaultClassCount;
  if (count < 0 || count > kMaxClassCount) {
    return Mismatch(file.path(), absl::StrCat("have ", count, " classes, which no model can"),
                    {"name another file"});
  }
  return static_cast<int>(count);
}

// Width of the class towers in the file; 0 for the default.
absl::StatusOr<int> DecideTowerWidth(const WeightsFile& file) {
  const PickleTensor* weight = file.Find("head.cv3.0.0.conv.weight");
  if (weight == nullptr || weight->sizes.empty()) return 0;
  const int64_t width = weight->sizes[0];
  if (width < 1 || width > kMaxTowerWidth) {
    return Mismatch(file.path(), absl::StrCat("have a class tower of ", width, " channels"),
                    {"name another file"});
  }
  return static_cast<int>(width);
}

LetterboxPad DecideLetterbox(const WeightsFile& file, std::vector<std::string>& findings) {
  if (!file.metadata().letterbox.has_value()) {
    return file.is_upstream() ? LetterboxPad::kCenter : LetterboxPad::kTopLeft;
  }
  std::string word;
  for (const char c : *file.metadata().letterbox) {
    if (c != '-' && c != '_') word += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  if (word == "center" || word == "centre") return LetterboxPad::kCenter;
  if (word != "topleft" && word != "tl") {
    findings.push_back(absl::StrCat("the weights' letterbox_pad \"", *file.metadata().letterbox,
                                    "\" is unknown; topleft is used"));
  }
  return LetterboxPad::kTopLeft;
}

std::vector<std::string> DecideNames(const WeightsFile& file, int class_count,
                                     std::vector<std::string>& findings) {
  std::vector<std::string> names = PlainNames(class_count);
  int64_t outside_count = 0;
  for (const auto& [id, name] : file.metadata().names) {
    if (id >= 0 && id < class_count) {
      names[static_cast<size_t>(id)] = name;
    } else {
      ++outside_count;
    }
  }
  if (outside_count > 0) {
    findings.push_back(absl::StrCat(outside_count, " class names of the weights lie outside 0 to ",
                                    class_count - 1));
  }
  return names;
}

bool IsAux(absl::string_view name) {
  return absl::StartsWith(name, "aux.") || absl::StartsWith(name, "aux_head.");
}

absl::Status CopyTensor(WeightsFile& file, const PickleTensor& tensor, const at::Tensor& target) {
  LY_ASSIGN_OR_RETURN(const at::Tensor source, file.checkpoint().MakeTensor(tensor));
  return worker::CallTorch([&] {
    const at::NoGradGuard no_grad;
    target.copy_(source);
  });
}

// Copies those tensors of the auxiliary branch that fit. Others keep their fresh values: a branch
// made for another class count has other shapes.
absl::Status CopyAuxTensors(WeightsFile& file, Network& network) {
  for (const NamedTensor& entry : network.tensors()) {
    if (!IsAux(entry.name)) continue;
    const PickleTensor* tensor = file.Find(entry.name);
    if (tensor == nullptr || !entry.tensor.sizes().equals(tensor->sizes)) continue;
    LY_RETURN_IF_ERROR(CopyTensor(file, *tensor, entry.tensor));
  }
  return absl::OkStatus();
}

// Copies the file's tensors into the network's of the same name. Missing and surplus ones become
// findings, another shape is an error.
absl::Status CopyTensors(WeightsFile& file, Network& network, std::vector<std::string>& findings) {
  std::unordered_map<std::string, at::Tensor> targets;
  for (const NamedTensor& entry : network.tensors()) targets.emplace(entry.name, entry.tensor);
  std::vector<std::string> surplus, misshapen;
  std::vector<std::pair<at::Tensor, const PickleTensor*>> copies;
  for (const auto& [name, tensor] : file.tensors()) {
    if (IsAux(name)) continue;
    const auto it = targets.find(name);
    if (it == targets.end()) {
      surplus.push_back(name);
      continue;
    }
    if (!it->second.sizes().equals(tensor->sizes)) {
      misshapen.push_back(absl::StrCat(name, " [", absl::StrJoin(tensor->sizes, ", "),
                                       "] instead of [", absl::StrJoin(it->second.sizes(), ", "),
                                       "]"));
    } else {
      copies.emplace_back(it->second, tensor);
    }
    targets.erase(it);
  }
  if (!misshapen.empty()) {
    return Mismatch(
        file.path(),
        absl::StrCat("do not fit YOLO9 size ", network.size(), ": ", FirstFew(misshapen)),
        {"name weights of the size that --size says"});
  }
  for (const auto& [target, tensor] : copies) {
    LY_RETURN_IF_ERROR(CopyTensor(file, *tensor, target));
  }
  std::vector<std::string> missing;
  for (const NamedTensor& entry : network.tensors()) {
    // Files from before torch 0.4.1 have no step counters, and nothing that is measured reads them.
    if (targets.count(entry.name) && !absl::EndsWith(entry.name, ".num_batches_tracked")) {
      missing.push_back(entry.name);
    }
  }
  if (!missing.empty()) {
    findings.push_back(absl::StrCat(
        missing.size(), " of ", network.tensors().size(),
        " tensors are not in the weights and keep random values: ", FirstFew(missing)));
  }
  if (!surplus.empty()) {
    findings.push_back(
        absl::StrCat(surplus.size(), " tensors of the weights are not used: ", FirstFew(surplus)));
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedModel> LoadFrom(WeightsFile& file, const std::string& requested_size) {
  LoadedModel model;
  LY_ASSIGN_OR_RETURN(model.size, DecideSize(file, requested_size));
  LY_ASSIGN_OR_RETURN(model.class_count, DecideClassCount(file, model.findings));
  LY_ASSIGN_OR_RETURN(const int tower_width, DecideTowerWidth(file));
  model.names = DecideNames(file, model.class_count, model.findings);
  model.letterbox = DecideLetterbox(file, model.findings);
  const WeightsMetadata& metadata = file.metadata();
  if (metadata.input_height.value_or(0) > 0 && metadata.input_width.value_or(0) > 0 &&
      *metadata.input_height <= INT32_MAX && *metadata.input_width <= INT32_MAX) {
    model.input_height = static_cast<int>(*metadata.input_height);
    model.input_width = static_cast<int>(*metadata.input_width);
  }
  if (!metadata.family.has_value()) {
    model.findings.push_back(
        "the weights say nothing about their family; it was recognised by the tensors' names");
  }
  LY_ASSIGN_OR_RETURN(model.network, Network::Make({.size = model.size,
                                                    .class_count = model.class_count,
                                                    .class_tower_width = tower_width}));
  LY_RETURN_IF_ERROR(CopyTensors(file, *model.network, model.findings));
  model.parameter_count = model.network->parameter_count();
  return model;
}

}  // namespace

absl::StatusOr<LoadedModel> LoadModel(const std::string& path, const std::string& requested_size) {
  LY_ASSIGN_OR_RETURN(const std::unique_ptr<WeightsFile> file, WeightsFile::Open(path));
  return LoadFrom(*file, requested_size);
}

absl::StatusOr<LoadedModel> LoadTrainingModel(const std::string& path,
                                              const std::string& requested_size,
                                              const TrainingOptions& options) {
  std::unique_ptr<WeightsFile> file;
  LoadedModel model;
  if (path.empty()) {
    const int class_count = options.class_count > 0 ? options.class_count : kDefaultClassCount;
    LY_ASSIGN_OR_RETURN(model, MakeRandomModel(requested_size, class_count, options.seed));
  } else {
    LY_ASSIGN_OR_RETURN(file, WeightsFile::Open(path));
    LY_ASSIGN_OR_RETURN(model, LoadFrom(*file, requested_size));
  }
  LY_RETURN_IF_ERROR(worker::CallTorch([&] {
    if (options.class_count > 0 && options.class_count != model.class_count) {
      model.network->ReplaceClassCount(options.class_count, options.seed);
      model.class_count = options.class_count;
      model.names = PlainNames(options.class_count);
    }
    model.network->AttachAux(options.seed + 1);
    model.network->SetTraining(true);
  }));
  if (file != nullptr) LY_RETURN_IF_ERROR(CopyAuxTensors(*file, *model.network));
  model.parameter_count = model.network->parameter_count();
  return model;
}

absl::StatusOr<LoadedModel> MakeRandomModel(const std::string& size, int class_count,
                                            uint64_t seed) {
  LoadedModel model;
  model.size = size.empty() ? "t" : size;
  model.class_count = class_count;
  LY_ASSIGN_OR_RETURN(
      model.network, Network::Make({.size = model.size, .class_count = class_count, .seed = seed}));
  model.names = PlainNames(class_count);
  model.parameter_count = model.network->parameter_count();
  return model;
}

}  // namespace libreyolo::yolo9
