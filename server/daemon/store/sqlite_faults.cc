#include "server/daemon/store/sqlite_faults.h"

#include <sqlite3.h>

#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace libreyolo::daemon {
namespace {

// What SQLite allocates for a file: this, and behind it the real file system's own.
struct File {
  sqlite3_file base;
  const FaultHook* at;
  const char* point;

  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  const sqlite3_io_methods& methods() { return *real()->pMethods; }
};

File& Of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

int Sync(sqlite3_file* file, int flags) {
  File& self = Of(file);
  if (!AtFaultPoint(*self.at, self.point).ok()) return SQLITE_IOERR_FSYNC;
  const int result = self.methods().xSync(self.real(), flags);
  if (result == SQLITE_OK) (void)AtFaultPoint(*self.at, absl::StrCat("after ", self.point));
  return result;
}

// Everything else goes through. Version 2: shared memory, which WAL needs, and no mapped reads.
constexpr sqlite3_io_methods kMethods = {
    2,
    [](sqlite3_file* f) { return Of(f).methods().xClose(Of(f).real()); },
    [](sqlite3_file* f, void* data, int size, sqlite3_int64 at) {
      return Of(f).methods().xRead(Of(f).real(), data, size, at);
    },
    [](sqlite3_file* f, const void* data, int size, sqlite3_int64 at) {
      return Of(f).methods().xWrite(Of(f).real(), data, size, at);
    },
    [](sqlite3_file* f, sqlite3_int64 size) {
      return Of(f).methods().xTruncate(Of(f).real(), size);
    },
    &Sync,
    [](sqlite3_file* f, sqlite3_int64* size) {
      return Of(f).methods().xFileSize(Of(f).real(), size);
    },
    [](sqlite3_file* f, int kind) { return Of(f).methods().xLock(Of(f).real(), kind); },
    [](sqlite3_file* f, int kind) { return Of(f).methods().xUnlock(Of(f).real(), kind); },
    [](sqlite3_file* f, int* held) {
      return Of(f).methods().xCheckReservedLock(Of(f).real(), held);
    },
    [](sqlite3_file* f, int what, void* arg) {
      return Of(f).methods().xFileControl(Of(f).real(), what, arg);
    },
    [](sqlite3_file* f) { return Of(f).methods().xSectorSize(Of(f).real()); },
    [](sqlite3_file* f) { return Of(f).methods().xDeviceCharacteristics(Of(f).real()); },
    [](sqlite3_file* f, int page, int size, int extend, void volatile** memory) {
      return Of(f).methods().xShmMap(Of(f).real(), page, size, extend, memory);
    },
    [](sqlite3_file* f, int offset, int n, int flags) {
      return Of(f).methods().xShmLock(Of(f).real(), offset, n, flags);
    },
    [](sqlite3_file* f) { Of(f).methods().xShmBarrier(Of(f).real()); },
    [](sqlite3_file* f, int remove) { return Of(f).methods().xShmUnmap(Of(f).real(), remove); },
    nullptr,
    nullptr,
};

}  // namespace

struct SyncFaults::Vfs {
  sqlite3_vfs base;  // first: SQLite hands it back
  sqlite3_vfs* real;
  FaultHook at;
  std::string name;
};

SyncFaults::SyncFaults(FaultHook at) : vfs_(std::make_unique<Vfs>()) {
  static std::atomic<int> count{0};
  Vfs& vfs = *vfs_;
  vfs.real = sqlite3_vfs_find(nullptr);
  LY_CHECK(vfs.real != nullptr) << "SQLite has no file system";
  vfs.at = std::move(at);
  vfs.name = absl::StrCat("sync-faults-", count++);
  vfs.base = *vfs.real;  // its other functions use no more of it than sizes
  vfs.base.zName = vfs.name.c_str();
  vfs.base.szOsFile = static_cast<int>(sizeof(File)) + vfs.real->szOsFile;
  vfs.base.xOpen = [](sqlite3_vfs* self, const char* path, sqlite3_file* file, int flags,
                      int* out_flags) {
    Vfs& own = *reinterpret_cast<Vfs*>(self);
    File& opened = Of(file);
    opened.at = &own.at;
    opened.point = (flags & SQLITE_OPEN_MAIN_DB) != 0 ? "fsync index" : "fsync index wal";
    const int result = own.real->xOpen(own.real, path, opened.real(), flags, out_flags);
    opened.base.pMethods = opened.real()->pMethods == nullptr ? nullptr : &kMethods;
    return result;
  };
  sqlite3_vfs_register(&vfs.base, 0);
}

SyncFaults::~SyncFaults() { sqlite3_vfs_unregister(&vfs_->base); }

const char* SyncFaults::name() const { return vfs_->name.c_str(); }

}  // namespace libreyolo::daemon
