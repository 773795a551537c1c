// The readers' reports as messages. Pure.
#pragma once

#include "common/analysis/compare.h"
#include "common/analysis/kernels.h"
#include "common/analysis/ops.h"
#include "common/analysis/phases.h"
#include "common/analysis/summary.h"
#include "common/analysis/what_if.h"
#include "common/json/json_value.h"
#include "libreyolo/profile/v1/analysis.pb.h"

namespace libreyolo::rpc {

// `shown` is what the user called the trace; it becomes the report's name in messages, not in the
// document.
profile::v1::SummaryReport ToProto(const analysis::SummaryReport& report, const std::string& shown);

profile::v1::PhasesReport ToProto(const analysis::PhasesReport& report, const std::string& shown);
// Without rows, which are paged: RowsToPage.
profile::v1::KernelsReport ToProto(const analysis::KernelsReport& report);
profile::v1::OpsReport ToProto(const analysis::OpsReport& report);
profile::v1::CompareReport ToProto(const analysis::CompareReport& report);
profile::v1::WhatIfReport ToProto(const analysis::WhatIfReport& report, const std::string& shown);
profile::v1::KernelRow ToProto(const analysis::KernelRow& row);
profile::v1::OpRow ToProto(const analysis::OpRow& row);

profile::v1::MetricValue ToMetricValue(const JsonValue& value);

profile::v1::Finding ToProto(const job::Finding& finding);

}  // namespace libreyolo::rpc
