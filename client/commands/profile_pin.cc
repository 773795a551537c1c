#include "client/commands/call.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/render/json.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

absl::StatusOr<int> RunProfilePin(const Context& context, bool pinned) {
  LY_ASSIGN_OR_RETURN(const Server server, context.Connect(NeedDaemon::kAny));
  const auto stub = v1::ProfileService::NewStub(server.channel);
  v1::SetPinRequest request;
  request.set_name(context.args().Word(0));
  request.set_pinned(pinned);
  v1::ProfileInfo info;
  LY_RETURN_IF_ERROR(Call(*stub, &v1::ProfileService::Stub::SetPin, request, info));
  if (context.json()) {
    context.out() << ProfileInfoJson(info).ToIndented() << "\n";
  } else {
    context.out() << (pinned ? "pinned " : "unpinned ") << info.path() << "\n";
  }
  return kExitOk;
}

}  // namespace libreyolo::client
