#include "common/analysis/load_profile.h"

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/analysis/build_profile.h"
#include "common/analysis/caveats.h"
#include "common/analysis/profile_json.h"
#include "common/analysis/verdict.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/trace/block_text.h"
#include "common/trace/byte_source.h"

namespace libreyolo::analysis {
namespace {

constexpr size_t kHeadBytes = 4096;
constexpr size_t kMaxProfileBytes = size_t{256} << 20;

absl::StatusOr<std::string> ReadUpTo(trace::ByteSource& source, size_t limit) {
  std::string text;
  while (text.size() < limit) {
    const size_t used = text.size();
    text.resize(std::min(limit, used + (size_t{256} << 10)));
    LY_ASSIGN_OR_RETURN(const size_t got, source.Read(&text[used], text.size() - used));
    text.resize(used + got);
    if (got == 0) break;
  }
  return text;
}

// The text with null for bare NaN and Infinity, which Python's json writes; counts them.
std::string WithoutBareNumbers(absl::string_view text, int64_t& count) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\' && i + 1 < text.size()) out.push_back(text[i++]);
    size_t length = 0;
    for (const absl::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (!in_string && length == 0 && absl::StartsWith(text.substr(i), word)) length = word.size();
    }
    if (length > 0) {
      out += "null";
      ++count;
      i += length;
    } else {
      out.push_back(text[i++]);
    }
  }
  return out;
}

absl::StatusOr<JsonValue> ParseProfileText(absl::string_view text, int64_t& bare_numbers) {
  JsonLimits limits;
  limits.max_bytes = static_cast<int64_t>(kMaxProfileBytes);
  absl::StatusOr<JsonValue> json = ParseJson(text, limits);
  if (json.ok() || static_cast<int64_t>(text.size()) > limits.max_bytes) return json;
  absl::StatusOr<JsonValue> mended = ParseJson(WithoutBareNumbers(text, bare_numbers), limits);
  if (mended.ok()) return mended;
  const trace::TextFault fault = trace::FindTextFault(text);
  if (fault.message.empty()) return json;
  return absl::InvalidArgumentError(
      fault.cut_short
          ? absl::StrCat("the file ends at byte ", text.size(), ", before the profile does")
          : absl::StrCat(fault.message, " at byte ", fault.offset));
}

absl::StatusOr<Profile> ProfileFromText(absl::string_view text, const LoadOptions& options) {
  int64_t bare_numbers = 0;
  const absl::StatusOr<JsonValue> json = ParseProfileText(text, bare_numbers);
  if (!json.ok()) {
    return MakeError(reason::kTraceUnparsable, json.status().message(),
                     {"name a whole profile.json; one that was cut short must be copied or made "
                      "again"});
  }
  LY_ASSIGN_OR_RETURN(Profile profile, ProfileFromJson(*json));
  if (bare_numbers > 0) {
    profile.findings.push_back(
        {job::Finding::Severity::kInfo, "BARE_NUMBERS",
         absl::StrCat(bare_numbers, " figures are inf or nan, which no JSON has; not used")});
  }
  if (options.window.has_value()) {
    return MakeError(reason::kArgumentConflict,
                     "a window needs a trace: a profile.json has no step markers",
                     {"name the profile_trace.json beside it"});
  }
  CorrectCpuVerdict(profile);
  return profile;
}

std::string BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash != absl::string_view::npos) path.remove_prefix(slash + 1);
  if (!absl::ConsumeSuffix(&path, ".gz")) absl::ConsumeSuffix(&path, ".zst");
  return std::string(path);
}

// A summary is found by its own name, so it may belong to another trace: those of training name
// theirs, others belong to the name under which the peer writes traces.
bool BelongsTo(const JsonValue& summary, const std::string& trace_name) {
  const std::string base = BaseName(trace_name);
  const JsonValue* trace = summary.Find("trace");
  if (trace != nullptr && trace->is_string()) return BaseName(trace->string_value()) == base;
  return base.empty() || base == "-" || absl::StartsWith(base, "profile_trace");
}

absl::StatusOr<Profile> ProfileOfTrace(const trace::RecordedTrace& trace,
                                       absl::string_view sibling_summary,
                                       const LoadOptions& options) {
  BuildOptions build;
  build.window = options.window;
  build.trace_path = options.shown_name;
  JsonValue summary;
  bool foreign_summary = false;
  if (!sibling_summary.empty()) {
    absl::StatusOr<JsonValue> json = ParseJson(sibling_summary);
    if (json.ok() && json->is_object()) {
      if (BelongsTo(*json, options.shown_name)) {
        summary = *std::move(json);
        build.sibling_summary = &summary;
      } else {
        foreign_summary = true;
      }
    }
  }
  LY_ASSIGN_OR_RETURN(Profile profile, BuildProfile(trace, nullptr, build));
  if (foreign_summary) {
    profile.findings.push_back({job::Finding::Severity::kInfo, "SUMMARY_IGNORED",
                                "the profile_summary.json beside the trace belongs to another "
                                "trace and was not used"});
  }
  return profile;
}

// The error with the name of the file that it is about.
absl::Status Named(const absl::Status& status, const std::string& name) {
  ErrorDetail detail = GetErrorDetail(status);
  if (name.empty() || !absl::StartsWith(detail.reason, "TRACE_")) return status;
  detail.message = absl::StrCat(name, ": ", detail.message);
  return MakeErrorFromDetail(status.code(), detail);
}

