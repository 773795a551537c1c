// SHA-256 of bytes and files, as 64 lower-case hex digits. A Sha256 object is for one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace libreyolo {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void Update(absl::string_view bytes);
  // Ends the digest; call once.
  std::string FinishHex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string Sha256Hex(absl::string_view bytes);
absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path);

// True for 64 lower-case hex digits.
bool IsSha256Hex(absl::string_view text);

}  // namespace libreyolo
