#include "server/worker/yolo9/checkpoint.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "server/worker/torch_call.h"
#include "server/worker/yolo9/zip_reader.h"

namespace libreyolo::yolo9 {
namespace {

// The first object of the old container: the number 0x1950a86a20f9469cfc6c, pickled.
constexpr absl::string_view kOldMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
                                      15);
constexpr int64_t kOldVersion = 1001;
constexpr char kZipMagic[] = "PK\x03\x04";

at::ScalarType ScalarTypeOf(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return at::kFloat;
    case ElementType::kFloat64:
      return at::kDouble;
    case ElementType::kFloat16:
      return at::kHalf;
    case ElementType::kBfloat16:
      return at::kBFloat16;
    case ElementType::kInt64:
      return at::kLong;
    case ElementType::kInt32:
      return at::kInt;
    case ElementType::kInt16:
      return at::kShort;
    case ElementType::kInt8:
      return at::kChar;
    case ElementType::kUint8:
      return at::kByte;
    case ElementType::kBool:
      return at::kBool;
  }
  return at::kFloat;
}

void SwapBytes(char* data, int64_t byte_count, int64_t element_bytes) {
  for (int64_t i = 0; i + element_bytes <= byte_count; i += element_bytes) {
    std::reverse(data + i, data + i + element_bytes);
  }
}

// Where the bytes of the storages are.
class Container {
 public:
  virtual ~Container() = default;
  // The record's size; InvalidArgument when it is absent.
  virtual absl::StatusOr<int64_t> ByteCount(const std::string& key) const = 0;
  virtual absl::Status Read(const std::string& key, char* out) const = 0;
  virtual bool is_big_endian() const { return false; }
};

class ZipContainer : public Container {
 public:
  ZipContainer(ZipReader reader, std::string root, bool is_big_endian)
      : reader_(std::move(reader)), root_(std::move(root)), is_big_endian_(is_big_endian) {}

  absl::StatusOr<int64_t> ByteCount(const std::string& key) const override {
    const auto* record = reader_.Find(Name(key));
    if (record == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("its storage ", Name(key), " is missing"));
    }
    return record->byte_count;
  }
  absl::Status Read(const std::string& key, char* out) const override {
    return reader_.Read(Name(key), *reader_.Find(Name(key)), out);
  }
  bool is_big_endian() const override { return is_big_endian_; }

 private:
  std::string Name(const std::string& key) const { return absl::StrCat(root_, "data/", key); }

  ZipReader reader_;
  std::string root_;  // with its slash
  bool is_big_endian_;
};

// The old container, held in memory: storages follow the pickles, each behind its element count.
class OldContainer : public Container {
 public:
  explicit OldContainer(std::string bytes) : bytes_(std::move(bytes)) {}

  absl::Status AddStorage(const PickleStorage& storage, size_t& at) {
    int64_t count = 0;
    if (bytes_.size() - at < sizeof(count)) return absl::InvalidArgumentError("it is cut short");
    std::memcpy(&count, bytes_.data() + at, sizeof(count));
    at += sizeof(count);
    const int64_t element_bytes = ElementBytes(storage.type);
    if (count < 0 || count > static_cast<int64_t>(bytes_.size() - at) / element_bytes) {
      return absl::InvalidArgumentError("a storage is cut short");
    }
    places_[storage.key] = {at, count * element_bytes};
    at += static_cast<size_t>(count * element_bytes);
    return absl::OkStatus();
  }

  absl::string_view bytes() const { return bytes_; }

  absl::StatusOr<int64_t> ByteCount(const std::string& key) const override {
    const auto it = places_.find(key);
    if (it == places_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("its storage ", key, " is missing"));
    }
    return it->second.byte_count;
  }
  absl::Status Read(const std::string& key, char* out) const override {
    const Place& place = places_.at(key);
    std::memcpy(out, bytes_.data() + place.offset, static_cast<size_t>(place.byte_count));
    return absl::OkStatus();
  }

 private:
  struct Place {
    size_t offset;
    int64_t byte_count;
  };
  std::string bytes_;
  std::unordered_map<std::string, Place> places_;
};

struct Opened {
  std::unique_ptr<Container> container;
  Pickle pickle;
};

absl::StatusOr<std::string> ReadRecord(const ZipReader& reader, const std::string& name,
                                       int64_t limit_bytes) {
  const ZipReader::Record* record = reader.Find(name);
  if (record == nullptr) return absl::InvalidArgumentError(absl::StrCat("it has no ", name));
  if (record->byte_count > limit_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is larger than the limit"));
  }
  std::string bytes(static_cast<size_t>(record->byte_count), '\0');
  LY_RETURN_IF_ERROR(reader.Read(name, *record, bytes.data()));
  return bytes;
}

