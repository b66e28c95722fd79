#compdef gconv
# Completion for zsh: source this file after compinit, or install it as share/zsh/site-functions/_gconv. gconv itself tells
# what a word may become; its line ":files" asks for names of files besides.
_gconv() {
  local -a found
  found=("${(@f)$(${~words[1]} complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  local -i files=$(( ${found[(Ie):files]} > 0 ))
  found=(${found:#:files})
  (( $#found )) && compadd -- $found
  if (( files )); then
    [[ $PREFIX == --*=* ]] && compset -P '*='
    _files
  fi
}
if [[ $funcstack[1] == _gconv ]]; then _gconv "$@"; else compdef _gconv gconv; fi
