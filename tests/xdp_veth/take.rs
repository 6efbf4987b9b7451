//! Tests of the packets that a port takes from an interface which the kernel continues to use: the program's verdicts,
//! which the kernel computes (BPF_PROG_TEST_RUN), against a model and a table, and then the packets of real interfaces.

use crate::netns::{Wire, in_namespace, ip, veth};
use crate::{bench, small, wait_for};
use netmem::pool::Batch;
use netmem::port::xdp::{Punt, Take, TakeRule, XdpConfig, XdpError, XdpModePreference, XdpPort};
use netmem::port::{Port, Rx, Wake};
use netmem::system::bpf::{AddressMaps, KernelCounts, Punted, RedirectProgram, Selection, SocketMap};
use netmem::system::xdp::Socket;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

/// The verdicts of XDP programs (`linux/bpf.h`).
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

const MAC: [u8; 6] = [0x02, 0xfe, 0x80, 0, 0, 0x01];
const OTHER_MAC: [u8; 6] = [0x02, 0xfe, 0x80, 0, 0, 0x02];
const GROUP: [u8; 6] = [0x01, 0, 0x5e, 1, 2, 3];

fn take(text: &str) -> Take {
    text.parse().unwrap()
}

/// A frame to a station with this packet, of whichever version, behind these bytes.
fn frame(mac: [u8; 6], tags: &[u8], packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [0x08, 0x00] };
    [&mac[..], &OTHER_MAC, tags, &ethertype, packet].concat()
}

/// A packet to `to` with this protocol and destination port.
fn packet(to: &str, protocol: u8, port: u16) -> Vec<u8> {
    let payload = [0x30, 0x39, (port >> 8) as u8, port as u8, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    match to.parse().unwrap() {
        IpAddr::V4(to) => {
            let header = [0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 9];
            [&header[..], &to.octets(), &payload].concat()
        }
        IpAddr::V6(to) => {
            let header = [0x60, 0, 0, 0, 0, 16, protocol, 64];
            let from = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
            [&header[..], &from, &to.octets(), &payload].concat()
        }
    }
}

/// With another byte there.
fn changed(mut bytes: Vec<u8>, at: usize, byte: u8) -> Vec<u8> {
    bytes[at] = byte;
    bytes
}

/// A neighbour solicitation to an address of another host.
fn solicitation(hop_limit: u8) -> Vec<u8> {
    changed(changed(packet("2001:db8::1", 58, 1), 40, 135), 7, hop_limit)
}

/// The documentation of [`Take`] as a second implementation: returns the rule that takes the frame, if one does.
fn model<'a>(take: &'a Take, frame: &[u8]) -> Option<&'a TakeRule> {
    let (link, packet) = frame.split_at_checked(14)?;
    let is_multicast = link[0] & 1 == 1;
    let (protocol, to, payload) = match (&link[12..], packet.first()?) {
        ([0x08, 0x00], 0x45) if packet.len() >= 20 => {
            let is_fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
            let to: [u8; 4] = packet[16..20].try_into().unwrap();
            (!is_fragment).then_some((packet[9], IpAddr::from(to), &packet[20..]))
        }
        ([0x86, 0xdd], version) if version >> 4 == 6 && packet.len() >= 40 => {
            let is_extended = matches!(packet[6], 0 | 43 | 44 | 60 | 135 | 139 | 140);
            let is_discovery = packet[6..8] == [58, 255] && matches!(packet.get(40), Some(133..=137));
            let to: [u8; 16] = packet[24..40].try_into().unwrap();
            (!is_extended && !is_discovery).then_some((packet[6], IpAddr::from(to), &packet[40..]))
        }
        _ => None,
    }?;
    let port = payload.get(2..4).map(|port| u16::from_be_bytes([port[0], port[1]]));
    let is_ours = |rule: &&TakeRule| match rule.to {
        _ if !is_multicast => link[..6] == MAC,
        Some(net) => net.addr().is_multicast() && net.broadcast().is_multicast(),
        None => false,
    };
    take.rules().iter().filter(is_ours).find(|rule| {
        rule.protocol.is_none_or(|one| one == protocol)
            && rule.to.is_none_or(|net| net.contains(&to))
            && rule.port.is_none_or(|one| Some(one) == port)
    })
}

/// A program that takes this, over a map with a socket for queue 0.
struct Asked {
    program: RedirectProgram,
    counts: KernelCounts,
    _kept: (SocketMap, Socket),
}

