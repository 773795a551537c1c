// What stands at a place in a project: whose result it is, and how it is called once it is
// replaced. Pure apart from reading; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace libreyolo::daemon {

// Something is there, a broken symlink included.
bool Exists(const std::string& path);

// The names of what is in a folder; none when it cannot be read.
std::vector<std::string> NamesIn(const std::string& path);

// The job that made the result at `path` (a folder with a profile.json, or a *_repeat.json); empty
// when it names none, or none that can be a folder's name.
std::string JobOf(const std::string& path);

// A name for a result of unknown origin: the time of its file, "20261130T045206Z".
std::string NameByTime(const std::string& path);

// True for the canonical "<base>_<number>".
bool IsTrialName(const std::string& name, const std::string& base);

}  // namespace libreyolo::daemon
