//! Which frames the redirect program leaves to the kernel: its verdicts, frame by frame, asked of the kernel
//! (BPF_PROG_TEST_RUN), and the frames that then come by real interfaces.

use crate::netns::{Wire, in_namespace, ip, veth};
use crate::{bench, small};
use ipnet::IpNet;
use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::af_packet::ControlTraffic;
use netmem::port::xdp::{Punt, Umem, XdpConfig, XdpError, XdpModePreference, XdpPort};
use netmem::port::{Rx, Wake};
use netmem::system::bpf::{
    AddressMaps, IngressProgram, KernelCounts, Punted, RedirectProgram, Selection, SocketMap,
};
use netmem::system::xdp::Socket;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The verdicts of XDP programs (`linux/bpf.h`).
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

const UNICAST: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];
const OWN_V4: &str = "192.0.2.1";
const OWN_V6: &str = "2001:db8::1";
/// Prefixes of the host's own, with the first and the last address of each and those beside it.
const OWN_NETS: [&str; 2] = ["203.0.113.64/26", "2001:db8:0:6000::/51"];

/// The host's own addresses and prefixes.
fn own() -> Vec<IpNet> {
    let addresses = [OWN_V4, OWN_V6].map(host);
    addresses.into_iter().chain(OWN_NETS.map(|net| net.parse().unwrap())).collect()
}

/// A single address.
fn host(address: &str) -> IpNet {
    address.parse::<IpAddr>().unwrap().into()
}

/// An Ethernet frame to `dst`, with these ethertypes and tags one after the other, and `payload`.
fn frame(dst: [u8; 6], headers: &[u16], payload: &[u8]) -> Vec<u8> {
    let mut frame = [dst, [0x02, 0, 0, 0, 0, 0x02]].concat();
    frame.extend(headers.iter().flat_map(|half| half.to_be_bytes()));
    frame.extend(payload);
    frame
}

fn v4(dst: &str) -> Vec<u8> {
    let IpAddr::V4(dst) = dst.parse().unwrap() else { unreachable!() };
    let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 9];
    packet.extend(dst.octets());
    packet.extend([0; 26]);
    packet
}

/// Returns a message from a DHCP server to a client with this MAC address.
fn dhcp(client: [u8; 6], dst: &str) -> Vec<u8> {
    let mut packet = v4(dst);
    packet.truncate(20);
    packet.extend([0, 67, 0, 68, 0, 250, 0, 0]);
    packet.extend([2, 1, 6, 0]);
    packet.extend([0; 24]);
    packet.extend(client);
    packet.extend([0; 208]);
    packet
}

/// With another byte there.
fn changed(mut packet: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    packet[at] = byte;
    packet
}

/// As [`v4`], with four bytes of options.
fn v4_with_options(dst: &str) -> Vec<u8> {
    let mut packet = v4(dst);
    packet[0] = 0x46;
    packet
}

/// As [`v4`], the second fragment.
fn v4_fragment(dst: &str) -> Vec<u8> {
    let mut packet = v4(dst);
    packet[6..8].copy_from_slice(&[0x20, 0xb9]);
    packet
}

/// An IPv6 packet with `next` as its next header and `first` as the first byte behind the header.
fn v6(dst: &str, next: u8, first: u8) -> Vec<u8> {
    let IpAddr::V6(dst) = dst.parse().unwrap() else { unreachable!() };
    let mut packet = vec![0x60, 0, 0, 0, 0, 8, next, 255];
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    packet.extend(dst.octets());
    packet.extend([first, 0, 0, 0, 0, 0, 0, 0]);
    packet
}

/// Addresses that are not the interface's.
const OTHER_V4: &str = "198.51.100.1";
const OTHER_V6: &str = "2001:db8::2";

