# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the scripts share; sourced, never run.

# The top of the source tree, with no symbolic link in it.
PG_ROOT=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd -P)
export PG_ROOT

# Where Debian keeps bpftool, debootstrap and modprobe, also for those who are not root.
PATH+=:/usr/sbin:/sbin

say() { printf '%s\n' "$*" >&2; }

die() {
	say "${0##*/}: $*"
	exit 1
}

need_root() {
	[[ $(id -u) == 0 ]] || die "must run as root: sudo $0 $*"
}

# Prints the header comment of the running script, as its help.
usage() {
	awk 'NR > 2 && !/^#/ { exit } NR > 2 { sub(/^# ?/, ""); print }' "$0"
}

# The files under version control that match the given patterns, or in a tree without .git all of
# them outside the build directories. As root in another user's clone git wants to be told that
# the tree is safe to read.
tracked_files() {
	if [[ -e $PG_ROOT/.git ]]; then
		git -c safe.directory="$PG_ROOT" -C "$PG_ROOT" ls-files --cached -- "$@"
	else
		local arguments=() pattern
		for pattern in "$@"; do
			arguments+=(-o -path "./$pattern")
		done
		(cd "$PG_ROOT" &&
			find . -path './build*' -prune -o -type f \( "${arguments[@]:1}" \) -print |
			sed 's|^\./||' | sort)
	fi
}
