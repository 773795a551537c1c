// What one loader worker makes: examples of the built-in dataset, 1 thread, in images per second.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "server/worker/data/color_shift.h"
#include "server/worker/data/dataset.h"
#include "server/worker/data/image_decode.h"
#include "server/worker/data/loader.h"
#include "server/worker/data/sample_dataset.h"
#include "server/worker/data/scale_warp.h"

namespace libreyolo::data {
namespace {

const std::string& SampleYaml() {
  static const std::string yaml = [] {
    const auto cache = std::filesystem::temp_directory_path() / "libreyolo-loader-bench";
    const absl::StatusOr<std::string> path = EnsureSampleDataset(cache.string());
    LY_CHECK(path.ok()) << path.status();
    return *path;
  }();
  return yaml;
}

Dataset LoadSample(int side) {
  const absl::StatusOr<DatasetConfig> config = ReadDatasetYaml(SampleYaml(), "");
  LY_CHECK(config.ok()) << config.status();
  absl::StatusOr<Dataset> dataset = LoadTrainSplit(*config, {side, side});
  LY_CHECK(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

void BM_Loader(benchmark::State& state) {
  const Dataset dataset = LoadSample(static_cast<int>(state.range(0)));
  LoaderOptions options;
  options.batch_size = 4;
  options.worker_count = 0;
  DataLoader loader(dataset, options);
  for (auto _ : state) LY_CHECK(loader.Next().ok());
  state.SetItemsProcessed(state.iterations() * options.batch_size);
}
BENCHMARK(BM_Loader)->Arg(320)->Arg(640)->Unit(benchmark::kMillisecond);

void BM_ShiftColors(benchmark::State& state) {
  Image image = DrawSamplePicture(0).image;
  for (auto _ : state) ShiftColors({1, -3, 2}, image);
}
BENCHMARK(BM_ShiftColors)->Unit(benchmark::kMicrosecond);

void BM_ScaleWarp(benchmark::State& state) {
  const Image image = DrawSamplePicture(0).image;
  ScaleWarper warper;
  Image out;
  const double scale = static_cast<double>(state.range(0)) / 100;
  for (auto _ : state) warper.Warp(image, {scale, 3.5, -2.25}, 640, 480, out);
}
BENCHMARK(BM_ScaleWarp)->Arg(60)->Arg(100)->Arg(140)->Unit(benchmark::kMicrosecond);

void BM_DecodeSample(benchmark::State& state) {
  const Dataset dataset = LoadSample(640);
  ImageDecoder decoder;
  Image image;
  size_t next = 0;
  for (auto _ : state) {
    LY_CHECK(
        decoder.DecodeFile(dataset.items[next++ % dataset.items.size()].image_path, image).ok());
  }
}
BENCHMARK(BM_DecodeSample)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace libreyolo::data
