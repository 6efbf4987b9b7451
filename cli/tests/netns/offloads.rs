//! Tests with hosts in their default settings: they leave checksums and segmentation to a card, which a veth does not
//! have.

use crate::forwarder::{Forwarder, said};
use crate::links::Pair;
use crate::summary::Summary;
use crate::test_frames::{Folder, packets, pcap_at_intervals};
use crate::testbed::{Namespace, Testbed, Wiring, host_mac, port_mac, wait_until};
use crate::traffic::ping_once;
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

/// Bytes of a file.
const FILE: usize = 8 << 20;
/// Frames that have room for half of the longest packet.
const LARGE: &[&str] = &["--frame-size=32768", "--frames=2048"];
/// How long nothing may come before a test gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Seen: ping crossed, and every packet of TCP and UDP was lost without a counter moving.
#[test]
fn hosts_with_offloads_on_exchange_files_by_xdp_in_native_mode() {
    let Some(summary) = files_cross(["xdp:one", "xdp:two"], &["--xdp-mode=native"]) else { return };
    for port in ["one", "two"] {
        assert!(summary.interface(port, "csum_completed") > 0);
        // In native mode a veth has its peer cut.
        assert_eq!(summary.interface(port, "gso_cut"), 0);
    }
}

/// Seen: TCP and UDP within VXLAN arrived with wrong checksums, both inside and outside, and no counter moved.
#[test]
fn hosts_with_offloads_on_exchange_files_within_vxlan_by_xdp_in_native_mode() {
    let Some(bed) = lay_with_vxlan(&["ping"]) else { return };
    let forwarder = start(&bed, ["xdp:one", "xdp:two"], &["--xdp-mode=native"]);
    file_crosses(&bed.h1, &bed.h2, "10.79.0.2:5000");
    datagrams_cross(&bed.h2, &bed.h1, "10.79.0.1:5001");
    let summary = end(forwarder);
    for port in ["one", "two"] {
        assert!(summary.interface(port, "csum_completed") > 0);
    }
    bed.assert_nothing_left();
}

/// Seen: TCP within VXLAN stood still, only a counter of the port grew, and no line said why.
#[test]
fn a_packet_within_vxlan_that_a_packet_port_drops_is_reported_with_a_remedy_that_helps() {
    let Some(bed) = lay_with_vxlan(&["ping", "ethtool"]) else { return };
    let mut forwarder = Forwarder::start_on(&bed, ["packet:one", "packet:two"], &[]);
    bed.wait_for_the_path();
    let _listener = bed.h2.inside(|| TcpListener::bind("10.79.0.2:4999").expect("a listener"));
    let mut sender = bed.h1.inside(|| TcpStream::connect("10.79.0.2:4999").expect("a connection"));
    sender.set_nonblocking(true).expect("an option");
    assert!(sender.write(&file()).expect("a part is taken") > 1500);
    let line = forwarder.lines().find(|line| line.contains("rx_dropped")).expect("a line");
    let remedy = "-K IF tx-udp_tnl-segmentation off tx-udp_tnl-csum-segmentation off; if one is a card, ethtool -K one gro off";
    assert!(line.starts_with("netmem: port packet:one: it dropped ") && line.ends_with(remedy), "{line}");
    let off = ["-K", "eth0", "tx-udp_tnl-segmentation", "off", "tx-udp_tnl-csum-segmentation", "off"];
    for host in [&bed.h1, &bed.h2] {
        assert!(host.command("ethtool").args(off).status().expect("ethtool").success());
    }
    file_crosses(&bed.h1, &bed.h2, "10.79.0.2:5000");
    let out = forwarder.end(Signal::INT);
    assert!(out.status.success(), "what a sender does is no failure of the run");
    Summary::parse(&out.stdout).assert_adds_up();
    bed.assert_nothing_left();
}

/// Hosts with a tunnel between them.
fn lay_with_vxlan(programs: &[&str]) -> Option<Testbed> {
    let bed = Testbed::lay(Wiring::Routed, programs)?;
    for (number, other, host) in [(1, 2, &bed.h1), (2, 1, &bed.h2)] {
        let ends = format!("local 10.77.{number}.1 remote 10.77.{other}.1");
        if !host.makes("ip", &format!("link add vx0 mtu 1450 type vxlan id 7 dstport 4789 {ends}")) {
            return None;
        }
        host.ip(&format!("addr add 10.79.0.{number}/24 dev vx0"));
        host.ip("link set vx0 up");
    }
    Some(bed)
}

