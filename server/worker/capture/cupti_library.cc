#include "server/worker/capture/cupti_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace libreyolo::worker {
namespace {

// CUDA 12.0. Older records lack fields that are read.
constexpr uint32_t kOldestVersion = 18;
// The sonames, that of the headers first.
constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12"};

const std::vector<std::string>& WithoutTrace() {
  static const auto& hints =
      *new std::vector<std::string>{"measure without a trace: --no-trace still gives all times"};
  return hints;
}

std::vector<std::string> Hints(std::vector<std::string> first) {
  first.insert(first.end(), WithoutTrace().begin(), WithoutTrace().end());
  return first;
}

// Fills the table, or says what is missing.
absl::Status Resolve(void* handle, const std::string& path, CuptiTable& api) {
#define LY_CUPTI_RESOLVE(f)                                       \
  api.f = reinterpret_cast<decltype(&::f)>(dlsym(handle, #f));    \
  if (api.f == nullptr) {                                         \
    return absl::NotFoundError(absl::StrCat(path, " lacks " #f)); \
  }
  LY_CUPTI_FUNCTIONS(LY_CUPTI_RESOLVE)
#undef LY_CUPTI_RESOLVE
  return absl::OkStatus();
}

absl::StatusOr<CuptiLibrary> Load(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::NotFoundError(dlerror());
  CuptiLibrary library;
  LY_RETURN_IF_ERROR(Resolve(handle, path, library.api));
  Dl_info info;
  const void* address = reinterpret_cast<void*>(library.api.cuptiActivityEnable);
  library.path = dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : path;
  if (library.api.cuptiGetVersion(&library.version) != CUPTI_SUCCESS ||
      library.version < kOldestVersion) {
    return absl::FailedPreconditionError(absl::StrCat(library.path, " is too old (API version ",
                                                      library.version,
                                                      "): CUDA 12 or newer is needed"));
  }
  return library;
}

// The folder of the library that holds LibTorch's CPU part, "" when there is none.
std::string TorchLibDir() {
  void* const torch = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  if (torch == nullptr) return "";
  Dl_info info;
  const void* const symbol = dlsym(torch, "torch_get_num_threads");
  std::string path;
  if (symbol != nullptr && dladdr(symbol, &info) != 0) path = info.dli_fname;
  dlclose(torch);
  return path.empty() ? "" : path.substr(0, path.rfind('/'));
}

}  // namespace

std::vector<std::string> CuptiCandidates(const std::function<std::string(const std::string&)>& env,
                                         const std::string& torch_lib_dir) {
  if (const std::string chosen = env("LIBREYOLO_CUPTI"); !chosen.empty()) return {chosen};
  std::vector<std::string> out;
  for (const char* name : kNames) {
    if (dlopen(name, RTLD_NOW | RTLD_NOLOAD) != nullptr) out.emplace_back(name);
  }
  for (const char* name : kNames) {
    std::vector<std::string> folders;
    if (!torch_lib_dir.empty()) {
      for (const char* package : {"cu13", "cuda_cupti"}) {
        folders.push_back(absl::StrCat(torch_lib_dir, "/../../nvidia/", package, "/lib"));
      }
    }
    for (const std::string& toolkit :
         {env("CUDA_HOME"), env("CUDA_PATH"), std::string("/usr/local/cuda")}) {
      if (toolkit.empty()) continue;
      for (const char* folder : {"/extras/CUPTI/lib64", "/lib64", "/lib"}) {
        folders.push_back(toolkit + folder);
      }
    }
    for (const std::string& folder : folders) out.push_back(absl::StrCat(folder, "/", name));
    out.emplace_back(name);
  }
  return out;
}

absl::StatusOr<CuptiLibrary> LoadCupti(const std::vector<std::string>& candidates) {
  std::vector<std::string> failures;
  for (const std::string& candidate : candidates) {
    absl::StatusOr<CuptiLibrary> library = Load(candidate);
    if (library.ok()) return library;
    failures.emplace_back(library.status().message());
  }
  return MakeError(reason::kCaptureUnavailable,
                   absl::StrCat("CUPTI, which records what the GPU does, does not load: ",
                                absl::StrJoin(failures, "; ")),
                   Hints({"install the CUDA toolkit's CUPTI or the wheel nvidia-cuda-cupti, or "
                          "name the file in LIBREYOLO_CUPTI"}));
}

absl::StatusOr<CuptiLibrary> FindCupti() {
  const auto env = [](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  };
  return LoadCupti(CuptiCandidates(env, TorchLibDir()));
}

std::string CuptiResultText(const CuptiTable& api, CUptiResult result) {
  const char* text = nullptr;
  if (api.cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "error";
  return absl::StrCat(text, " (", static_cast<int>(result), ")");
}

absl::Status CuptiFailure(const CuptiTable& api, const char* what, CUptiResult result) {
  const std::string answer = absl::StrCat(what, " answered ", CuptiResultText(api, result));
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return MakeError(
          reason::kCaptureForbidden,
          absl::StrCat("this user may not record what the GPU does: ", answer),
          Hints({"let the driver's option NVreg_RestrictProfilingToAdminUsers=0 allow it (needs an "
                 "administrator and a reload of the driver)",
                 "in a container, give it the capability SYS_ADMIN"}));
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return MakeError(
          reason::kCaptureBusy,
          absl::StrCat("another profiler holds CUPTI in this process: ", answer),
          Hints({"start libreyolod outside of Nsight and without CUDA_INJECTION64_PATH"}));
    default:
      return MakeError(reason::kCaptureUnavailable,
                       absl::StrCat("CUPTI cannot record what the GPU does: ", answer),
                       Hints({"check that driver and CUDA libraries fit each other: nvidia-smi"}));
  }
}

}  // namespace libreyolo::worker
