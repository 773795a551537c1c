# Completion of libreyolo for bash. The client itself knows the words (libreyolo __complete).
_libreyolo() {
  # bash cuts words at ":" and "=" too; ours end at white space alone.
  local -a words
  read -a words <<<"${COMP_LINE:0:COMP_POINT}"
  [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
  local current=${words[${#words[@]} - 1]} line files=
  local -a found=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=1
    else
      found+=("${line%%$'\t'*}")
    fi
  done < <("${COMP_WORDS[0]}" __complete "${words[@]:1}" 2>/dev/null)
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r line; do found+=("$line"); done < <(compgen -f -- "$current")
  fi
  # Only what follows the last cut is replaced.
  local cut=
  [[ $current == *[:=]* ]] && cut=${current%"${current##*[:=]}"}
  COMPREPLY=("${found[@]#"$cut"}")
}
complete -F _libreyolo libreyolo
