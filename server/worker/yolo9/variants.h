// The YOLO9 sizes as a table: every channel count that differs between t, s, m and c. No LibTorch
// here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace libreyolo::yolo9 {

inline constexpr int kRegMax = 16;                // bins of a box side's distribution
inline constexpr int kBoxChannels = 4 * kRegMax;  // of a raw map
inline constexpr int kLevelCount = 3;             // detection levels
inline constexpr int kStrides[kLevelCount] = {8, 16, 32};
inline constexpr int kMaxStride = 32;  // image sides must be multiples of it

enum class ElanKind { kElan, kRepElan };
enum class DownKind { kAConv, kADown };

// Channels inside and behind an ELAN block.
struct ElanChannels {
  int part;
  int out;
};

struct Variant {
  const char* size;  // "t", "s", "m", "c"
  int conv0_out;
  int conv1_out;
  ElanKind elan1_kind;
  ElanChannels elan1;
  DownKind down_kind;
  int down2_out;
  ElanChannels elan2;  // its output is P3
  int down3_out;
  ElanChannels elan3;  // P4
  int down4_out;
  ElanChannels elan4;  // B5
  int spp_out;         // P5; half of it inside
  int bottleneck_count;
  ElanChannels elan_up1;
  ElanChannels elan_up2;  // N3
  int neck_down1_out;
  ElanChannels elan_down1;  // N4
  int neck_down2_out;
  ElanChannels elan_down2;  // N5
};

// The variant of a size, or null for a word that is none.
const Variant* FindVariant(absl::string_view size);

// "t", "s", "m", "c".
std::vector<std::string> VariantSizes();

// Channels of the class towers of a fresh head. A fine-tune keeps the width of the model that it
// started from.
int DefaultClassTowerWidth(const Variant& variant, int class_count);
// Channels of the box towers: the same for every size.
int BoxTowerWidth(const Variant& variant);

}  // namespace libreyolo::yolo9
