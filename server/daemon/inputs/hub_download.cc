#include "server/daemon/inputs/hub_download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"

namespace libreyolo::daemon {
namespace {

constexpr long kConnectTimeoutS = 10;
constexpr long kStallTimeoutS = 60;
constexpr long kMaxRedirects = 5;

struct Transfer {
  FILE* file = nullptr;
  int64_t start = 0;  // bytes that the part had
  int64_t limit = 0;
  int64_t received = 0;
  bool truncated_start = false;
  CURL* curl = nullptr;
  std::string etag;           // of the last response
  std::string linked_digest;  // X-Linked-ETag of any response of the chain
  const std::atomic<bool>* cancelled = nullptr;
  const DownloadProgress* progress = nullptr;
  bool over_limit = false;
};

absl::Status Cancelled() { return MakeError(reason::kCancelled, "the download was cancelled"); }

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const absl::string_view line(data, size * count);
  const size_t colon = line.find(':');
  if (colon != absl::string_view::npos) {
    const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
    absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
    if (name == "etag") transfer.etag = std::string(value);
    if (name == "x-linked-etag") {
      absl::ConsumePrefix(&value, "\"");
      absl::ConsumeSuffix(&value, "\"");
      if (IsSha256Hex(value)) transfer.linked_digest = std::string(value);
    }
  }
  return size * count;
}

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  long code = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &code);
  // A whole answer to a ranged request: the file changed, begin anew.
  if (code == 200 && transfer.start > 0 && !transfer.truncated_start) {
    if (ftruncate(fileno(transfer.file), 0) != 0) return 0;
    rewind(transfer.file);
    transfer.start = 0;
    transfer.truncated_start = true;
  }
  transfer.received += static_cast<int64_t>(size * count);
  if (transfer.start + transfer.received > transfer.limit) {
    transfer.over_limit = true;
    return 0;
  }
  return fwrite(data, size, count, transfer.file) * size;
}

int OnProgress(void* user, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (*transfer.cancelled) return 1;
  if (total > 0) (*transfer.progress)(transfer.start + transfer.received, transfer.start + total);
  return 0;
}

enum class Outcome { kDone, kRetry, kFinal };

// One attempt. `etag` is that of the part on disk, and afterwards that of what was received.
Outcome Attempt(const DownloadRequest& request, const std::string& part, std::string& etag,
                std::string& linked_digest, const std::atomic<bool>& cancelled,
                const DownloadProgress& progress, absl::Status& status) {
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(part.c_str(), etag.empty() ? "we" : "ae"),
                                                   fclose);
  if (curl == nullptr || file == nullptr) {
    status = ErrnoStatus(errno, "open", part);
    return Outcome::kFinal;
  }
  Transfer transfer;
  transfer.file = file.get();
  transfer.curl = curl.get();
  transfer.limit = request.max_bytes;
  transfer.cancelled = &cancelled;
  transfer.progress = &progress;
  struct stat info;
  transfer.start = fstat(fileno(file.get()), &info) == 0 ? info.st_size : 0;

  curl_slist* raw_headers = nullptr;
  if (transfer.start > 0) {
    curl_easy_setopt(curl.get(), CURLOPT_RESUME_FROM_LARGE,
                     static_cast<curl_off_t>(transfer.start));
    raw_headers = curl_slist_append(raw_headers, absl::StrCat("If-Range: ", etag).c_str());
  }
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(raw_headers,
                                                                   curl_slist_free_all);
  curl_easy_setopt(curl.get(), CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_MAXREDIRS, kMaxRedirects);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, kConnectTimeoutS);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, kStallTimeoutS);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(curl.get(), CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, &OnProgress);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, &transfer);
  if (!request.bearer_token.empty()) {
    // libcurl's own credential, unlike a header, is dropped when a redirect leads to another host.
    curl_easy_setopt(curl.get(), CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl.get(), CURLOPT_XOAUTH2_BEARER, request.bearer_token.c_str());
  }
  const CURLcode result = curl_easy_perform(curl.get());
  long code = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &code);
  fflush(file.get());
  if (!transfer.linked_digest.empty()) linked_digest = transfer.linked_digest;
  etag = transfer.etag;
  if (result == CURLE_OK) return Outcome::kDone;
  if (cancelled) {
    status = Cancelled();
    return Outcome::kFinal;
  }
  if (transfer.over_limit) {
    status = MakeError(reason::kLimitExceeded,
                       absl::StrCat("the file is over ", request.max_bytes, " bytes"));
    return Outcome::kFinal;
  }
  if (code == 401 || code == 403 || code == 404 || code == 410) {
    status = absl::NotFoundError(
        absl::StrCat("the hub answers ", code, ": it does not publish this file"));
    return Outcome::kFinal;
  }
  if (code == 416) {  // the part is longer than the file: begin anew
    etag.clear();
    status = absl::UnavailableError("the hub refused the range");
    return Outcome::kRetry;
  }
  const bool unreachable = result == CURLE_COULDNT_RESOLVE_HOST ||
                           result == CURLE_COULDNT_CONNECT || result == CURLE_COULDNT_RESOLVE_PROXY;
  if (unreachable) {
    status = absl::NotFoundError(
        absl::StrCat("the model hub cannot be reached (", curl_easy_strerror(result), ")"));
    return Outcome::kFinal;
  }
  status = absl::UnavailableError(
      absl::StrCat("the download broke off (", curl_easy_strerror(result), ")"));
  return Outcome::kRetry;
}