/// Seen: every packet of TCP and UDP was lost, and packets of 64 KiB, for which no segment size is given, were dropped.
#[test]
fn hosts_with_offloads_on_exchange_files_by_xdp_in_generic_mode() {
    let Some(summary) = files_cross(["xdp:one", "xdp:two"], &["--xdp-mode=generic"]) else { return };
    for port in ["one", "two"] {
        let [finished, cut, without] =
            ["csum_completed", "gso_cut", "cut_without_size"].map(|counter| summary.interface(port, counter));
        assert!(finished > 0 && cut > 0 && without == cut, "{finished} {cut} {without}");
    }
}

/// Seen: one packet of a host with BIG TCP, up to 512 KiB long, took the port down for good.
#[test]
fn packets_of_more_than_64_kib_are_counted_drops_by_generic_xdp_and_the_file_arrives() {
    let Some(bed) = lay_for_files() else { return };
    bed.h1.ip("link set dev eth0 gso_max_size 524280");
    let forwarder = start(&bed, ["xdp:one", "xdp:two"], &["--xdp-mode=generic"]);
    file_crosses(&bed.h1, &bed.h2, "[fd77:2::1]:5000");
    let summary = end(forwarder);
    let [too_long, without_size] =
        ["rx_too_long", "udp_without_size"].map(|counter| summary.interface("one", counter));
    assert!(too_long > 0 && without_size == 0, "{too_long} {without_size}");
    bed.assert_nothing_left();
}

/// Seen: as with xdp. A packet of 64 KiB was also dropped if a frame had no room for it.
#[test]
fn hosts_with_offloads_on_exchange_files_by_packet_sockets() {
    let Some(summary) = files_cross(["packet:one", "packet:two"], &[]) else { return };
    for port in ["one", "two"] {
        // The last packet of a file may be a whole segment and a short one, which one frame has room for.
        assert!(summary.interface(port, "gso_cut") > summary.interface(port, "gso_kept"));
        // The kernel gets the state of the checksums again, and completes them if it must.
        let not = ["csum_completed", "cut_without_size"];
        assert_eq!(not.map(|counter| summary.interface(port, counter)), [0; 2]);
    }
}

/// Frames with room for many segments, which are not segmented between two ports that support this.
#[test]
fn packets_of_many_segments_cross_whole_in_large_frames_by_packet_sockets() {
    for path in ["--path=fast", "--path=full"] {
        let Some(summary) = files_cross(["packet:one", "packet:two"], &[LARGE, &[path]].concat()) else {
            return;
        };
        for port in ["one", "two"] {
            assert!(summary.interface(port, "gso_kept") > 0);
            assert_eq!(summary.interface(port, "csum_completed"), 0);
        }
    }
}

/// The length of the longest segment counts, not that of the packet. The sender gets an ICMP error with the MTU of the
/// narrow link, and sends shorter segments.
#[test]
fn packets_of_many_segments_are_too_long_if_one_segment_is() {
    let Some(bed) = lay_for_files() else { return };
    bed.dut.ip("link set dev two mtu 1300");
    bed.h2.ip("link set dev eth0 mtu 1300");
    let forwarder = start(&bed, ["packet:one", "packet:two"], LARGE);
    for address in ["10.77.2.1", "[fd77:2::1]"] {
        file_crosses(&bed.h1, &bed.h2, &format!("{address}:5000"));
    }
    let summary = end(forwarder);
    assert!(summary.interface("one", "gso_kept") > 0);
    bed.assert_nothing_left();
}

/// A packet from a port that keeps offloads is completed where it leaves by a port without offloads.
#[test]
fn offloads_are_completed_where_a_packet_leaves_by_a_port_without_them() {
    let Some(bed) = lay_for_files() else { return };
    let forwarder = start(&bed, ["packet:one", "xdp:two"], &["--port=tap:t9", "--workers=1"]);
    files_cross_both_ways(&bed);
    let summary = end(forwarder);
    assert_eq!(summary.interface("one", "csum_completed"), 0);
    bed.assert_nothing_left();
}

