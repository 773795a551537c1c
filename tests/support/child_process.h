// A forked child that holds what the test gave it until the test lets go. For tests of locks, which
// belong to open files and outlive the process that took them.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "common/base/check.h"

namespace libreyolo::testing {

class ChildProcess {
 public:
  // Runs `body` in the child, which then waits to be killed. Returns when it has run.
  explicit ChildProcess(const std::function<void()>& body) {
    int ready[2];
    LY_CHECK(pipe(ready) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(ready[0]);
      body();
      LY_CHECK(write(ready[1], "x", 1) == 1);
      for (;;) pause();
    }
    close(ready[1]);
    char byte;
    LY_CHECK(read(ready[0], &byte, 1) == 1) << "the child died";
    close(ready[0]);
  }
  ~ChildProcess() { Kill(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Kills it and waits for its end.
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace libreyolo::testing
