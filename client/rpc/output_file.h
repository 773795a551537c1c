// A file that appears whole or not at all: it has no name until it is complete. For one thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"

namespace libreyolo::client {

class OutputFile {
 public:
  // ARGUMENT_CONFLICT when `path` exists and `force` is off; ARGUMENT_INVALID when it is a folder
  // or its folder cannot be written to. `option` is what the messages call it ("-o").
  static absl::StatusOr<OutputFile> Make(const std::string& path, bool force,
                                         const std::string& option);
  OutputFile(OutputFile&&) = default;
  // Leaves nothing behind unless Commit() succeeded.
  ~OutputFile();

  absl::Status Append(absl::string_view data);
  // Gives the file its name. ARGUMENT_CONFLICT when a file came there meanwhile and `force` is off.
  absl::Status Commit();

 private:
  OutputFile(std::string path, bool force, std::string option)
      : path_(std::move(path)), force_(force), option_(std::move(option)) {}
  absl::Status Open();
  absl::Status Conflict() const;
  std::string FreshName() const;

  std::string path_;
  bool force_;
  std::string option_;
  UniqueFd fd_;
  std::string part_;  // the unfinished file's name, where the file system cannot do without
};

}  // namespace libreyolo::client
