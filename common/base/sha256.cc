// The plain SHA-256 functions: OpenSSL calls them deprecated, but its general ones read the
// system's configuration and load providers first, a millisecond that a reading command would spend
// on the hash of one path.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "common/base/sha256.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/escaping.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/unique_fd.h"

namespace libreyolo {

struct Sha256::Context {
  SHA256_CTX sha;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  LY_CHECK(SHA256_Init(&context_->sha) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(absl::string_view bytes) {
  LY_CHECK(SHA256_Update(&context_->sha, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::FinishHex() {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  LY_CHECK(SHA256_Final(digest, &context_->sha) == 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(digest), sizeof digest));
}

std::string Sha256Hex(absl::string_view bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.FinishHex();
}

absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "open", path);
  Sha256 sha;
  std::string buffer(1 << 18, '\0');
  for (;;) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "read", path);
    }
    if (got == 0) return sha.FinishHex();
    sha.Update(absl::string_view(buffer.data(), static_cast<size_t>(got)));
  }
}

bool IsSha256Hex(absl::string_view text) {
  if (text.size() != 64) return false;
  for (char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

}  // namespace libreyolo
