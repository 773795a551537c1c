#include "server/daemon/store/retention.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace libreyolo::daemon {
namespace {

namespace v1 = ::libreyolo::profile::v1;

constexpr absl::Duration kLongestInterval = absl::Minutes(1);
constexpr absl::Duration kShortestInterval = absl::Seconds(1);
// Whoever sets a clock wrong needs a while to notice.
constexpr absl::Duration kSteadyLongEnough = absl::Hours(1);

absl::Time TimeOf(const v1::ProfileInfo& info) {
  return absl::FromUnixSeconds(info.time().seconds()) + absl::Nanoseconds(info.time().nanos());
}

// Those whose order is known keep it; the others come in by their files' times. A known one is
// never before one that was committed earlier, so its time counts as at least that one's.
void SortOldestFirst(std::vector<StoredResult>& results) {
  std::vector<std::pair<absl::Time, StoredResult*>> order;
  for (StoredResult& result : results) order.emplace_back(result.time, &result);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second->commit_order < b.second->commit_order;
  });
  absl::Time latest = absl::InfinitePast();
  for (auto& [time, result] : order) {
    if (result->commit_order == 0) continue;
    time = latest = std::max(latest, time);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->commit_order) < std::tie(b.first, b.second->commit_order);
  });
  std::vector<StoredResult> sorted;
  for (const auto& [time, result] : order) sorted.push_back(std::move(*result));
  results = std::move(sorted);
}

}  // namespace

std::vector<StoredResult> GroupResults(const std::vector<Index::Listed>& listed,
                                       const std::vector<Index::Result>& known) {
  std::map<std::pair<std::string, std::string>, StoredResult> by_place;
  for (const Index::Listed& item : listed) {
    if (item.info.job().empty()) continue;  // nobody knows whose it is
    StoredResult& result = by_place[{item.project, item.info.job()}];
    result.job = item.info.job();
    result.project = item.project;
    result.time =
        result.profiles.empty() ? TimeOf(item.info) : std::max(result.time, TimeOf(item.info));
    result.profiles.push_back(item.info.path());
    result.size_bytes += item.info.size_bytes();
  }
  std::vector<StoredResult> results;
  for (auto& [place, result] : by_place) {
    std::stable_partition(
        result.profiles.begin(), result.profiles.end(),
        [](const std::string& path) { return !absl::EndsWith(path, "_repeat.json"); });
    for (const Index::Result& row : known) {
      if (row.job != result.job) continue;
      result.commit_order = row.commit_order;
      result.pinned = row.pinned;
    }
    results.push_back(std::move(result));
  }
  SortOldestFirst(results);
  return results;
}

absl::Duration Retention::Interval() const {
  return std::clamp(limits_.max_age() / 4, kShortestInterval, kLongestInterval);
}

void Retention::RunAll() {
  const auto projects = deps_.index.Projects();
  if (!projects.ok()) {
    LogError("retention: projects not read", {{"error", projects.status().message()}});
    return;
  }
  std::set<std::string> workspaces;
  for (const Index::Project& project : *projects) workspaces.insert(project.workspace);
  for (const std::string& workspace : workspaces) Run(workspace);
}

const char* Retention::NameOf(Why why) {
  return why == Why::kAge ? "age" : why == Why::kCount ? "count" : "bytes";
}

void Retention::Run(const std::string& workspace) {
  if (!limits_.any()) return;
  const std::lock_guard<std::mutex> lock(mu_);
  const absl::Status status = RunLocked(workspace);
  if (!status.ok()) {
    LogError("retention: workspace not looked at",
             {{"workspace", workspace}, {"error", status.message()}});
  }
}

bool Retention::IsOurs(const StoredResult& result) {
  if (result.commit_order > 0) return true;
  const auto record = deps_.index.Find(result.job);  // committed by an earlier version
  return record.ok() && record->has_value();
}

void Retention::TryRemove(const std::string& workspace, const StoredResult& result, Why why) {
  const auto record = deps_.index.Find(result.job);
  // Its end is not stored yet, or cannot be told.
  if (!record.ok() || (record->has_value() && !IsTerminal((*record)->job.state()))) return;
  const absl::Status status = Remove(workspace, result, why);
  if (status.ok()) return;
  {
    const std::lock_guard<std::mutex> lock(counts_mu_);
    ++counts_.failed;
  }
  LogError("profile not removed", {{"workspace", workspace},
                                   {"project", result.project},
                                   {"job", result.job},
                                   {"error", status.message()}});
}

