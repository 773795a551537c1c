# Writes OUT, a C++ source that holds HTML, STYLE and the joined files of SCRIPT as the variables of page_assets.h.

# The files' bytes as the initialiser of an array.
function(bytes_of out)
  set(hex "")
  foreach(file ${ARGN})
    file(READ ${file} more HEX)
    string(APPEND hex "${more}")
  endforeach()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n" hex
    "${hex}")
  set(${out} "${hex}" PARENT_SCOPE)
endfunction()

set(text "// Made by embed_page.cmake.\n#include \"common/analysis/timeline/page_assets.h\"\n\n")
string(APPEND text "namespace libreyolo::analysis {\nnamespace {\n\n")
foreach(part HTML STYLE SCRIPT)
  bytes_of(bytes ${${part}})
  string(APPEND text "const unsigned char k${part}[] = {\n${bytes}};\n\n")
endforeach()
string(APPEND text "}  // namespace\n\n")
foreach(pair "HTML;kTimelineHtml" "STYLE;kTimelineStyle" "SCRIPT;kTimelineScript")
  list(GET pair 0 part)
  list(GET pair 1 name)
  string(APPEND text
    "const absl::string_view ${name}{reinterpret_cast<const char*>(k${part}), sizeof(k${part})};\n")
endforeach()
string(APPEND text "\n}  // namespace libreyolo::analysis\n")
file(WRITE ${OUT} "${text}")
