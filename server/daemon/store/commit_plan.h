// What a result consists of, and what its commit will do: written down before the first change, so
// that any later attempt does the same. Pure apart from reading; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace libreyolo::daemon {

// The member of profile.json that names the job which made it.
inline constexpr char kJobKey[] = "job";

struct ResultNames {
  std::string base;  // "infer" or "prof"
  int trial_count = 1;
  // "infer", or "infer_2" of several.
  std::string Trial(int trial) const;
  // "infer_repeat.json" or "profile_repeat.json"; empty for a single trial.
  std::string RepeatFile() const;
  // What a reader is pointed at, relative to the project.
  std::string Profile() const;
  // The folders, in order, then the repeat file.
  std::vector<std::string> Entries() const;
};

struct CommitPlan {
  ResultNames names;
  std::map<std::string, std::string> history;  // replaced entry -> its folder below history/
};

// Entries of earlier results that a repeat replaces although it has none of that name: a longer
// one's last trials. A single run and a repeat beside it have no name in common, and both stay.
std::vector<std::string> SurplusEntries(const std::string& project_dir, const ResultNames& names);

// All that one result is made of moves to one folder, under a name that nothing has yet.
CommitPlan MakeCommitPlan(const std::string& project_dir, const ResultNames& names);

std::string CommitPlanText(const CommitPlan& plan);
// Internal when the file is damaged.
absl::StatusOr<CommitPlan> ReadCommitPlan(const std::string& path);

}  // namespace libreyolo::daemon
