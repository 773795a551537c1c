// LibTorch reports failures by throwing; nothing else in the worker does. CallTorch is the one
// place where those exceptions stop. Safe to call from any thread; calls may nest.
//
//   LY_RETURN_IF_ERROR(CallTorch([&] { loss.backward(); }));
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace libreyolo::worker {

// Runs `body` and turns what it throws into a status:
//   OUT_OF_MEMORY  the device's or the host's allocator gave up
//   INTERNAL       anything else; the message is LibTorch's first line, without its backtrace
absl::Status CallTorch(absl::FunctionRef<void()> body);

}  // namespace libreyolo::worker
