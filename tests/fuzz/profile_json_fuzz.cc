// Any bytes as a profile.json: reading, writing back, and every report on it.
#include <cstdint>
#include <string>

#include "common/analysis/compare.h"
#include "common/analysis/kernels.h"
#include "common/analysis/load_profile.h"
#include "common/analysis/metrics.h"
#include "common/analysis/ops.h"
#include "common/analysis/phases.h"
#include "common/analysis/profile_json.h"
#include "common/analysis/repeat.h"
#include "common/analysis/summary.h"
#include "common/analysis/what_if.h"
#include "common/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace analysis = libreyolo::analysis;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (size > (1 << 20)) return 0;
  const auto json = libreyolo::ParseJson(bytes);
  if (json.ok()) {
    const auto profile = analysis::ProfileFromJson(*json);
    if (profile.ok()) {
      const std::string text = analysis::WriteProfileJson(*profile);
      const auto again = analysis::ProfileFromJson(*libreyolo::ParseJson(text));
      LY_CHECK(again.ok()) << again.status();
      LY_CHECK(analysis::WriteProfileJson(*again) == text) << "a profile changes when it is read";
    }
  }
  analysis::LoadOptions options;
  options.limits.max_bytes = 4 << 20;
  const auto profile = analysis::LoadProfileFromBytes(bytes, "", options);
  if (!profile.ok()) return 0;
  analysis::ToJson(analysis::Summarize(*profile)).ToCompact();
  analysis::ToJson(analysis::ReportPhases(*profile)).ToCompact();
  analysis::ToJson(*analysis::ReportOps(*profile, {})).ToCompact();
  analysis::ToJson(*analysis::ReportKernels(*profile, {})).ToCompact();
  for (const std::string& name : analysis::ListMetrics(*profile)) {
    LY_CHECK(analysis::GetMetric(*profile, name, "PATH").ok()) << name;
  }
  analysis::WhatIfQuery query;
  query.remove_launches = 1;
  query.remove_category = "gemm";
  (void)analysis::ProjectWhatIf(*profile, query);
  analysis::CompareQuery compare;
  compare.force = true;
  const auto report = analysis::Compare(*profile, *profile, compare);
  LY_CHECK(report.ok()) << report.status();
  analysis::CompareLines(*report);
  analysis::ToJson(*report).ToCompact();
  analysis::WriteProfileJson(analysis::AggregateTrials({*profile, *profile}, {}));
  return 0;
}