absl::StatusOr<Opened> OpenZip(const std::string& path, const CheckpointLimits& limits) {
  LY_ASSIGN_OR_RETURN(ZipReader reader, ZipReader::Open(path));
  constexpr absl::string_view kPickleName = "data.pkl";
  std::optional<std::string> root;
  for (const auto& [name, record] : reader.records()) {
    if (!absl::EndsWith(name, absl::StrCat("/", kPickleName))) continue;
    if (root.has_value()) return absl::InvalidArgumentError("it holds more than one data.pkl");
    root = name.substr(0, name.size() - kPickleName.size());
  }
  if (!root.has_value()) {
    return absl::InvalidArgumentError("it is a ZIP file without data.pkl, so not from torch.save");
  }
  if (reader.Find(*root + "constants.pkl") != nullptr) {
    return absl::InvalidArgumentError("it is a TorchScript program, not a checkpoint");
  }
  bool is_big_endian = false;
  if (reader.Find(*root + "byteorder") != nullptr) {
    LY_ASSIGN_OR_RETURN(const std::string order, ReadRecord(reader, *root + "byteorder", 64));
    if (order != "little" && order != "big") {
      return absl::InvalidArgumentError("its byte order is neither little nor big");
    }
    is_big_endian = order == "big";
  }
  LY_ASSIGN_OR_RETURN(const std::string bytes,
                      ReadRecord(reader, *root + std::string(kPickleName), limits.pickle_bytes));
  LY_ASSIGN_OR_RETURN(Pickle pickle, ReadPickle(bytes, limits.pickle));
  return Opened{std::make_unique<ZipContainer>(std::move(reader), *root, is_big_endian),
                std::move(pickle)};
}

// Four pickles (version, system, the object, the order of the storages), then the storages.
absl::StatusOr<Opened> OpenOld(std::string all, const CheckpointLimits& limits) {
  auto container = std::make_unique<OldContainer>(std::move(all));
  const absl::string_view bytes = container->bytes();
  size_t at = kOldMagic.size();
  const auto next = [&]() -> absl::StatusOr<Pickle> {
    auto pickle =
        ReadPickle(bytes.substr(at, static_cast<size_t>(limits.pickle_bytes)), limits.pickle);
    if (pickle.ok()) at += pickle->byte_count;
    return pickle;
  };
  LY_ASSIGN_OR_RETURN(const Pickle version, next());
  const auto* number = version.root->As<int64_t>();
  if (number == nullptr || *number != kOldVersion) {
    return absl::InvalidArgumentError("its container has an unknown version");
  }
  LY_ASSIGN_OR_RETURN(const Pickle system, next());
  const auto* facts = system.root->As<PickleDict>();
  const PickleValue* little = facts ? facts->Find("little_endian") : nullptr;
  if (little == nullptr || !little->As<bool>() || !*little->As<bool>()) {
    return absl::InvalidArgumentError("its byte order is not little-endian");
  }
  LY_ASSIGN_OR_RETURN(Pickle object, next());
  LY_ASSIGN_OR_RETURN(const Pickle order, next());
  const auto* keys = order.root->As<PickleList>();
  if (keys == nullptr) return absl::InvalidArgumentError("it does not list its storages");
  for (const PickleRef& item : keys->items) {
    const auto* key = item->As<std::string>();
    const auto it = std::find_if(object.storages.begin(), object.storages.end(),
                                 [&](const PickleStorage& s) { return key && s.key == *key; });
    if (it == object.storages.end()) {
      return absl::InvalidArgumentError("it lists a storage that nothing uses");
    }
    LY_RETURN_IF_ERROR(container->AddStorage(*it, at));
  }
  return Opened{std::move(container), std::move(object)};
}

// Reads at most the first `count` bytes into `out` and returns how many there were. Refuses
// folders, pipes and devices, which a read could wait on for ever.
absl::StatusOr<size_t> ReadHead(const std::string& path, size_t count, char* out) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return ErrnoStatus(errno, "open", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "read", path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError("it is not a regular file");
  const ssize_t got = pread(fd.get(), out, count, 0);
  if (got < 0) return ErrnoStatus(errno, "read", path);
  return static_cast<size_t>(got);
}

