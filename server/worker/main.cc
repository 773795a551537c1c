// libreyolo-worker: measures one trial of one job. libreyolod starts it with its orders on
// descriptor 3; there is nothing for people to call.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "common/base/version.h"
#include "server/log/log_spdlog.h"
#include "server/worker/capture/cupti_source.h"
#include "server/worker/host_memory.h"
#include "server/worker/worker.h"
#include "server/worker_link/worker_channel.h"

namespace {

bool HasLink() {
  struct stat info;
  return fstat(libreyolo::worker_link::kWorkerLinkFd, &info) == 0 && S_ISSOCK(info.st_mode);
}

void Prepare() {
  // A daemon killed with -9 takes its workers along, even one that is stuck in a kernel call.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A broken link and a file-size limit come back as errors, where they can be reported.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  libreyolo::worker::KeepFreedHostMemory();
}

// For libreyolod, which tells `libreyolo doctor`: "ok TEXT" or "failed TEXT", then lines "hint
// TEXT".
int CheckCapture() {
  const absl::StatusOr<std::string> found = libreyolo::worker::DescribeCapture();
  if (found.ok()) {
    printf("ok %s\n", found->c_str());
    return 0;
  }
  const libreyolo::ErrorDetail detail = libreyolo::GetErrorDetail(found.status());
  printf("failed %s\n", detail.message.c_str());
  for (const std::string& hint : detail.hints) printf("hint %s\n", hint.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    printf("libreyolo-worker %s\n", libreyolo::BuildId());
    return 0;
  }
  if (argc == 2 && strcmp(argv[1], "--check-capture") == 0) return CheckCapture();
  if (argc > 1 || !HasLink()) {
    fprintf(
        stderr,
        "libreyolo-worker is started by libreyolod, which gives it its orders on descriptor %d.\n"
        "To measure, run: libreyolo profile infer\n",
        libreyolo::worker_link::kWorkerLinkFd);
    return 2;
  }
  Prepare();
  // Standard error is the job's log file. A worker that cannot log still measures.
  const auto log = libreyolo::MakeSpdlogSink("", libreyolo::LogLevel::kInfo);
  if (log.ok()) libreyolo::SetLogSink(log->get());
  const int code =
      libreyolo::worker::RunWorker(libreyolo::UniqueFd(libreyolo::worker_link::kWorkerLinkFd));
  fflush(nullptr);
  _exit(code);
}
