// Whether this build checks itself with AddressSanitizer or ThreadSanitizer, which do things that
// workers may not.
#pragma once

namespace libreyolo::daemon {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace libreyolo::daemon