/// The same of packets of many segments, which a peer by memif gets cut.
#[test]
fn packets_of_many_segments_are_cut_where_they_leave_by_memif() {
    let Some(bed) = lay_for_files() else { return };
    let folder = Folder::new("cut-by-memif");
    let socket = folder.path("socket");
    let far = format!("memif:{},role=server", socket.display());
    let far = Pair::start_with(&bed.dut, [&far, "packet:two"], &[]);
    // The router's own address on a link without one.
    for router in ["10.77.2.254", "fd77:2::254"] {
        bed.h2.ip(&format!("neigh replace {router} lladdr 02:6e:65:74:00:01 dev eth0"));
    }
    let near = format!("memif:{}", socket.display());
    let forwarder = start(&bed, ["packet:one", &near], &[LARGE, &["--port=tap:t9"]].concat());
    files_cross_both_ways(&bed);
    let summary = end(forwarder);
    assert!(summary.interface("one", "gso_kept") > 0 && summary.number("fragmented") > 0);
    drop(far);
    bed.assert_nothing_left();
}

/// The host at the near end of a TAP interface leaves the same work undone as with a card.
#[test]
fn packets_of_many_segments_cross_whole_between_a_tap_interface_and_a_packet_socket() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let forwarder = Pair::start_with(&bed.dut, ["tap:t0", "packet:one"], LARGE);
    wait_until("t0 is there", || bed.dut.ip("-br link").contains("t0"));
    bed.dut.ip("link set dev t0 address 02:00:00:00:09:01");
    bed.dut.ip("addr add 10.77.0.9/24 dev t0");
    bed.dut.ip(&format!("neigh add 10.77.0.1 lladdr {} dev t0", host_mac(1)));
    bed.h1.ip("neigh add 10.77.0.9 lladdr 02:00:00:00:09:01 dev eth0");
    wait_until("h1 reaches the host behind t0", || ping_once(&bed.h1, "10.77.0.9"));
    file_crosses(&bed.h1, &bed.dut, "10.77.0.9:5000");
    file_crosses(&bed.dut, &bed.h1, "10.77.0.1:5000");
    let summary = end(forwarder);
    for port in ["t0", "one"] {
        assert!(summary.interface(port, "gso_kept") > 0, "{port}");
        assert_eq!(summary.interface(port, "csum_completed"), 0);
    }
}

/// Two hosts, each at the near end of a TAP interface, with only the router between them. A packet longer than a frame
/// crosses in several frames, which still stand for many segments.
#[test]
fn packets_of_many_segments_cross_whole_between_two_tap_interfaces() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let forwarder = Pair::start_with(&bed.dut, ["tap:t0", "tap:t1"], LARGE);
    wait_until("both are there", || ["t0", "t1"].iter().all(|tap| bed.dut.ip("-br link").contains(tap)));
    bed.dut.ip(&format!("link set dev t1 netns {}", bed.h1.name()));
    for (host, tap, number) in [(&bed.dut, "t0", 1), (&bed.h1, "t1", 2)] {
        host.ip(&format!("link set dev {tap} address 02:00:00:00:09:0{number} up"));
        host.ip(&format!("addr add 10.78.0.{number}/24 dev {tap}"));
        let other = 3 - number;
        host.ip(&format!("neigh replace 10.78.0.{other} lladdr 02:00:00:00:09:0{other} dev {tap}"));
    }
    wait_until("one reaches the other", || ping_once(&bed.h1, "10.78.0.1"));
    file_crosses(&bed.h1, &bed.dut, "10.78.0.1:5000");
    file_crosses(&bed.dut, &bed.h1, "10.78.0.2:5000");
    let summary = end(forwarder);
    for port in ["t0", "t1"] {
        assert!(summary.interface(port, "gso_kept") > 0, "{port}");
        assert_eq!(summary.interface(port, "csum_completed"), 0);
    }
}

/// One kind of port on each side, and packets with heads between them.
#[test]
fn hosts_with_offloads_on_exchange_files_from_a_packet_socket_to_generic_xdp() {
    files_cross(["packet:one", "xdp:two"], &["--xdp-mode=generic", "--path=full", "--workers=1"]);
}

