#include "common/base/fault_points.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace libreyolo {
namespace {

enum class Mode { kError, kDelay, kCrash, kLog };

struct Fault {
  std::string name;
  bool is_prefix = false;
  Mode mode = Mode::kError;
  int delay_ms = 0;
  int64_t only = 0;  // 0: every time
  std::atomic<int64_t> passed{0};
};

absl::Status BadPlan(absl::string_view item, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("fault plan: \"", item, "\": ", why));
}

absl::StatusOr<std::shared_ptr<Fault>> ParseFault(absl::string_view item) {
  auto fault = std::make_shared<Fault>();
  const size_t equals = item.rfind('=');
  if (equals == absl::string_view::npos || equals == 0) return BadPlan(item, "not name=mode");
  absl::string_view name = absl::StripAsciiWhitespace(item.substr(0, equals));
  fault->is_prefix = absl::ConsumeSuffix(&name, "*");
  fault->name = std::string(name);
  absl::string_view mode = absl::StripAsciiWhitespace(item.substr(equals + 1));
  const size_t at = mode.rfind('@');
  if (at != absl::string_view::npos) {
    if (!absl::SimpleAtoi(mode.substr(at + 1), &fault->only) || fault->only < 1)
      return BadPlan(item, "what follows @ is no number from 1 on");
    mode = mode.substr(0, at);
  }
  if (mode == "error") {
    fault->mode = Mode::kError;
  } else if (mode == "crash") {
    fault->mode = Mode::kCrash;
  } else if (mode == "log") {
    fault->mode = Mode::kLog;
  } else if (absl::ConsumePrefix(&mode, "delay:") && absl::SimpleAtoi(mode, &fault->delay_ms) &&
             fault->delay_ms >= 0) {
    fault->mode = Mode::kDelay;
  } else {
    return BadPlan(item, "the mode is error, delay:MS, crash or log");
  }
  return fault;
}

absl::Status Act(Fault& fault, const std::string& point) {
  if (fault.is_prefix ? !absl::StartsWith(point, fault.name) : point != fault.name)
    return absl::OkStatus();
  const int64_t count = ++fault.passed;
  if (fault.only != 0 && count != fault.only) return absl::OkStatus();
  switch (fault.mode) {
    case Mode::kError:
      return absl::ResourceExhaustedError(absl::StrCat("fault at \"", point, "\""));
    case Mode::kDelay:
      poll(nullptr, 0, fault.delay_ms);
      return absl::OkStatus();
    case Mode::kCrash:
      kill(getpid(), SIGKILL);
      for (;;) pause();  // the signal may take a moment to end this thread
    case Mode::kLog:
      LogInfo("fault point", {{"point", point}});
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FaultHook> ParseFaultPlan(const std::string& plan) {
  std::vector<std::shared_ptr<Fault>> faults;
  for (absl::string_view item : absl::StrSplit(plan, ';')) {
    item = absl::StripAsciiWhitespace(item);
    if (item.empty()) continue;
    LY_ASSIGN_OR_RETURN(std::shared_ptr<Fault> fault, ParseFault(item));
    faults.push_back(std::move(fault));
  }
  if (faults.empty()) return FaultHook();
  return FaultHook([faults = std::move(faults)](const std::string& point) {
    absl::Status status;
    for (const std::shared_ptr<Fault>& fault : faults) status.Update(Act(*fault, point));
    return status;
  });
}

}  // namespace libreyolo
