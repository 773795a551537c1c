#include "server/worker/yolo9/variants.h"

#include <algorithm>

namespace libreyolo::yolo9 {
namespace {

constexpr Variant kVariants[] = {
    {.size = "t",
     .conv0_out = 16,
     .conv1_out = 32,
     .elan1_kind = ElanKind::kElan,
     .elan1 = {32, 32},
     .down_kind = DownKind::kAConv,
     .down2_out = 64,
     .elan2 = {64, 64},
     .down3_out = 96,
     .elan3 = {96, 96},
     .down4_out = 128,
     .elan4 = {128, 128},
     .spp_out = 128,
     .bottleneck_count = 3,
     .elan_up1 = {96, 96},
     .elan_up2 = {64, 64},
     .neck_down1_out = 48,
     .elan_down1 = {96, 96},
     .neck_down2_out = 64,
     .elan_down2 = {128, 128}},
    {.size = "s",
     .conv0_out = 32,
     .conv1_out = 64,
     .elan1_kind = ElanKind::kElan,
     .elan1 = {64, 64},
     .down_kind = DownKind::kAConv,
     .down2_out = 128,
     .elan2 = {128, 128},
     .down3_out = 192,
     .elan3 = {192, 192},
     .down4_out = 256,
     .elan4 = {256, 256},
     .spp_out = 256,
     .bottleneck_count = 3,
     .elan_up1 = {192, 192},
     .elan_up2 = {128, 128},
     .neck_down1_out = 96,
     .elan_down1 = {192, 192},
     .neck_down2_out = 128,
     .elan_down2 = {256, 256}},
    {.size = "m",
     .conv0_out = 32,
     .conv1_out = 64,
     .elan1_kind = ElanKind::kRepElan,
     .elan1 = {128, 128},
     .down_kind = DownKind::kAConv,
     .down2_out = 240,
     .elan2 = {240, 240},
     .down3_out = 360,
     .elan3 = {360, 360},
     .down4_out = 480,
     .elan4 = {480, 480},
     .spp_out = 480,
     .bottleneck_count = 1,
     .elan_up1 = {360, 360},
     .elan_up2 = {240, 240},
     .neck_down1_out = 184,
     .elan_down1 = {360, 360},
     .neck_down2_out = 240,
     .elan_down2 = {480, 480}},
    {.size = "c",
     .conv0_out = 64,
     .conv1_out = 128,
     .elan1_kind = ElanKind::kRepElan,
     .elan1 = {128, 256},
     .down_kind = DownKind::kADown,
     .down2_out = 256,
     .elan2 = {256, 512},
     .down3_out = 512,
     .elan3 = {512, 512},
     .down4_out = 512,
     .elan4 = {512, 512},
     .spp_out = 512,
     .bottleneck_count = 1,
     .elan_up1 = {512, 512},
     .elan_up2 = {256, 256},
     .neck_down1_out = 256,
     .elan_down1 = {512, 512},
     .neck_down2_out = 512,
     .elan_down2 = {512, 512}},
};

int RoundUp(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

const Variant* FindVariant(absl::string_view size) {
  for (const Variant& variant : kVariants) {
    if (size == variant.size) return &variant;
  }
  return nullptr;
}

std::vector<std::string> VariantSizes() {
  std::vector<std::string> sizes;
  for (const Variant& variant : kVariants) sizes.push_back(variant.size);
  return sizes;
}

int DefaultClassTowerWidth(const Variant& variant, int class_count) {
  return std::max(variant.elan_up2.out, std::min(class_count, 100));
}

int BoxTowerWidth(const Variant& variant) {
  return std::max({RoundUp(variant.elan_up2.out / 4, 4), kBoxChannels, 16});
}

}  // namespace libreyolo::yolo9
