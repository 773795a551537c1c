// libreyolo-worker: measures one trial of one job. libreyolod starts it with its orders on
// descriptor 3; there is nothing for people to call.
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "common/base/version.h"
#include "server/worker/worker.h"
#include "server/worker_link/worker_channel.h"

namespace {

bool HasLink() {
  struct stat info;
  return fstat(libreyolo::worker_link::kWorkerLinkFd, &info) == 0 && S_ISSOCK(info.st_mode);
}

// Keeps freed memory. By default glibc maps each large tensor anew and gives it back when it is
// freed, so that every layer of every iteration pays for page faults: a tenth of the forward pass
// of YOLO9-t, which says nothing about the model. One job later the process is gone anyway.
void KeepMemory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
}

void Prepare() {
  // A daemon killed with -9 takes its workers along, even one that is stuck in a kernel call.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A broken link and a file-size limit come back as errors, where they can be reported.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  KeepMemory();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    printf("libreyolo-worker %s\n", libreyolo::BuildId());
    return 0;
  }
  if (argc > 1 || !HasLink()) {
    fprintf(
        stderr,
        "libreyolo-worker is started by libreyolod, which gives it its orders on descriptor %d.\n"
        "To measure, run: libreyolo profile infer\n",
        libreyolo::worker_link::kWorkerLinkFd);
    return 2;
  }
  Prepare();
  const int code =
      libreyolo::worker::RunWorker(libreyolo::UniqueFd(libreyolo::worker_link::kWorkerLinkFd));
  fflush(nullptr);
  _exit(code);
}
