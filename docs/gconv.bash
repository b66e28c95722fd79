# Completion for bash (and zsh, after `autoload bashcompinit; bashcompinit`): source this file, or install it as
# share/bash-completion/completions/gconv. What a word may become, gconv itself tells.
_gconv() {
  local cur words cword
  if declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref -n := cur words cword
  else
    words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]}
  fi
  local IFS=$'\n'
  COMPREPLY=($("${words[0]}" complete "${words[@]:1:cword}" 2>/dev/null))
  if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$cur"; fi
}
complete -o default -F _gconv gconv
