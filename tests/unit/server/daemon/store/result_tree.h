// Results as the profile store sees them: what a test stages and what it finds afterwards.
#pragma once

#include <map>
#include <string>

#include "server/daemon/store/commit_plan.h"

namespace libreyolo::daemon {

// What stands in a project: place ("infer_0", "history/j1/infer_0") to the job of its profile; ""
// for a profile that names none, "half" for a folder without a whole profile, "empty" for a folder
// with nothing in it.
using Tree = std::map<std::string, std::string>;

Tree ReadTree(const std::string& project);

// Writes a result's entries into `folder`. An empty job makes foreign ones.
void WriteResult(const std::string& folder, const std::string& job, const ResultNames& names);

// Stages a job's result where Commit() looks for it.
void Stage(const std::string& project, const std::string& job, const ResultNames& names);

// The entries of a result below `prefix`, as they stand in a Tree.
Tree Entries(const std::string& prefix, const std::string& job, const ResultNames& names);

// The union.
Tree Both(Tree a, const Tree& b);

}  // namespace libreyolo::daemon
