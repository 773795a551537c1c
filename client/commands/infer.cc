#include "client/commands/measure.h"
#include "client/rpc/inputs.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

absl::StatusOr<int> RunInfer(const Context& context) {
  const Arguments& args = context.args();
  LY_ASSIGN_OR_RETURN(const Server server, context.Connect(NeedDaemon::kSameBuild));
  ProgressView progress(context.err(), ProgressStyleOf(context), context.deps.clock);
  v1::JobSpec spec;
  LY_RETURN_IF_ERROR(FillCommonSpec(context, server, progress, spec));
  v1::InferSpec& infer = *spec.mutable_infer();
  if (args.HasWord(0)) {
    LY_ASSIGN_OR_RETURN(
        *infer.mutable_source(),
        ResolveInput(server, args.Word(0), InputKind::kImages, [&](int64_t done, int64_t total) {
          progress.ShowBytes("uploading images", done, total);
        }));
  }
  if (args.IsTyped("--runs")) infer.set_runs(args.Int("--runs"));
  if (args.IsTyped("--half")) infer.set_half(args.Switch("--half"));
  if (args.IsTyped("--amp-dtype")) infer.set_amp_dtype(args.Text("--amp-dtype"));
  if (args.IsTyped("--conf")) infer.set_conf(args.Number("--conf"));
  if (args.IsTyped("--iou")) infer.set_iou(args.Number("--iou"));
  if (args.IsTyped("--max-det")) infer.set_max_det(args.Int("--max-det"));
  if (args.IsTyped("--trace")) infer.set_trace(args.Switch("--trace"));
  return Measure(context, server, progress, spec);
}

}  // namespace libreyolo::client
