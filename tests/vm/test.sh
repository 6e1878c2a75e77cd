#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs in the virtual machine, see smoke.sh.
status=0

for object in /bpf/*.bpf.o; do
	if bpftool prog loadall "$object" /sys/fs/bpf/smoke; then
		echo "ok     $object: $(find /sys/fs/bpf/smoke -type f | wc -l) programs load"
	else
		echo "FAILED $object does not load"
		status=1
	fi
	rm -rf /sys/fs/bpf/smoke
done

if /phasegate doctor; then
	echo "ok     doctor"
else
	echo "FAILED doctor"
	status=1
fi

/vm_smoke /phasegate || status=1

# Connections are closed by the kernel on request, if it can: the program's own test of that.
if /sockets_close; then
	echo "ok     sockets_close"
else
	echo "FAILED sockets_close"
	status=1
fi

# Whatever was made for the runs is gone with them.
left=$(find /sys/fs/cgroup /sys/fs/bpf /run -mindepth 1 \( -type d -o -path '/sys/fs/bpf/*' \))
if [ -n "$left" ]; then
	echo "FAILED left behind: $left"
	status=1
fi
exit $status
