// The whole client as one function: what main() calls, and tests.
#pragma once

#include <string>
#include <vector>

#include "client/commands/command.h"

namespace libreyolo::client {

// `args` without the program's name. Returns the exit code (client/exit_code.h); errors go to
// stderr, as one JSON object under --json.
int RunCli(const std::vector<std::string>& args, const Streams& streams, const Deps& deps);

// RunCli on the process's own streams, environment and servers.
int RunCliOnProcess(int argc, char** argv);

}  // namespace libreyolo::client
