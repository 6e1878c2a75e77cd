# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The contenders of scripts/bench, which sources this: each has a client's network namespace of its
# own, with a veth to the server's, and its rules on the client's output, where sandboxes of today
# have theirs; the proxies work beside the server. Needs: name, server, program, directory.

# The script that sources this sets them.
# shellcheck disable=SC2154

# Of contenders that are not there: "NAME: REASON" a line.
lacks=""
squid="" tinyproxy="" # their processes
spaces=()             # namespaces made here

lack() {
	say "Without $1: $2"
	lacks+="$1: $2"$'\n'
}

# have CONTENDER COMMAND...: whether the machine has them; says what is missing.
have() {
	local contender=$1 command
	shift
	for command in "$@"; do
		type -P "$command" >/dev/null && continue
		lack "$contender" "there is no $command here (scripts/packages bench installs it)"
		return 1
	done
}

in_space() {
	local space=$1
	shift
	nsenter --net="/run/netns/$name-$space" "$@"
}

# The veth's end in the server's namespace has the contender's name.
add_space() {
	local space=$1 network=198.18.${#spaces[@]}
	ip netns add "$name-$space"
	spaces+=("$space")
	in_space "$space" ip link add eth0 type veth peer name "$space" netns "$server"
	in_space "$space" ip link set lo up
	in_space "$space" ip link set eth0 up
	in_space "$space" ip address add "$network.2/24" dev eth0
	in_server ip link set "$space" up
	in_server ip address add "$network.1/24" dev "$space"
	in_space "$space" ip route add default via "$network.1"
}

# drop_space CONTENDER: it takes no part; the message is in the file.
drop_space() {
	lack "$1" "$(head --lines=1 "$directory/message" | cut --characters=1-100)"
	ip netns delete "$name-$1"
}

rules() { "$program" rules "$@"; }

load_nft() {
	in_space "$1" nft --file - < <(rules nft "$2") 2>"$directory/message"
}

# What is established passes before the set is looked at.
put_established_first() {
	in_space "$1" nft insert rule inet bench output ct state established,related accept \
		2>"$directory/message"
}

load_ipset() {
	local family tables
	in_space ipset ipset restore < <(rules ipset "$1") 2>"$directory/message" || return
	for family in 4 6; do
		tables=iptables
		[[ $family == 4 ]] || tables=ip6tables
		in_space ipset "$tables-restore" 2>"$directory/message" <<-END || return
			*filter
			:INPUT ACCEPT [0:0]
			:FORWARD ACCEPT [0:0]
			:OUTPUT DROP [0:0]
			-A OUTPUT -o lo -j ACCEPT
			-A OUTPUT -m set --match-set ip$family dst -j ACCEPT
			-A OUTPUT -m set --match-set net$family dst -j ACCEPT
			COMMIT
		END
	done
}

load_iptables() {
	in_space iptables iptables-restore < <(rules iptables "$1") 2>"$directory/message" &&
		in_space iptables ip6tables-restore < <(rules ip6tables "$1") 2>"$directory/message"
}

# filters ENTRIES: of the large sets. Loading 1,000,000 takes nftables and ipset some seconds each.
filters() {
	local space
	for space in plain veth-empty veth-small veth-large; do add_space "$space"; done
	if have nft nft; then
		say "Loading $1 entries into nftables, twice"
		add_space nft
		load_nft nft "$1" || drop_space nft
		add_space nft-ct
		{ load_nft nft-ct "$1" && put_established_first nft-ct; } || drop_space nft-ct
	else
		lack nft-ct "there is no nft here"
	fi
	if have ipset ipset iptables-restore ip6tables-restore; then
		say "Loading $1 entries into ipset"
		add_space ipset
		load_ipset "$1" || drop_space ipset
	fi
	if have iptables iptables-restore ip6tables-restore; then
		add_space iptables
		load_iptables 1000 || drop_space iptables
	fi
}

# listens PID PORT: waits until the process listens in the server's namespace, or has ended.
listens() {
	for _ in {1..100}; do
		kill -0 "$1" 2>/dev/null || return
		[[ -z $(in_server ss --no-header --listening --tcp --numeric "sport = :$2") ]] || return 0
		sleep 0.1
	done
	return 1
}

start_squid() {
	cat >"$directory/squid.conf" <<-END
		http_port 192.0.2.1:3128
		acl allowed dst 198.51.100.10/32 10.0.0.0/8 172.15.0.0/16 192.0.2.77 203.0.113.128/25
		http_access allow allowed
		http_access deny all
		cache deny all
		cache_mem 8 MB
		access_log none
		cache_log $directory/squid.log
		cache_store_log none
		pid_filename none
		netdb_filename none
		pinger_enable off
		shutdown_lifetime 0 seconds
		dns_nameservers 127.0.0.1
		coredump_dir $directory
	END
	nsenter --net="/run/netns/$server" squid -N -f "$directory/squid.conf" \
		>"$directory/message" 2>&1 &
	squid=$!
	listens "$squid" 3128 && return
	cat "$directory/squid.log" >>"$directory/message" 2>/dev/null || true
	lack squid "$(tail --lines=1 "$directory/message" | cut --characters=1-100)"
	stop_proxy "$squid"
	squid=""
}

start_tinyproxy() {
	cat >"$directory/tinyproxy.conf" <<-END
		Port 8888
		Listen 192.0.2.1
		MaxClients 100
		LogFile "/dev/null"
		LogLevel Critical
		Filter "$directory/tinyproxy.allowed"
		FilterDefaultDeny Yes
		DisableViaHeader Yes
	END
	printf '%s\n' '^198\.51\.100\.10$' '^10\.' '^172\.15\.' '^192\.0\.2\.77$' '^203\.0\.113\.' \
		>"$directory/tinyproxy.allowed"
	nsenter --net="/run/netns/$server" tinyproxy -d -c "$directory/tinyproxy.conf" \
		>"$directory/message" 2>&1 &
	tinyproxy=$!
	listens "$tinyproxy" 8888 && return
	lack tinyproxy "$(tail --lines=1 "$directory/message" | cut --characters=1-100)"
	stop_proxy "$tinyproxy"
	tinyproxy=""
}

proxies() {
	if have squid squid; then start_squid; fi
	if have tinyproxy tinyproxy; then start_tinyproxy; fi
}

# Of the contenders that are there, as a line of the results.
versions() {
	local found=() command
	for command in nft ipset iptables squid tinyproxy; do
		type -P "$command" >/dev/null || continue
		if [[ $command == tinyproxy ]]; then
			found+=("$(tinyproxy -v | head --lines=1)")
		else
			found+=("$("$command" --version | head --lines=1)")
		fi
	done
	local IFS=';'
	printf '{"machine":"others","value":"%s"}\n' "$(tr --delete '"' <<<"${found[*]}")"
}

stop_proxy() {
	kill "$1" 2>/dev/null || true
	wait "$1" || true
}

end_contenders() {
	local space
	[[ -z $squid ]] || stop_proxy "$squid"
	[[ -z $tinyproxy ]] || stop_proxy "$tinyproxy"
	for space in "${spaces[@]}"; do ip netns delete "$name-$space" 2>/dev/null || true; done
}
