// The two parsers that a weights file meets first: the ZIP container and the pickle in it. The
// first byte says which; small limits keep an iteration short.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/unique_fd.h"
#include "server/worker/yolo9/pickle_reader.h"
#include "server/worker/yolo9/zip_reader.h"

namespace {

using libreyolo::UniqueFd;
using libreyolo::yolo9::ZipReader;

constexpr int64_t kMaxRecordBytes = 1 << 20;

void ReadZip(absl::string_view bytes) {
  const UniqueFd file(memfd_create("checkpoint", MFD_CLOEXEC));
  LY_CHECK(file &&
           write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const auto zip = ZipReader::Open(absl::StrCat("/proc/self/fd/", file.get()));
  if (!zip.ok()) return;
  for (const auto& [name, record] : zip->records()) {
    LY_CHECK(record.byte_count >= 0 && record.byte_count <= static_cast<int64_t>(bytes.size()))
        << name << " is longer than the file";
    if (record.byte_count > kMaxRecordBytes) continue;
    std::string content(static_cast<size_t>(record.byte_count), '\0');
    (void)zip->Read(name, record, content.data());  // refused where the checksum does not fit
  }
}

void ReadPickle(absl::string_view bytes) {
  const auto pickle = libreyolo::yolo9::ReadPickle(bytes, {});
  if (!pickle.ok()) return;
  for (const auto& storage : pickle->storages) {
    LY_CHECK(storage.element_count >= 0) << "a storage of less than nothing";
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || size > (1 << 20)) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    ReadZip(bytes);
  } else {
    ReadPickle(bytes);
  }
  return 0;
}
