#include "common/analysis/profile.h"

namespace libreyolo::analysis {

const char* Name(Validity validity) {
  switch (validity) {
    case Validity::kValid:
      return "VALID";
    case Validity::kSuspect:
      return "SUSPECT";
    case Validity::kInvalid:
      return "INVALID";
    case Validity::kUnknown:
      break;
  }
  return "";
}

bool IsCpuProfile(const Profile& profile) {
  if (profile.gpu != GpuState::kUnknown) return profile.gpu == GpuState::kNone;
  return ConfigText(profile, "device") == "cpu" && profile.kernels.empty() &&
         profile.kernels_per_step.value_or(0) == 0;
}

std::string ModeOf(const Profile& profile) {
  if (profile.mode.has_value()) return *profile.mode;
  const std::string stored = ConfigText(profile, "mode");
  if (!stored.empty()) return stored;
  // The peer names the mode of inference only; its training configs hold the loader's workers.
  return profile.config.Find("workers") != nullptr ? "train" : "";
}

std::string ConfigText(const Profile& profile, absl::string_view key) {
  const JsonValue* value = profile.config.Find(key);
  return value != nullptr && value->is_string() ? value->string_value() : std::string();
}

std::optional<double> ConfigNumber(const Profile& profile, absl::string_view key) {
  const JsonValue* value = profile.config.Find(key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->number();
}

}  // namespace libreyolo::analysis
