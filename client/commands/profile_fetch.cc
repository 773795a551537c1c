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

absl::StatusOr<int> RunProfileFetch(const Context& context) {
  LY_ASSIGN_OR_RETURN(const Server server, context.Connect(NeedDaemon::kAny));
  const auto stub = v1::ProfileService::NewStub(server.channel);
  v1::GetProfileRequest request;
  request.set_name(context.args().Word(0));
  v1::ProfileInfo info;
  LY_RETURN_IF_ERROR(Call(*stub, &v1::ProfileService::Stub::GetProfile, request, info));
  ProgressView progress(context.err(), ProgressStyleOf(context), context.deps.clock);
  DownloadOptions options;
  options.folder = context.args().Text("--output");
  options.force = context.args().Switch("--force");
  options.progress = [&](const std::string& file, int64_t done, int64_t total) {
    progress.ShowBytes(absl::StrCat("fetching ", file), done, total);
  };
  LY_ASSIGN_OR_RETURN(const std::vector<std::string> files, DownloadProfile(server, info, options));
  progress.Clear();
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