/// Seen: each ping arrived three times more than it was sent, and no message explained it.
#[test]
fn forwarding_by_the_kernel_beside_a_packet_port_is_reported_at_start_with_the_remedy() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    bed.dut.inside(|| fs::write("/proc/sys/net/ipv4/conf/two/forwarding", "1")).expect("forwarding");
    let forwarder = start(&bed, ["packet:one", "packet:two"], &["--kernel-copies=keep"]);
    let out = forwarder.end();
    let said = said(&out);
    let wanted = "netmem: packet:two: the kernel also forwards the packets of two (ipv4), so packets arrive twice: \
                  sysctl -w net.ipv4.conf.two.forwarding=0 (--fix FILE does it for one run), or use xdp:two\n";
    assert!(out.status.success() && said == wanted, "{said}");
}

/// A program sends ten datagrams by one call (UDP_SEGMENT). The packet socket reports the length of each, AF_XDP does
/// not.
#[test]
fn datagrams_sent_by_one_call_are_separated_by_packet_sockets_and_are_counted_drops_by_generic_xdp() {
    const SEND: &str = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
                        s.setsockopt(17, 103, 1000); s.sendto(bytes(9500), ('10.77.2.1', 4000))";
    for (ports, options, whole) in [
        (["packet:one", "packet:two"], &[][..], true),
        (["xdp:one", "xdp:two"], &["--xdp-mode=generic"], false),
    ] {
        let Some(bed) = Testbed::lay(Wiring::Routed, &["ping", "python3"]) else { return };
        let forwarder = start(&bed, ports, options);
        let socket = bed.h2.inside(|| UdpSocket::bind("10.77.2.1:4000").expect("a socket"));
        assert!(bed.h1.command("python3").args(["-c", SEND]).status().expect("python3").success());
        if whole {
            socket.set_read_timeout(Some(PATIENCE)).expect("a time");
            let mut datagram = [1; 2000];
            let lengths: Vec<_> = (0..10).map(|_| socket.recv(&mut datagram).expect("a datagram")).collect();
            assert_eq!(lengths, [[1000; 9].to_vec(), vec![500]].concat());
        }
        // It follows them, so they have been processed when it has crossed.
        bed.wait_for_the_path();
        let summary = end(forwarder);
        let dropped = summary.interface("one", "udp_without_size");
        assert_eq!((dropped, summary.interface("one", "gso_cut")), (u64::from(!whole), u64::from(whole)));
        bed.assert_nothing_left();
    }
}

/// Chunks of packets that are dropped, or made fewer frames, go back to the FILL ring: else a host that sends enough of them ends
/// all reception.
#[test]
fn any_number_of_datagrams_that_cannot_be_told_apart_cost_no_packet_behind_them() {
    const SEND: &str = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                        s.setsockopt(17, 103, 1000)\n\
                        for _ in range(3000): s.sendto(bytes(9500), ('10.77.2.1', 4000)); time.sleep(0.001)";
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping", "python3"]) else { return };
    let forwarder =
        start(&bed, ["xdp:one", "xdp:two"], &["--xdp-mode=generic", "--ring=256", "--frames=1024"]);
    assert!(bed.h1.command("python3").args(["-c", SEND]).status().expect("python3").success());
    bed.wait_for_the_path();
    file_crosses(&bed.h1, &bed.h2, "10.77.2.1:5000");
    let summary = end(forwarder);
    // More than the FILL ring has chunks.
    assert!(summary.interface("one", "udp_without_size") > 256);
    bed.assert_nothing_left();
}

