#include "client/rpc/inputs.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
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
constexpr char kProfileName[] = "profile.json";
constexpr char kSummaryName[] = "profile_summary.json";
constexpr absl::string_view kTraceNames[] = {"profile_trace.json", "profile_trace.json.gz"};
constexpr absl::string_view kImageSuffixes[] = {".jpg", ".jpeg", ".png", ".bmp", ".webp"};
// Besides pictures: the dataset file, labels and lists, COCO annotations.
constexpr absl::string_view kDatasetSuffixes[] = {".yaml", ".yml", ".txt", ".json"};

// No message is over 1 MiB: so many digests go into one question, and so many files into one job.
constexpr int kDigestsPerCall = 5'000;
constexpr size_t kMaxInputBytes = 900 << 10;
// Tries in a row that bring nothing further; a server that restarts is back within them.
constexpr int kUploadTries = 6;
constexpr absl::Duration kUploadPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestUploadPause = absl::Seconds(3);
constexpr absl::Duration kAskTimeout = absl::Seconds(30);

// Bytes to upload: a file, or what stdin gave.
struct Content {
  std::string path;
  std::shared_ptr<UniqueFd> spooled;  // stdin only; then `path` is for messages
  std::string digest;
  int64_t size_bytes = 0;
};

// `missing` is the reason for a file that is not there or cannot be read.
absl::StatusOr<Content> ContentOfFile(const std::string& path, const Reason& missing) {
  Content content;
  content.path = path;
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return MakeError(missing, ErrnoStatus(errno, "open", path).message(), {}, {{"path", path}});
  }
  if (!S_ISREG(info.st_mode)) {  // a pipe would be read once for the digest and once for the upload
    return MakeError(missing, absl::StrCat(path, " is no file"),
                     {"a trace can also come as standard input: -"}, {{"path", path}});
  }
  content.size_bytes = info.st_size;
  const absl::StatusOr<std::string> digest = Sha256HexOfFile(path);
  if (!digest.ok()) return MakeError(missing, digest.status().message(), {}, {{"path", path}});
  content.digest = *digest;
  return content;
}

// The digest goes up before the bytes, so stdin is kept in a file without a name meanwhile.
absl::StatusOr<Content> ContentOfStdin() {
  Content content;
  content.path = "standard input";
  std::string name = (fs::temp_directory_path() / "libreyolo-stdin-XXXXXX").string();
  content.spooled = std::make_shared<UniqueFd>(mkostemp(name.data(), O_CLOEXEC));
  if (!*content.spooled) return ErrnoStatus(errno, "make", name);
  unlink(name.c_str());
  Sha256 sha;
  std::string buffer(kChunkBytes, '\0');
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", content.path);
    if (got == 0) break;
    const absl::string_view bytes(buffer.data(), static_cast<size_t>(got));
    sha.Update(bytes);
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t written =
          write(content.spooled->get(), bytes.data() + done, bytes.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus(errno, "write", name);
      done += static_cast<size_t>(written);
    }
    content.size_bytes += got;
  }
  content.digest = sha.FinishHex();
  return content;
}

