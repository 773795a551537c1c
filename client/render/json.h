// The commands' --json documents that the server does not send whole. Pure.
#pragma once

#include <string>

#include "common/json/json_value.h"
#include "google/protobuf/timestamp.pb.h"
#include "libreyolo/profile/v1/analysis.pb.h"
#include "libreyolo/profile/v1/device.pb.h"
#include "libreyolo/profile/v1/job.pb.h"
#include "libreyolo/profile/v1/profile.pb.h"

namespace libreyolo::client {

JsonValue KernelsJson(const profile::v1::KernelsReport& report);
JsonValue OpsJson(const profile::v1::OpsReport& report);
JsonValue MetricJson(const profile::v1::MetricValue& value);

// What `infer` and `run` print: the peer's keys, then ours.
JsonValue InferResultJson(const profile::v1::Job& job, const profile::v1::SummaryReport& report);
JsonValue RunResultJson(const profile::v1::Job& job, const profile::v1::SummaryReport& report);

JsonValue JobJson(const profile::v1::Job& job);
JsonValue DeviceJson(const profile::v1::Device& device);
JsonValue ProfileInfoJson(const profile::v1::ProfileInfo& info);

// "QUEUED", "SUCCEEDED"
std::string StateName(profile::v1::JobState state);

// "2026-01-31T12:00:00Z", or "" when unset.
std::string TimeText(bool is_set, const google::protobuf::Timestamp& time);

}  // namespace libreyolo::client
