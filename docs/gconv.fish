# Completion for fish: source this file, or install it as share/fish/vendor_completions.d/gconv.fish. gconv itself tells what a
# word may become; its line ":files" asks for names of files besides.
function __gconv_complete
  set -l words (commandline -opc) (commandline -ct)
  for candidate in ($words[1] complete $words[2..-1] 2>/dev/null)
    if test "$candidate" = :files
      __fish_complete_path (commandline -ct)
    else
      echo $candidate
    end
  end
end
complete -c gconv -f -a '(__gconv_complete)'
