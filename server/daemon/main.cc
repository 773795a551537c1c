#include <malloc.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <string>

#include "common/base/file.h"
#include "common/base/log.h"
#include "server/daemon/config.h"
#include "server/daemon/daemon.h"
#include "server/log/log_spdlog.h"

namespace {

constexpr int kExitUsage = 2;
constexpr int kExitFailed = 1;

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "libreyolod: %s\n", std::string(status.message()).c_str());
  return code;
}

// glibc raises its thresholds with each large block that is freed, and then keeps megabytes for
// good in the arena of every thread; a fixed threshold gives large blocks back at once.
void KeepMemorySmall() {
  mallopt(M_MMAP_THRESHOLD, 512 << 10);
  mallopt(M_TRIM_THRESHOLD, 256 << 10);
}

}  // namespace

int main(int argc, char** argv) {
  // Before any thread exists: signals are read from a descriptor, and a closed terminal or pipe
  // ends nothing.
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGINT);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  KeepMemorySmall();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  libreyolo::daemon::AllowTls13Only();

  const auto line = libreyolo::daemon::ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(line.status(), kExitUsage);
  const libreyolo::daemon::Config* const config = &line->config;
  if (line->check_only) {
    const absl::Status usable = libreyolo::daemon::CheckStart(*config);
    if (!usable.ok()) return Fail(usable, kExitUsage);
  }
  if (!line->show.empty()) {
    std::fputs(line->show.c_str(), stdout);
    return 0;
  }
  // A store is nobody else's to read. What a local daemon makes is its user's, like any file.
  if (!config->local) umask(0077);
  if (!config->log_path.empty()) {
    if (const auto made = libreyolo::MakeDirectories(config->state_dir, 0700); !made.ok()) {
      return Fail(made, kExitFailed);
    }
  }
  const auto sink = libreyolo::MakeSpdlogSink(config->log_path, libreyolo::LogLevel::kInfo);
  if (!sink.ok()) return Fail(sink.status(), kExitFailed);
  libreyolo::SetLogSink(sink->get());
  const absl::Status status = libreyolo::daemon::RunDaemon(*config);
  const int code = status.ok()                       ? 0
                   : absl::IsAlreadyExists(status)   ? libreyolo::daemon::kExitAlreadyRunning
                   : absl::IsInvalidArgument(status) ? kExitUsage
                                                     : kExitFailed;
  if (!status.ok()) {
    Fail(status, code);
    if (!config->log_path.empty())
      libreyolo::LogError("not started", {{"error", status.message()}});
  }
  libreyolo::SetLogSink(nullptr);
  return code;
}
