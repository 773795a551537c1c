#include "common/analysis/runtime_calls.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace libreyolo::analysis {
namespace {

struct CallRule {
  CallKind kind;
  const char* name;  // without "cuda", "cu" or "hip"
  bool prefix;       // versions and variants may follow
};

constexpr CallRule kRules[] = {
    {CallKind::kLaunch, "LaunchKernel", true},
    {CallKind::kLaunch, "LaunchCooperativeKernel", true},
    {CallKind::kLaunch, "ExtLaunchKernel", true},
    {CallKind::kLaunch, "ModuleLaunch", true},
    {CallKind::kLaunch, "ExtModuleLaunch", true},
    {CallKind::kGraphLaunch, "GraphLaunch", true},
    {CallKind::kDeviceAlloc, "Malloc", false},
    {CallKind::kDeviceAlloc, "MallocAsync", true},
    {CallKind::kDeviceAlloc, "MallocFromPoolAsync", true},
    {CallKind::kDeviceAlloc, "MallocManaged", true},
    {CallKind::kDeviceAlloc, "MallocPitch", true},
    {CallKind::kDeviceAlloc, "Malloc3D", true},
    {CallKind::kDeviceAlloc, "MallocArray", true},
    {CallKind::kDeviceAlloc, "Free", false},
    {CallKind::kDeviceAlloc, "FreeAsync", true},
    {CallKind::kDeviceAlloc, "FreeArray", true},
    {CallKind::kDeviceAlloc, "MemAlloc", false},
    {CallKind::kDeviceAlloc, "MemAlloc_v2", false},
    {CallKind::kDeviceAlloc, "MemAllocAsync", true},
    {CallKind::kDeviceAlloc, "MemAllocManaged", true},
    {CallKind::kDeviceAlloc, "MemAllocPitch", true},
    {CallKind::kDeviceAlloc, "MemFree", false},
    {CallKind::kDeviceAlloc, "MemFree_v2", false},
    {CallKind::kDeviceAlloc, "MemFreeAsync", true},
    {CallKind::kDeviceAlloc, "MemCreate", false},
    {CallKind::kDeviceAlloc, "MemRelease", false},
    {CallKind::kSynchronize, "DeviceSynchronize", true},
    {CallKind::kSynchronize, "StreamSynchronize", true},
    {CallKind::kSynchronize, "EventSynchronize", true},
    {CallKind::kSynchronize, "CtxSynchronize", true},
};

}  // namespace

CallKind KindOfCall(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "cuda") && !absl::ConsumePrefix(&name, "hip") &&
      !absl::ConsumePrefix(&name, "cu")) {
    return CallKind::kOther;
  }
  for (const CallRule& rule : kRules) {
    if (rule.prefix ? absl::StartsWith(name, rule.name) : name == rule.name) return rule.kind;
  }
  return CallKind::kOther;
}

}  // namespace libreyolo::analysis
