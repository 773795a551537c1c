// What users type at the readers: --grep, --window and --fail-on. The first byte chooses which.
#include <cstdint>
#include <string>

#include "common/analysis/fail_on.h"
#include "common/analysis/kernels.h"
#include "common/analysis/trace_figures.h"
#include "common/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace analysis = libreyolo::analysis;
  if (size < 1 || size > 1000) return 0;
  const std::string word(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0: {
      analysis::Profile profile;
      profile.kernels.resize(2);
      profile.kernels[0].raw_name = "sm90_xmma_gemm_" + std::string(300, 'a');
      profile.kernels[1].raw_name = "void at::native::elementwise_kernel<4>(int)";
      analysis::KernelQuery query;
      query.grep = word;
      query.category = word;
      (void)analysis::ReportKernels(profile, query);
      break;
    }
    case 1: {
      const auto window = analysis::ParseWindowRange(word);
      if (window.ok()) {
        LY_CHECK(window->begin >= 0);
        LY_CHECK(!window->end.has_value() || *window->end > window->begin);
      }
      break;
    }
    default: {
      const auto condition = analysis::ParseFailCondition(word);
      if (condition.ok()) LY_CHECK(!condition->metric.empty());
    }
  }
  return 0;
}
