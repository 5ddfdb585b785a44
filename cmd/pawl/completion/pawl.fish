# Completion of pawl for fish.

function __pawl_complete
    # Tokens are taken apart here, and nothing in them is carried out.
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l unquoted (string unescape -- $current)
    test (count $unquoted) = 1; or set unquoted $current
    set -l lines (command $words[1] __complete $words[2..-1] "$unquoted" 2>/dev/null)
    test (count $lines) -gt 0; or return
    set -l directive (string sub -s 2 -- $lines[-1])
    set -e lines[-1]
    if string match -qr '^-.*=' -- $unquoted # the value of a flag
        set lines (string replace -r '=.*' = -- $unquoted)$lines
    end
    if test (count $lines) -gt 0
        printf '%s\n' $lines
    else if test (math "bitand($directive, 4)") = 0
        __fish_complete_path $current
    end
end

complete -c pawl -e
complete -c pawl -f -a '(__pawl_complete)'