/// Seen: a packet of two segments that fits into one chunk was dropped as longer than the link, and TCP sent it again
/// after a timeout, each time.
#[test]
fn short_writes_of_hosts_with_offloads_cross_generic_xdp() {
    let Some(bed) = lay_for_files() else { return };
    let forwarder = start(&bed, ["xdp:one", "xdp:two"], &["--xdp-mode=generic"]);
    let listener = bed.h2.inside(|| TcpListener::bind("10.77.2.1:5000").expect("a listener"));
    let mut sender = bed.h1.inside(|| TcpStream::connect("10.77.2.1:5000").expect("a connection"));
    let (mut receiver, _) = listener.accept().expect("a connection");
    sender.set_nodelay(true).expect("an option");
    receiver.set_read_timeout(Some(PATIENCE)).expect("a time");
    let file = file();
    for len in (1400..1800).step_by(10) {
        let mut received = vec![0; len];
        sender.write_all(&file[len..2 * len]).expect("it is sent");
        receiver.read_exact(&mut received).expect("it comes");
        assert!(received == file[len..2 * len], "{len}");
    }
    drop((sender, receiver));
    let summary = end(forwarder);
    assert_eq!(summary.dropped("pkt_too_big"), 0);
    assert!(summary.interface("one", "cut_without_size") > 0);
    bed.assert_nothing_left();
}

/// Seen: after the MTU of both ends of a link was raised, longer datagrams were dropped as packets of many segments.
#[test]
fn a_raised_mtu_is_noticed_and_longer_datagrams_cross() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let forwarder =
        Pair::start_with(&bed.dut, ["xdp:one", "xdp:two"], &["--xdp-mode=native", "--frame-size=4096"]);
    bed.h1.ip(&format!("neigh replace 10.77.0.2 lladdr {} dev eth0", host_mac(2)));
    wait_until("h1 reaches h2", || ping_once(&bed.h1, "10.77.0.2"));
    for (host, port) in [(&bed.h1, "one"), (&bed.h2, "two")] {
        host.ip("link set dev eth0 mtu 3000");
        bed.dut.ip(&format!("link set dev {port} mtu 3000"));
    }
    let server = bed.h2.inside(|| UdpSocket::bind("10.77.0.2:5001").expect("a socket"));
    server.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
    let client = bed.h1.inside(|| UdpSocket::bind("0.0.0.0:0").expect("a socket"));
    let mut received = [0; 4000];
    wait_until("a datagram longer than before comes", || {
        client.send_to(&[7; 2500], "10.77.0.2:5001").is_ok()
            && server.recv(&mut received).is_ok_and(|len| received[..len] == [7; 2500])
    });
    end(forwarder);
    bed.assert_nothing_left();
}

/// Seen: a port that shares its memory with one that takes packets of several chunks took the first such packet for a
/// fault of the kernel, and stayed down.
#[test]
fn a_long_packet_into_a_tap_interface_is_cut_by_its_xdp_port() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let folder = Folder::new("long-into-tap");
    let input = folder.write("in", &pcap_at_intervals(&[long_tcp_frame()], 20));
    let owner = Pair::start_with(
        &bed.dut,
        [&format!("pcap:in={},loop=0,speed=recorded", input.display()), "tap:tap9"],
        &["--frame-size=4096"],
    );
    wait_until("tap9 is there", || bed.dut.ip("-br link").contains("tap9"));
    bed.dut.ip("link set dev tap9 up");
    let (none, output) = (folder.path("none"), folder.path("out"));
    let forwarder = Pair::start_with(
        &bed.dut,
        ["xdp:one", &format!("pcap:out={}", none.display())],
        &["--port=xdp:tap9", &format!("--port=pcap:out={}", output.display())],
    );
    let come = || fs::read(&output).map_or_else(|_| Vec::new(), |file| packets(&file));
    wait_until("segments come", || come().len() >= 10);
    forwarder.ended_well();
    drop(owner);
    let lengths: Vec<_> = come().iter().filter(|packet| packet[12..14] == [8, 0]).map(Vec::len).collect();
    assert!(lengths.chunks_exact(2).all(|pair| pair == [1514, 1482]), "{lengths:?}");
    bed.assert_nothing_left();
}

/// A TCP packet of 2,942 bytes that stands for two.
fn long_tcp_frame() -> Vec<u8> {
    let mut frame = vec![0x5a; 2942];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 2, 2, 8, 0]);
    frame[14..26].copy_from_slice(&[0x45, 0, 0x0b, 0x70, 0, 1, 0x40, 0, 64, 6, 0x1a, 0xeb]);
    frame[26..34].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
    frame[34..54].copy_from_slice(&[0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 255, 255, 0, 0, 0, 0]);
    frame
}

