// Help texts and the machine-readable flag table, both from the command table. Pure.
#pragma once

#include <string>

#include "client/flags.h"

namespace libreyolo::client {

// Of a command, a group ("profile") or, with neither, of everything.
std::string HelpText(const CommandLine& line);

// The command table as JSON, for scripts/gen_cli_docs.py.
std::string DumpFlags();

}  // namespace libreyolo::client
