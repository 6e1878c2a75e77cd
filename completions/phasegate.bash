# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of phasegate(1) for bash. Commands and options are asked of the program itself, so
# there is no list to keep up to date; here are the words of options only.

# Commands that the help of the given ones lists: _phasegate_commands [env]
_phasegate_commands() {
	phasegate "$@" --help 2>/dev/null |
		sed -n "s/^  phasegate ${*:+$* }\([a-z][a-z-]*\) .*/\1/p"
}

# Options that the help of a command speaks of.
_phasegate_options() {
	phasegate "$@" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u
	echo --help
}

_phasegate_environments() {
	timeout 2 phasegate env list 2>/dev/null | sed -n '2,$s/ .*//p'
}

# The words of an option's value; nothing: a file.
_phasegate_values() {
	case $1 in
	--phase) echo "setup run verifier" ;;
	--then) echo "setup run verifier deny" ;;
	--survivors) echo "kill freeze refuse allow" ;;
	--verifier) echo "host same new" ;;
	--member-traffic) echo "allow deny" ;;
	--runtime) echo "docker podman containerd" ;;
	--cursor) echo "now oldest" ;;
	--keep) echo "net-raw net-admin syscalls all" ;;
	--resolver) echo "environment" ;;
	--without) echo "ping udp-lite multicast broadcast routing-header mld igmp vsock" ;;
	--accept)
		echo "privileged sandbox_runtime device_tun device_vhost device_kvm device_infiniband \
			device_vfio device_host runtime_socket host_socket host_files bpf_files \
			cgroup_writable proc_writable host_pid_ptrace host_pid cap_sys_admin \
			cap_sys_module cap_sys_rawio cap_dac_read_search cap_bpf cap_net_admin \
			foreign_socket packet_socket vsock_socket vsock vsock_filtered unguarded_link host_process \
			not_inspected"
		;;
	--dns) echo "floor= grace= wildcard-budget= addresses= private= denied=" ;;
	--allow) echo "setup= run= verifier=" ;;
	--log-level | --file-log-level) echo "error warning info debug" ;;
	--env) _phasegate_environments ;;
	esac
}

# Options that are followed by a value.
_phasegate_takes_value() {
	case $1 in
	--json | --attach | --follow | --kill | --release | --env-params | --no-denial-events | \
		--help | --version)
		return 1
		;;
	--*) return 0 ;;
	esac
	return 1
}

# What stands at a place after the command: _phasegate_argument NUMBER COMMAND...
_phasegate_argument() {
	case "$1 ${*:2}" in
	"0 env show" | "0 env phase" | "0 env update" | "0 env destroy" | "0 explain" | "0 verify")
		_phasegate_environments
		;;
	"1 env phase") echo "setup run verifier" ;;
	esac
}

_phasegate_words() {
	COMPREPLY=()
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen -W "$1" -- "$2")
}

_phasegate() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local word i count=0 words
	local -a command=()

	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ $word == -- ]]; then
			return # the command that is run
		elif [[ $word == --* ]]; then
			_phasegate_takes_value "$word" && ((i++))
		elif ((${#command[@]} == 0)) || [[ ${command[*]} == env ]]; then
			command+=("$word")
		else
			((count++))
		fi
	done
	if ((COMP_CWORD > 1)) && _phasegate_takes_value "$previous"; then
		words=$(_phasegate_values "$previous")
		[[ -z $words ]] || _phasegate_words "$words" "$current"
	elif ((${#command[@]} == 0)); then
		_phasegate_words "$(_phasegate_commands) --help --version" "$current"
	elif [[ ${command[*]} == env ]]; then
		_phasegate_words "$(_phasegate_commands env) --help" "$current"
	elif [[ $current == -* ]]; then
		_phasegate_words "$(_phasegate_options "${command[@]}")" "$current"
	else
		words=$(_phasegate_argument "$count" "${command[@]}")
		[[ -z $words ]] || _phasegate_words "$words" "$current"
	fi
}

complete -o default -F _phasegate phasegate
