#include "server/worker/torch_call.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"

namespace libreyolo::worker {
namespace {

std::string FirstLine(absl::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

absl::Status OutOfMemory(const std::string& what, const char* where) {
  return MakeError(reason::kOutOfMemory, absl::StrCat("out of memory: ", what),
                   {"use a smaller --batch or --imgsz", where});
}

constexpr char kOnDevice[] = "free the device's memory: another process may hold it";
constexpr char kOnHost[] =
    "the server's admin can raise --worker-memory, where the host has more to give";

}  // namespace

absl::Status CallTorch(absl::FunctionRef<void()> body) {
  try {
    body();
    return absl::OkStatus();
  } catch (const c10::OutOfMemoryError& error) {
    return OutOfMemory(FirstLine(error.what_without_backtrace()), kOnDevice);
  } catch (const c10::Error& error) {
    const std::string what = FirstLine(error.what_without_backtrace());
    // The host allocator has no exception type of its own.
    if (absl::StrContains(what, "DefaultCPUAllocator")) return OutOfMemory(what, kOnHost);
    return MakeError(reason::kInternal, absl::StrCat("LibTorch: ", what));
  } catch (const std::bad_alloc&) {
    return OutOfMemory("the host allocator gave up", kOnHost);
  } catch (const std::exception& error) {
    return MakeError(reason::kInternal, absl::StrCat("LibTorch: ", FirstLine(error.what())));
  }
}

}  // namespace libreyolo::worker
