#include "server/worker/yolo9/zip_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace libreyolo::yolo9 {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kZip64LocatorSignature = 0x07064b50;
constexpr uint32_t kZip64EndSignature = 0x06064b50;
constexpr uint32_t kEntrySignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kZip64LocatorBytes = 20;
constexpr uint64_t kZip64EndBytes = 56;
constexpr uint64_t kEntryBytes = 46;
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kMaxCommentBytes = 65535;
constexpr uint64_t kMaxDirectoryBytes = uint64_t{64} << 20;
constexpr uint32_t kInZip64 = 0xffffffff;  // "the real number is in the extra field"

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

template <typename T>
T Load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// Sizes and offset of an entry that say "zip64" come, in this order, from its extra field of
// kind 1.
bool ReadZip64Extra(absl::string_view extra, uint64_t& plain_bytes, uint64_t& packed_bytes,
                    uint64_t& offset) {
  while (extra.size() >= 4) {
    const auto kind = Load<uint16_t>(extra.data());
    const auto size = Load<uint16_t>(extra.data() + 2);
    extra.remove_prefix(4);
    if (extra.size() < size) return false;
    if (kind == 1) {
      absl::string_view field = extra.substr(0, size);
      for (uint64_t* value : {&plain_bytes, &packed_bytes, &offset}) {
        if (*value != kInZip64) continue;
        if (field.size() < 8) return false;
        *value = Load<uint64_t>(field.data());
        field.remove_prefix(8);
      }
      return true;
    }
    extra.remove_prefix(size);
  }
  return plain_bytes != kInZip64 && packed_bytes != kInZip64 && offset != kInZip64;
}

}  // namespace

absl::StatusOr<ZipReader> ZipReader::Open(const std::string& path) {
  ZipReader reader;
  reader.fd_.Reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!reader.fd_) return ErrnoStatus(errno, "open", path);
  struct stat info;
  if (fstat(reader.fd_.get(), &info) != 0) return ErrnoStatus(errno, "read", path);
  reader.file_bytes_ = static_cast<uint64_t>(info.st_size);
  LY_RETURN_IF_ERROR(reader.ReadDirectory());
  return reader;
}

const ZipReader::Record* ZipReader::Find(absl::string_view name) const {
  const auto it = records_.find(std::string(name));
  return it == records_.end() ? nullptr : &it->second;
}