impl Asked {
    fn new(take: &Take, own: Option<&AddressMaps>) -> Asked {
        let (sockets, socket) = (SocketMap::new(1).unwrap(), Socket::new().unwrap());
        sockets.insert(0, socket.as_fd()).unwrap();
        let counts = KernelCounts::new(1).unwrap();
        let punted = own.map_or(Punted::Nothing, Punted::Control);
        let selection = Selection { punted, take: Some((take, MAC)), counts: &counts };
        let program = RedirectProgram::load(&sockets, Some(&selection), false).unwrap();
        Asked { program, counts, _kept: (sockets, socket) }
    }

    /// Returns whether it takes the frame. Counts those that it leaves.
    fn takes(&self, frame: &[u8]) -> bool {
        let before = self.counts.get(0).unwrap();
        let verdict = self.program.verdict(frame).unwrap();
        assert!([PASS, REDIRECT].contains(&verdict), "{verdict}");
        assert_eq!(self.counts.get(0).unwrap() - before, u64::from(verdict == PASS), "{frame:x?}");
        verdict == REDIRECT
    }
}

/// Rules, and frames that they take and leave.
fn table() -> Vec<(&'static str, &'static str, Vec<u8>, bool)> {
    let to_us = |packet: &[u8]| frame(MAC, &[], packet);
    let v4 = || packet("192.0.2.1", 17, 53);
    let v6 = || packet("2001:db8::1", 17, 53);
    let (dns, all) = ("udp:53", "ip");
    vec![
        ("UDP to the port", dns, to_us(&v4()), true),
        ("UDP to the port over IPv6", dns, to_us(&v6()), true),
        ("UDP to another port", dns, to_us(&packet("192.0.2.1", 17, 54)), false),
        ("UDP to the port with its bytes swapped", dns, to_us(&packet("192.0.2.1", 17, 53 << 8)), false),
        ("TCP to the port", dns, to_us(&packet("192.0.2.1", 6, 53)), false),
        ("the port cut short", dns, to_us(&v4()[..23]), false),
        ("the port just there", dns, to_us(&v4()[..24]), true),
        ("the port of IPv6 cut short", dns, to_us(&v6()[..43]), false),
        ("none", "none", to_us(&v4()), false),
        ("a second rule", "tcp:80+udp:53", to_us(&v4()), true),
        ("any protocol", all, to_us(&packet("192.0.2.1", 132, 7)), true),
        ("another station's", all, frame(OTHER_MAC, &[], &v4()), false),
        ("another station's by one bit", all, frame([0x02, 0xfe, 0x80, 0, 0, 0x81], &[], &v4()), false),
        ("broadcast", all, frame([0xff; 6], &[], &v4()), false),
        ("multicast without a rule for it", "udp", frame(GROUP, &[], &packet("239.1.2.3", 17, 5)), false),
        ("multicast", "udp:5@239.1.0.0/16", frame(GROUP, &[], &packet("239.1.2.3", 17, 5)), true),
        ("multicast of IPv6", "udp@ff02::fb", frame(GROUP, &[], &packet("ff02::fb", 17, 5)), true),
        (
            "another multicast group",
            "udp@239.1.2.0/32",
            frame(GROUP, &[], &packet("239.1.2.3", 17, 5)),
            false,
        ),
        ("unicast in a frame for a group", "udp@0.0.0.0/0", frame(GROUP, &[], &v4()), false),
        ("a tag", all, frame(MAC, &[0x81, 0, 0, 7], &v4()), false),
        ("a tag of priority alone", all, frame(MAC, &[0x81, 0, 0xe0, 0], &v4()), false),
    ]
}

