#include "server/worker/yolo9/pickle_objects.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace libreyolo::yolo9 {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 33;
constexpr size_t kMaxDimensions = 16;

constexpr char kOrderedDict[] = "collections.OrderedDict";
constexpr char kSize[] = "torch.Size";
constexpr char kRebuildTensor[] = "torch._utils._rebuild_tensor_v2";
constexpr char kRebuildParameter[] = "torch._utils._rebuild_parameter";

struct StorageName {
  const char* name;
  ElementType type;
};
constexpr StorageName kStorageNames[] = {
    {"torch.FloatStorage", ElementType::kFloat32},
    {"torch.DoubleStorage", ElementType::kFloat64},
    {"torch.HalfStorage", ElementType::kFloat16},
    {"torch.BFloat16Storage", ElementType::kBfloat16},
    {"torch.LongStorage", ElementType::kInt64},
    {"torch.IntStorage", ElementType::kInt32},
    {"torch.ShortStorage", ElementType::kInt16},
    {"torch.CharStorage", ElementType::kInt8},
    {"torch.ByteStorage", ElementType::kUint8},
    {"torch.BoolStorage", ElementType::kBool},
};

const StorageName* FindStorageName(absl::string_view name) {
  const auto* it = std::find_if(std::begin(kStorageNames), std::end(kStorageNames),
                                [&](const StorageName& s) { return name == s.name; });
  return it == std::end(kStorageNames) ? nullptr : it;
}

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

template <typename T>
const T* Argument(const PickleList& list, size_t i) {
  return i < list.items.size() ? list.items[i]->As<T>() : nullptr;
}

bool Integers(const PickleList* list, std::vector<int64_t>& out) {
  if (list == nullptr || list->items.size() > kMaxDimensions) return false;
  for (const PickleRef& item : list->items) {
    const int64_t* value = item->As<int64_t>();
    if (value == nullptr || *value < 0) return false;
    out.push_back(*value);
  }
  return true;
}

// (storage, offset, sizes, strides, ...)
absl::StatusOr<PickleValue> DescribeTensor(const PickleList& list,
                                           const std::vector<PickleStorage>& storages) {
  const auto* storage = Argument<PickleStorageRef>(list, 0);
  const auto* offset = Argument<int64_t>(list, 1);
  PickleTensor tensor;
  if (storage == nullptr || offset == nullptr || *offset < 0 ||
      !Integers(Argument<PickleList>(list, 2), tensor.sizes) ||
      !Integers(Argument<PickleList>(list, 3), tensor.strides) ||
      tensor.sizes.size() != tensor.strides.size()) {
    return Bad("a tensor is described wrongly");
  }
  tensor.storage = storage->storage;
  tensor.offset = *offset;
  const PickleStorage& held = storages[tensor.storage];
  __int128 elements = 1;
  __int128 last = *offset;
  bool is_empty = false;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    is_empty = is_empty || tensor.sizes[i] == 0;
    elements *= std::max<int64_t>(tensor.sizes[i], 1);
    if (elements > kMaxElements) return Bad("a tensor is larger than any model needs");
    last += static_cast<__int128>(tensor.sizes[i] - 1) * tensor.strides[i];
  }
  if (is_empty ? *offset > held.element_count : last >= held.element_count) {
    return Bad(absl::StrCat("a tensor reaches past its storage \"", absl::CHexEscape(held.key),
                            "\" of ", held.element_count, " elements"));
  }
  return PickleValue{std::move(tensor)};
}

}  // namespace

int64_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kFloat64:
    case ElementType::kInt64:
      return 8;
    case ElementType::kFloat32:
    case ElementType::kInt32:
      return 4;
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
    case ElementType::kInt16:
      return 2;
    case ElementType::kInt8:
    case ElementType::kUint8:
    case ElementType::kBool:
      return 1;
  }
  return 1;
}

bool IsAllowedGlobal(absl::string_view name) {
  return name == kOrderedDict || name == kSize || name == kRebuildTensor ||
         name == kRebuildParameter || FindStorageName(name) != nullptr;
}

absl::StatusOr<PickleStorage> ReadStorageId(const PickleValue& id) {
  const PickleList* list = id.As<PickleList>();
  if (list == nullptr || list->items.size() < 5) return Bad("a storage is not described");
  const auto* word = Argument<std::string>(*list, 0);
  const auto* type = Argument<PickleGlobal>(*list, 1);
  const auto* key = Argument<std::string>(*list, 2);
  const auto* count = Argument<int64_t>(*list, 4);
  const StorageName* known = type ? FindStorageName(type->name) : nullptr;
  if (!word || *word != "storage" || !known || !key || !count || *count < 0) {
    return Bad("a storage is described wrongly");
  }
  if (list->items.size() > 5 && !Argument<PickleNone>(*list, 5)) {
    return Bad("a storage is a view of another one, which is not supported");
  }
  return PickleStorage{known->type, *key, *count};
}

absl::StatusOr<PickleValue> CallGlobal(const PickleValue& callable, const PickleValue& arguments,
                                       const std::vector<PickleStorage>& storages) {
  const PickleGlobal* global = callable.As<PickleGlobal>();
  const PickleList* list = arguments.As<PickleList>();
  if (global == nullptr || list == nullptr || !list->is_tuple) {
    return Bad("a call has no name or no arguments");
  }
  if (global->name == kOrderedDict) {
    if (!list->items.empty()) return Bad("an OrderedDict is made with arguments");
    return PickleValue{PickleDict{}};
  }
  if (global->name == kSize) {
    // Numbers only: a copied container would start again at depth 0.
    const PickleList* sizes = Argument<PickleList>(*list, 0);
    std::vector<int64_t> numbers;
    if (!Integers(sizes, numbers)) return Bad("a torch.Size is not made of numbers");
    return PickleValue{PickleList{sizes->items, true}};
  }
  if (global->name == kRebuildParameter) {
    const PickleTensor* tensor = Argument<PickleTensor>(*list, 0);
    if (tensor == nullptr) return Bad("a parameter holds no tensor");
    return PickleValue{*tensor};
  }
  if (global->name == kRebuildTensor) return DescribeTensor(*list, storages);
  return Bad(absl::StrCat("it calls \"", global->name, "\""));
}

}  // namespace libreyolo::yolo9
