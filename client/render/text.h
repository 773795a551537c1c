// The readers' answers as text for people: columns, order and numbers as the Python peer prints
// them, ours beside them. Pure.
#pragma once

#include <string>

#include "libreyolo/profile/v1/analysis.pb.h"

namespace libreyolo::client {

// All end in a newline. `width` is the terminal's, or 0 when the output is no terminal: long names
// are whole then.
std::string SummaryText(const profile::v1::SummaryReport& report);
std::string PhasesText(const profile::v1::PhasesReport& report, int width);
std::string KernelsText(const profile::v1::KernelsReport& report, int width);
std::string OpsText(const profile::v1::OpsReport& report, int width);
std::string CompareText(const profile::v1::CompareReport& report, int width);
std::string WhatIfText(const profile::v1::WhatIfReport& report);

// What `infer` and `run` print about their profile, up to the verdict.
std::string InferResultText(const profile::v1::SummaryReport& report);
std::string RunResultText(const profile::v1::SummaryReport& report);

// A metric's value the Python way: None, True, 1.0.
std::string MetricText(const profile::v1::MetricValue& value);

// "160.0", or with trials "38.96 +/- 0.38 (n=3)".
std::string ThroughputText(const profile::v1::SummaryReport& report);

// Findings and the validity, a line each; "" when there is nothing to say.
std::string FindingsText(const std::string& validity,
                         const google::protobuf::RepeatedPtrField<profile::v1::Finding>& findings);

// Of these, what makes a figure suspect or invalid.
std::string DoubtsText(const profile::v1::SummaryReport& report);

}  // namespace libreyolo::client
