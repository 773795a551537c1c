// Prints how many bytes the training loss of one head takes on top of its inputs: the peak of
// resident memory while it is computed, gradients recorded, at a batch and image size.
//
//   loss_memory BATCH IMGSZ BOXES_PER_IMAGE
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/worker/workload/environment.h"
#include "server/worker/yolo9/loss.h"

namespace libreyolo {
namespace {

constexpr int kClasses = 80;

yolo9::LevelTensors MakeMaps(int batch, int side) {
  yolo9::LevelTensors maps;
  for (size_t i = 0; i < maps.size(); ++i) {
    const int cells = side / yolo9::kStrides[i];
    maps[i] = at::randn({batch, yolo9::kBoxChannels + kClasses, cells, cells}).requires_grad_(true);
  }
  return maps;
}

// Boxes of a tenth of the picture, on a diagonal.
at::Tensor MakeTargets(int batch, int boxes) {
  at::Tensor targets = at::full({batch, boxes, 5}, 0.0);
  for (int i = 0; i < boxes; ++i) {
    const double at = 0.9 * i / boxes;
    const double row[] = {static_cast<double>(i % kClasses), at, at, at + 0.1, at + 0.1};
    for (int field = 0; field < 5; ++field) {
      targets.select(1, i).select(1, field).fill_(row[field]);
    }
  }
  return targets;
}

int Run(int batch, int side, int boxes) {
  const worker::HostProbe host;
  const yolo9::LevelTensors maps = MakeMaps(batch, side);
  const at::Tensor targets = MakeTargets(batch, boxes);
  yolo9::DetectionLoss loss(kClasses);
  loss.Compute(MakeMaps(1, 64), MakeTargets(1, 1));  // what only the first call needs
  malloc_trim(0);
  if (!host.ResetPeakResident().ok()) {
    fprintf(stderr, "loss_memory: the kernel does not reset the peak of resident memory\n");
    return 1;
  }
  const int64_t before = host.ResidentBytes();
  const yolo9::LossTerms terms = loss.Compute(maps, targets);
  printf("%lld\n", static_cast<long long>(host.PeakResidentSinceReset() - before));
  return terms.total.defined() ? 0 : 1;
}

}  // namespace
}  // namespace libreyolo

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: loss_memory BATCH IMGSZ BOXES_PER_IMAGE\n");
    return 2;
  }
  return libreyolo::Run(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
}