/// Frames with this in their headers, which stay with the kernel whatever is taken, or do not.
fn headers() -> Vec<(&'static str, &'static str, Vec<u8>, bool)> {
    let to_us = |packet: &[u8]| frame(MAC, &[], packet);
    let v4 = || packet("192.0.2.1", 17, 53);
    let v6 = || packet("2001:db8::1", 17, 53);
    let all = "ip";
    vec![
        ("ARP", all, [&MAC[..], &OTHER_MAC, &[8, 6], &[0; 46]].concat(), false),
        ("options", all, to_us(&changed(v4(), 0, 0x46)), false),
        ("the first fragment", all, to_us(&changed(v4(), 6, 0x20)), false),
        ("a later fragment", all, to_us(&changed(v4(), 7, 0x10)), false),
        ("may not be fragmented", all, to_us(&changed(v4(), 6, 0x40)), true),
        ("a fragment of IPv6", all, to_us(&changed(v6(), 6, 44)), false),
        ("hop-by-hop options", all, to_us(&changed(v6(), 6, 0)), false),
        ("destination options", all, to_us(&changed(v6(), 6, 60)), false),
        ("a traffic class", all, to_us(&changed(v6(), 0, 0x6f)), true),
        ("version 4 for IPv6", all, [&MAC[..], &OTHER_MAC, &[0x86, 0xdd], &v4(), &[0; 20]].concat(), false),
        ("neighbour solicitation", all, to_us(&solicitation(255)), false),
        ("a forwarded solicitation", "icmpv6", to_us(&solicitation(254)), true),
        ("echo request of ICMPv6", "icmpv6", to_us(&changed(packet("2001:db8::1", 58, 1), 40, 128)), true),
        ("ICMP", "icmp@192.0.2.0/24", to_us(&packet("192.0.2.1", 1, 1)), true),
        ("the last address of a prefix", "ip@192.0.2.128/25", to_us(&packet("192.0.2.255", 17, 1)), true),
        ("one below the prefix", "ip@192.0.2.128/25", to_us(&packet("192.0.2.127", 17, 1)), false),
        (
            "a prefix of IPv6 within a word",
            "ip@2001:db8:8000::/33",
            to_us(&packet("2001:db8:ffff::1", 6, 1)),
            true,
        ),
        ("outside of it", "ip@2001:db8:8000::/33", to_us(&packet("2001:db8:7fff::1", 6, 1)), false),
        ("the last bit of an address", "ip@2001:db8::1", to_us(&packet("2001:db8::", 6, 1)), false),
        ("every address of one family", "ip@::/0", to_us(&v6()), true),
        ("the other family", "ip@::/0", to_us(&v4()), false),
        ("a bare header", all, [&MAC[..], &OTHER_MAC, &[8, 0]].concat(), false),
        ("a header of IPv4 cut short", all, to_us(&v4()[..19]), false),
    ]
}

#[test]
fn the_kernel_gives_each_frame_to_the_side_that_the_rules_name() {
    in_namespace("take::the_kernel_gives_each_frame_to_the_side_that_the_rules_name", || {
        for (case, rules, frame, taken) in table().into_iter().chain(headers()) {
            let rules = take(rules);
            assert_eq!(Asked::new(&rules, None).takes(&frame), taken, "{case}");
            assert_eq!(model(&rules, &frame).is_some(), taken, "{case}, by the model");
        }
        let own = AddressMaps::new().unwrap();
        own.insert("192.0.2.1/32".parse().unwrap()).unwrap();
        let both = Asked::new(&take("udp"), Some(&own));
        let to = |address| frame(MAC, &[], &packet(address, 17, 53));
        assert!(!both.takes(&to("192.0.2.1")), "what is punted is not taken");
        assert!(both.takes(&to("192.0.2.2")) && !both.takes(&frame(MAC, &[], &packet("192.0.2.2", 6, 53))));
        assert!(!both.takes(&frame(MAC, &[0x81, 0, 0, 7], &packet("192.0.2.2", 17, 53))), "behind a tag");
    });
}

/// Numbers that look random, and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }

    /// Rules of a few protocols, ports and addresses, so that frames of the same ones match now and then.
    fn rules(&mut self) -> Take {
        let rules = (0..self.below(6)).map(|_| {
            let what = self.of(&["ip", "udp", "udp:53", "udp:54", "tcp:53", "icmp", "icmpv6", "50", "132"]);
            let to = self.of(&[
                "",
                "",
                "@192.0.2.0/24",
                "@192.0.2.1",
                "@2001:db8::/32",
                "@2001:db8::1",
                "@239.0.0.0/8",
            ]);
            format!("{what}{to}")
        });
        let rules: Vec<String> = rules.collect();
        if rules.is_empty() { Take::default() } else { take(&rules.join("+")) }
    }

    /// A frame of those, cut short or with a few bytes changed now and then.
    fn frame(&mut self) -> Vec<u8> {
        let to = self.of(&[
            "192.0.2.1",
            "192.0.2.77",
            "198.51.100.1",
            "239.1.2.3",
            "2001:db8::1",
            "2001:db8:1::1",
            "::1",
        ]);
        let (protocol, port) = (self.of(&[1, 6, 17, 17, 17, 44, 50, 58, 132]), self.of(&[53, 54, 0x3500]));
        let mac = self.of(&[MAC, MAC, MAC, OTHER_MAC, GROUP]);
        let mut frame = frame(mac, &[], &packet(to, protocol, port));
        for _ in 0..self.of(&[0, 0, 1, 2]) {
            let at = self.below(frame.len());
            frame[at] = self.below(256) as u8;
        }
        if self.below(8) == 0 {
            frame.truncate(14 + self.below(60));
        }
        frame
    }
}

