// Which results somebody is at work with: retention leaves those alone. A result is known by the
// files that were opened and by the folder they lie in, so that a hold follows it when a later job
// moves it to the history. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace libreyolo::daemon {

class ReadHolds {
 public:
  // What was held stays so for `linger` afterwards: a client that copies a result asks for one file
  // after the other. `clock` outlives it.
  explicit ReadHolds(const Clock& clock, absl::Duration linger = absl::Seconds(10))
      : clock_(clock), linger_(linger) {}

  // Held for its lifetime; the ReadHolds outlives it.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    ~Hold() { Release(); }

   private:
    friend class ReadHolds;
    Hold(ReadHolds* holds, std::vector<std::string> keys) : holds_(holds), keys_(std::move(keys)) {}
    void Release();

    ReadHolds* holds_ = nullptr;
    std::vector<std::string> keys_;
  };

  // The result that the file at `path` belongs to. Whoever opens the file afterwards and finds it
  // keeps all of the result until the hold ends.
  Hold OfFile(const std::string& path);
  // The result of a job, wherever it stands.
  Hold OfJob(const std::string& job_id);

  // Runs `body` unless the job or one of the paths is held; nothing is newly held meanwhile. False
  // when it is.
  bool RunIfFree(const std::string& job_id, const std::vector<std::string>& paths,
                 absl::FunctionRef<void()> body);

 private:
  struct State {
    int count = 0;
    absl::Duration released;
  };
  Hold Take(std::vector<std::string> keys);
  void DropOld();

  const Clock& clock_;
  const absl::Duration linger_;
  std::mutex mu_;
  std::map<std::string, State> held_;
  absl::Duration next_drop_;
};

}  // namespace libreyolo::daemon
