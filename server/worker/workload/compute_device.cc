#include "server/worker/workload/compute_device.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <dlfcn.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "server/worker/torch_call.h"

namespace libreyolo::worker {
namespace {

constexpr char kCudaPrefix[] = "cuda:";

absl::Status Unusable(const std::string& device, absl::string_view why) {
  return MakeError(reason::kDeviceUnusable,
                   absl::StrCat("device ", device, " cannot be used: ", why),
                   {"measure on the CPU: --device cpu", "libreyolo devices lists what is there"});
}

}  // namespace

absl::Status LoadDeviceLibraries(const std::string& device) {
  if (!absl::StartsWith(device, kCudaPrefix)) return absl::OkStatus();
  // Global: the CUDA libraries register themselves with what libtorch_cpu already exports.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return Unusable(device, absl::StrCat("LibTorch's CUDA part does not load: ", dlerror()));
  }
  return absl::OkStatus();
}

absl::StatusOr<ComputeDevice> ComputeDevice::Open(const std::string& device) {
  if (device == "cpu") return ComputeDevice(c10::Device(c10::kCPU));
  absl::string_view number = device;
  int index = 0;
  if (!absl::ConsumePrefix(&number, kCudaPrefix) || !absl::SimpleAtoi(number, &index) ||
      index < 0 || index > 127) {
    return MakeError(reason::kArgumentInvalid,
                     absl::StrCat("\"", device, "\" is not a device of a worker"),
                     {"use cpu or cuda:N"});
  }
  bool has_cuda = false;
  int count = 0;
  const absl::Status asked = CallTorch([&] {
    has_cuda = at::hasCUDA();
    if (has_cuda) count = at::accelerator::deviceCount();
  });
  if (!asked.ok()) return Unusable(device, GetErrorDetail(asked).message);
  if (!has_cuda) return Unusable(device, "no NVIDIA driver was found");
  if (index >= count) {
    return MakeError(reason::kDeviceNotFound,
                     absl::StrCat("there is no device ", device, ": CUDA shows ", count),
                     {"libreyolo devices lists what is there"});
  }
  const auto device_index = static_cast<c10::DeviceIndex>(index);
  LY_RETURN_IF_ERROR(CallTorch([&] { at::accelerator::setDeviceIndex(device_index); }));
  return ComputeDevice(c10::Device(c10::kCUDA, device_index));
}

void ComputeDevice::Synchronize() const {
  if (!is_cpu()) at::accelerator::synchronizeDevice(device_.index());
}

void ComputeDevice::ResetPeakMemory() const {
  if (!is_cpu()) at::accelerator::resetPeakStats(device_.index());
}

std::optional<int64_t> ComputeDevice::PeakMemoryBytes() const {
  if (is_cpu()) return std::nullopt;
  constexpr size_t kAllPools = 0;
  return at::accelerator::getDeviceStats(device_.index()).allocated_bytes[kAllPools].peak;
}

int64_t ComputeDevice::PeakReservedBytes() const {
  constexpr size_t kAllPools = 0;
  return at::accelerator::getDeviceStats(device_.index()).reserved_bytes[kAllPools].peak;
}

ComputeDevice::AllocatorCounts ComputeDevice::CountAllocations() const {
  constexpr size_t kAllPools = 0;
  const auto stats = at::accelerator::getDeviceStats(device_.index());
  return {.allocations = stats.allocation[kAllPools].allocated,
          .frees = stats.allocation[kAllPools].freed,
          .device_allocations = stats.num_device_alloc,
          .device_frees = stats.num_device_free,
          .retries = stats.num_alloc_retries};
}

int64_t ComputeDevice::TotalMemoryBytes() const {
  return static_cast<int64_t>(at::accelerator::getMemoryInfo(device_.index()).second);
}

void ComputeDevice::EmptyCache() const { at::accelerator::emptyCache(); }

}  // namespace libreyolo::worker
