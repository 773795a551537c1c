#include "absl/strings/str_cat.h"
#include "client/commands/call.h"
#include "client/commands/command.h"
#include "client/commands/rows.h"
#include "client/exit_code.h"
#include "client/render/json.h"
#include "client/render/table.h"
#include "common/json/json_value.h"
#include "libreyolo/profile/v1/profiler.grpc.pb.h"

namespace libreyolo::client {
namespace {

namespace v1 = ::libreyolo::profile::v1;

std::string FloatText(bool known, double value) { return known ? PythonFloat(value) : "-"; }

}  // namespace

absl::StatusOr<int> RunProfileList(const Context& context) {
  LY_RETURN_IF_ERROR(CheckTop(context.args()));
  LY_ASSIGN_OR_RETURN(const Server server, context.Connect(NeedDaemon::kAny));
  const auto stub = v1::ProfileService::NewStub(server.channel);
  const int top = context.args().Int("--top");
  std::vector<v1::ProfileInfo> profiles;
  v1::ListProfilesRequest request;
  request.set_include_replaced(context.args().Switch("--history"));
  do {
    v1::ListProfilesResponse response;
    LY_RETURN_IF_ERROR(Call(*stub, &v1::ProfileService::Stub::ListProfiles, request, response));
    for (v1::ProfileInfo& info : *response.mutable_profiles()) profiles.push_back(std::move(info));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty() &&
           (top == 0 || profiles.size() < static_cast<size_t>(top)));
  if (top > 0 && profiles.size() > static_cast<size_t>(top)) {
    profiles.resize(static_cast<size_t>(top));
  }
  if (context.json()) {
    JsonValue::Array items;
    for (const v1::ProfileInfo& info : profiles) items.push_back(ProfileInfoJson(info));
    JsonValue json{JsonValue::Object{}};
    json.Set("profiles", JsonValue(std::move(items)));
    context.out() << json.ToIndented() << "\n";
    return kExitOk;
  }
  Table table({{"profile"},
               {"mode"},
               {"model"},
               {"device"},
               {"img/s", Table::Align::kRight},
               {"step ms", Table::Align::kRight},
               {"bound"},
               {"validity"},
               {"time"},
               {"pinned"}});
  for (const v1::ProfileInfo& info : profiles) {
    table.Add({info.path(), info.mode(), info.model(), info.device(),
               FloatText(info.has_img_per_s(), info.img_per_s()),
               FloatText(info.has_step_ms(), info.step_ms()), info.bound(), info.validity(),
               TimeText(info.has_time(), info.time()), info.pinned() ? "yes" : ""});
  }
  context.out() << (table.empty() ? "no profiles\n" : table.ToText());
  return kExitOk;
}

}  // namespace libreyolo::client