// Fills `*data` with the content's bytes at `offset`.
absl::Status ReadChunk(const Content& content, int fd, int64_t offset, std::string* data) {
  data->resize(static_cast<size_t>(std::min<int64_t>(kChunkBytes, content.size_bytes - offset)));
  ssize_t got = 0;
  do {
    got = pread(fd, data->data(), data->size(), offset);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return ErrnoStatus(errno, "read", content.path);
  if (got == 0) {
    return MakeError(reason::kDigestMismatch,
                     absl::StrCat(content.path, " became shorter while it was uploaded"),
                     {"run the command again once nothing writes to the file"});
  }
  data->resize(static_cast<size_t>(got));
  return absl::OkStatus();
}

// The bytes from `offset` on.
absl::Status SendOnce(v1::ProfileService::Stub& stub, const Content& content, int fd,
                      int64_t offset, const std::function<void(int64_t)>& progress) {
  grpc::ClientContext context;
  v1::UploadBlobResponse response;
  const auto writer = stub.UploadBlob(&context, &response);
  v1::UploadBlobRequest request;
  request.mutable_header()->set_digest(content.digest);
  request.mutable_header()->set_size_bytes(content.size_bytes);
  request.mutable_header()->set_offset(offset);
  bool is_open = writer->Write(request);
  for (int64_t sent = offset; is_open && sent < content.size_bytes;) {
    if (const absl::Status read = ReadChunk(content, fd, sent, request.mutable_data());
        !read.ok()) {
      context.TryCancel();
      (void)writer->Finish();  // the cancelled call's; `read` says why
      return read;
    }
    sent += static_cast<int64_t>(request.data().size());
    is_open = writer->Write(request);
    progress(sent);
  }
  writer->WritesDone();
  return rpc::FromGrpcStatus(writer->Finish());
}

// The digests that the server lacks, with how much of each it has from an upload that broke off.
using Missing = std::map<std::string, int64_t>;

absl::StatusOr<Missing> FindMissing(v1::ProfileService::Stub& stub,
                                    const std::vector<Content>& contents);

absl::Status Send(v1::ProfileService::Stub& stub, const Content& content, int64_t offset,
                  const std::function<void(int64_t)>& progress) {
  UniqueFd file;
  if (content.spooled == nullptr) {
    file.Reset(open(content.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return ErrnoStatus(errno, "open", content.path);
  }
  const int fd = content.spooled != nullptr ? content.spooled->get() : file.get();
  bool began_anew = false;
  for (int tries = 1;; ++tries) {
    const absl::Status status = SendOnce(stub, content, fd, offset, progress);
    if (status.ok()) return status;
    if (HasReason(status, reason::kDigestMismatch) && offset > 0 && !began_anew) {
      // What was there was no part of this file: the server has thrown it away.
      began_anew = true;
      offset = 0;
      continue;
    }
    // The connection broke, or the server has not yet noticed that an earlier one did.
    const bool is_passing = HasReason(status, reason::kServerUnreachable) ||
                            (offset > 0 && (HasReason(status, reason::kBusy) ||
                                            HasReason(status, reason::kArgumentOutOfRange)));
    if (!is_passing || tries >= kUploadTries) return status;
    absl::SleepFor(std::min(kUploadPause * (1 << tries), kLongestUploadPause));
    const absl::StatusOr<Missing> missing = FindMissing(stub, {content});
    if (!missing.ok()) continue;  // the next try says why
    const auto found = missing->find(content.digest);
    if (found == missing->end()) return absl::OkStatus();  // the answer alone was lost
    if (found->second > offset) tries = 0;
    offset = std::min(found->second, content.size_bytes);
  }
}

absl::StatusOr<Missing> FindMissing(v1::ProfileService::Stub& stub,
                                    const std::vector<Content>& contents) {
  Missing missing;
  for (size_t begin = 0; begin < contents.size(); begin += kDigestsPerCall) {
    v1::FindMissingBlobsRequest request;
    const size_t end = std::min(contents.size(), begin + kDigestsPerCall);
    for (size_t i = begin; i < end; ++i) request.add_digests(contents[i].digest);
    grpc::ClientContext context;
    v1::FindMissingBlobsResponse response;
    LY_RETURN_IF_ERROR(rpc::FromGrpcStatus(stub.FindMissingBlobs(&context, request, &response)));
    for (const std::string& digest : response.digests()) missing.emplace(digest, 0);
    for (const v1::PartialBlob& partial : response.partial()) {
      const auto found = missing.find(partial.digest());
      if (found != missing.end()) found->second = std::max<int64_t>(0, partial.received_bytes());
    }
  }
  return missing;
}

// Sends what the server lacks, equal contents once.
absl::Status Upload(const Server& server, const std::vector<Content>& contents,
                    const UploadProgress& progress) {
  const auto stub = v1::ProfileService::NewStub(server.channel);
  LY_ASSIGN_OR_RETURN(Missing missing, FindMissing(*stub, contents));
  std::vector<std::pair<const Content*, int64_t>> wanted;
  int64_t total = 0;
  for (const Content& content : contents) {
    const auto found = missing.find(content.digest);
    if (found == missing.end()) continue;
    wanted.emplace_back(&content, std::min(found->second, content.size_bytes));
    missing.erase(found);
    total += content.size_bytes;
  }
  int64_t done = 0;
  for (const auto& [content, offset] : wanted) {
    LY_RETURN_IF_ERROR(Send(*stub, *content, offset, [&, done](int64_t sent) {
      if (progress) progress(done + sent, total);
    }));
    done += content->size_bytes;
  }
  return absl::OkStatus();
}

std::string ExpandHome(const std::string& word) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || (word != "~" && !absl::StartsWith(word, "~/"))) return word;
  return home + word.substr(1);
}

// Absolute and without links, as a daemon that stands elsewhere needs it. Empty when it is not
// there.
std::string CanonicalPath(const std::string& word) {
  std::error_code error;
  const fs::path path = fs::canonical(ExpandHome(word), error);
  return error ? "" : path.string();
}

absl::Status NotFoundHere(const Reason& reason, const std::string& word) {
  // A path that begins like one can be nothing else; other words were tried on the server first.
  std::vector<std::string> hints = {
      "correct the path: relative ones count from the current folder"};
  if (reason.name == reason::kProfileNotFound.name) {
    hints.emplace_back("libreyolo profile list shows the server's profiles");
  }
  return MakeError(reason, absl::StrCat("not found: ", word), std::move(hints), {{"path", word}});
}

absl::Status AddTraceBeside(const std::string& profile_path, v1::TraceRef& ref,
                            std::vector<Content>& contents) {
  for (const absl::string_view name : kTraceNames) {
    const fs::path path = fs::path(profile_path).parent_path() / std::string(name);
    if (!fs::is_regular_file(path)) continue;
    LY_ASSIGN_OR_RETURN(Content trace, ContentOfFile(path.string(), reason::kProfileNotFound));
    ref.set_sibling_trace_digest(trace.digest);
    contents.push_back(std::move(trace));
    break;
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::TraceRef> UploadTrace(const Server& server, const std::string& word,
                                         Beside beside, v1::TraceRef ref) {
  std::vector<Content> contents;
  if (word == "-") {
    LY_ASSIGN_OR_RETURN(Content content, ContentOfStdin());
    contents.push_back(std::move(content));
  } else {
    const std::string path = CanonicalPath(word);
    if (path.empty()) return NotFoundHere(reason::kProfileNotFound, word);
    if (fs::is_directory(path)) {
      return MakeError(reason::kTraceUnparsable,
                       absl::StrCat("\"", word, "\" is a folder, not a profile or a trace"),
                       {absl::StrCat("name the file: ", word, "/profile.json")});
    }
    LY_ASSIGN_OR_RETURN(Content content, ContentOfFile(path, reason::kProfileNotFound));
    contents.push_back(std::move(content));
    // It says about a trace what the trace itself cannot.
    const fs::path sibling_path = fs::path(path).parent_path() / kSummaryName;
    const std::string name = fs::path(path).filename().string();
    if (name != kProfileName && name != kSummaryName && fs::is_regular_file(sibling_path)) {
      LY_ASSIGN_OR_RETURN(Content sibling,
                          ContentOfFile(sibling_path.string(), reason::kProfileNotFound));
      ref.set_sibling_summary_digest(sibling.digest);
      contents.push_back(std::move(sibling));
    }
    if (beside == Beside::kTrace && name == kProfileName) {
      LY_RETURN_IF_ERROR(AddTraceBeside(path, ref, contents));
    }
  }
  ref.set_blob_digest(contents[0].digest);
  LY_RETURN_IF_ERROR(Upload(server, contents, nullptr));
  return ref;
}

// A file is taken as it is; of a folder its images, in the order of their names.
absl::StatusOr<std::vector<std::string>> FilesOfSource(const std::string& path,
                                                       const std::string& word) {
  if (!fs::is_directory(path)) return std::vector<std::string>{path};
  std::vector<std::string> images;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string suffix = absl::AsciiStrToLower(entry->path().extension().string());
    if (absl::c_linear_search(kImageSuffixes, suffix) && entry->is_regular_file(error)) {
      images.push_back(entry->path().string());
    }
  }
  if (error) {
    return MakeError(reason::kSourceNotFound,
                     absl::StrCat("cannot read the folder ", word, ": ", error.message()),
                     {"let this user read it (chmod u+rx), or name another folder"},
                     {{"path", word}});
  }
  std::sort(images.begin(), images.end());
  if (images.empty()) {
    return MakeError(reason::kSourceNotFound, absl::StrCat("no images found at: ", word),
                     {"images end in .jpg, .jpeg, .png, .bmp or .webp"}, {{"path", word}});
  }
  return images;
}

const Reason& MissingReason(InputKind kind) {
  switch (kind) {
    case InputKind::kWeights:
      return reason::kWeightsNotFound;
    case InputKind::kImages:
      return reason::kSourceNotFound;
    case InputKind::kDataset:
      break;
  }
  return reason::kDatasetNotFound;
}

// Whether a remote server finds `word` in its own places. Asked by a job that is only checked.
bool IsKnownToServer(const Server& server, const std::string& word, InputKind kind) {
  v1::CreateJobRequest request;
  request.set_validate_only(true);
  v1::JobSpec& spec = *request.mutable_spec();
  spec.set_device("cpu");
  if (kind == InputKind::kWeights) {
    spec.mutable_weights()->set_name(word);
    spec.mutable_infer();
  } else {
    spec.mutable_weights()->set_random(true);
    spec.set_size("t");
    v1::InputRef& input = kind == InputKind::kImages ? *spec.mutable_infer()->mutable_source()
                                                     : *spec.mutable_train()->mutable_data();
    input.set_name(word);
  }
  const auto stub = v1::JobService::NewStub(server.channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kAskTimeout));
  v1::Job ignored;
  // Any other answer, also an error, is for the real request to give.
  return !HasReason(rpc::FromGrpcStatus(stub->CreateJob(&context, request, &ignored)),
                    MissingReason(kind));
}

// A file to upload and its name in the job.
struct NamedFile {
  std::string path;
  std::string name;
};

// The folder of a dataset with all that may belong to it. `path` is the YAML file, or the folder.
absl::StatusOr<std::vector<NamedFile>> FilesOfDataset(const std::string& path,
                                                      const std::string& word) {
  const bool is_folder = fs::is_directory(path);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  std::vector<NamedFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().lexically_relative(folder).string();
    const std::string suffix = absl::AsciiStrToLower(entry->path().extension().string());
    const bool is_top_yaml =
        !absl::StrContains(name, '/') && (suffix == ".yaml" || suffix == ".yml");
    // The file that was named is the dataset's; its neighbours are others'.
    if (!is_folder && is_top_yaml && entry->path() != path) continue;
    if ((absl::c_linear_search(kImageSuffixes, suffix) ||
         absl::c_linear_search(kDatasetSuffixes, suffix)) &&
        entry->is_regular_file(error)) {
      files.push_back({entry->path().string(), name});
    }
  }
  if (error) {
    return MakeError(
        reason::kDatasetInvalid,
        absl::StrCat("cannot read the folder ", folder.string(), ": ", error.message()),
        {"let this user read it (chmod u+rx), or name another dataset"}, {{"path", word}});
  }
  absl::c_sort(files, [](const NamedFile& a, const NamedFile& b) { return a.name < b.name; });
  return files;
}

