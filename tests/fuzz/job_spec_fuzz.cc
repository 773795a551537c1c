// Any JobSpec message, as an orchestrator may send it: what is accepted is within the ranges that
// the rest of the daemon counts on.
#include <cstdint>

#include "common/base/check.h"
#include "common/rpc/parse_job_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > (64 << 10)) return 0;
  libreyolo::profile::v1::JobSpec message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto spec = libreyolo::rpc::ParseJobSpec(message);
  if (!spec.ok()) {
    LY_CHECK(!spec.status().message().empty());
    return 0;
  }
  LY_CHECK(!spec->project.empty() && spec->project[0] != '/') << spec->project;
  LY_CHECK(("/" + spec->project + "/").find("/../") == std::string::npos) << spec->project;
  LY_CHECK(spec->repeat >= 1 && spec->warmup >= 0 && spec->runs >= 1);
  LY_CHECK(spec->imgsz >= 32 && (spec->batch >= 1 || spec->batch == -1));
  LY_CHECK(spec->time_limit_s > 0);
  return 0;
}