/// Its name, the frame, and the verdict if control traffic is punted. Otherwise all frames are redirected.
type Case = (&'static str, Vec<u8>, u32);

fn to_us(headers: &[u16], payload: &[u8]) -> Vec<u8> {
    frame(UNICAST, headers, payload)
}

fn cut(mut frame: Vec<u8>, len: usize) -> Vec<u8> {
    frame.truncate(len);
    frame
}

fn cases() -> Vec<Case> {
    [of_the_link(), of_ipv4(), of_ipv6(), of_dhcp()].concat()
}

/// Cases that the addresses and the type of the frame decide.
fn of_the_link() -> Vec<Case> {
    vec![
        ("a bare header", to_us(&[0x0800], &[]), REDIRECT),
        ("broadcast", frame([0xff; 6], &[0x88b5], &[0; 46]), PASS),
        ("multicast: spanning tree", frame([0x01, 0x80, 0xc2, 0, 0, 0], &[38], &[0x42; 46]), PASS),
        ("multicast of IPv4: OSPF", frame([0x01, 0, 0x5e, 0, 0, 5], &[0x0800], &v4("224.0.0.5")), PASS),
        (
            "multicast of IPv6: MLD",
            frame([0x33, 0x33, 0, 0, 0, 0x16], &[0x86dd], &v6("ff02::16", 0, 58)),
            PASS,
        ),
        ("multicast, a bare header", frame([0x33, 0x33, 0, 0, 0, 1], &[0x86dd], &[]), PASS),
        ("ARP request to all", frame([0xff; 6], &[0x0806], &[0; 46]), PASS),
        ("ARP reply", to_us(&[0x0806], &[0; 46]), PASS),
        ("ARP behind a tag", to_us(&[0x8100, 7, 0x0806], &[0; 46]), PASS),
        ("ARP behind two tags", to_us(&[0x88a8, 7, 0x8100, 8, 0x0806], &[0; 46]), PASS),
        ("ARP behind three tags", to_us(&[0x8100, 6, 0x8100, 7, 0x8100, 8, 0x0806], &[0; 46]), PASS),
        ("a tag cut short", cut(to_us(&[0x8100, 7, 0x0806], &[]), 16), REDIRECT),
        ("a second tag cut short", cut(to_us(&[0x8100, 7, 0x8100, 8, 0x0806], &[]), 20), REDIRECT),
        ("802.1X", to_us(&[0x888e], &[0; 46]), PASS),
        ("PPPoE discovery behind a tag", to_us(&[0x8100, 7, 0x8863], &[0; 46]), PASS),
        ("MPLS", to_us(&[0x8847], &[0; 46]), PASS),
        ("a length for an ethertype", to_us(&[46], &[0; 46]), PASS),
        ("an unknown ethertype", to_us(&[0x88b5], &[0; 46]), PASS),
    ]
}

/// Cases that the IPv4 header decides.
fn of_ipv4() -> Vec<Case> {
    vec![
        ("IPv4 to us", to_us(&[0x0800], &v4(OWN_V4)), PASS),
        ("IPv4 to us, with options", to_us(&[0x0800], &v4_with_options(OWN_V4)), PASS),
        ("IPv4 to us, a fragment", to_us(&[0x0800], &v4_fragment(OWN_V4)), PASS),
        ("IPv4 to us behind a tag", to_us(&[0x8100, 7, 0x0800], &v4(OWN_V4)), PASS),
        ("IPv4 to us behind two tags", to_us(&[0x88a8, 7, 0x8100, 8, 0x0800], &v4(OWN_V4)), PASS),
        ("IPv4 to us, the header's last byte", cut(to_us(&[0x0800], &v4(OWN_V4)), 34), PASS),
        ("IPv4 to us, cut short", cut(to_us(&[0x0800], &v4(OWN_V4)), 33), REDIRECT),
        ("IPv4 to us by a prefix, its first address", to_us(&[0x0800], &v4("203.0.113.64")), PASS),
        ("IPv4 to us by a prefix, its last address", to_us(&[0x0800], &v4("203.0.113.127")), PASS),
        ("IPv4 before a prefix", to_us(&[0x0800], &v4("203.0.113.63")), REDIRECT),
        ("IPv4 behind a prefix", to_us(&[0x0800], &v4("203.0.113.128")), REDIRECT),
        ("IPv4 to others", to_us(&[0x0800], &v4(OTHER_V4)), REDIRECT),
        ("IPv4 to others behind a tag", to_us(&[0x8100, 7, 0x0800], &v4(OTHER_V4)), REDIRECT),
        ("IPv4 multicast in a frame to us", to_us(&[0x0800], &v4("224.0.0.5")), REDIRECT),
        ("IPv4 loopback", to_us(&[0x0800], &v4("127.0.0.1")), REDIRECT),
    ]
}

/// Cases that the IPv6 header and the type of an ICMPv6 message decide.
fn of_ipv6() -> Vec<Case> {
    vec![
        ("IPv6 to us", to_us(&[0x86dd], &v6(OWN_V6, 17, 0)), PASS),
        ("IPv6 to us behind hop-by-hop options", to_us(&[0x86dd], &v6(OWN_V6, 0, 58)), PASS),
        ("IPv6 to us behind two tags", to_us(&[0x88a8, 7, 0x8100, 8, 0x86dd], &v6(OWN_V6, 6, 0)), PASS),
        ("IPv6 to us, the header's last byte", cut(to_us(&[0x86dd], &v6(OWN_V6, 58, 0)), 54), PASS),
        ("IPv6 to us, cut short", cut(to_us(&[0x86dd], &v6(OWN_V6, 17, 0)), 53), REDIRECT),
        (
            "IPv6 to us by a prefix, its anycast address",
            to_us(&[0x86dd], &v6("2001:db8:0:6000::", 58, 128)),
            PASS,
        ),
        ("IPv6 to us by a prefix, its last /64", to_us(&[0x86dd], &v6("2001:db8:0:7fff::9", 6, 0)), PASS),
        ("IPv6 before a prefix", to_us(&[0x86dd], &v6("2001:db8:0:5fff::9", 6, 0)), REDIRECT),
        ("IPv6 behind a prefix", to_us(&[0x86dd], &v6("2001:db8:0:8000::", 6, 0)), REDIRECT),
        ("IPv6 to others", to_us(&[0x86dd], &v6(OTHER_V6, 17, 135)), REDIRECT),
        ("IPv6 to others behind hop-by-hop options", to_us(&[0x86dd], &v6(OTHER_V6, 0, 135)), REDIRECT),
        ("router solicitation", to_us(&[0x86dd], &v6(OTHER_V6, 58, 133)), PASS),
        ("router advertisement", to_us(&[0x86dd], &v6(OTHER_V6, 58, 134)), PASS),
        ("neighbour solicitation", to_us(&[0x86dd], &v6(OTHER_V6, 58, 135)), PASS),
        ("neighbour advertisement", to_us(&[0x86dd], &v6(OTHER_V6, 58, 136)), PASS),
        ("ICMPv6 redirect", to_us(&[0x86dd], &v6(OTHER_V6, 58, 137)), PASS),
        ("neighbour solicitation behind a tag", to_us(&[0x8100, 7, 0x86dd], &v6(OTHER_V6, 58, 135)), PASS),
        // Seen: such packets reached the kernel, which forwarded them past the rules.
        ("forwarded discovery", to_us(&[0x86dd], &changed(v6(OTHER_V6, 58, 135), 7, 254)), REDIRECT),
        ("forwarded discovery to us", to_us(&[0x86dd], &changed(v6(OWN_V6, 58, 135), 7, 64)), PASS),
        ("MLD to a unicast address", to_us(&[0x86dd], &v6(OTHER_V6, 58, 132)), REDIRECT),
        ("ICMPv6 echo", to_us(&[0x86dd], &v6(OTHER_V6, 58, 128)), REDIRECT),
        ("ICMPv6 beyond discovery", to_us(&[0x86dd], &v6(OTHER_V6, 58, 138)), REDIRECT),
        ("ICMPv6 without its type", cut(to_us(&[0x86dd], &v6(OTHER_V6, 58, 135)), 54), REDIRECT),
    ]
}

/// Cases that the fields of a DHCP answer decide.
fn of_dhcp() -> Vec<Case> {
    vec![
        ("DHCP offer to this link address", to_us(&[0x0800], &dhcp(UNICAST, OTHER_V4)), PASS),
        ("DHCP offer behind a tag", to_us(&[0x8100, 7, 0x0800], &dhcp(UNICAST, OTHER_V4)), PASS),
        (
            "DHCP answer on its way to another client",
            to_us(&[0x0800], &dhcp([2, 0, 0, 0, 0, 9], OTHER_V4)),
            REDIRECT,
        ),
        (
            "DHCP answer cut within the client's address",
            cut(to_us(&[0x0800], &dhcp(UNICAST, OTHER_V4)), 75),
            REDIRECT,
        ),
        (
            "DHCP with the client's address just there",
            cut(to_us(&[0x0800], &dhcp(UNICAST, OTHER_V4)), 76),
            PASS,
        ),
        (
            "DHCP answer to the server's port",
            to_us(&[0x0800], &changed(dhcp(UNICAST, OTHER_V4), 23, 67)),
            REDIRECT,
        ),
        ("DHCP answer over TCP", to_us(&[0x0800], &changed(dhcp(UNICAST, OTHER_V4), 9, 6)), REDIRECT),
        (
            "DHCP answer with options of IPv4",
            to_us(&[0x0800], &changed(dhcp(UNICAST, OTHER_V4), 0, 0x46)),
            REDIRECT,
        ),
        (
            "the first fragment of a DHCP answer",
            to_us(&[0x0800], &changed(dhcp(UNICAST, OTHER_V4), 6, 0x20)),
            REDIRECT,
        ),
        ("a later fragment", to_us(&[0x0800], &changed(dhcp(UNICAST, OTHER_V4), 7, 0x10)), REDIRECT),
        (
            "DHCP answer that may not be fragmented",
            to_us(&[0x0800], &changed(dhcp(UNICAST, OTHER_V4), 6, 0x40)),
            PASS,
        ),
    ]
}

/// Whether a frame of [`cases`] is one by which neighbours find each other, after a VLAN tag that the program skips.
fn finds_neighbours(case: &str) -> bool {
    let names = ["ARP ", "router solicitation", "router advertisement", "neighbour ", "ICMPv6 redirect"];
    names.iter().any(|name| case.starts_with(name)) && case != "ARP behind three tags"
}

#[test]
fn the_kernel_gives_each_kind_of_frame_the_verdict_that_the_table_says() {
    in_namespace("punt::the_kernel_gives_each_kind_of_frame_the_verdict_that_the_table_says", || {
        let (sockets, maps) = (SocketMap::new(1).unwrap(), AddressMaps::new().unwrap());
        let socket = Socket::new().unwrap();
        sockets.insert(0, socket.as_fd()).unwrap();
        own().into_iter().for_each(|prefix| maps.insert(prefix).unwrap());
        let all = RedirectProgram::load(&sockets, None, false).unwrap();
        let counts = KernelCounts::new(1).unwrap();
        let selection = Selection { punted: Punted::Control(&maps), take: None, counts: &counts };
        let control = RedirectProgram::load(&sockets, Some(&selection), false).unwrap();
        for (case, frame, expected) in cases() {
            let left = counts.get(0).unwrap();
            assert_eq!(control.verdict(&frame).unwrap(), expected, "{case}");
            assert_eq!(counts.get(0).unwrap() - left, u64::from(expected == PASS), "{case}, counted");
            assert_eq!(all.verdict(&frame).unwrap(), REDIRECT, "{case}, where nothing is punted");
        }
        let selection = Selection { punted: Punted::Neighbours, take: None, counts: &counts };
        let neighbours = RedirectProgram::load(&sockets, Some(&selection), false).unwrap();
        for (case, frame, _) in cases() {
            let left = counts.get(0).unwrap();
            let expected = if finds_neighbours(case) { PASS } else { REDIRECT };
            assert_eq!(neighbours.verdict(&frame).unwrap(), expected, "{case}, where neighbours are punted");
            assert_eq!(counts.get(0).unwrap() - left, u64::from(expected == PASS), "{case}, counted");
        }
        let traffic = ControlTraffic::default();
        traffic.set(&own()).unwrap();
        for (case, frame, expected) in cases() {
            assert_eq!(traffic.contains(&frame), expected == PASS, "{case}, by a packet port");
        }
        own().into_iter().for_each(|prefix| maps.remove(prefix).unwrap());
        for (case, frame, _) in cases().into_iter().filter(|(case, ..)| case.contains("to us")) {
            assert_eq!(control.verdict(&frame).unwrap(), REDIRECT, "{case}, which is ours no more");
        }
        sockets.remove(0).unwrap();
        for (case, frame, _) in cases() {
            assert_eq!(control.verdict(&frame).unwrap(), PASS, "{case}, without a socket");
        }
    });
}

/// As it comes to the interface `lo`: the MAC address of this host elsewhere is that of `lo`.
fn at_lo(mut frame: Vec<u8>) -> Vec<u8> {
    for at in 0..=frame.len() - UNICAST.len() {
        let place = &mut frame[at..at + UNICAST.len()];
        if *place == UNICAST {
            place.fill(0);
        }
    }
    frame
}

#[test]
fn an_ingress_passes_control_traffic_and_drops_what_a_port_takes() {
    in_namespace("punt::an_ingress_passes_control_traffic_and_drops_what_a_port_takes", || {
        let maps = AddressMaps::new().unwrap();
        own().into_iter().for_each(|prefix| maps.insert(prefix).unwrap());
        let program = IngressProgram::load(&maps).unwrap();
        let (passed, dropped) = (-1, 2);
        // The kernel runs no such program on a frame that is cut within its header of IP.
        let is_run = |frame: &[u8]| {
            let header = match frame[12..14] {
                [0x08, 0] => 20,
                [0x86, 0xdd] => 40,
                _ => 1,
            };
            frame.len() >= 14 + header
        };
        for (case, frame, expected) in cases().into_iter().filter(|(_, frame, _)| is_run(frame)) {
            let expected = if expected == PASS { passed } else { dropped };
            assert_eq!(program.verdict(&at_lo(frame)).unwrap(), expected, "{case}");
        }
        let another_station = frame(UNICAST, &[0x0800], &v4(OTHER_V4));
        assert_eq!(program.verdict(&another_station).unwrap(), passed, "for another station");
        own().into_iter().for_each(|prefix| maps.remove(prefix).unwrap());
        assert_eq!(program.verdict(&at_lo(to_us(&[0x0800], &v4(OWN_V4)))).unwrap(), dropped, "ours no more");
    });
}

/// Runs `body` with a port of each mode on the interface a0, which has the own addresses.
fn with_port(body: impl Fn(&mut XdpPort, &mut Polled)) {
    for mode in [XdpModePreference::Native, XdpModePreference::Generic] {
        veth("a0", "a1", 1);
        ip(&format!("addr add {OWN_V4}/24 dev a0"));
        let memory =
            Memory::new(&MemoryConfig { bytes: 4 << 20, workers: 1, ..MemoryConfig::default() }).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
        let umem = Umem::new(&memory);
        let config = XdpConfig { mode, punt: Punt::Control, ..XdpConfig::default() };
        let mut port = XdpPort::open(&umem, &mut w, &pool, "a0", 0, &config).unwrap();
        body(&mut port, &mut Polled { w: &mut w, umem: &umem, wire: Wire::open("a1") });
        drop(port);
        assert!(pool.ledger().all_freed());
        ip("link del dev a0");
    }
}

struct Polled<'a> {
    w: &'a mut netmem::sync::Worker,
    umem: &'a std::sync::Arc<Umem>,
    wire: Wire,
}

