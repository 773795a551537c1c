// Reads the pickle inside a torch.save file as data. It knows the opcodes and the few names that
// tensors of plain data need; anything else ends the reading, and nothing is ever called or
// executed. Tensors are described, not made: which storage, offset, sizes, strides. No LibTorch
// here. Pure; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace libreyolo::yolo9 {

enum class ElementType {
  kFloat32,
  kFloat64,
  kFloat16,
  kBfloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint8,
  kBool,
};
int64_t ElementBytes(ElementType type);

struct PickleStorage {
  ElementType type;
  std::string key;  // the record's name
  int64_t element_count;
};

// Checked: every element lies inside the storage, and there are at most 2^33 of them (strides may
// be 0, so a tensor may have more elements than its storage).
struct PickleTensor {
  size_t storage;  // index into Pickle::storages
  int64_t offset;  // elements
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

struct PickleValue;
// Values are shared where the pickle shares them. The graph has no cycles and is at most
// PickleLimits::depth deep, but a walk over all paths may be exponential: look keys up instead.
using PickleRef = std::shared_ptr<const PickleValue>;

struct PickleNone {};
struct PickleList {  // lists and tuples
  std::vector<PickleRef> items;
  bool is_tuple = false;
};
struct PickleDict {
  std::vector<std::pair<PickleRef, PickleRef>>
      items;  // keys are text or integers; the last of equal keys counts
  const PickleValue* Find(absl::string_view key) const;
};
// A name from the allowed list, seen only as an argument.
struct PickleGlobal {
  std::string name;
};
struct PickleStorageRef {
  size_t storage;
};

struct PickleValue {
  std::variant<PickleNone, bool, int64_t, double, std::string, PickleList, PickleDict, PickleGlobal,
               PickleStorageRef, PickleTensor>
      data;

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&data);
  }
};

struct PickleLimits {
  int64_t text_bytes = int64_t{1} << 20;
  int64_t operations = 3'000'000;
  int depth = 32;
};

struct Pickle {
  PickleRef root;
  std::vector<PickleStorage> storages;  // each key once
  size_t byte_count;                    // consumed
};

// Reads one pickle of protocol 2 at the start of `bytes`. InvalidArgument says what is wrong and at
// which byte.
absl::StatusOr<Pickle> ReadPickle(absl::string_view bytes, const PickleLimits& limits = {});

}  // namespace libreyolo::yolo9