/// Transfers files by TCP and UDP in both directions, over IPv4 and IPv6, and compares every byte. Returns the output
/// of the run at its end.
fn files_cross(ports: [&str; 2], options: &[&str]) -> Option<Summary> {
    let bed = lay_for_files()?;
    let forwarder = start(&bed, ports, options);
    files_cross_both_ways(&bed);
    let summary = end(forwarder);
    bed.assert_nothing_left();
    Some(summary)
}

/// Hosts with addresses of both families.
fn lay_for_files() -> Option<Testbed> {
    let bed = Testbed::lay(Wiring::Routed, &["ping"])?;
    for (number, host) in [(1, &bed.h1), (2, &bed.h2)] {
        host.set_ipv6(true);
        host.ip(&format!("addr add fd77:{number}::1/64 dev eth0 nodad"));
        host.ip(&format!("neigh add fd77:{number}::254 lladdr {} dev eth0", port_mac(number)));
        host.ip(&format!("route add default via fd77:{number}::254"));
    }
    Some(bed)
}

fn files_cross_both_ways(bed: &Testbed) {
    for (from, to, addresses) in
        [(&bed.h1, &bed.h2, ["10.77.2.1", "[fd77:2::1]"]), (&bed.h2, &bed.h1, ["10.77.1.1", "[fd77:1::1]"])]
    {
        for address in addresses {
            file_crosses(from, to, &format!("{address}:5000"));
            datagrams_cross(from, to, &format!("{address}:5001"));
        }
    }
}

fn start(bed: &Testbed, ports: [&str; 2], options: &[&str]) -> Pair {
    let routes = [(0, 1), (1, 2)].map(|(port, host)| {
        let mac = host_mac(host);
        [format!("--route=10.77.{host}.0/24,{port},{mac}"), format!("--route=fd77:{host}::/64,{port},{mac}")]
    });
    let routes: Vec<&str> = routes.iter().flatten().map(String::as_str).collect();
    let pair = Pair::start_as(&bed.dut, ports, &[&routes[..], options].concat());
    bed.wait_for_the_path();
    pair
}

fn end(forwarder: Pair) -> Summary {
    let out = forwarder.end();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let summary = Summary::parse(&out.stdout);
    summary.assert_adds_up();
    summary
}

/// Bytes that no shift or swap of two of them leaves as they are.
fn file() -> Vec<u8> {
    let number = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..FILE).map(|i| number(i) as u8).collect()
}

fn file_crosses(from: &Namespace, to: &Namespace, address: &str) {
    let listener = to.inside(|| TcpListener::bind(address).expect("a listener"));
    let mut sender = from.inside(|| {
        let mut sender = None;
        // An IPv6 address of a moment ago may not be usable yet.
        wait_until("h1 reaches h2", || {
            sender = TcpStream::connect(address).ok();
            sender.is_some()
        });
        sender.expect("it is connected")
    });
    let (mut receiver, _) = listener.accept().expect("a connection");
    receiver.set_read_timeout(Some(PATIENCE)).expect("a time");
    thread::scope(|scope| {
        scope.spawn(move || sender.write_all(&file()).expect("all is sent"));
        let mut received = Vec::new();
        receiver.read_to_end(&mut received).expect("all is received");
        assert!(received == file(), "{} of {FILE} bytes came, or others", received.len());
    });
}

/// Each is answered before the next is sent, so none is lost to a full buffer.
fn datagrams_cross(from: &Namespace, to: &Namespace, address: &str) {
    let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let server = to.inside(|| UdpSocket::bind(address).expect("a socket"));
    let client = from.inside(|| UdpSocket::bind(any).expect("a socket"));
    client.connect(address).expect("an address");
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    }
    let file = file();
    for len in (0..1450).step_by(29) {
        let (mut there, mut back) = ([0; 2000], [0; 2000]);
        client.send(&file[len..2 * len]).expect("it is sent");
        let (n, peer) = server.recv_from(&mut there).expect("it comes");
        assert!(there[..n] == file[len..2 * len]);
        server.send_to(&there[..n], peer).expect("it is sent back");
        let n = client.recv(&mut back).expect("it comes back");
        assert!(back[..n] == file[len..2 * len]);
    }
}
