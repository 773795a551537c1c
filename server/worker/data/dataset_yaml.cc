#include "server/worker/data/dataset_yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace libreyolo::data {
namespace {

namespace fs = std::filesystem;

absl::Status Invalid(const std::string& path, absl::string_view what) {
  return MakeError(reason::kDatasetInvalid, absl::StrCat("dataset ", path, ": ", what));
}

absl::Status InvalidKey(const std::string& path, const YAML::Node& node, absl::string_view what) {
  const YAML::Mark mark = node.Mark();
  if (mark.is_null()) return Invalid(path, what);
  return Invalid(path, absl::StrCat(what, " (line ", mark.line + 1, ")"));
}

// Counts nodes and depth before a tree is built. Leaves by an exception, which ParseTree catches.
class LimitChecker : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Count(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Count(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    Count(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Enter(mark);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Enter(mark);
  }
  void OnMapEnd() override { --depth_; }

 private:
  void Count(const YAML::Mark& mark) {
    if (++nodes_ > kMaxYamlNodes) throw YAML::ParserException(mark, "too many entries");
  }
  void Enter(const YAML::Mark& mark) {
    Count(mark);
    if (++depth_ > kMaxYamlDepth) throw YAML::ParserException(mark, "nested too deep");
  }

  int nodes_ = 0;
  int depth_ = 0;
};

// The only place that sees yaml-cpp's exceptions while parsing.
absl::StatusOr<YAML::Node> ParseTree(absl::string_view text, const std::string& path) {
  try {
    const std::string copy(text);
    std::istringstream stream(copy);
    YAML::Parser parser(stream);
    LimitChecker checker;
    parser.HandleNextDocument(checker);
    return YAML::Load(copy);
  } catch (const YAML::Exception& error) {
    return Invalid(path, absl::StrCat("not readable as YAML: ", error.what()));
  }
}

// One text or a list of texts.
absl::StatusOr<std::vector<std::string>> ReadTexts(const YAML::Node& node, const char* key,
                                                   const std::string& path) {
  std::vector<std::string> texts;
  if (!node.IsDefined() || node.IsNull()) return texts;
  if (node.IsScalar()) {
    texts.push_back(node.Scalar());
  } else if (node.IsSequence()) {
    for (const YAML::Node& entry : node) {
      if (!entry.IsScalar()) {
        return InvalidKey(path, entry, absl::StrCat("an entry of `", key, "` is not a text"));
      }
      texts.push_back(entry.Scalar());
    }
  } else {
    return InvalidKey(path, node, absl::StrCat("`", key, "` is neither a text nor a list"));
  }
  for (const std::string& text : texts) {
    if (text.empty()) return InvalidKey(path, node, absl::StrCat("`", key, "` has an empty entry"));
  }
  return texts;
}

absl::StatusOr<std::string> ReadText(const YAML::Node& node, const char* key,
                                     const std::string& path) {
  if (!node.IsDefined() || node.IsNull()) return std::string();
  if (!node.IsScalar()) return InvalidKey(path, node, absl::StrCat("`", key, "` is not a text"));
  return node.Scalar();
}

using Names = std::map<int, std::string>;

absl::StatusOr<Names> ReadNames(const YAML::Node& node, const std::string& path) {
  Names names;
  if (!node.IsDefined() || node.IsNull()) return names;
  if (node.IsSequence()) {
    for (size_t i = 0; i < node.size(); ++i) {
      if (!node[i].IsScalar()) return InvalidKey(path, node[i], "a class name is not a text");
      names[static_cast<int>(i)] = node[i].Scalar();
    }
    return names;
  }
  if (!node.IsMap()) return InvalidKey(path, node, "`names` is neither a list nor a map");
  for (const auto& entry : node) {
    int id = 0;
    if (!entry.first.IsScalar() || !absl::SimpleAtoi(entry.first.Scalar(), &id) || id < 0) {
      return InvalidKey(path, entry.first, "a key of `names` is not a class number");
    }
    if (!entry.second.IsScalar()) {
      return InvalidKey(path, entry.second, "a class name is not a text");
    }
    names[id] = entry.second.Scalar();
  }
  return names;
}

// Sets class_count and class_names from `nc` and `names`.
absl::Status ReadClasses(const YAML::Node& tree, DatasetConfig& config) {
  LY_ASSIGN_OR_RETURN(const Names names, ReadNames(tree["names"], config.yaml_path));
  const YAML::Node nc = tree["nc"];
  if (nc.IsDefined() && !nc.IsNull()) {
    int count = 0;
    if (!nc.IsScalar() || !absl::SimpleAtoi(nc.Scalar(), &count) || count < 1) {
      return InvalidKey(config.yaml_path, nc, "`nc` is not a positive number");
    }
    config.class_count = count;
  } else if (!names.empty()) {
    // The number of names, also where their ids have gaps: this is how the reference counts.
    config.class_count = static_cast<int>(names.size());
  } else {
    return absl::OkStatus();
  }
  if (*config.class_count > kMaxClassCount) {
    return Invalid(config.yaml_path,
                   absl::StrCat(*config.class_count, " classes, more than ", kMaxClassCount));
  }
  for (int i = 0; i < *config.class_count; ++i) {
    const auto found = names.find(i);
    config.class_names.push_back(found == names.end() ? absl::StrCat("class_", i) : found->second);
  }
  return absl::OkStatus();
}

std::string ResolveRoot(const std::string& written, const std::string& yaml_path,
                        const std::string& datasets_folder) {
  std::error_code error;
  const fs::path yaml_folder = fs::absolute(yaml_path, error).parent_path();
  if (written.empty()) return yaml_folder.lexically_normal().string();
  const fs::path path(written);
  if (path.is_absolute()) return path.lexically_normal().string();
  const fs::path beside = (yaml_folder / path).lexically_normal();
  if (datasets_folder.empty()) return beside.string();
  const fs::path in_datasets = (fs::path(datasets_folder) / path).lexically_normal();
  if (!fs::exists(in_datasets, error) && fs::exists(beside, error)) return beside.string();
  return in_datasets.string();
}

// COCO's layout without any key that names it.
constexpr char kUsualAnnotations[] = "annotations/instances_train2017.json";

absl::Status ReadAnnotations(const YAML::Node& tree, DatasetConfig& config) {
  const YAML::Node node = tree["annotations"];
  std::error_code error;
  if (node.IsDefined() && !node.IsNull()) {
    if (!node.IsMap()) return InvalidKey(config.yaml_path, node, "`annotations` is not a map");
    LY_ASSIGN_OR_RETURN(const std::string written,
                        ReadText(node["train"], "annotations.train", config.yaml_path));
    if (!written.empty()) {
      config.train_annotations = (fs::path(config.root) / written).lexically_normal().string();
      if (config.train.size() != 1) {
        return InvalidKey(config.yaml_path, node,
                          "with `annotations`, `train` must be one folder of images");
      }
      LY_RETURN_IF_ERROR(config.fence.Check(config.train_annotations, written));
    }
  } else if (config.train.empty()) {
    const fs::path usual = fs::path(config.root) / kUsualAnnotations;
    if (fs::exists(usual, error)) {
      config.train_annotations = usual.string();
      LY_RETURN_IF_ERROR(config.fence.Check(config.train_annotations));
      config.train.push_back("train2017");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<DatasetConfig> ReadTree(const YAML::Node& tree, const std::string& yaml_path,
                                       const std::string& datasets_folder, const Fence& fence) {
  if (!tree.IsMap()) return Invalid(yaml_path, "not a map of keys such as `train` and `names`");
  DatasetConfig config;
  config.yaml_path = yaml_path;
  config.fence = fence;
  LY_ASSIGN_OR_RETURN(const std::string root, ReadText(tree["path"], "path", yaml_path));
  config.root = ResolveRoot(root, yaml_path, datasets_folder);
  LY_RETURN_IF_ERROR(fence.Check(config.root, root));
  LY_ASSIGN_OR_RETURN(config.train, ReadTexts(tree["train"], "train", yaml_path));
  LY_ASSIGN_OR_RETURN(config.val, ReadTexts(tree["val"], "val", yaml_path));
  LY_ASSIGN_OR_RETURN(config.download, ReadText(tree["download"], "download", yaml_path));
  LY_RETURN_IF_ERROR(ReadClasses(tree, config));
  LY_RETURN_IF_ERROR(ReadAnnotations(tree, config));
  return config;
}

}  // namespace

absl::StatusOr<DatasetConfig> ParseDatasetYaml(absl::string_view text, const std::string& yaml_path,
                                               const std::string& datasets_folder,
                                               const Fence& fence) {
  if (static_cast<int64_t>(text.size()) > kMaxDatasetYamlBytes) {
    return Invalid(yaml_path, absl::StrCat("larger than ", kMaxDatasetYamlBytes, " bytes"));
  }
  LY_ASSIGN_OR_RETURN(const YAML::Node tree, ParseTree(text, yaml_path));
  try {
    return ReadTree(tree, yaml_path, datasets_folder, fence);
  } catch (const YAML::Exception& error) {
    // Every access above looks first; what is left are yaml-cpp's own surprises.
    return Invalid(yaml_path, error.what());
  }
}

absl::StatusOr<DatasetConfig> ReadDatasetYaml(const std::string& yaml_path,
                                              const std::string& datasets_folder,
                                              const Fence& fence) {
  LY_RETURN_IF_ERROR(fence.Check(yaml_path));
  absl::StatusOr<std::string> text = ReadFile(yaml_path, kMaxDatasetYamlBytes);
  if (absl::IsNotFound(text.status())) {
    return MakeError(reason::kDatasetNotFound, absl::StrCat("no dataset file ", yaml_path));
  }
  if (!text.ok()) return Invalid(yaml_path, text.status().message());
  return ParseDatasetYaml(*text, yaml_path, datasets_folder, fence);
}

}  // namespace libreyolo::data
