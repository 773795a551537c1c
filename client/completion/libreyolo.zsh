#compdef libreyolo
# Completion of libreyolo for zsh. The client itself knows the words (libreyolo __complete).
_libreyolo() {
  local -a typed found
  local line files=0
  typed=("${(@Q)words[1,CURRENT]}")
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=1
    else
      found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    fi
  done < <("$typed[1]" __complete "${(@)typed[2,-1]}" 2>/dev/null)
  (( $#found )) && _describe -V libreyolo found
  (( files )) && _files
}
# From a folder of fpath this file is the function's body; from a start file it defines it.
if [[ $funcstack[1] == _libreyolo ]]; then
  _libreyolo "$@"
else
  compdef _libreyolo libreyolo
fi