bool SleepUnlessCancelled(absl::Duration pause, const std::atomic<bool>& cancelled) {
  for (absl::Duration slept; slept < pause && !cancelled; slept += absl::Milliseconds(50)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return !cancelled;
}

absl::StatusOr<DownloadResult> Publish(const std::string& part, const std::string& target,
                                       const std::string& linked_digest) {
  LY_ASSIGN_OR_RETURN(const std::string digest, Sha256HexOfFile(part));
  if (!linked_digest.empty() && digest != linked_digest) {
    unlink(part.c_str());
    return MakeError(reason::kDigestMismatch,
                     absl::StrCat("the downloaded file has the digest ", digest, ", the hub names ",
                                  linked_digest),
                     {"try again; a proxy on the way may have changed it"});
  }
  LY_RETURN_IF_ERROR(FsyncPath(part));
  LY_RETURN_IF_ERROR(
      WriteFileAtomically(target + ".sha256", linked_digest.empty() ? "not verified" : digest));
  if (rename(part.c_str(), target.c_str()) != 0) return ErrnoStatus(errno, "rename", part);
  return DownloadResult{digest, !linked_digest.empty()};
}

}  // namespace

absl::StatusOr<DownloadResult> DownloadFile(const DownloadRequest& request,
                                            const std::atomic<bool>& cancelled,
                                            const DownloadProgress& progress) {
  const std::string part = request.target + ".part";
  const std::string part_etag = request.target + ".part.etag";
  LY_RETURN_IF_ERROR(MakeDirectories(std::filesystem::path(request.target).parent_path(), 0755));
  UniqueFd lock(open((request.target + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return ErrnoStatus(errno, "open", request.target + ".lock");
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (!SleepUnlessCancelled(absl::Milliseconds(200), cancelled)) return Cancelled();
  }
  // Another downloader may have been at it while this one waited.
  if (access(request.target.c_str(), R_OK) == 0) {
    LY_ASSIGN_OR_RETURN(std::string digest, Sha256HexOfFile(request.target));
    const bool verified = ReadFile(request.target + ".sha256").value_or("") == digest;
    return DownloadResult{std::move(digest), verified};
  }
  LogInfo("download", {{"url", request.url}});
  std::string etag = ReadFile(part_etag).value_or("");
  std::string linked_digest;
  absl::Status status;
  for (size_t attempt = 0;; ++attempt) {
    const Outcome outcome =
        Attempt(request, part, etag, linked_digest, cancelled, progress, status);
    // Weak tags must not be used for ranges.
    if (absl::StartsWith(etag, "W/")) etag.clear();
    (void)WriteFile(part_etag, etag);  // lost: the part is fetched anew
    if (outcome == Outcome::kDone) break;
    if (outcome == Outcome::kFinal || attempt >= request.pauses.size()) return status;
    LogWarning("download broke off",
               {{"url", request.url}, {"attempt", attempt}, {"error", status.message()}});
    if (!SleepUnlessCancelled(request.pauses[attempt], cancelled)) return Cancelled();
  }
  unlink(part_etag.c_str());
  return Publish(part, request.target, linked_digest);
}

}  // namespace libreyolo::daemon