absl::StatusOr<std::vector<NamedFile>> FilesOf(InputKind kind, const std::string& path,
                                               const std::string& word) {
  if (kind == InputKind::kDataset) return FilesOfDataset(path, word);
  LY_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FilesOfSource(path, word));
  std::vector<NamedFile> files;
  for (const std::string& file : paths) {
    files.push_back({file, fs::path(file).filename().string()});
  }
  return files;
}

absl::StatusOr<v1::InputRef> UploadInput(const Server& server, const std::string& word,
                                         const std::string& path, InputKind kind,
                                         const UploadProgress& progress, v1::InputRef ref) {
  LY_ASSIGN_OR_RETURN(const std::vector<NamedFile> files, FilesOf(kind, path, word));
  std::vector<Content> contents;
  for (const NamedFile& file : files) {
    LY_ASSIGN_OR_RETURN(Content content, ContentOfFile(file.path, MissingReason(kind)));
    v1::BlobRef& blob = *ref.mutable_blobs()->add_blobs();
    blob.set_digest(content.digest);
    blob.set_name(file.name);
    contents.push_back(std::move(content));
  }
  if (ref.ByteSizeLong() > kMaxInputBytes) {
    const bool is_data = kind == InputKind::kDataset;
    return MakeError(
        reason::kLimitExceeded,
        absl::StrCat(word, " holds ", files.size(), " files, too many for one job"),
        {is_data ? "put the dataset into a datasets folder of the server and name it from there"
                 : "put them into the server's workspace and name the folder from there",
         "name a folder with fewer images"});
  }
  LY_RETURN_IF_ERROR(Upload(server, contents, progress));
  return ref;
}

}  // namespace

