# Completion for bash: source this file, or install it as share/bash-completion/completions/gconv. gconv itself tells what a
# word may become; its line ":files" asks for names of files besides.
#
# bash parts words at = and : as well (COMP_WORDBREAKS), and replaces only what stands behind the last of these. So the parts
# are put together for gconv, and what stands before the last part is cut from each candidate.
_gconv() {
  local line=${COMP_LINE:0:COMP_POINT} words=() kept= part word option= candidate files= i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    if ((i == 0)) || [[ $line == [[:space:]]* ]]; then
      words+=("") kept=
    fi
    line=${line#"${line%%[![:space:]]*}"}
    part=${COMP_WORDS[i]}
    if ((i == COMP_CWORD)); then part=$line; fi # the cursor may stand within the word
    line=${line#"$part"}
    if ((i == COMP_CWORD)) && [[ $part != *[!=:]* ]]; then kept+=$part part=; fi
    words[-1]=$kept${part#[\"\']}
    if ((i < COMP_CWORD)); then kept+=$part; fi
  done

  COMPREPLY=()
  while IFS= read -r candidate; do
    if [ "$candidate" = :files ]; then files=yes; else COMPREPLY+=("${candidate#"$kept"}"); fi
  done < <("${words[0]/#\~\//$HOME/}" complete "${words[@]:1}" 2>/dev/null)

  if [ -n "$files" ] && [ ${#COMPREPLY[@]} = 0 ]; then
    compopt -o default 2>/dev/null # readline's own completion of files, which knows all quotes
  elif [ -n "$files" ]; then
    compopt -o filenames 2>/dev/null # a slash behind folders, and quotes
    word=${words[-1]}
    if [[ $word == --*=* ]]; then option=${word%%=*}=; fi
    word=${word#"$option"}
    while IFS= read -r candidate; do
      candidate=$option$candidate
      COMPREPLY+=("${candidate#"$kept"}")
    done < <(compgen -f -- "${word//\\/}")
  fi
}
complete -F _gconv gconv
