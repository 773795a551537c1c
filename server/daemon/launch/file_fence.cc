#include "server/daemon/launch/file_fence.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;

// What newer kernels know and this system's header need not.
constexpr uint64_t kRefer = 1ULL << 13;      // version 2
constexpr uint64_t kTruncate = 1ULL << 14;   // version 3
constexpr uint64_t kIoctlDev = 1ULL << 15;   // version 5
constexpr uint64_t kNetBindTcp = 1ULL << 0;  // version 4
constexpr uint64_t kNetConnectTcp = 1ULL << 1;
constexpr uint64_t kScopeAbstractSocket = 1ULL << 0;  // version 6
constexpr uint64_t kScopeSignal = 1ULL << 1;

// The kernel's landlock_ruleset_attr; an older kernel takes the longer one while what it does not
// know is 0.
struct RulesetAttributes {
  uint64_t handled_files;
  uint64_t handled_network;
  uint64_t scoped;
};

constexpr uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kItself =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
constexpr uint64_t kDevice = kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | kIoctlDev;
constexpr uint64_t kWriteFiles =
    kRead | kItself | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG;
constexpr uint64_t kWrite =
    kWriteFiles | kRefer | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_DIR;
constexpr uint64_t kEveryAccess = kWrite | kIoctlDev | LANDLOCK_ACCESS_FS_MAKE_SYM |
                                  LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                                  LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK;
// Of these alone a rule for a file may be made.
constexpr uint64_t kOfFiles = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                              LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | kIoctlDev;

// A folder on the way to something hidden, of which every entry is granted by itself, may have so
// many; what a larger one holds is not granted.
constexpr int kMaxEntries = 20'000;

uint64_t KnownTo(int version) {
  uint64_t known = kEveryAccess;
  if (version < 2) known &= ~kRefer;
  if (version < 3) known &= ~kTruncate;
  if (version < 5) known &= ~kIoctlDev;
  return known;
}

int AddRule(int ruleset, int path_fd, uint64_t access) {
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  rule.parent_fd = path_fd;
  return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0 ? 0
                                                                                            : errno;
}

class Builder {
 public:
  Builder(int ruleset, uint64_t known) : ruleset_(ruleset), known_(known) {}

  absl::Status Grant(const std::string& path, uint64_t access) const {
    const UniqueFd fd(open(path.c_str(), O_PATH | O_CLOEXEC));
    struct stat info;
    if (!fd || fstat(fd.get(), &info) != 0) return absl::OkStatus();  // nothing there
    if (!S_ISDIR(info.st_mode)) access &= kOfFiles;
    const int error = AddRule(ruleset_, fd.get(), access & known_);
    return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "grant", path);
  }

  // Reading of `folder` but for what is hidden, which are canonical paths. Rules only ever add, so
  // a folder that holds something hidden is granted entry by entry.
  absl::Status GrantAround(const std::string& folder,
                           const std::vector<std::string>& hidden) const {
    const std::string prefix = folder == "/" ? folder : folder + "/";
    if (std::find(hidden.begin(), hidden.end(), folder) != hidden.end()) return absl::OkStatus();
    if (std::none_of(hidden.begin(), hidden.end(),
                     [&](const std::string& path) { return absl::StartsWith(path, prefix); })) {
      return Grant(folder, kRead);
    }
    std::error_code error;
    int count = 0;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      // A link is what it leads to, which has its own place; and that may be hidden.
      if (entry->is_symlink(error)) continue;
      if (++count > kMaxEntries) {
        LogWarning("too many entries to grant one by one: workers may not read all of them",
                   {{"folder", folder}});
        return absl::OkStatus();
      }
      LY_RETURN_IF_ERROR(GrantAround(prefix + entry->path().filename().string(), hidden));
    }
    return absl::OkStatus();
  }

 private:
  const int ruleset_;
  const uint64_t known_;
};

// As the kernel sees them; those that are not there yet by their parent's real place.
std::vector<std::string> Canonical(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::path real = fs::weakly_canonical(path, error);
    if (!error && !path.empty()) out.push_back(real.string());
  }
  return out;
}

// Below 1: there is none.
int LandlockVersion() {
  return static_cast<int>(
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
}

}  // namespace

bool FileFence::IsSupported() { return LandlockVersion() >= 1; }

absl::StatusOr<FileFence> FileFence::Make(const FileGrants& grants, bool allow_network) {
  const int version = LandlockVersion();
  if (version < 1) return absl::UnimplementedError("the kernel has no Landlock");
  RulesetAttributes attributes{KnownTo(version), 0, 0};
  if (version >= 4 && !allow_network) attributes.handled_network = kNetBindTcp | kNetConnectTcp;
  if (version >= 6) attributes.scoped = kScopeAbstractSocket | kScopeSignal;
  UniqueFd ruleset(
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0)));
  if (!ruleset) return ErrnoStatus(errno, "make", "a Landlock ruleset");
  // The kernel marks it to be closed at exec.
  const Builder builder(ruleset.get(), attributes.handled_files);
  for (const auto& [paths, access] : {std::pair{&grants.read, kRead},
                                      {&grants.devices, kDevice},
                                      {&grants.write, kWrite},
                                      {&grants.write_files, kWriteFiles}}) {
    for (const std::string& path : *paths) LY_RETURN_IF_ERROR(builder.Grant(path, access));
  }
  const std::vector<std::string> hidden = Canonical(grants.hidden);
  for (const std::string& path : Canonical(grants.read_around)) {
    LY_RETURN_IF_ERROR(builder.GrantAround(path, hidden));
  }
  return FileFence(std::move(ruleset), kItself & attributes.handled_files);
}

int EnterFileFence(int fence_fd, uint64_t access_to_itself) {
  // Only the process itself knows which it is. What is written there is how it measures its peak
  // memory. The descriptor stays open: a rule holds for one inode, and proc makes another when the
  // file has dropped out of the kernel's cache.
  const int self = open("/proc/self/clear_refs", O_PATH);
  if (self >= 0) {  // a kernel may lack the file, and then the measure
    const int granted = AddRule(fence_fd, self, access_to_itself);
    if (granted != 0) return granted;
  }
  return syscall(SYS_landlock_restrict_self, fence_fd, 0) == 0 ? 0 : errno;
}

}  // namespace libreyolo::daemon
