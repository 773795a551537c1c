#include "client/rpc/inputs.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/rpc/status_convert.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace fs = std::filesystem;
namespace v1 = ::libreyolo::profile::v1;

constexpr size_t kChunkBytes = 512 * 1024;
constexpr const char* kImageSuffixes[] = {".jpg", ".jpeg", ".png", ".bmp", ".webp"};

// Bytes to upload: a file, or what stdin gave.
struct Content {
  std::string path;  // empty: `bytes`
  std::string bytes;
  std::string digest;
  int64_t size_bytes = 0;
};

absl::StatusOr<Content> ContentOfFile(const std::string& path) {
  Content content;
  content.path = path;
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "open", path);
  content.size_bytes = info.st_size;
  LY_ASSIGN_OR_RETURN(content.digest, Sha256HexOfFile(path));
  return content;
}

absl::StatusOr<Content> ContentOfStdin() {
  Content content;
  LY_ASSIGN_OR_RETURN(content.bytes, ReadFile("/dev/stdin"));
  content.size_bytes = static_cast<int64_t>(content.bytes.size());
  content.digest = Sha256Hex(content.bytes);
  return content;
}

absl::Status Send(const Server& server, const Content& content, const UploadProgress& progress,
                  int64_t done_before, int64_t total) {
  const auto stub = v1::ProfileService::NewStub(server.channel);
  grpc::ClientContext context;
  v1::UploadBlobResponse response;
  const auto writer = stub->UploadBlob(&context, &response);
  v1::UploadBlobRequest request;
  request.mutable_header()->set_digest(content.digest);
  request.mutable_header()->set_size_bytes(content.size_bytes);
  bool open_stream = writer->Write(request);
  const UniqueFd fd(content.path.empty() ? -1 : open(content.path.c_str(), O_RDONLY | O_CLOEXEC));
  for (int64_t sent = 0; open_stream && sent < content.size_bytes;) {
    const size_t want =
        static_cast<size_t>(std::min<int64_t>(kChunkBytes, content.size_bytes - sent));
    std::string& data = *request.mutable_data();
    if (content.path.empty()) {
      data = content.bytes.substr(static_cast<size_t>(sent), want);
    } else {
      data.resize(want);
      const ssize_t got = pread(fd.get(), data.data(), want, sent);
      if (got <= 0) {
        context.TryCancel();
        (void)writer->Finish();
        return ErrnoStatus(got == 0 ? EIO : errno, "read", content.path);
      }
      data.resize(static_cast<size_t>(got));
    }
    sent += static_cast<int64_t>(data.size());
    open_stream = writer->Write(request);
    if (progress) progress(done_before + sent, total);
  }
  writer->WritesDone();
  return rpc::FromGrpcStatus(writer->Finish());
}

// Sends what the server lacks.
absl::Status Upload(const Server& server, const std::vector<Content>& contents,
                    const UploadProgress& progress) {
  const auto stub = v1::ProfileService::NewStub(server.channel);
  grpc::ClientContext context;
  v1::FindMissingBlobsRequest request;
  for (const Content& content : contents) request.add_digests(content.digest);
  v1::FindMissingBlobsResponse missing;
  LY_RETURN_IF_ERROR(rpc::FromGrpcStatus(stub->FindMissingBlobs(&context, request, &missing)));
  std::vector<std::string> wanted(missing.digests().begin(), missing.digests().end());
  int64_t total = 0;
  int64_t done = 0;
  const auto is_wanted = [&](const Content& content) {
    return std::find(wanted.begin(), wanted.end(), content.digest) != wanted.end();
  };
  for (const Content& content : contents) total += is_wanted(content) ? content.size_bytes : 0;
  for (const Content& content : contents) {
    if (!is_wanted(content)) continue;
    LY_RETURN_IF_ERROR(Send(server, content, progress, done, total));
    done += content.size_bytes;
    wanted.erase(std::remove(wanted.begin(), wanted.end(), content.digest), wanted.end());
  }
  return absl::OkStatus();
}

std::string ExpandHome(const std::string& word) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || (word != "~" && !absl::StartsWith(word, "~/"))) return word;
  return home + word.substr(1);
}

std::string Absolute(const std::string& word) {
  return fs::absolute(ExpandHome(word)).lexically_normal().string();
}

absl::Status NotFoundHere(const Reason& reason, const std::string& word) {
  return MakeError(reason, absl::StrCat("not found: ", word), {}, {{"path", word}});
}

