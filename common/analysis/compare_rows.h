// What changed between two profiles, kernel by kernel and operation by operation. Pure.
#pragma once

#include <vector>

#include "common/analysis/compare.h"
#include "common/analysis/profile.h"

namespace libreyolo::analysis {

// The ten rows whose time per step moved most, largest change first; rows that only one side has
// are new or gone. Rows of the same name count together.
std::vector<RowChange> KernelChanges(const Profile& before, const Profile& after);
std::vector<RowChange> OpChanges(const Profile& before, const Profile& after);

}  // namespace libreyolo::analysis
