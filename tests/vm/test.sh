#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs in the virtual machine, see smoke.sh.
status=0

# With what it took so far, since emulation is slow and each start of the programs is felt.
ok() {
	read -r up rest </proc/uptime
	echo "ok     $* ($up s)"
}

for object in /bpf/*.bpf.o; do
	if bpftool prog loadall "$object" /sys/fs/bpf/smoke; then
		ok "$object: $(find /sys/fs/bpf/smoke -type f | wc -l) programs load"
	else
		echo "FAILED $object does not load"
		status=1
	fi
	rm -rf /sys/fs/bpf/smoke
done

if /phasegate doctor; then
	ok doctor
else
	echo "FAILED doctor"
	status=1
fi

/vm_smoke /phasegate || status=1

# The programs' own tests of what this kernel has to do for them: close connections on request,
# redirect DNS, tell connected sockets from others, switch states, keep pinned maps, tell members
# from strangers, guard what has no Environment and what leaves by a veth, report denials, end what is
# executed with rights that are refused, and find what is attached again.
for program in sockets_close bpf_dns bpf_dns_waits bpf_dns_recverr bpf_draining bpf_state \
	bpf_pins bpf_members bpf_guard bpf_events bpf_host bpf_link bpf_accepted bpf_exec\
	bpf_attach; do
	if "/$program"; then
		ok "$program"
	else
		echo "FAILED $program"
		status=1
	fi
done

# Whatever was made for the runs is gone with them.
left=$(find /sys/fs/cgroup /sys/fs/bpf /run -mindepth 1 \( -type d -o -path '/sys/fs/bpf/*' \))
if [ -n "$left" ]; then
	echo "FAILED left behind: $left"
	status=1
fi
exit $status