bool IsOwnPath(const std::string& word) {
  return absl::StartsWith(word, "/") || absl::StartsWith(word, "./") ||
         absl::StartsWith(word, "../") || absl::StartsWith(word, "~") || word == "." ||
         word == "..";
}

bool ExistsHere(const std::string& word) { return access(word.c_str(), F_OK) == 0; }

absl::StatusOr<v1::TraceRef> ResolveTrace(const Server& server, const std::string& word,
                                          const std::string& window, Beside beside) {
  v1::TraceRef ref;
  ref.set_typed(word);
  ref.set_window(window);
  if (word == "-") return UploadTrace(server, word, beside, std::move(ref));
  if (!IsOwnPath(word)) {
    ref.set_name(word);
    return ref;
  }
  if (!server.local) return UploadTrace(server, word, beside, std::move(ref));
  const std::string path = CanonicalPath(word);
  if (path.empty()) return NotFoundHere(reason::kProfileNotFound, word);
  ref.set_local_path(path);
  return ref;
}

absl::StatusOr<v1::TraceRef> RetryTraceAsOwnFile(const Server& server, const std::string& word,
                                                 const std::string& window, Beside beside) {
  if (!ExistsHere(word)) return NotFoundHere(reason::kProfileNotFound, word);
  v1::TraceRef ref;
  ref.set_typed(word);
  ref.set_window(window);
  return UploadTrace(server, word, beside, std::move(ref));
}

absl::StatusOr<v1::InputRef> ResolveInput(const Server& server, const std::string& word,
                                          InputKind kind, const UploadProgress& progress) {
  v1::InputRef ref;
  ref.set_typed(word);
  if (word.empty()) return ref;
  if (kind == InputKind::kWeights && word == "random") {
    ref.set_random(true);
    return ref;
  }
  if (!IsOwnPath(word)) {
    // The server's own comes first; one that is only here is sent.
    if (server.local || !ExistsHere(word) || IsKnownToServer(server, word, kind)) {
      ref.set_name(word);
      return ref;
    }
  }
  const std::string path = CanonicalPath(word);
  if (path.empty()) return NotFoundHere(MissingReason(kind), word);
  if (server.local) {
    ref.set_local_path(path);
    return ref;
  }
  if (kind == InputKind::kWeights && fs::is_directory(path)) {
    return MakeError(reason::kWeightsUnreadable, absl::StrCat(word, " is a folder, not weights"),
                     {"name the weights file in it", "--weights random measures without one"});
  }
  return UploadInput(server, word, path, kind, progress, std::move(ref));
}

}  // namespace libreyolo::client
