#include "tests/unit/server/worker/yolo9/checkpoint_writer.h"

#include <zlib.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace libreyolo::yolo9::testing {
namespace {

template <typename T>
void Put(std::string& out, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.append(raw, sizeof(T));
}

}  // namespace

PickleWriter& PickleWriter::Raw(absl::string_view bytes) {
  text_.append(bytes.data(), bytes.size());
  return *this;
}

PickleWriter& PickleWriter::Text(absl::string_view text) {
  text_ += 'X';
  Put(text_, static_cast<uint32_t>(text.size()));
  return Raw(text);
}

PickleWriter& PickleWriter::Int(int32_t value) {
  text_ += 'J';
  Put(text_, value);
  return *this;
}

PickleWriter& PickleWriter::Ints(const std::vector<int64_t>& values) {
  text_ += '(';
  for (const int64_t value : values) {
    text_ += "\x8a\x08";
    Put(text_, value);
  }
  text_ += 't';
  return *this;
}

PickleWriter& PickleWriter::Global(absl::string_view module, absl::string_view name) {
  absl::StrAppend(&text_, "c", module, "\n", name, "\n");
  return *this;
}

PickleWriter& PickleWriter::Tensor(absl::string_view storage_type, absl::string_view key,
                                   int64_t element_count, int64_t offset,
                                   const std::vector<int64_t>& sizes,
                                   const std::vector<int64_t>& strides) {
  Global("torch._utils", "_rebuild_tensor_v2").Raw("(");
  Raw("(").Text("storage").Global("torch", storage_type).Text(key).Text("cpu");
  Raw("\x8a\x08");
  Put(text_, element_count);
  Raw("tQ");
  Raw("\x8a\x08");
  Put(text_, offset);
  Ints(sizes).Ints(strides);
  return Raw("\x89").Global("collections", "OrderedDict").Raw(")RtR");
}

std::string MakeZip(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string file, directory;
  for (const auto& [name, data] : entries) {
    const auto offset = static_cast<uint32_t>(file.size());
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
    std::string common;  // the fields that both headers share
    for (const int value : {0, 0, 0, 0}) Put(common, static_cast<uint16_t>(value));
    Put(common, crc);
    Put(common, static_cast<uint32_t>(data.size()));
    Put(common, static_cast<uint32_t>(data.size()));
    Put(common, static_cast<uint16_t>(name.size()));
    Put(common, uint16_t{0});
    absl::StrAppend(&file, "PK\x03\x04", std::string("\x0a\0", 2), common, name, data);
    absl::StrAppend(&directory, "PK\x01\x02", std::string("\x0a\0\x0a\0", 4), common,
                    std::string(10, '\0'));
    Put(directory, offset);
    directory += name;
  }
  const auto directory_offset = static_cast<uint32_t>(file.size());
  file += directory;
  file += "PK\x05\x06" + std::string(4, '\0');
  Put(file, static_cast<uint16_t>(entries.size()));
  Put(file, static_cast<uint16_t>(entries.size()));
  Put(file, static_cast<uint32_t>(directory.size()));
  Put(file, directory_offset);
  Put(file, uint16_t{0});
  return file;
}

std::string MakeCheckpoint(const SimpleCheckpoint& content) {
  PickleWriter pickle;
  pickle.Raw("}(");
  if (!content.is_bare) {
    for (const auto& [key, value] : content.texts) pickle.Text(key).Text(value);
    for (const auto& [key, value] : content.integers) pickle.Text(key).Int(value);
    pickle.Text("model").Raw("}(");
  }
  for (const auto& [name, shape] : content.tensors) {
    const std::vector<int64_t> strides(shape.size(), 0);
    pickle.Text(name).Tensor("FloatStorage", "0", 1, 0, shape, strides);
  }
  if (!content.is_bare) pickle.Raw("u");
  pickle.Raw("u");
  const float half = 0.5f;
  std::string storage;
  Put(storage, half);
  return MakeZip({{"archive/data.pkl", pickle.Stop()},
                  {"archive/byteorder", "little"},
                  {"archive/data/0", storage},
                  {"archive/version", "3\n"}});
}

}  // namespace libreyolo::yolo9::testing
