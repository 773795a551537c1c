// LY_CHECK is for bugs of ours: it prints the condition and the streamed text, and aborts. Input
// and environment never reach it; those are absl::Status.
//
//   LY_CHECK(CanMove(from, to)) << job_id << ": " << from << " to " << to;
#pragma once

#include <sstream>

namespace libreyolo::internal {

class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

}  // namespace libreyolo::internal

#define LY_CHECK(condition) \
  while (!(condition)) ::libreyolo::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()