absl::StatusOr<v1::TraceRef> UploadTrace(const Server& server, const std::string& word,
                                         v1::TraceRef ref) {
  std::vector<Content> contents;
  if (word == "-") {
    LY_ASSIGN_OR_RETURN(Content content, ContentOfStdin());
    contents.push_back(std::move(content));
  } else {
    const std::string path = Absolute(word);
    if (fs::is_directory(path)) {
      return MakeError(reason::kTraceUnparsable,
                       absl::StrCat("\"", word, "\" is a folder, not a profile or a trace"),
                       {absl::StrCat("name the file: ", word, "/profile.json")});
    }
    auto content = ContentOfFile(path);
    if (!content.ok()) return NotFoundHere(reason::kProfileNotFound, word);
    contents.push_back(*std::move(content));
    auto sibling = ContentOfFile((fs::path(path).parent_path() / "profile_summary.json").string());
    if (sibling.ok() && !absl::EndsWith(path, "profile.json")) {
      ref.set_sibling_summary_digest(sibling->digest);
      contents.push_back(*std::move(sibling));
    }
  }
  ref.set_blob_digest(contents[0].digest);
  LY_RETURN_IF_ERROR(Upload(server, contents, nullptr));
  return ref;
}

absl::StatusOr<std::vector<std::string>> ImagesOf(const std::string& path) {
  if (!fs::is_directory(path)) return std::vector<std::string>{path};
  std::vector<std::string> images;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string suffix = absl::AsciiStrToLower(entry.path().extension().string());
    if (std::find(std::begin(kImageSuffixes), std::end(kImageSuffixes), suffix) !=
        std::end(kImageSuffixes)) {
      images.push_back(entry.path());
    }
  }
  std::sort(images.begin(), images.end());
  return images;
}

}  // namespace

bool IsOwnPath(const std::string& word) {
  return absl::StartsWith(word, "/") || absl::StartsWith(word, "./") ||
         absl::StartsWith(word, "../") || absl::StartsWith(word, "~") || word == "." ||
         word == "..";
}

bool ExistsHere(const std::string& word) { return access(word.c_str(), F_OK) == 0; }

absl::StatusOr<v1::TraceRef> ResolveTrace(const Server& server, const std::string& word,
                                          const std::string& window) {
  v1::TraceRef ref;
  ref.set_typed(word);
  ref.set_window(window);
  if (word == "-") return UploadTrace(server, word, std::move(ref));
  if (!IsOwnPath(word)) {
    ref.set_name(word);
    return ref;
  }
  if (!ExistsHere(ExpandHome(word))) return NotFoundHere(reason::kProfileNotFound, word);
  if (!server.local) return UploadTrace(server, word, std::move(ref));
  ref.set_local_path(Absolute(word));
  return ref;
}

absl::StatusOr<v1::TraceRef> RetryTraceAsOwnFile(const Server& server, const std::string& word,
                                                 const std::string& window) {
  if (!ExistsHere(word)) return NotFoundHere(reason::kProfileNotFound, word);
  v1::TraceRef ref;
  ref.set_typed(word);
  ref.set_window(window);
  return UploadTrace(server, word, std::move(ref));
}

absl::StatusOr<v1::InputRef> ResolveInput(const Server& server, const std::string& word,
                                          bool allow_random, const UploadProgress& progress) {
  v1::InputRef ref;
  ref.set_typed(word);
  if (word.empty()) return ref;
  if (allow_random && word == "random") {
    ref.set_random(true);
    return ref;
  }
  if (!IsOwnPath(word)) {
    // A remote server looks in its own workspace first; a file that only exists here is sent to it.
    if (server.local || !ExistsHere(word)) {
      ref.set_name(word);
      return ref;
    }
  }
  const std::string path = Absolute(word);
  const Reason& missing = allow_random ? reason::kWeightsNotFound : reason::kSourceNotFound;
  if (!ExistsHere(path)) return NotFoundHere(missing, word);
  if (server.local) {
    ref.set_local_path(path);
    return ref;
  }
  LY_ASSIGN_OR_RETURN(const std::vector<std::string> files, ImagesOf(path));
  if (files.empty()) {
    return MakeError(reason::kSourceNotFound, absl::StrCat("no images found at: ", word), {},
                     {{"path", word}});
  }
  std::vector<Content> contents;
  for (const std::string& file : files) {
    LY_ASSIGN_OR_RETURN(Content content, ContentOfFile(file));
    v1::BlobRef& blob = *ref.mutable_blobs()->add_blobs();
    blob.set_digest(content.digest);
    blob.set_name(fs::path(file).filename());
    contents.push_back(std::move(content));
  }
  LY_RETURN_IF_ERROR(Upload(server, contents, progress));
  return ref;
}

}  // namespace libreyolo::client