absl::Status ZipReader::ReadAt(uint64_t offset, uint64_t count, char* out) const {
  if (offset > file_bytes_ || count > file_bytes_ - offset) {
    return Bad("a part lies past the end of the file; is it cut short?");
  }
  while (count > 0) {
    const ssize_t got = pread(fd_.get(), out, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", "the file");
    if (got == 0) return Bad("the file became shorter while it was read");
    out += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status ZipReader::ReadDirectory() {
  const uint64_t tail_bytes = std::min(file_bytes_, kEndBytes + kMaxCommentBytes);
  std::string tail(tail_bytes, '\0');
  LY_RETURN_IF_ERROR(ReadAt(file_bytes_ - tail_bytes, tail_bytes, tail.data()));
  int64_t at = static_cast<int64_t>(tail_bytes) - static_cast<int64_t>(kEndBytes);
  while (at >= 0 && Load<uint32_t>(tail.data() + at) != kEndSignature) --at;
  if (at < 0) return Bad("it has no ZIP directory at its end; is it cut short?");

  const char* end = tail.data() + at;
  uint64_t entry_count = Load<uint16_t>(end + 10);
  uint64_t directory_bytes = Load<uint32_t>(end + 12);
  uint64_t directory_offset = Load<uint32_t>(end + 16);
  const uint64_t end_offset = file_bytes_ - tail_bytes + static_cast<uint64_t>(at);
  if (end_offset >= kZip64LocatorBytes) {
    char locator[kZip64LocatorBytes];
    LY_RETURN_IF_ERROR(ReadAt(end_offset - kZip64LocatorBytes, kZip64LocatorBytes, locator));
    if (Load<uint32_t>(locator) == kZip64LocatorSignature) {
      char end64[kZip64EndBytes];
      LY_RETURN_IF_ERROR(ReadAt(Load<uint64_t>(locator + 8), kZip64EndBytes, end64));
      if (Load<uint32_t>(end64) != kZip64EndSignature) return Bad("its zip64 directory is damaged");
      entry_count = Load<uint64_t>(end64 + 32);
      directory_bytes = Load<uint64_t>(end64 + 40);
      directory_offset = Load<uint64_t>(end64 + 48);
    }
  }
  if (directory_bytes > kMaxDirectoryBytes || directory_offset > end_offset ||
      directory_bytes > end_offset - directory_offset) {
    return Bad("its ZIP directory is damaged");
  }
  std::string directory(directory_bytes, '\0');
  LY_RETURN_IF_ERROR(ReadAt(directory_offset, directory_bytes, directory.data()));
  return ReadEntries(directory, entry_count, directory_offset);
}

absl::Status ZipReader::ReadEntries(absl::string_view directory, uint64_t count, uint64_t end) {
  for (uint64_t i = 0; i < count; ++i) {
    if (directory.size() < kEntryBytes || Load<uint32_t>(directory.data()) != kEntrySignature) {
      return Bad("its ZIP directory is damaged");
    }
    const char* entry = directory.data();
    const auto flags = Load<uint16_t>(entry + 8);
    const auto method = Load<uint16_t>(entry + 10);
    const auto crc = Load<uint32_t>(entry + 16);
    uint64_t packed_bytes = Load<uint32_t>(entry + 20);
    uint64_t plain_bytes = Load<uint32_t>(entry + 24);
    const uint64_t name_bytes = Load<uint16_t>(entry + 28);
    const uint64_t extra_bytes = Load<uint16_t>(entry + 30);
    const uint64_t comment_bytes = Load<uint16_t>(entry + 32);
    uint64_t offset = Load<uint32_t>(entry + 42);
    directory.remove_prefix(kEntryBytes);
    if (directory.size() < name_bytes + extra_bytes + comment_bytes) {
      return Bad("its ZIP directory is damaged");
    }
    const std::string name(directory.substr(0, name_bytes));
    if (!ReadZip64Extra(directory.substr(name_bytes, extra_bytes), plain_bytes, packed_bytes,
                        offset)) {
      return Bad("its zip64 directory is damaged");
    }
    directory.remove_prefix(name_bytes + extra_bytes + comment_bytes);
    const std::string shown = absl::CHexEscape(name);
    if (method != 0 || (flags & 1) != 0 || packed_bytes != plain_bytes) {
      return Bad(absl::StrCat("its entry \"", shown,
                              "\" is compressed or encrypted; torch.save does neither"));
    }
    if (offset > end || plain_bytes > end - offset) {
      return Bad(absl::StrCat("its entry \"", shown, "\" lies outside the file"));
    }
    const Record record{static_cast<int64_t>(offset), static_cast<int64_t>(plain_bytes), crc};
    if (!records_.emplace(name, record).second) {
      return Bad(absl::StrCat("its entry \"", shown, "\" is there twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status ZipReader::Read(absl::string_view name, const Record& record, char* out) const {
  char local[kLocalBytes];
  LY_RETURN_IF_ERROR(ReadAt(static_cast<uint64_t>(record.header_offset), kLocalBytes, local));
  if (Load<uint32_t>(local) != kLocalSignature) {
    return Bad(absl::StrCat("its entry \"", absl::CHexEscape(name), "\" is damaged"));
  }
  const uint64_t start = static_cast<uint64_t>(record.header_offset) + kLocalBytes +
                         Load<uint16_t>(local + 26) + Load<uint16_t>(local + 28);
  LY_RETURN_IF_ERROR(ReadAt(start, static_cast<uint64_t>(record.byte_count), out));
  const uLong got = crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(out),
                            static_cast<z_size_t>(record.byte_count));
  if (got != record.crc32) {
    return Bad(absl::StrCat("its entry \"", absl::CHexEscape(name),
                            "\" is damaged: the checksum does not match"));
  }
  return absl::OkStatus();
}

}  // namespace libreyolo::yolo9
