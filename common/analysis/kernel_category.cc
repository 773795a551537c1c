#include "common/analysis/kernel_category.h"

#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace libreyolo::analysis {
namespace {

using Tokens = std::initializer_list<const char*>;

bool HasAny(absl::string_view lower, const Tokens& tokens) {
  for (const char* token : tokens) {
    if (absl::StrContains(lower, token)) return true;
  }
  return false;
}

constexpr char kGemm[] = "gemm / conv";
constexpr char kNorm[] = "reduction / norm";
constexpr char kLayout[] = "layout / copy";
constexpr char kElementwise[] = "elementwise";
constexpr char kAttention[] = "attention";
constexpr char kForeach[] = "optimizer / foreach";
constexpr char kCommunication[] = "communication";
constexpr char kOther[] = "other";

// Parts of lower-cased names. Names that say what they are stand before loose words: a CUTLASS
// kernel's template arguments hold "copy" and "reduce", a collective's name holds "reduce".
struct CategoryRule {
  const char* category;
  Tokens any;
  Tokens none = {};
};

const CategoryRule kCategoryRules[] = {
    {kCommunication,
     {"nccl", "rccl", "nvshmem", "all_reduce_kernel", "one_shot_all", "two_shot_all"}},
    {kAttention,
     {"flash_fwd", "flash_bwd", "flash::", "flash_attn", "fmha", "attention", "sdpa", "mha_fwd",
      "mha_bwd"}},
    // Triton's names of TorchInductor begin with the shape of the kernel; the rest lists the fused
    // operations, whatever the kernel does with them.
    {kElementwise, {"triton_poi_"}},
    {kNorm, {"triton_per_", "triton_red_"}},
    {kGemm, {"triton_tem_", "triton_mm", "triton_bmm"}},
    {kForeach, {"triton_for_", "multi_tensor_apply", "fusedsgd", "fusedadam", "foreach"}},
    {kNorm,
     {"bn_bw", "bn_fw", "batchnorm", "batch_norm", "layer_norm", "layernorm", "group_norm",
      "groupnorm", "instance_norm", "rms_norm", "rmsnorm", "rowwisemoments", "softmax", "welford"}},
    {kLayout, {"nchwtonhwc", "nhwctonchw", "converttensor"}},
    {kGemm, {"gemm",       "gemv",      "xmma",       "nvjet",      "cutlass",
             "wgmma",      "splitk",    "implicit",   "wgrad",      "dgrad",
             "fprop",      "winograd",  "fft2d_",     "scudnn",     "hcudnn",
             "884cudnn",   "1688cudnn", "16816cudnn", "cudnn::cnn", "cudnn::detail",
             "cask_cudnn", "depthwise", "convolve",   "cublas",     "matmul"}},
    {kGemm, {"conv"}, {"convert"}},
    {kLayout, {"memcpy",      "memset",       "copy_kernel",  "catarray",
               "concat",      "contiguous",   "transpose",    "permute",
               "gather",      "scatter",      "index_kernel", "index_elementwise",
               "indexselect", "index_select", "index_put",    "indexfunc",
               "batchedcopy", "im2col",       "col2im",       "convert"}},
    {kNorm, {"reduce", "variance", "argmax", "argmin"}},
    {kElementwise,
     {"elementwise", "vectorized", "pointwise", "activation", "silu", "relu", "gelu", "sigmoid",
      "tanh", "unary", "binary", "clamp", "fill", "arange", "dropout", "add_kernel", "mul_kernel"}},
    {kLayout, {"copy"}},
};

// Kernels that run on Tensor Cores. The instruction's shape (884, 1688, 16816 ...) stands in
// cuBLAS' and CUTLASS' names up to Ampere; Hopper and Blackwell name the unit or the library
// instead.
struct TensorRule {
  Tokens any;
  Tokens none = {};
};

const TensorRule kTensorRules[] = {
    {{"h884", "h1688", "i16832", "i8816", "s16816", "s1688", "hmma", "imma", "dmma", "tensorop",
      "wmma", "16816", "16832", "884gemm", "1688gemm", "d884"}},
    {{"tensor16x8x", "tensor8x8x", "tensor16x16x"}},
    {{"gmma", "umma", "tcgen05", "nvjet", "mainloopsm90", "mainloopsm100", "mainloopsm120"}},
    // cuDNN's and cuBLAS' xmma kernels, but those that are built on plain multiply-adds.
    {{"sm80_xmma", "sm86_xmma", "sm89_xmma", "sm90_xmma", "sm100_xmma", "sm103_xmma", "sm120_xmma"},
     {"ffma", "simt", "sm80_xmma_gemm_f32f32_f32f32_f32", "dfma"}},
    {{"flash_fwd", "flash_bwd", "flash_attn", "flash::", "sdpa_sm"}},
    {{"fmha_cutlass"}, {"_sm50", "f32_aligned_64x64_rf_sm70", "f32_aligned_64x64_rf_sm75"}},
    {{"fp8_gemm", "e4m3", "e5m2", "f8f8", "qgmma", "qmma"}},
};

struct Label {
  const char* label;
  Tokens any;
  const char* category = nullptr;  // only within it
};

const Label kLabels[] = {
    {"communication", {""}, kCommunication},
    {"attention (bwd)", {"bwd", "backward", "fmha_cutlassb"}, kAttention},
    {"attention", {""}, kAttention},
    {"optimizer step (fused)", {"fusedsgd", "fusedadam"}, kForeach},
    {"foreach", {""}, kForeach},
    {"cudnn batchnorm (bwd)", {"bn_bw"}},
    {"cudnn batchnorm (fwd)", {"bn_fw"}},
    {"layout nchw->nhwc", {"nchwtonhwc"}},
    {"layout nhwc->nchw", {"nhwctonchw"}},
    {"cutlass conv (implicit gemm)", {"implicitgemm"}},
    {"implicit conv", {"implicit_convolve"}},
    {"conv wgrad", {"wgrad"}, kGemm},
    {"conv dgrad", {"dgrad"}, kGemm},
    {"conv fprop", {"fprop"}, kGemm},
    {"gemv", {"gemv"}, kGemm},
    {"gemm", {"gemm", "nvjet"}, kGemm},
    {"concat", {"catarray", "concat"}, kLayout},
    {"scatter / gather", {"scatter", "gather"}, kLayout},
    {"index", {"index"}, kLayout},
    {"copy / cast", {"direct_copy", "copy_kernel", "converttensor"}, kLayout},
    {"elementwise", {"elementwise"}, kElementwise},
    {"softmax", {"softmax"}},
    {"reduction", {"reduce"}, kNorm},
};

// The function's own name: without return type, namespaces and arguments.
std::string ShortName(absl::string_view name) {
  if (absl::StartsWith(name, "void ")) name.remove_prefix(5);
  size_t start = 0;
  size_t end = name.size();
  for (size_t i = 0; i < name.size(); ++i) {
    if (absl::StartsWith(name.substr(i), "(anonymous namespace)::")) {
      i += 22;
      start = i + 1;
    } else if (name[i] == ':' && i + 1 < name.size() && name[i + 1] == ':') {
      start = i + 2;
      ++i;
    } else if (name[i] == '<' || name[i] == '(') {
      end = i;
      break;
    }
  }
  absl::string_view text = start < end ? name.substr(start, end - start) : name;
  constexpr size_t kMaxLabel = 60;
  if (text.size() > kMaxLabel) {
    size_t cut = kMaxLabel;
    while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0u) == 0x80) --cut;
    text = text.substr(0, cut);
  }
  return std::string(text);
}

const char* CategoryOf(absl::string_view lower) {
  for (const CategoryRule& rule : kCategoryRules) {
    if (HasAny(lower, rule.any) && !HasAny(lower, rule.none)) return rule.category;
  }
  return kOther;
}

bool OnTensorCores(absl::string_view lower, absl::string_view category) {
  if (absl::StrContains(lower, "simt")) return false;
  if (category != kGemm && category != kAttention) return false;
  for (const TensorRule& rule : kTensorRules) {
    if (HasAny(lower, rule.any) && !HasAny(lower, rule.none)) return true;
  }
  return false;
}

}  // namespace

KernelClass ClassifyKernel(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  KernelClass result;
  const char* category = CategoryOf(lower);
  result.category = category;
  result.tensorcore = OnTensorCores(lower, category);
  for (const Label& label : kLabels) {
    if (label.category != nullptr && result.category != label.category) continue;
    if (HasAny(lower, label.any)) {
      result.label = label.label;
      return result;
    }
  }
  result.label = ShortName(name);
  return result;
}

std::vector<std::string> KernelCategories() {
  return {kGemm, kNorm, kElementwise, kLayout, kAttention, kForeach, kCommunication, kOther};
}

}  // namespace libreyolo::analysis