absl::StatusOr<Opened> OpenAny(const std::string& path, const CheckpointLimits& limits) {
  // Only the old container is read as a whole.
  const int64_t limit_bytes = limits.storage_bytes + limits.pickle_bytes;
  char bytes[kOldMagic.size()] = {};
  LY_ASSIGN_OR_RETURN(const size_t count, ReadHead(path, sizeof(bytes), bytes));
  const absl::string_view head(bytes, count);
  if (head.empty()) return absl::InvalidArgumentError("it is empty");
  if (absl::StartsWith(head, kZipMagic)) return OpenZip(path, limits);
  if (head == kOldMagic) {
    LY_ASSIGN_OR_RETURN(std::string all, ReadFile(path, limit_bytes));
    return OpenOld(std::move(all), limits);
  }
  return absl::InvalidArgumentError("it is neither a ZIP file nor an old torch.save file");
}

}  // namespace

struct Checkpoint::Impl {
  absl::Status Unreadable(absl::string_view what) const {
    return MakeError(reason::kWeightsUnreadable,
                     absl::StrCat("cannot read weights ", path, ": ", what),
                     {"save the model again with torch.save, or name another file",
                      "--weights random runs without a file"},
                     {{"path", path}});
  }

  // Every storage must have a record of exactly its size before any memory is taken.
  absl::Status CheckStorages(const CheckpointLimits& limits) const {
    int64_t total_bytes = 0;
    for (const PickleStorage& storage : opened.pickle.storages) {
      const int64_t element_bytes = ElementBytes(storage.type);
      auto got = opened.container->ByteCount(storage.key);
      if (!got.ok()) return got.status();
      if (storage.element_count > limits.storage_bytes / element_bytes ||
          *got != storage.element_count * element_bytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "its storage ", absl::CHexEscape(storage.key), " should hold ", storage.element_count,
            " elements of ", element_bytes, " bytes, but has ", *got, " bytes"));
      }
      total_bytes += *got;
      if (total_bytes > limits.storage_bytes) {
        return absl::InvalidArgumentError("its storages are larger than the limit");
      }
    }
    return absl::OkStatus();
  }

  // The storage's bytes, read on first use.
  absl::StatusOr<at::Tensor> LoadStorage(size_t index) {
    if (loaded[index].defined()) return loaded[index];
    const PickleStorage& storage = opened.pickle.storages[index];
    const int64_t element_bytes = ElementBytes(storage.type);
    at::Tensor flat;
    LY_RETURN_IF_ERROR(worker::CallTorch([&] {
      const c10::InferenceMode normal_tensors(false);
      flat = at::empty({storage.element_count}, ScalarTypeOf(storage.type));
    }));
    char* out = static_cast<char*>(flat.mutable_data_ptr());
    if (storage.element_count > 0) {
      LY_RETURN_IF_ERROR(opened.container->Read(storage.key, out));
    }
    if (opened.container->is_big_endian()) {
      SwapBytes(out, storage.element_count * element_bytes, element_bytes);
    }
    loaded[index] = flat;
    return flat;
  }

  std::string path;
  Opened opened;
  std::vector<at::Tensor> loaded;  // of each storage, flat; undefined until used
};

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::~Checkpoint() = default;

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path,
                                                             const CheckpointLimits& limits) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  auto opened = OpenAny(path, limits);
  if (absl::IsNotFound(opened.status())) {
    return MakeError(
        reason::kWeightsNotFound, absl::StrCat("there is no weights file ", path),
        {"name an existing file with --weights", "--weights random runs without a file"},
        {{"path", path}});
  }
  if (!opened.ok()) return impl->Unreadable(opened.status().message());
  impl->opened = *std::move(opened);
  if (const absl::Status status = impl->CheckStorages(limits); !status.ok()) {
    return impl->Unreadable(status.message());
  }
  impl->loaded.resize(impl->opened.pickle.storages.size());
  return std::unique_ptr<Checkpoint>(new Checkpoint(std::move(impl)));
}

const PickleValue& Checkpoint::root() const { return *impl_->opened.pickle.root; }

absl::StatusOr<at::Tensor> Checkpoint::MakeTensor(const PickleTensor& tensor) {
  auto flat = impl_->LoadStorage(tensor.storage);
  if (HasReason(flat.status(), reason::kOutOfMemory)) return flat.status();
  if (!flat.ok()) return impl_->Unreadable(flat.status().message());
  at::Tensor view;
  // The reader has checked that the view lies inside the storage.
  LY_RETURN_IF_ERROR(worker::CallTorch([&] {
    const c10::InferenceMode normal_tensors(false);
    view = flat->as_strided(tensor.sizes, tensor.strides, tensor.offset);
  }));
  return view;
}

}  // namespace libreyolo::yolo9
