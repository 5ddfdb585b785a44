#compdef pawl
# Completion of pawl for zsh.

_pawl() {
	local -a lines
	# (Q) takes quotes off, and carries nothing out.
	lines=("${(@f)$(command "${(Q)words[1]}" __completeNoDesc "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
	local directive=${lines[-1]#:}
	lines[-1]=()
	[[ $PREFIX == -*=* ]] && compset -P 1 '*=' # the value of a flag
	if (( $#lines )); then
		compadd -- "${lines[@]}"
	elif (( ! (directive & 4) )); then
		_files
	fi
}

# Loaded from a folder of $fpath it is called to complete; sourced it is not.
if [[ ${funcstack[1]} == _pawl ]]; then
	_pawl "$@"
else
	compdef _pawl pawl
fi