// `open` gives the bytes from their start, each time it is called.
template <typename Open, typename Summary>
absl::StatusOr<Profile> LoadUnnamed(const Open& open, const Summary& sibling_summary,
                                    const LoadOptions& options) {
  std::string head;
  {
    LY_ASSIGN_OR_RETURN(std::unique_ptr<trace::ByteSource> source, open());
    LY_ASSIGN_OR_RETURN(source, trace::UnpackSource(std::move(source)));
    LY_ASSIGN_OR_RETURN(head, ReadUpTo(*source, kHeadBytes));
    if (LooksLikeProfile(head)) {
      LY_ASSIGN_OR_RETURN(const std::string rest, ReadUpTo(*source, kMaxProfileBytes));
      return ProfileFromText(absl::StrCat(head, rest), options);
    }
  }
  LY_ASSIGN_OR_RETURN(std::unique_ptr<trace::ByteSource> source, open());
  absl::StatusOr<trace::RecordedTrace> trace =
      trace::ReadTraceFrom(std::move(source), options.limits);
  if (trace.ok()) {
    absl::StatusOr<Profile> profile = ProfileOfTrace(*trace, sibling_summary(), options);
    if (profile.ok() && options.keep_trace != nullptr) *options.keep_trace = *std::move(trace);
    return profile;
  }
  if (!HasReason(trace.status(), reason::kTraceEmpty)) return trace.status();
  // A profile whose members were put into another order does not begin like one.
  LY_ASSIGN_OR_RETURN(source, open());
  LY_ASSIGN_OR_RETURN(source, trace::UnpackSource(std::move(source)));
  LY_ASSIGN_OR_RETURN(const std::string text, ReadUpTo(*source, kMaxProfileBytes));
  if (!absl::StrContains(text, kProfileSchemaFamily)) return trace.status();
  const absl::StatusOr<JsonValue> json = ParseJson(text);
  const JsonValue* schema = json.ok() ? json->Find("schema") : nullptr;
  if (schema == nullptr || !schema->is_string() ||
      !absl::StartsWith(schema->string_value(), kProfileSchemaFamily)) {
    return trace.status();
  }
  return ProfileFromText(text, options);
}

template <typename Open, typename Summary>
absl::StatusOr<Profile> Load(const Open& open, const Summary& sibling_summary,
                             const LoadOptions& options) {
  absl::StatusOr<Profile> profile = LoadUnnamed(open, sibling_summary, options);
  if (!profile.ok()) return Named(profile.status(), options.shown_name);
  return profile;
}

}  // namespace

bool LooksLikeProfile(absl::string_view head) {
  absl::ConsumePrefix(&head, "\xEF\xBB\xBF");
  const auto skip = [&] {
    const size_t next = head.find_first_not_of(" \n\r\t");
    head.remove_prefix(next == absl::string_view::npos ? head.size() : next);
  };
  for (const char* part : {"{", "\"schema\"", ":", "\"libreyolo.profile.analysis"}) {
    skip();
    if (!absl::ConsumePrefix(&head, part)) return false;
  }
  return true;
}

void CorrectCpuVerdict(Profile& profile) {
  if (!IsCpuProfile(profile) || profile.bound != kBoundHost) return;
  VerdictInput input;
  input.inference = ModeOf(profile) == "inference";
  input.gpu = GpuState::kNone;
  input.step_ms = profile.step_ms;
  input.dataload_ms = profile.dataload_ms;
  if (profile.stages_ms.has_value()) {
    input.stages_ms = *profile.stages_ms;
  } else {
    for (const PhaseRow& row : profile.phases) {
      if (row.wall_ms_per_step.has_value()) {
        input.stages_ms.emplace_back(row.phase, *row.wall_ms_per_step);
      }
    }
  }
  // Shares that count nested operations several times tell nothing, so the peer's are left out.
  for (const OpRow& row : profile.ops) {
    if (row.self_ns.has_value()) input.top_ops.emplace_back(row.op, row.pct_of_cpu_ops);
  }
  Verdict verdict = DecideVerdict(input);
  profile.bound_stored = profile.bound;
  profile.bound = std::move(verdict.bound);
  profile.bound_why = std::move(verdict.why);
  profile.levers = std::move(verdict.levers);
  for (auto& [name, value] : profile.metrics) {
    if (name == "bound") value = profile.bound;
  }
}

absl::StatusOr<Profile> LoadProfile(const std::string& path, const LoadOptions& options) {
  LoadOptions named = options;
  if (named.shown_name.empty()) named.shown_name = path;
  const auto sibling = [&]() -> std::string {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    absl::StatusOr<std::string> text =
        ReadFile(absl::StrCat(folder, "profile_summary.json"), kMaxSummaryBytes);
    return text.ok() ? *std::move(text) : std::string();
  };
  return Load([&] { return trace::OpenFileSource(path); }, sibling, named);
}

absl::StatusOr<Profile> LoadProfileWithSummary(const std::string& path,
                                               absl::string_view sibling_summary,
                                               const LoadOptions& options) {
  return Load([&] { return trace::OpenFileSource(path); }, [&] { return sibling_summary; },
              options);
}

absl::StatusOr<Profile> LoadProfileFromBytes(absl::string_view bytes,
                                             absl::string_view sibling_summary,
                                             const LoadOptions& options) {
  return Load(
      [&]() -> absl::StatusOr<std::unique_ptr<trace::ByteSource>> {
        return trace::MakeMemorySource(bytes);
      },
      [&] { return sibling_summary; }, options);
}

}  // namespace libreyolo::analysis
