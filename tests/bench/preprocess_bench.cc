// What `infer` does to each picture before the network: decode and letterbox. On the bundled
// sample.
#include <benchmark/benchmark.h>

#include <vector>

#include "common/base/check.h"
#include "server/worker/data/image_decode.h"
#include "server/worker/data/image_source.h"
#include "server/worker/data/letterbox.h"

namespace libreyolo::data {
namespace {

void BM_DecodeJpeg(benchmark::State& state) {
  ImageDecoder decoder;
  Image image;
  for (auto _ : state) {
    LY_CHECK(decoder.Decode(SampleImageJpeg(), kSampleImageName, image).ok());
    benchmark::DoNotOptimize(image.rgb.data());
  }
}
BENCHMARK(BM_DecodeJpeg)->Unit(benchmark::kMicrosecond);

void BM_Letterbox(benchmark::State& state) {
  const int size = static_cast<int>(state.range(0));
  Image image;
  LY_CHECK(ImageDecoder().Decode(SampleImageJpeg(), kSampleImageName, image).ok());
  Letterboxer letterboxer;
  std::vector<float> input(static_cast<size_t>(size) * size * 3);
  for (auto _ : state) {
    letterboxer.Letterbox(image, size, size, PadMode::kTopLeft, input.data());
    benchmark::DoNotOptimize(input.data());
  }
}
// 320: the exact half; 640: no resize; 416 and 960: the general case, smaller and larger.
BENCHMARK(BM_Letterbox)->Arg(320)->Arg(416)->Arg(640)->Arg(960)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace libreyolo::data
