// The part of NVML's binary interface that is used, declared by ourselves: its header comes with
// the CUDA toolkit, which a machine that builds need not have. For server/gpu and the fake library
// of its tests.
#pragma once

#include <type_traits>

namespace libreyolo::gpu {

using NvmlReturn = int;
using NvmlDevice = void*;

inline constexpr NvmlReturn kNvmlSuccess = 0;
inline constexpr NvmlReturn kNvmlInvalidArgument = 2;
inline constexpr NvmlReturn kNvmlNotSupported = 3;
inline constexpr NvmlReturn kNvmlNoPermission = 4;
inline constexpr NvmlReturn kNvmlNotFound = 6;
inline constexpr NvmlReturn kNvmlInsufficientSize = 7;
inline constexpr NvmlReturn kNvmlDriverNotLoaded = 9;
inline constexpr NvmlReturn kNvmlGpuIsLost = 15;
inline constexpr NvmlReturn kNvmlVersionMismatch = 18;

struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// Of the functions with suffix _v2 and _v3.
struct NvmlProcess {
  unsigned int pid;
  unsigned long long used_gpu_memory;
  unsigned int gpu_instance_id;
  unsigned int compute_instance_id;
};

struct NvmlUtilization {
  unsigned int gpu;
  unsigned int memory;
};

struct NvmlProcessUtilization {
  unsigned int pid;
  unsigned long long time_stamp;  // microseconds
  unsigned int sm_util;           // percent
  unsigned int mem_util;
  unsigned int enc_util;
  unsigned int dec_util;
};

struct NvmlPciInfo {
  char bus_id_legacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pci_device_id;
  unsigned int pci_subsystem_id;
  char bus_id[32];
};

inline constexpr unsigned long long kNvmlMemoryUnknown = ~0ull;
inline constexpr unsigned int kNvmlNoInstance = ~0u;
inline constexpr unsigned int kNvmlClockSm = 1;
inline constexpr unsigned int kNvmlClockMemory = 2;
inline constexpr unsigned int kNvmlTemperatureGpu = 0;

// `X(member, symbol, signature)`. Without one of these NVML is of no use.
#define LY_NVML_NEEDED(X)                                                                    \
  X(init, "nvmlInit_v2", NvmlReturn())                                                       \
  X(error_string, "nvmlErrorString", const char*(NvmlReturn))                                \
  X(device_count, "nvmlDeviceGetCount_v2", NvmlReturn(unsigned int*))                        \
  X(device_by_index, "nvmlDeviceGetHandleByIndex_v2", NvmlReturn(unsigned int, NvmlDevice*)) \
  X(device_by_uuid, "nvmlDeviceGetHandleByUUID", NvmlReturn(const char*, NvmlDevice*))       \
  X(device_name, "nvmlDeviceGetName", NvmlReturn(NvmlDevice, char*, unsigned int))           \
  X(device_uuid, "nvmlDeviceGetUUID", NvmlReturn(NvmlDevice, char*, unsigned int))           \
  X(device_memory, "nvmlDeviceGetMemoryInfo", NvmlReturn(NvmlDevice, NvmlMemory*))

// What an older driver or a smaller device may lack: the figure is then absent.
#define LY_NVML_OPTIONAL(X)                                                                       \
  X(driver_version, "nvmlSystemGetDriverVersion", NvmlReturn(char*, unsigned int))                \
  X(compute_processes_v3, "nvmlDeviceGetComputeRunningProcesses_v3",                              \
    NvmlReturn(NvmlDevice, unsigned int*, NvmlProcess*))                                          \
  X(compute_processes_v2, "nvmlDeviceGetComputeRunningProcesses_v2",                              \
    NvmlReturn(NvmlDevice, unsigned int*, NvmlProcess*))                                          \
  X(graphics_processes_v3, "nvmlDeviceGetGraphicsRunningProcesses_v3",                            \
    NvmlReturn(NvmlDevice, unsigned int*, NvmlProcess*))                                          \
  X(graphics_processes_v2, "nvmlDeviceGetGraphicsRunningProcesses_v2",                            \
    NvmlReturn(NvmlDevice, unsigned int*, NvmlProcess*))                                          \
  X(process_utilization, "nvmlDeviceGetProcessUtilization",                                       \
    NvmlReturn(NvmlDevice, NvmlProcessUtilization*, unsigned int*, unsigned long long))           \
  X(utilization, "nvmlDeviceGetUtilizationRates", NvmlReturn(NvmlDevice, NvmlUtilization*))       \
  X(clock, "nvmlDeviceGetClockInfo", NvmlReturn(NvmlDevice, unsigned int, unsigned int*))         \
  X(max_clock, "nvmlDeviceGetMaxClockInfo", NvmlReturn(NvmlDevice, unsigned int, unsigned int*))  \
  X(throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons",                                \
    NvmlReturn(NvmlDevice, unsigned long long*))                                                  \
  X(event_reasons, "nvmlDeviceGetCurrentClocksEventReasons",                                      \
    NvmlReturn(NvmlDevice, unsigned long long*))                                                  \
  X(power, "nvmlDeviceGetPowerUsage", NvmlReturn(NvmlDevice, unsigned int*))                      \
  X(power_limit, "nvmlDeviceGetEnforcedPowerLimit", NvmlReturn(NvmlDevice, unsigned int*))        \
  X(energy, "nvmlDeviceGetTotalEnergyConsumption", NvmlReturn(NvmlDevice, unsigned long long*))   \
  X(temperature, "nvmlDeviceGetTemperature", NvmlReturn(NvmlDevice, unsigned int, unsigned int*)) \
  X(persistence, "nvmlDeviceGetPersistenceMode", NvmlReturn(NvmlDevice, unsigned int*))           \
  X(compute_mode, "nvmlDeviceGetComputeMode", NvmlReturn(NvmlDevice, unsigned int*))              \
  X(pci_info, "nvmlDeviceGetPciInfo_v3", NvmlReturn(NvmlDevice, NvmlPciInfo*))                    \
  X(mig_mode, "nvmlDeviceGetMigMode", NvmlReturn(NvmlDevice, unsigned int*, unsigned int*))       \
  X(max_mig_count, "nvmlDeviceGetMaxMigDeviceCount", NvmlReturn(NvmlDevice, unsigned int*))       \
  X(mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex",                                          \
    NvmlReturn(NvmlDevice, unsigned int, NvmlDevice*))                                            \
  X(gpu_of_mig, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",                                   \
    NvmlReturn(NvmlDevice, NvmlDevice*))                                                          \
  X(gpu_instance, "nvmlDeviceGetGpuInstanceId", NvmlReturn(NvmlDevice, unsigned int*))            \
  X(compute_instance, "nvmlDeviceGetComputeInstanceId", NvmlReturn(NvmlDevice, unsigned int*))

struct NvmlTable {
#define LY_NVML_MEMBER(member, symbol, signature) std::add_pointer_t<signature> member = nullptr;
  LY_NVML_NEEDED(LY_NVML_MEMBER)
  LY_NVML_OPTIONAL(LY_NVML_MEMBER)
#undef LY_NVML_MEMBER
};

}  // namespace libreyolo::gpu
