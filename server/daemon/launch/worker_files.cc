#include "server/daemon/launch/worker_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace libreyolo::daemon {
namespace {

namespace fs = std::filesystem;

// Programs and libraries, and what the kernel tells.
constexpr const char* kSystem[] = {"/usr",
                                   "/bin",
                                   "/sbin",
                                   "/lib",
                                   "/lib32",
                                   "/lib64",
                                   "/opt",
                                   "/nix",
                                   "/gnu",
                                   "/proc",
                                   "/sys",
                                   "/run/opengl-driver",
                                   "/run/nvidia-persistenced"};
// Of /etc what a library reads at its start. Whole, it would hold secrets, the daemon's among them.
constexpr const char* kSystemSettings[] = {"ld.so.cache",     "ld.so.conf",
                                           "ld.so.conf.d",    "ld.so.preload",
                                           "localtime",       "passwd",
                                           "group",           "nsswitch.conf",
                                           "ssl/openssl.cnf", "pki/tls/openssl.cnf",
                                           "selinux",         "nvidia",
                                           "crypto-policies", "nvidia-container-runtime"};
constexpr const char* kDevices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                    "/dev/random", "/dev/urandom", "/dev/dri"};
// GPUs of NVIDIA on a host, on a board (nvhost, nvmap), under Windows (dxg).
constexpr const char* kGpuDevices[] = {"nvidia", "nvhost", "nvmap", "dxg"};
// Where MPS meets its clients unless it is told otherwise.
constexpr char kMpsFolder[] = "/tmp/nvidia-mps";
constexpr const char* kShared[] = {kMpsFolder, "/dev/shm"};
// Where the daemon's admin said that libraries are.
constexpr const char* kFolderLists[] = {"LD_LIBRARY_PATH", "CUDA_HOME",      "CUDA_PATH",
                                        "LIBREYOLO_CUPTI", "LIBREYOLO_NVML", "LD_PRELOAD"};

}  // namespace

bool HasMultiProcessService() {
  struct stat info;
  return lstat(kMpsFolder, &info) == 0 && S_ISDIR(info.st_mode) &&
         (info.st_uid == 0 || info.st_uid == geteuid());
}

FileGrants GrantsFor(const worker_link::WorkerPlan& plan, const std::string& worker_path,
                     const WorkerFiles& files) {
  FileGrants grants;
  grants.hidden = files.hidden;
  grants.read_around.assign(std::begin(kSystem), std::end(kSystem));
  for (const char* name : kSystemSettings) grants.read.push_back(absl::StrCat("/etc/", name));
  for (const char* name : kFolderLists) {
    const char* const value = std::getenv(name);
    if (value == nullptr) continue;
    for (absl::string_view path : absl::StrSplit(value, ':', absl::SkipEmpty())) {
      if (absl::StartsWith(path, "/")) grants.read_around.emplace_back(path);
    }
  }
  // LibTorch, which the worker finds from where it is itself; its parts may be links.
  const std::string libraries = (fs::path(worker_path).parent_path() / "../lib/libreyolo").string();
  for (const std::string& path :
       {worker_path, libraries, libraries + "/torch", libraries + "/nvidia"}) {
    grants.read.push_back(path);
  }
  grants.read.insert(grants.read.end(), files.read.begin(), files.read.end());

  grants.devices.assign(std::begin(kDevices), std::end(kDevices));
  std::error_code error;
  for (fs::directory_iterator entry("/dev", error), end; !error && entry != end;
       entry.increment(error)) {
    for (const char* name : kGpuDevices) {
      if (absl::StartsWith(entry->path().filename().string(), name))
        grants.devices.push_back(entry->path().string());
    }
  }

  if (!plan.weights_path.empty()) grants.read.push_back(plan.weights_path);
  if (!plan.data_roots.empty()) {
    grants.read.insert(grants.read.end(), plan.data_roots.begin(), plan.data_roots.end());
  } else if (!plan.source_paths.empty()) {
    grants.read_around.emplace_back("/");
    // Of root there is no disk that it may not read whole. Datasets lie in shared memory at times.
    if (geteuid() == 0) grants.hidden.emplace_back("/dev");
    grants.read.emplace_back("/dev/shm");
    for (const auto* paths : {&plan.source_paths, &files.of_one_user}) {
      grants.read.insert(grants.read.end(), paths->begin(), paths->end());
    }
  }
  if (HasMultiProcessService()) grants.write.assign(std::begin(kShared), std::end(kShared));
  grants.write.push_back(plan.cache_dir);
  grants.write_files.push_back(plan.staging_dir);
  return grants;
}

}  // namespace libreyolo::daemon
