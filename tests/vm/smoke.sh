#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: smoke.sh VERSION BPF_OBJECTS PROGRAM...
# Runs test.sh, with the objects and programs, in a virtual machine with Debian's kernel VERSION.
set -euo pipefail

version=$1 objects=$2
shift 2
here=$(cd "${BASH_SOURCE[0]%/*}" && pwd -P)

if [[ ${PHASEGATE_VM_SKIP:-} == 1 ]]; then
	echo "skipped: PHASEGATE_VM_SKIP=1"
	exit 77
fi
directory=$(mktemp -d "${TMPDIR:-/tmp}/phasegate-smoke.XXXXXX")
trap 'rm -rf "$directory"' EXIT
mkdir "$directory/bpf"
cp "$here/test.sh" "$@" "$directory/"
cp "$objects"/*.bpf.o "$directory/bpf/"
status=0
"$here/../../scripts/vm" -k "$version" -t bpftool "$directory" || status=$?
# The test harness takes 77 for "skipped", which only the line above may say.
exit $((status == 77 ? 1 : status))
