# Completion of pawl for bash, with or without the package bash-completion.

# _pawl_unquote sets REPLY to what the shell would make of a word. Nothing in it is
# carried out: a word with a substitution stays as it is.
_pawl_unquote() {
	REPLY=$1
	case $1 in
	*['$`()<>;&|']*) ;;
	*) { eval "REPLY=$1" || eval "REPLY=$1\"" || eval "REPLY=$1'"; } 2>/dev/null ;;
	esac
}

_pawl() {
	local cur= line=${COMP_LINE:0:COMP_POINT} raw=() args=() lines=() word REPLY i
	# COMP_WORDS is cut at : and =, too. What has no blank between belongs together.
	for ((i = 0; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if ((i > 0)) && [[ $line != [[:space:]]* && $line ]]; then
			raw[${#raw[@]}-1]+=$word
		else
			raw+=("$word")
		fi
		line=${line#"${line%%[![:space:]]*}"}
		line=${line#"$word"}
	done
	for word in "${raw[@]}"; do
		_pawl_unquote "$word"
		args+=("$REPLY")
	done
	cur=${raw[-1]}
	mapfile -t lines < <(command "${args[0]/#~\//$HOME/}" __completeNoDesc "${args[@]:1}" 2>/dev/null)
	((${#lines[@]})) || return
	local directive=${lines[-1]#:}
	unset 'lines[-1]'
	[[ ${args[-1]} == -*=* ]] && lines=("${lines[@]/#/${args[-1]%%=*}=}") # the value of a flag
	COMPREPLY=()
	if ((${#lines[@]} == 0 && (directive & 4) == 0)); then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "${args[-1]}")
		return
	fi
	# What stands before the last : or = is not part of the word that bash replaces.
	local before=
	[[ $cur == *[:=]* && $COMP_WORDBREAKS == *[:=]* ]] && before=${cur%"${cur##*[:=]}"}
	for word in "${lines[@]}"; do
		[[ $word == "${args[-1]}"* ]] || continue
		case $cur in
		\'*) word=${word//\'/\'\\\'\'} ;; # the quote is open: bash closes it
		\"*) word=${word//[\\]/\\\\} word=${word//\"/\\\"} word=${word//\$/\\\$} word=${word//\`/\\\`} ;;
		*) printf -v word %q "$word" && before=${before//[\"\']/} ;;
		esac
		COMPREPLY+=("${word#"$before"}")
	done
}

complete -F _pawl pawl
