// What a word on the command line means to the server: the resolution rules of traces, sources,
// weights and datasets, with uploads where the server is remote.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/rpc/channel.h"
#include "libreyolo/profile/v1/job.pb.h"
#include "libreyolo/profile/v1/profile.pb.h"

namespace libreyolo::client {

// Called while bytes go up: done, total.
using UploadProgress = std::function<void(int64_t done, int64_t total)>;

// True for words that always mean the client's own file: they start with /, ./, ../ or ~.
bool IsOwnPath(const std::string& word);

// What goes up with a profile.json of the client's own.
enum class Beside { kNothing, kTrace };

// A reader's <trace>, without asking the server. Local daemon: a relative word is a name, an own
// path a local_path. Remote: an own path is uploaded. "-" reads stdin and uploads. Missing own
// file: PROFILE_NOT_FOUND "not found: WORD".
absl::StatusOr<profile::v1::TraceRef> ResolveTrace(const Server& server, const std::string& word,
                                                   const std::string& window, Beside beside);

// For a remote server, after it answered PROFILE_NOT_FOUND to a relative word: the same word as the
// client's own file, or NotFound when that does not exist either.
absl::StatusOr<profile::v1::TraceRef> RetryTraceAsOwnFile(const Server& server,
                                                          const std::string& word,
                                                          const std::string& window, Beside beside);

// True when a relative word names a file here too (for the note that says which was read).
bool ExistsHere(const std::string& word);

enum class InputKind {
  kWeights,  // the word "random" means initialised ones
  kImages,   // a picture, or a folder of them
  kDataset,  // a YAML file, or the folder around it; a remote server gets the folder
};

// A word that names what a job reads.
absl::StatusOr<profile::v1::InputRef> ResolveInput(const Server& server, const std::string& word,
                                                   InputKind kind, const UploadProgress& progress);

}  // namespace libreyolo::client
