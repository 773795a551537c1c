// Where the files of a foreign dataset may lie. A YAML file, a list or annotations that somebody
// sent must not make the worker open what its account can read elsewhere.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace libreyolo::data {

// Copies share what they remember. Thread-safe.
class Fence {
 public:
  // Everything is allowed: the dataset is of the daemon's own user, or of its admin.
  Fence() = default;
  // Only what lies below these folders once all links are followed; without any, everything.
  explicit Fence(const std::vector<std::string>& roots);

  // PATH_REFUSED when the absolute `path` leads out. It says the same whether something is there or
  // not. OK for what does not exist inside. `shown` is what the dataset calls it.
  absl::Status Check(const std::string& path, const std::string& shown) const;
  absl::Status Check(const std::string& path) const { return Check(path, path); }

 private:
  struct Roots;
  std::shared_ptr<Roots> roots_;
};

}  // namespace libreyolo::data