impl Polled<'_> {
    /// Sends these frames, and one more that the port takes in any case. Returns those that enter the port before it.
    fn come(&mut self, port: &mut XdpPort, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let last = frame(UNICAST, &[0x0800], &v4("198.51.100.77"));
        frames.iter().chain([&last]).for_each(|frame| self.wire.send(frame));
        let (mut come, begun) = (Vec::new(), Instant::now());
        while !come.contains(&last) {
            let mut batch = Batch::new();
            port.rx(self.w, &mut batch);
            port.kick();
            come.extend(batch.iter().map(|frame| frame.data().to_vec()));
            assert!(begun.elapsed() < Duration::from_secs(60), "the last frame does not come");
        }
        come.pop();
        come
    }
}

#[test]
fn punted_packets_do_not_enter_the_port_and_all_others_do_in_both_modes() {
    in_namespace("punt::punted_packets_do_not_enter_the_port_and_all_others_do_in_both_modes", || {
        with_port(|port, polled| {
            // Generic mode sees no tags, and padding is the wire's.
            let whole = |(case, frame, _): &(&str, Vec<u8>, u32)| !case.contains("tag") && frame.len() >= 60;
            let cases: Vec<_> = cases().into_iter().filter(whole).collect();
            let (frames, expected): (Vec<_>, Vec<_>) =
                cases.into_iter().map(|(_, frame, verdict)| (frame, verdict)).unzip();
            // The own address of IPv6 was never given to an interface.
            polled.umem.own_addresses().unwrap().set(&own()).unwrap();
            let come = polled.come(port, &frames);
            let redirected: Vec<_> = frames
                .into_iter()
                .zip(expected)
                .filter(|(_, verdict)| *verdict == REDIRECT)
                .map(|(f, _)| f)
                .collect();
            assert_eq!(come, redirected);
        });
    });
}

