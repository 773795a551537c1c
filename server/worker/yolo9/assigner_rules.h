// Constants of the task-aligned assignment. Private to this folder.
#pragma once

#include "server/worker/yolo9/variants.h"

namespace libreyolo::yolo9 {

inline constexpr int kAnchorsPerTarget = 10;
// The farthest that a side may lie from an anchor, in cells: the last bin, less a margin that keeps
// its upper neighbour.
inline constexpr double kMaxReach = kRegMax - 1.01;
inline constexpr double kScoreEpsilon = 1e-9;

}  // namespace libreyolo::yolo9
