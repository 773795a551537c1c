// What this build calls itself.
#pragma once

namespace libreyolo {

// "0.1.0"
const char* Version();
// Version and commit, equal in the three executables of one build: "0.1.0+1a2b3c4d5e6f".
const char* BuildId();

}  // namespace libreyolo
