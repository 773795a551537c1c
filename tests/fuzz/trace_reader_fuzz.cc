// Any bytes as a trace: the reader, then the whole analysis and every report. Blocks of any size
// must tell the same as one pass.
#include <cstdint>
#include <string>

#include "common/analysis/build_profile.h"
#include "common/analysis/kernels.h"
#include "common/analysis/ops.h"
#include "common/analysis/phases.h"
#include "common/analysis/profile_json.h"
#include "common/analysis/summary.h"
#include "common/analysis/what_if.h"
#include "common/base/check.h"
#include "common/trace/trace_reader.h"

using libreyolo::JsonValue;
using libreyolo::ParseJson;

namespace {

void AnalyseAll(const libreyolo::trace::RecordedTrace& trace) {
  namespace analysis = libreyolo::analysis;
  const auto profile = analysis::BuildProfile(trace, nullptr);
  if (!profile.ok()) return;
  const std::string text = analysis::WriteProfileJson(*profile);
  const auto json = ParseJson(text);
  LY_CHECK(json.ok()) << json.status();
  const auto again = analysis::ProfileFromJson(*json);
  LY_CHECK(again.ok()) << again.status();
  LY_CHECK(analysis::WriteProfileJson(*again) == text) << "a profile changes when it is read";
  analysis::ToJson(analysis::Summarize(*profile)).ToCompact();
  analysis::ToJson(analysis::ReportPhases(*profile)).ToCompact();
  analysis::ToJson(*analysis::ReportKernels(*profile, {})).ToCompact();
  analysis::ToJson(*analysis::ReportOps(*profile, {})).ToCompact();
  analysis::WhatIfQuery query;
  query.remove_launches = 3;
  analysis::ToJson(*analysis::ProjectWhatIf(*profile, query)).ToCompact();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace trace = libreyolo::trace;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  trace::ReadLimits limits;
  limits.max_bytes = 4 << 20;
  limits.max_value_bytes = 1 << 20;
  const auto whole = trace::ParseTrace(bytes, limits);
  limits.block_bytes = 64 + static_cast<int64_t>(size % 200);
  const auto blocks = trace::ParseTrace(bytes, limits);
  // simdjson looks only at what is asked for, so a fault in a part that nobody needs may show in
  // one and not in the other; what both read must be the same.
  if (!whole.ok() || !blocks.ok()) return 0;
  LY_CHECK(whole->counts.events == blocks->counts.events);
  LY_CHECK(whole->ops.size() == blocks->ops.size());
  LY_CHECK(whole->kernels.size() == blocks->kernels.size());
  LY_CHECK(whole->names == blocks->names);
  AnalyseAll(*whole);
  return 0;
}