#[test]
fn random_frames_go_where_the_model_says_under_random_rules() {
    in_namespace("take::random_frames_go_where_the_model_says_under_random_rules", || {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let mut taken = 0;
        for _ in 0..60 {
            let rules = numbers.rules();
            let asked = Asked::new(&rules, None);
            for _ in 0..500 {
                let frame = numbers.frame();
                let expected = model(&rules, &frame).is_some();
                assert_eq!(asked.takes(&frame), expected, "{rules}: {frame:x?}");
                taken += u32::from(expected);
            }
        }
        assert!((2_000..28_000).contains(&taken), "{taken} of 30000 frames were taken");
    });
}

#[test]
fn the_verifiers_work_grows_with_the_number_of_rules_and_no_faster() {
    in_namespace("take::the_verifiers_work_grows_with_the_number_of_rules_and_no_faster", || {
        let verified = |rules: usize| {
            let rules: Vec<String> =
                (0..rules).map(|i| format!("udp:{}@2001:db8::{i:x}:0/127", i + 1)).collect();
            let asked = Asked::new(&take(&rules.join("+")), None);
            let shown =
                std::fs::read_to_string(format!("/proc/self/fdinfo/{}", asked.program.as_fd().as_raw_fd()));
            // Linux 5.16 and later say.
            let line = shown
                .unwrap()
                .lines()
                .find_map(|line| line.strip_prefix("verified_insns:").map(str::to_owned));
            line.map(|number| number.trim().parse::<u32>().unwrap())
        };
        let (Some(one), Some(most)) = (verified(1), verified(64)) else {
            let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
            let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
            let version = (numbers.next().unwrap(), numbers.next().unwrap());
            assert!(version < (5, 16), "Linux {} shows no number of instructions", release.trim());
            return;
        };
        println!("instructions that the verifier looked at: {one} with 1 rule, {most} with 64");
        // Old kernels give up after a million (5.2). A rule is 16 instructions, looked at on a few paths each.
        assert!(most < one + 63 * 100, "{one} with one rule, {most} with 64");
    });
}

/// Runs `body` with a port of each mode on the interface a0, which takes UDP to port 7.
fn with_port(queues: u32, body: impl Fn(&mut XdpPort, &mut crate::Bench, &Wire)) {
    for mode in [XdpModePreference::Native, XdpModePreference::Generic] {
        veth("a0", "a1", queues);
        ip("link set dev a0 address 02:fe:80:00:00:01");
        let mut here = bench(256);
        let config = XdpConfig { mode, take: Some(take("udp:7")), ..small() };
        let mut port = here.open_with("a0", 0, &config).unwrap();
        body(&mut port, &mut here, &Wire::open("a1"));
        drop(port);
        assert!(here.pool.ledger().all_freed());
        ip("link del dev a0");
    }
}

/// Sends a datagram to each of `ports`, and one to the last port, which is taken. Returns the destination ports of
/// those that arrived before it.
fn come(port: &mut XdpPort, here: &mut crate::Bench, wire: &Wire, ports: &[u16], last: u16) -> Vec<u16> {
    for to in ports.iter().chain([&last]) {
        wire.send(&frame(MAC, &[], &packet("192.0.2.1", 17, *to)));
    }
    let mut come = Vec::new();
    wait_for("the last datagram", || {
        let mut batch = Batch::new();
        port.kick();
        port.rx(&mut here.w, &mut batch);
        come.extend(batch.iter().map(|frame| u16::from_be_bytes([frame.data()[36], frame.data()[37]])));
        batch.free(&mut here.w);
        (come.last() == Some(&last)).then_some(())
    });
    come.pop();
    come
}

#[test]
fn the_rules_of_an_open_port_are_changed_and_other_packets_are_counted_as_the_kernels() {
    let name = "take::the_rules_of_an_open_port_are_changed_and_other_packets_are_counted_as_the_kernels";
    in_namespace(name, || {
        with_port(1, |port, here, wire| {
            let control = port.take_control().unwrap();
            assert_eq!((control.interface(), control.get()), ("a0", take("udp:7")));
            let begun = port.counters().rx_kernel.get();
            assert_eq!(come(port, here, wire, &[9, 7, 53], 7), [7]);
            assert_eq!(port.counters().rx_kernel.get() - begun, 2);
            control.set(&take("udp:53")).unwrap();
            assert_eq!(come(port, here, wire, &[7, 53, 9, 53], 53), [53, 53]);
            assert_eq!(port.counters().rx_kernel.get() - begun, 4);
            assert_eq!(here.umem.take_controls()[0].get(), take("udp:53"));
            assert_eq!(port.counters().rx.get(), 5);
        });
    });
}

