#include "server/daemon/inputs/hub_download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "server/daemon/store/disk_room.h"

namespace libreyolo::daemon {
namespace {

constexpr long kConnectTimeoutS = 10;
constexpr long kStallTimeoutS = 60;
constexpr long kMaxRedirects = 5;
constexpr absl::Duration kProgressInterval = absl::Milliseconds(200);

struct Transfer {
  FILE* file = nullptr;
  int64_t start = 0;  // bytes that the part had
  int64_t limit = 0;
  int64_t received = 0;
  bool truncated_start = false;
  CURL* curl = nullptr;
  std::string etag;           // of the last response
  bool is_page = false;       // the last response is HTML
  std::string linked_digest;  // X-Linked-ETag of any response of the chain
  const std::atomic<bool>* cancelled = nullptr;
  const DownloadProgress* progress = nullptr;
  int64_t last_progress_ns = 0;
  bool over_limit = false;
  int write_error = 0;
  std::string folder;
  int64_t min_free_bytes = 0;
  absl::Status room;  // whether the disk has enough of it
};

absl::Status Cancelled() { return MakeError(reason::kCancelled, "the download was cancelled"); }

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const absl::string_view line(data, size * count);
  if (absl::StartsWith(line, "HTTP/")) {  // the next response of a chain of redirects
    transfer.etag.clear();
    transfer.is_page = false;
  }
  const size_t colon = line.find(':');
  if (colon != absl::string_view::npos) {
    const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
    absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
    if (name == "etag") transfer.etag = std::string(value);
    if (name == "content-type") transfer.is_page = absl::StartsWithIgnoreCase(value, "text/html");
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
    if (ftruncate(fileno(transfer.file), 0) != 0) {
      transfer.write_error = errno;
      return 0;
    }
    rewind(transfer.file);
    transfer.start = 0;
    transfer.truncated_start = true;
  }
  if (transfer.received == 0) {
    curl_off_t coming = 0;  // -1 where the hub does not tell
    curl_easy_getinfo(transfer.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &coming);
    coming = std::max<curl_off_t>(coming, 0);
    transfer.over_limit = coming > transfer.limit - transfer.start;
    transfer.room = CheckDiskRoom(transfer.folder, coming, transfer.min_free_bytes, "a download");
    if (transfer.over_limit || !transfer.room.ok()) return 0;
  }
  transfer.received += static_cast<int64_t>(size * count);
  if (transfer.start + transfer.received > transfer.limit) {
    transfer.over_limit = true;
    return 0;
  }
  const size_t written = fwrite(data, size, count, transfer.file) * size;
  if (written != size * count) transfer.write_error = errno;
  return written;
}

int OnProgress(void* user, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (*transfer.cancelled) return 1;
  const int64_t now_ns = MonotonicNs();
  if (transfer.received == 0 ||
      absl::Nanoseconds(now_ns - transfer.last_progress_ns) < kProgressInterval)
    return 0;
  transfer.last_progress_ns = now_ns;
  (*transfer.progress)(transfer.start + transfer.received, total > 0 ? transfer.start + total : 0);
  return 0;
}

enum class Outcome { kDone, kRetry, kFinal };

// What an attempt that ended with `result` means.
Outcome Judge(CURLcode result, long code, std::string& etag, absl::Status& status) {
  if (result == CURLE_HTTP_RETURNED_ERROR) {
    if (code == 416) {  // the part is longer than the file: begin anew
      etag.clear();
      status = absl::UnavailableError("the hub refused the range");
      return Outcome::kRetry;
    }
    const bool passing = code >= 500 || code == 408 || code == 425 || code == 429;
    if (passing) {
      status = absl::UnavailableError(absl::StrCat("the hub answers ", code));
      return Outcome::kRetry;
    }
    status = absl::NotFoundError(
        absl::StrCat("the hub answers ", code, ": it does not publish this file"));
    return Outcome::kFinal;
  }
  switch (result) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
      status = absl::NotFoundError(
          absl::StrCat("the model hub cannot be reached (", curl_easy_strerror(result), ")"));
      return Outcome::kFinal;
    case CURLE_OPERATION_TIMEDOUT:
      if (code == 0) {  // not even the start of an answer: more attempts would only take longer
        status = absl::NotFoundError("the model hub does not answer");
        return Outcome::kFinal;
      }
      break;
    default:
      break;
  }
  status = absl::UnavailableError(
      absl::StrCat("the download broke off (", curl_easy_strerror(result), ")"));
  return Outcome::kRetry;
}

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
  transfer.folder = std::filesystem::path(part).parent_path();
  transfer.min_free_bytes = request.min_free_bytes;
  struct stat info;
  transfer.start = fstat(fileno(file.get()), &info) == 0 ? info.st_size : 0;

  curl_slist* raw_headers = nullptr;
  if (transfer.start > 0) {
    // Not libcurl's own resuming: it takes a whole answer (the file changed) for an error.
    curl_easy_setopt(curl.get(), CURLOPT_RANGE, absl::StrCat(transfer.start, "-").c_str());
    raw_headers = curl_slist_append(raw_headers, absl::StrCat("If-Range: ", etag).c_str());
  }
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(raw_headers,
                                                                   curl_slist_free_all);
  curl_easy_setopt(curl.get(), CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  const bool encrypted = absl::StartsWithIgnoreCase(request.url, "https:");
  curl_easy_setopt(curl.get(), CURLOPT_REDIR_PROTOCOLS_STR, encrypted ? "https" : "http,https");
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
  if (fflush(file.get()) != 0 && transfer.write_error == 0) transfer.write_error = errno;
  if (!transfer.linked_digest.empty()) linked_digest = transfer.linked_digest;
  // The tag of an error page says nothing about the part, which stays good.
  if (code == 200 || code == 206) etag = transfer.etag;
  if (cancelled) {
    status = Cancelled();
    return Outcome::kFinal;
  }
  if (transfer.write_error != 0) {
    status = ErrnoStatus(transfer.write_error, "write", part);
    return Outcome::kFinal;
  }
  if (!transfer.room.ok()) {
    status = transfer.room;
    return Outcome::kFinal;
  }
  if (transfer.over_limit) {
    status = MakeError(reason::kLimitExceeded,
                       absl::StrCat("the file is over ", request.max_bytes, " bytes"),
                       {"put the weights into a folder of the server by hand: --weights-dir"});
    return Outcome::kFinal;
  }
  if (result == CURLE_OK && transfer.is_page && linked_digest.empty()) {
    // A hotel's or a company's network answers for the hub.
    unlink(part.c_str());
    etag.clear();
    status = absl::NotFoundError("the hub cannot be reached: a web page came instead of the file");
    return Outcome::kFinal;
  }
  if (result == CURLE_OK) return Outcome::kDone;
  return Judge(result, code, etag, status);
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

bool TellsAll(const absl::Status& status) {
  return HasReason(status, reason::kCancelled) || HasReason(status, reason::kDigestMismatch) ||
         HasReason(status, reason::kDiskFull) || HasReason(status, reason::kLimitExceeded);
}

}  // namespace libreyolo::daemon