absl::Status Retention::Remove(const std::string& workspace, const StoredResult& result, Why why) {
  LY_ASSIGN_OR_RETURN(const std::string folder, deps_.layout.ProjectDir(workspace, result.project));
  std::vector<std::string> changes;
  const absl::StatusOr<bool> removed = deps_.profiles.Remove(
      folder, result.job,
      [&](const std::vector<std::string>& paths, absl::FunctionRef<void()> move) {
        return deps_.holds.RunIfFree(result.job, paths, [&] {
          // A daemon that is killed half-way leaves a removal that somebody has announced.
          LogInfo("removing profile",
                  {{"workspace", workspace}, {"job", result.job}, {"why", NameOf(why)}});
          move();
        });
      },
      &changes);
  // Also after a failure, which may have come half-way.
  if (!changes.empty()) {
    std::vector<std::string> paths;
    for (const std::string& change : changes)
      paths.push_back(absl::StrCat(result.project, "/", ProfilePathOf(change)));
    LY_RETURN_IF_ERROR(deps_.index.UpdateProfiles({workspace, result.project}, paths,
                                                  DescribePlaces(folder, result.project, changes)));
  }
  LY_RETURN_IF_ERROR(removed.status());
  if (!*removed) return absl::OkStatus();  // somebody is at work with it
  Count(result, why);
  LogInfo("audit", {{"change", "remove_profile"},
                    {"target", result.profiles.back()},
                    {"principal", "retention"},
                    {"workspace", workspace},
                    {"job", result.job},
                    {"profiles", result.profiles.size()},
                    {"bytes", result.size_bytes},
                    {"why", NameOf(why)},
                    {"made", absl::FormatTime(absl::RFC3339_sec, result.time, absl::UTCTimeZone())},
                    {"result", "OK"}});
  return deps_.index.ForgetResult(workspace, result.job);
}

void Retention::Count(const StoredResult& result, Why why) {
  const std::lock_guard<std::mutex> lock(counts_mu_);
  ++(why == Why::kAge ? counts_.by_age : why == Why::kCount ? counts_.by_count : counts_.by_bytes);
  counts_.bytes += result.size_bytes;
}

Retention::Counts Retention::counts() const {
  const std::lock_guard<std::mutex> lock(counts_mu_);
  return counts_;
}

absl::Status Retention::RunLocked(const std::string& workspace) {
  const absl::Duration steady = wall_.Observe();
  LY_ASSIGN_OR_RETURN(const std::vector<Index::Listed> listed,
                      deps_.index.WorkspaceProfiles(workspace));
  LY_ASSIGN_OR_RETURN(const std::vector<Index::Result> known, deps_.index.Results(workspace));
  std::vector<StoredResult> results = GroupResults(listed, known);
  results.erase(std::remove_if(results.begin(), results.end(),
                               [this](const StoredResult& r) { return !IsOurs(r); }),
                results.end());
  int64_t bytes = 0;
  for (const StoredResult& result : results) bytes += result.size_bytes;
  int64_t count = static_cast<int64_t>(results.size());
  const bool ages_count = steady >= std::min(kSteadyLongEnough, limits_.max_age());
  const absl::Time now = deps_.clock.Wall();
  for (size_t i = 0; i + 1 < results.size(); ++i) {  // the last one is the newest
    const StoredResult& result = results[i];
    if (result.pinned) continue;
    Why why;
    if (limits_.max_bytes > 0 && bytes > limits_.max_bytes) {
      why = Why::kBytes;
    } else if (limits_.max_count > 0 && count > limits_.max_count) {
      why = Why::kCount;
    } else if (ages_count && now - result.time > limits_.max_age()) {
      why = Why::kAge;
    } else {
      continue;
    }
    TryRemove(workspace, result, why);
    // Also when it must stay for now: none that is newer goes in its place.
    --count;
    bytes -= result.size_bytes;
  }
  return absl::OkStatus();
}

}  // namespace libreyolo::daemon
