#include "client/commands/measure.h"
#include "client/rpc/inputs.h"
#include "common/base/status_macros.h"

namespace libreyolo::client {

namespace v1 = ::libreyolo::profile::v1;

absl::StatusOr<int> RunTraining(const Context& context) {
  const Arguments& args = context.args();
  LY_ASSIGN_OR_RETURN(const Server server, context.Connect(NeedDaemon::kSameBuild));
  ProgressView progress(context.err(), ProgressStyleOf(context), context.deps.clock);
  v1::JobSpec spec;
  LY_RETURN_IF_ERROR(FillCommonSpec(context, server, progress, spec));
  v1::TrainSpec& train = *spec.mutable_train();
  LY_ASSIGN_OR_RETURN(
      *train.mutable_data(),
      ResolveInput(server, args.Word(0), InputKind::kDataset, [&](int64_t done, int64_t total) {
        progress.ShowBytes("uploading the dataset", done, total);
      }));
  if (args.IsTyped("--steps")) train.set_steps(args.Int("--steps"));
  if (args.IsTyped("--workers")) train.set_workers(args.Int("--workers"));
  if (args.IsTyped("--amp")) train.set_amp(args.Switch("--amp"));
  return Measure(context, server, progress, spec);
}

}  // namespace libreyolo::client
