# Completion of libreyolo for fish. The client itself knows the words (libreyolo __complete).
function __libreyolo_complete
    set -l typed (commandline -opc)
    for line in ($typed[1] __complete $typed[2..-1] (commandline -ct) 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c libreyolo -f -a '(__libreyolo_complete)'
