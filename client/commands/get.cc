#include "client/commands/reader.h"
#include "client/render/json.h"
#include "client/render/text.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

absl::StatusOr<int> RunGet(const Context& context) {
  LY_ASSIGN_OR_RETURN(Reader reader, Reader::Make(context));
  const std::string field = context.args().Word(1);
  v1::GetMetricResponse response;
  LY_RETURN_IF_ERROR(reader.Read(context.args().Word(0), [&](const v1::TraceRef& trace) {
    v1::GetMetricRequest request;
    *request.mutable_trace() = trace;
    request.set_field(field);
    return Call(reader.stub(), &v1::ProfileService::Stub::GetMetric, request, response);
  }));
  std::ostream& out = context.out();
  if (!field.empty()) {
    if (!context.json()) {
      out << MetricText(response.value()) << "\n";
      return 0;
    }
    JsonValue json{JsonValue::Object{}};
    json.Set(field, MetricJson(response.value()));
    out << json.ToCompact() << "\n";
    return 0;
  }
  if (context.json()) {
    JsonValue::Array names(response.names().begin(), response.names().end());
    out << JsonValue(std::move(names)).ToCompact() << "\n";
    return 0;
  }
  out << "available metrics:\n";
  for (const std::string& name : response.names()) out << "  " << name << "\n";
  return 0;
}

}  // namespace libreyolo::client
