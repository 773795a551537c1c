#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/call.h"
#include "client/commands/command.h"
#include "client/commands/measure.h"
#include "client/exit_code.h"
#include "client/rpc/download.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

namespace {

using Stub = v1::ProfileService::Stub;

absl::StatusOr<v1::ProfileInfo> GetProfile(Stub& stub, const std::string& name) {
  v1::GetProfileRequest request;
  request.set_name(name);
  v1::ProfileInfo info;
  LY_RETURN_IF_ERROR(Call(stub, &Stub::GetProfile, request, info));
  return info;
}

}  // namespace

absl::StatusOr<int> RunProfileFetch(const Context& context) {
  LY_ASSIGN_OR_RETURN(const Server server, context.Connect(NeedDaemon::kAny));
  const auto stub = v1::ProfileService::NewStub(server.channel);
  LY_ASSIGN_OR_RETURN(const v1::ProfileInfo info, GetProfile(*stub, context.args().Word(0)));
  // A repeat is a file that speaks of its trials, which are profiles of their own. All of them are
  // looked up before anything is written.
  std::vector<v1::ProfileInfo> parts;
  for (const std::string& trial : info.trials()) {
    LY_ASSIGN_OR_RETURN(v1::ProfileInfo part, GetProfile(*stub, trial));
    parts.push_back(std::move(part));
  }
  parts.push_back(info);  // last, as it is committed: where it is, its trials are
  ProgressView progress(context.err(), ProgressStyleOf(context), context.deps.clock);
  DownloadOptions options;
  options.folder = context.args().Text("--output");
  options.force = context.args().Switch("--force");
  std::vector<std::string> files;
  for (const v1::ProfileInfo& part : parts) {
    // With its folder: the trials' files are called alike.
    const std::string folder = part.path().substr(0, part.path().rfind('/') + 1);
    options.progress = [&](const std::string& file, int64_t done, int64_t total) {
      progress.ShowBytes(absl::StrCat("fetching ", folder, file), done, total);
    };
    LY_ASSIGN_OR_RETURN(const std::vector<std::string> written,
                        DownloadProfile(server, part, options));
    files.insert(files.end(), written.begin(), written.end());
  }
  progress.Clear();
  if (info.trials_size() < info.trial_count()) {
    context.Note(absl::StrCat("of the ", info.trial_count(), " trials of ", info.path(), " ",
                              info.trial_count() - info.trials_size(),
                              " are no longer beside it on the server"));
  }
  if (context.json()) {
    JsonValue json{JsonValue::Object{}};
    json.Set("profile", info.path());
    json.Set("files", JsonValue(JsonValue::Array(files.begin(), files.end())));
    context.out() << json.ToIndented() << "\n";
    return kExitOk;
  }
  for (const std::string& file : files) context.out() << file << "\n";
  return kExitOk;
}

}  // namespace libreyolo::client
