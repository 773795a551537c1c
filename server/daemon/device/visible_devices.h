// CUDA_VISIBLE_DEVICES, read as CUDA reads it. Pure.
#pragma once

#include <string>
#include <vector>

#include "server/daemon/device/device_inventory.h"

namespace libreyolo::daemon {

// The ids of the devices that a program with that variable sees, in its order: what it calls cuda:0
// comes first. Entries are numbers (in the order of the PCI bus), "GPU-..." and "MIG-..." UUIDs,
// the former also shortened as long as they fit one device. The first entry that names no device
// ends the list, as does a second one for the same device.
std::vector<std::string> VisibleDevices(const std::vector<DeviceInfo>& gpus,
                                        const std::string& variable);

}  // namespace libreyolo::daemon
