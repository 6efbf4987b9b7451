#!/usr/bin/env bash
# Two hosts with netmem between them: ping and TCP through AF_XDP, first as a wire, then as a router.
#
#   sudo demo/veth.sh
#
# The hosts are network namespaces joined by veth pairs. Nothing outside them is touched, and they are gone
# afterwards, also after Ctrl-C. Exits with 0 if everything crossed.
set -euo pipefail
cd "$(dirname "$0")/.."

h1=netmem-demo-$$-h1 dut=netmem-demo-$$-dut h2=netmem-demo-$$-h2
said=$(mktemp)
forwarder=

fail() {
    echo "demo: $*" >&2
    exit 1
}

clean_up() {
    exec 2>/dev/null
    [ -z "$forwarder" ] || kill -KILL "$forwarder" || true
    for namespace in "$h1" "$dut" "$h2"; do
        ip netns pids "$namespace" | xargs -r kill -KILL || true
        ip netns del "$namespace" || true
    done
    rm -f "$said"
}

check_requirements() {
    [ "$(id -u)" = 0 ] || fail "needs root for network namespaces and AF_XDP: sudo demo/veth.sh"
    local program package missing=()
    for package in ip:iproute2 ping:iputils-ping iperf3:iperf3; do
        program=${package%%:*} package=${package##*:}
        command -v "$program" >/dev/null || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] || fail "missing packages, install them: apt-get install ${missing[*]}"
}

# Builds as the person who said sudo, so that the build directory stays theirs.
build() {
    netmem=${CARGO_TARGET_DIR:-target}/release/netmem
    local person=${SUDO_USER:-root} cargo
    cargo=$(command -v cargo || echo "$(getent passwd "$person" | cut -d: -f6)/.cargo/bin/cargo")
    if [ ! -x "$cargo" ]; then
        [ -x "$netmem" ] || fail "cannot find cargo: build first with cargo build --release"
    elif [ "$person" = root ]; then
        "$cargo" build --release --quiet --bin netmem
    else
        sudo -H -u "$person" "$cargo" build --release --quiet --bin netmem
    fi
    netmem=$(realpath "$netmem")
}

# host NAMESPACE NUMBER PORT ADDRESS: a host, cabled to a port of the machine in the middle.
host() {
    local namespace=$1 number=$2 port=$3 address=$4
    ip netns add "$namespace"
    ip netns exec "$namespace" sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6' || true
    ip -n "$namespace" link add eth0 address "02:00:00:00:0$number:01" type veth \
        peer name "$port" address "02:00:00:00:0$number:fe" netns "$dut"
    ip -n "$namespace" addr add "$address/24" dev eth0
    ip -n "$namespace" link set dev lo up
    ip -n "$namespace" link set dev eth0 up
    ip -n "$dut" link set dev "$port" up

}

# router NAMESPACE NUMBER: sends everything to the machine in the middle, which answers no ARP.
router() {
    ip -n "$1" neigh add "10.77.$2.254" lladdr "02:00:00:00:0$2:fe" dev eth0
    ip -n "$1" route add default via "10.77.$2.254"
}

# lay ADDRESS ADDRESS: the two hosts and the machine between them.
lay() {
    ip netns add "$dut"
    ip netns exec "$dut" sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6' || true
    host "$h1" 1 one "$1"
    host "$h2" 2 two "$2"
}

take_away() {
    local namespace
    for namespace in "$h1" "$dut" "$h2"; do ip netns del "$namespace"; done
}

# start OPTION...: the forwarder in the middle, until it carries packets from h1 to $address2.
start() {
    echo "  netmem forward --port xdp:one --port xdp:two $*"
    ip netns exec "$dut" "$netmem" forward --port xdp:one --port xdp:two "$@" >"$said" 2>&1 &
    forwarder=$!
    local try
    for try in $(seq 60); do
        kill -0 "$forwarder" 2>/dev/null || fail "the forwarder ended: $(cat "$said")"
        ip netns exec "$h1" ping -q -c 1 -W 1 "$address2" >/dev/null && return
    done
    fail "no packet crosses"
}

stop() {
    kill -INT "$forwarder"
    wait "$forwarder" || fail "the forwarder failed: $(cat "$said")"
    forwarder=
    echo "  at Ctrl-C it says:"
    sed 's/^/    | /' "$said"
}

# ping_from NAMESPACE ADDRESS WORDS: ten pings, each of which is answered. With a deadline (-w) ping waits for replies.
ping_from() {
    local out seq
    out=$(ip netns exec "$1" ping -c 10 -i 0.1 -w 60 "$2") || fail "ping $3: $out"
    for seq in $(seq 10); do
        grep -q "icmp_seq=$seq " <<<"$out" || fail "ping $3: $seq was not answered: $out"
    done
    echo "  ping   $3   $(sed -n 's/ packets transmitted, / sent, /; s/ received,.*/ received/p' <<<"$out")," \
        "$(sed -n 's/^rtt [^=]*= [^/]*\/\([^/]*\)\/.*/\1 ms on average/p' <<<"$out")"
}

# tcp WORDS OPTION...: 64 MiB between the hosts.
tcp() {
    local words=$1 out listens=
    shift
    ip netns exec "$h2" iperf3 -s -1 >/dev/null &
    local server=$! try
    for try in $(seq 600); do
        ip netns exec "$h2" sh -c 'grep -qi ":1451 .* 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null' && listens=yes && break
        sleep 0.1
    done
    [ "$listens" ] || fail "iperf3 $words: nobody listens"
    out=$(timeout 120 ip netns exec "$h1" iperf3 -c "$address2" -n 64M "$@" 2>&1) || fail "iperf3 $words: $out"
    wait "$server"
    echo "  TCP    $words   $(awk '/sender/ { bytes = $5 " " $6 } /receiver/ { print bytes " at " $7, $8 }' <<<"$out")"
}

traffic() {
    ping_from "$h1" "$address2" "h1 → h2"
    ping_from "$h2" "$address1" "h2 → h1"
    tcp "h1 → h2"
    tcp "h2 → h1" --reverse
}

check_requirements
trap clean_up EXIT
trap 'exit 130' INT TERM
build

echo
echo "As a wire: frames from one port leave by the other unchanged."
address1=10.77.0.1 address2=10.77.0.2
echo "  h1 $address1 ════ one [netmem] two ════ h2 $address2"
lay "$address1" "$address2"
start --mode cross-connect
traffic
stop
take_away

echo
echo "As a router: IPv4 checked, TTL and checksum rewritten, next hop by longest prefix."
address1=10.77.1.1 address2=10.77.2.1
echo "  h1 $address1 ════ one [netmem] two ════ h2 $address2"
lay "$address1" "$address2"
router "$h1" 1
router "$h2" 2
start --route 10.77.1.0/24,0,02:00:00:00:01:01 --route 10.77.2.0/24,1,02:00:00:00:02:01
traffic
stop
take_away

echo
echo "Everything crossed. The namespaces are gone."
