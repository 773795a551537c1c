# Writes OUT, a C++ source that holds the completion scripts of FOLDER as kCompletionScripts (scripts.h).
set(text "// Made by embed_scripts.cmake.\n#include \"client/completion/scripts.h\"\n\nnamespace libreyolo::client {\n\n")
string(APPEND text "const CompletionScript kCompletionScripts[3] = {\n")
foreach(shell bash zsh fish)
  file(READ ${FOLDER}/libreyolo.${shell} script)
  string(APPEND text "    {\"${shell}\", R\"script(${script})script\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace libreyolo::client\n")
file(WRITE ${OUT} "${text}")