#[test]
fn an_interface_that_comes_back_has_the_last_rules_and_its_new_address() {
    let name = "take::an_interface_that_comes_back_has_the_last_rules_and_its_new_address";
    in_namespace(name, || {
        with_port(1, |port, here, wire| {
            let control = port.take_control().unwrap();
            control.set(&take("udp:53")).unwrap();
            // A frame for the old address is another station's once the interface has a new one.
            ip("link set dev a0 address 02:fe:80:00:00:99");
            let old = frame(MAC, &[], &packet("192.0.2.1", 17, 53));
            let new = changed(old.clone(), 5, 0x99);
            wait_for("a frame for the new address", || {
                wire.send(&new);
                let _ = port.arm();
                let mut batch = Batch::new();
                port.rx(&mut here.w, &mut batch);
                let is_there = !batch.is_empty();
                batch.free(&mut here.w);
                is_there.then_some(())
            });
            ip("link del dev a0");
            veth("a0", "a1", 1);
            ip("link set dev a0 address 02:fe:80:00:00:01");
            let wire = Wire::open("a1");
            wait_for("a frame by the new interface", || {
                wire.send(&old);
                let _ = port.arm();
                netmem::port::Fill::refill(port, &mut here.w, &here.pool);
                port.kick();
                let mut batch = Batch::new();
                port.rx(&mut here.w, &mut batch);
                let is_there = !batch.is_empty();
                batch.free(&mut here.w);
                is_there.then_some(())
            });
            assert_eq!(control.get(), take("udp:53"));
            control.set(&take("udp:7")).unwrap();
            assert_eq!(come(port, here, &wire, &[53, 9], 7), []);
        });
    });
}

#[test]
fn ports_of_one_interface_take_the_same_and_change_together() {
    in_namespace("take::ports_of_one_interface_take_the_same_and_change_together", || {
        with_port(2, |port, here, _| {
            let mode = match port.mode() {
                netmem::port::xdp::XdpMode::Native => XdpModePreference::Native,
                netmem::port::xdp::XdpMode::Generic => XdpModePreference::Generic,
            };
            let differs = XdpError::PuntDiffers { interface: "a0".into() };
            let taking = |rules: &str| XdpConfig { mode, take: Some(take(rules)), ..small() };
            let all = XdpConfig { mode, ..small() };
            let control = XdpConfig { punt: Punt::Control, ..taking("udp:7") };
            for other in [&taking("udp:8"), &all, &control] {
                assert_eq!(here.open_with("a0", 1, other).unwrap_err(), differs);
            }
            let mut second = here.open_with("a0", 1, &taking("udp:7")).unwrap();
            port.take_control().unwrap().set(&take("udp:9")).unwrap();
            assert_eq!(second.take_control().unwrap().get(), take("udp:9"));
            second.close();
            here.open_with("a0", 1, &taking("udp:9")).unwrap();
        });
    });
}

/// Seen: the rules of a port that was closed were set without an error, and took nothing.
#[test]
fn rules_are_refused_after_the_last_of_their_ports_was_closed_and_not_while_its_interface_is_gone() {
    let name = "take::rules_are_refused_after_the_last_of_their_ports_was_closed_and_not_while_its_interface_is_gone";
    in_namespace(name, || {
        veth("a0", "a1", 2);
        let mut here = bench(256);
        let config = XdpConfig { take: Some(take("udp:7")), ..small() };
        let first = here.open_with("a0", 0, &config).unwrap();
        let mut second = here.open_with("a0", 1, &config).unwrap();
        let control = first.take_control().unwrap();
        drop(first);
        control.set(&take("udp:8")).unwrap();
        ip("link del dev a0");
        wait_for("the interface to be missed", || {
            let _ = second.arm();
            second.wakeup_fd().is_none().then_some(())
        });
        control.set(&take("udp:9")).unwrap();
        second.close();
        let refused = control.set(&take("udp:10")).unwrap_err();
        assert!(refused.to_string().contains("all closed"), "{refused}");
        assert_eq!((control.get(), second.take_control().unwrap().get()), (take("udp:9"), take("udp:9")));
    });
}
