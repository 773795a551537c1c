// What the readers share: from the word on the command line to an answer of the server.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/commands/call.h"
#include "client/commands/command.h"
#include "client/rpc/inputs.h"
#include "common/json/json_value.h"
#include "libreyolo/profile/v1/profile.pb.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {

class Reader {
 public:
  // `beside`: what a profile.json of the client's own takes along to a remote server.
  static absl::StatusOr<Reader> Make(const Context& context, Beside beside = Beside::kNothing);

  profile::v1::ProfileService::Stub& stub() { return *stub_; }
  const Server& server() const { return server_; }

  // Calls `call` with what `word` means. On a remote server a relative word means the server's file
  // first, then the client's own; a note says which was read when both are there.
  absl::Status Read(const std::string& word,
                    absl::FunctionRef<absl::Status(const profile::v1::TraceRef&)> call);
  // The same with two words.
  absl::Status ReadTwo(
      const std::string& first, const std::string& second,
      absl::FunctionRef<absl::Status(const profile::v1::TraceRef&, const profile::v1::TraceRef&)>
          call);

  // A document of the server's, with the key `source` when a note was due; under --json the note
  // stands there instead of on stderr.
  void PrintDocument(const std::string& document_json) const;
  void PrintDocument(JsonValue document) const;

 private:
  Reader(const Context& context, Server server, Beside beside);

  absl::StatusOr<profile::v1::TraceRef> Resolve(const std::string& word) const;
  bool MayBeOwnFile(const std::string& word) const;
  void NoteSource(const std::string& word, const profile::v1::TraceRef& ref);

  const Context* context_;
  Server server_;
  std::string window_;
  Beside beside_;
  std::unique_ptr<profile::v1::ProfileService::Stub> stub_;
  std::optional<std::string> source_;  // "server": the word names a file here too
};

}  // namespace libreyolo::client