#[test]
fn addresses_that_come_and_go_are_followed_and_loopback_is_never_ours() {
    in_namespace("punt::addresses_that_come_and_go_are_followed_and_loopback_is_never_ours", || {
        with_port(|port, polled| {
            let own = polled.umem.own_addresses().unwrap();
            let ours = |address: &str| own.contains(address.parse().unwrap());
            assert!(ours(OWN_V4) && !ours("192.0.2.77") && !ours("127.0.0.1"));
            let packet = [frame(UNICAST, &[0x0800], &v4("192.0.2.77"))];
            assert_eq!(polled.come(port, &packet).len(), 1);
            ip("addr add 192.0.2.77/32 dev lo");
            own.follow().unwrap();
            assert_eq!(polled.come(port, &packet).len(), 0, "ours, whichever interface has it");
            ip("addr del 192.0.2.77/32 dev lo");
            own.follow().unwrap();
            assert_eq!(polled.come(port, &packet).len(), 1);
            assert!(ours(OWN_V4) && !ours("192.0.2.77"));
        });
    });
}

#[test]
fn a_port_that_would_leave_other_packets_to_the_kernel_than_its_neighbour_is_refused() {
    in_namespace(
        "punt::a_port_that_would_leave_other_packets_to_the_kernel_than_its_neighbour_is_refused",
        || {
            veth("a0", "a1", 2);
            let mut here = bench(256);
            let control = XdpConfig { punt: Punt::Control, ..small() };
            let _port = here.open_with("a0", 0, &control).unwrap();
            let differs = here.open_with("a0", 1, &small()).unwrap_err();
            assert_eq!(differs, XdpError::PuntDiffers { interface: "a0".into() });
            here.open_with("a0", 1, &control).unwrap();
        },
    );
}

#[test]
fn a_full_map_of_own_addresses_lets_go_of_old_ones_and_takes_new_ones() {
    in_namespace("punt::a_full_map_of_own_addresses_lets_go_of_old_ones_and_takes_new_ones", || {
        with_port(|_, polled| {
            let own = polled.umem.own_addresses().unwrap();
            let address = |n: u32| IpAddr::from((0x0b00_0000 + n).to_be_bytes());
            let some = |from, to| (from..to).map(|n| IpNet::from(address(n))).collect::<Vec<_>>();
            own.set(&some(0, 1 << 16)).unwrap();
            own.set(&some(100, (1 << 16) + 100)).unwrap();
            assert!(own.contains(address(1 << 16)) && !own.contains(address(99)));
            // More than there is room for: the rest is as it should be.
            let error = own.set(&some(200, (1 << 16) + 300)).unwrap_err();
            assert!(error.to_string().starts_with("put address into map"), "{error}");
            assert!(own.contains(address((1 << 16) + 150)) && !own.contains(address(150)));
            own.set(&some(0, 10)).unwrap();
            assert!(!own.contains(address(1 << 16)) && own.contains(address(9)));
        });
    });
}
