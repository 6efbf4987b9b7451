//! Frames of all kinds go in by each kind of port that has an interface, and come out byte for byte.

use crate::running::wait_while_it_runs;
use crate::stalls::without_stalls;
use crate::summary::Summary;
use crate::test_frames::{Folder, every_type, giants, packets, pcap, pcap_at_intervals, sendable};
use crate::testbed::{Namespace, Testbed, Wiring, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::thread;
use std::time::Duration;

/// Bytes of the longest frame that is sent: the longest one of an interface with an MTU of 1,500, without a tag.
const MOST: usize = 1514;

/// A `netmem forward` between two ports. It is killed when dropped.
pub struct Pair(Option<Child>);

impl Pair {
    fn start(place: &Namespace, one: &str, other: &str) -> Pair {
        Pair::start_with(place, [one, other], &[])
    }

    /// Starts one with further options.
    pub fn start_with(place: &Namespace, ports: [&str; 2], options: &[&str]) -> Pair {
        Pair::start_as(place, ports, &[&["--mode", "cross-connect"], options].concat())
    }

    /// Starts one in whatever mode the options say.
    pub fn start_as(place: &Namespace, ports: [&str; 2], options: &[&str]) -> Pair {
        let mut command = place.command(env!("CARGO_BIN_EXE_netmem"));
        let ports = ports.map(|port| format!("--port={port}"));
        command.args(["forward", "--json"]).args(ports).args(options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Pair(Some(command.spawn().expect("netmem starts")))
    }

    /// Starts one that writes what comes by `port` to `file`, and waits until it does.
    fn receiver(place: &Namespace, port: &str, file: &Path) -> Pair {
        Pair::receiver_with(place, port, file, &[])
    }

    /// As [`Pair::receiver`], with further options.
    fn receiver_with(place: &Namespace, port: &str, file: &Path, options: &[&str]) -> Pair {
        fs::remove_file(file).ok();
        let mut pair = Pair::start_with(place, [port, &format!("pcap:out={}", file.display())], options);
        pair.wait_until("the receiver polls", || fs::metadata(file).is_ok_and(|file| file.len() >= 24));
        pair
    }

    /// Waits until `what` has happened, which it does while this runs.
    pub fn wait_until(&mut self, what: &str, happened: impl FnMut() -> bool) {
        wait_while_it_runs(self.0.as_mut().expect("it was not waited for"), what, happened);
    }

    /// Ends it as Ctrl-C does.
    pub fn end(mut self) -> Output {
        let child = self.0.take().expect("it was not waited for");
        kill_process(Pid::from_child(&child), Signal::INT).expect("kill(2)");
        child.wait_with_output().expect("wait")
    }

    /// Ends it, and asserts that it succeeded and that every frame is in its pool.
    fn end_well(self) {
        self.ended_well();
    }

    /// Does the same as [`Pair::end_well`]. Returns its summary.
    pub fn ended_well(self) -> Summary {
        let out = self.end();
        let said = without_stalls(&String::from_utf8_lossy(&out.stderr));
        // A TAP interface has a carrier only while a program has it.
        let is_expected = |line: &str| line.starts_with("netmem: port packet:t0 is up");
        assert!(out.status.success() && said.lines().all(is_expected), "{said}");
        let summary = Summary::parse(&out.stdout);
        summary.assert_adds_up();
        summary
    }

    /// Ends it, and asserts that it printed nothing but the state of its port (if it saw that at all), that its
    /// counters add up, and that every frame is in its pool. Otherwise it would exit with an error.
    fn end_after_port_down(self, port: &str) {
        let out = self.end();
        let said = without_stalls(&String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{said}");
        assert!(said.lines().all(|line| line.starts_with(&format!("netmem: port {port} is "))), "{said}");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().and_then(|()| child.wait()).map(drop).ok();
        }
    }
}

/// Sends frames of every kind by the port `from` and asserts that they all come by the port `to` as they were.
fn cross(folder: &Folder, from: (&Namespace, &str), to: (&Namespace, &str)) {
    cross_all(folder, from, to, &sendable(MOST), &[]);
}

/// Sends these frames by the port `from` and asserts that they all come by the port `to` as they were.
fn cross_all(
    folder: &Folder,
    (sender, from): (&Namespace, &str),
    (receiver, to): (&Namespace, &str),
    frames: &[Vec<u8>],
    options: &[&str],
) {
    let (input, output): (PathBuf, PathBuf) = (folder.write("in", &pcap(frames)), folder.path("out"));
    let mut receiving = Pair::receiver_with(receiver, to, &output, options);
    if let Some(interface) = to.strip_prefix("tap:") {
        receiver.wait_for_the_carrier(interface);
    }
    let sending = Pair::start_with(sender, [&format!("pcap:in={}", input.display()), from], options);
    let come = || packets(&fs::read(&output).expect("the output"));
    receiving.wait_until("all frames have come", || come().len() >= frames.len());
    sending.end_well();
    receiving.end_well();
    let come = come();
    for (i, frame) in frames.iter().enumerate() {
        assert_eq!(&come[i], frame, "frame {i} of {from} to {to}");
    }
    assert_eq!(come.len(), frames.len());
}

/// Sends frames of every type by the port `from` and asserts that each comes by the port `to` as it was, and nothing else. They
/// are sent in lots, over and over: a receiver that was not given a core for long finds more than a lot in its rings.
fn cross_every_type(folder: &Folder, (sender, from): (&Namespace, &str), (receiver, to): (&Namespace, &str)) {
    const RING: usize = 16384;
    let ring = format!("--ring={RING}");
    let types = every_type();
    let output = folder.path("come");
    let receiving = Pair::receiver_with(receiver, to, &output, &[&ring]);
    let mut come = HashSet::new();
    for lot in types.chunks(RING / 2) {
        let input = folder.write("types", &pcap_at_intervals(lot, 25));
        let file = format!("pcap:in={},speed=recorded,loop=0", input.display());
        let sending = Pair::start_with(sender, [&file, from], &[&ring]);
        wait_until("every type of a lot has come", || {
            // The file is long, and the process that fills it needs the core too.
            thread::sleep(Duration::from_millis(100));
            come = packets(&fs::read(&output).expect("the output")).into_iter().collect();
            lot.iter().all(|frame| come.contains(frame))
        });
        drop(sending);
    }
    drop(receiving);
    let strange = come.difference(&types.into_iter().collect()).next().cloned();
    assert_eq!(strange, None, "{from} to {to}: not as they were");
}

#[test]
fn frames_of_every_kind_go_by_packet_and_xdp_ports_byte_for_byte() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("links");
    cross(&folder, (&bed.h1, "packet:eth0"), (&bed.dut, "packet:one"));
    cross(&folder, (&bed.h1, "packet:eth0"), (&bed.dut, "xdp:one"));
    cross(&folder, (&bed.dut, "xdp:one"), (&bed.h1, "packet:eth0"));
    cross_every_type(&folder, (&bed.h1, "packet:eth0"), (&bed.dut, "xdp:one"));
    cross_every_type(&folder, (&bed.dut, "xdp:one"), (&bed.h1, "packet:eth0"));
    bed.assert_nothing_left();
}

/// The longest frames of an interface with an MTU of 9,000, without a tag and with one.
fn jumbo() -> Vec<Vec<u8>> {
    let tagged = |frame: &[u8]| frame[12..14] == [0x81, 0x00];
    giants(9018).into_iter().filter(|frame| frame.len() <= 9014 || tagged(frame)).collect()
}

#[test]
fn giants_go_by_packet_and_tap_ports_byte_for_byte_where_frames_have_room() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("giants");
    bed.h1.ip("tuntap add dev t0 mode tap");
    for (place, interface) in [(&bed.h1, "eth0"), (&bed.dut, "one"), (&bed.h1, "t0")] {
        place.ip(&format!("link set dev {interface} mtu 9000 up"));
    }
    for size in ["--frame-size=16384", "--frame-size=32768"] {
        let cross = |from, to| cross_all(&folder, from, to, &jumbo(), &[size]);
        cross((&bed.h1, "packet:eth0"), (&bed.dut, "packet:one"));
        cross((&bed.h1, "tap:t0"), (&bed.h1, "packet:t0"));
        cross((&bed.h1, "packet:t0"), (&bed.h1, "tap:t0"));
    }
    bed.assert_nothing_left();
}

#[test]
fn frames_as_long_as_a_page_has_room_for_go_by_xdp_ports_byte_for_byte() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("page");
    for (place, interface) in [(&bed.h1, "eth0"), (&bed.dut, "one")] {
        place.ip(&format!("link set dev {interface} mtu 3400"));
    }
    let frames = [sendable(MOST), giants(3400)].concat();
    for mode in ["--xdp-mode=native", "--xdp-mode=generic"] {
        let cross = |from, to| cross_all(&folder, from, to, &frames, &["--frame-size=4096", mode]);
        cross((&bed.h1, "packet:eth0"), (&bed.dut, "xdp:one"));
        cross((&bed.dut, "xdp:one"), (&bed.h1, "packet:eth0"));
    }
    bed.assert_nothing_left();
}

/// Seen: an xdp port was refused frames that have room for them.
#[test]
fn jumbo_frames_go_by_xdp_ports_byte_for_byte_in_both_modes() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("jumbo");
    for (place, interface) in [(&bed.h1, "eth0"), (&bed.dut, "one")] {
        place.ip(&format!("link set dev {interface} mtu 9000"));
    }
    for (mode, shown) in [("--xdp-mode=native", "xdp"), ("--xdp-mode=generic", "xdpgeneric")] {
        for size in ["--frame-size=16384", "--frame-size=32768"] {
            let cross = |from, to| cross_all(&folder, from, to, &jumbo(), &[size, mode]);
            cross((&bed.h1, "packet:eth0"), (&bed.dut, "xdp:one"));
            cross((&bed.dut, "xdp:one"), (&bed.h1, "packet:eth0"));
        }
        let options = ["--frame-size=16384", mode];
        let mut pair = Pair::start_with(&bed.dut, ["xdp:one", "pcap:out=/dev/null"], &options);
        pair.wait_until("it is in that mode", || bed.program("one").as_deref() == Some(shown));
        pair.end_well();
    }
    bed.assert_nothing_left();
}

#[test]
fn hosts_ping_each_other_with_jumbo_packets_through_a_router_of_large_frames() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    for (place, interface) in [(&bed.h1, "eth0"), (&bed.dut, "one"), (&bed.dut, "two"), (&bed.h2, "eth0")] {
        place.ip(&format!("link set dev {interface} mtu 9000"));
    }
    for (ports, mode) in [
        (["packet:one", "packet:two"], "native"),
        (["xdp:one", "xdp:two"], "native"),
        (["xdp:one", "xdp:two"], "generic"),
        (["xdp:one", "packet:two"], "native"),
    ] {
        ping_by(&bed, ports, mode);
    }
    bed.assert_nothing_left();
}

/// Pings a host with packets as long as the links carry, and with longer ones, by a router of these ports.
fn ping_by(bed: &Testbed, ports: [&str; 2], mode: &str) {
    let mode = format!("--xdp-mode={mode}");
    let routes = ["--route=10.77.1.0/24,0,02:00:00:00:01:01", "--route=10.77.2.0/24,1,02:00:00:00:02:01"];
    let options = [&routes[..], &["--frame-size=16384", &mode]].concat();
    let mut router = Pair::start_as(&bed.dut, ports, &options);
    let ping = |size: &str| {
        let words = ["-c", "1", "-W", "1", "-M", "do", "-s", size, "10.77.2.1"];
        bed.h1.command("ping").args(words).output().expect("ping").status.success()
    };
    // 9,000 bytes with 28 of headers.
    router.wait_until("a packet as long as the MTU comes back", || ping("8972"));
    assert!(!ping("8973"), "longer than the MTU");
    router.end_well();
}

#[test]
fn frames_of_every_kind_go_by_a_tap_port_byte_for_byte_both_ways_and_the_interface_is_removed_with_it() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("tap");
    let there = || bed.h1.command("ip").args(["link", "show", "t0"]).output().expect("ip").status.success();
    bed.h1.ip("tuntap add dev t0 mode tap");
    bed.h1.ip("link set dev t0 up");
    cross(&folder, (&bed.h1, "tap:t0"), (&bed.h1, "packet:t0"));
    cross(&folder, (&bed.h1, "packet:t0"), (&bed.h1, "tap:t0"));
    // Packets that are sent while the reader is stopped wait there.
    bed.h1.ip("link set dev t0 txqueuelen 32768");
    cross_every_type(&folder, (&bed.h1, "tap:t0"), (&bed.h1, "packet:t0"));
    cross_every_type(&folder, (&bed.h1, "packet:t0"), (&bed.h1, "tap:t0"));
    assert!(there(), "one that was there stays");
    bed.h1.ip("link del t0");
    let mut made = Pair::start(&bed.h1, "tap:t0", "pcap:out=/dev/null");
    made.wait_until("the interface is made and up", || there() && bed.h1.ip("link show t0").contains("UP"));
    made.end_well();
    assert!(!there(), "one that was made for the port goes with it");
}

#[test]
fn an_interface_that_goes_down_comes_back_and_one_that_is_gone_takes_its_port_down() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("down");
    let (input, output) = (folder.write("in", &pcap(&sendable(MOST))), folder.path("out"));
    let receiving = Pair::receiver(&bed.dut, "packet:one", &output);
    bed.dut.ip("link set dev one down");
    bed.dut.ip("link set dev one up");
    let sending = Pair::start(&bed.h1, &format!("pcap:in={},loop=0", input.display()), "packet:eth0");
    let come = || packets(&fs::read(&output).expect("the output")).len();
    wait_until("frames come again", || come() > 0);
    bed.h1.ip("link del eth0");
    for (pair, interface) in [(sending, "packet:eth0"), (receiving, "packet:one")] {
        let out = pair.end();
        let said = without_stalls(&String::from_utf8_lossy(&out.stderr));
        let reason = format!("port {interface} is down: interface {} is gone", &interface[7..]);
        assert!(out.status.code() == Some(1) && said.contains(&reason), "{said}");
        assert!(!said.contains("check failed"), "every frame is freed: {said}");
    }
}

/// Seen: the router used the interface's own address for its end of the link, and dropped the packets that the host
/// sent to it.
#[test]
fn a_router_has_an_address_of_its_own_at_the_far_end_of_a_tap_interface() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let folder = Folder::new("router");
    let output = folder.path("out");
    for (port, router) in
        [("tap:t0", "02:6e:65:74:00:00"), ("tap:t0,mac=02:00:00:00:0a:01", "02:00:00:00:0a:01")]
    {
        fs::remove_file(&output).ok();
        let mut command = bed.h1.command(env!("CARGO_BIN_EXE_netmem"));
        command.args([
            "forward",
            "--json",
            "--port",
            port,
            "--port",
            &format!("pcap:out={}", output.display()),
        ]);
        command
            .args(["--route", "10.78.2.0/24,1,02:00:00:00:00:02"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut pair = Pair(Some(command.spawn().expect("netmem starts")));
        pair.wait_until("the port polls", || fs::metadata(&output).is_ok_and(|file| file.len() >= 24));
        bed.h1.ip("addr add 10.78.1.1/24 dev t0");
        bed.h1.ip(&format!("neigh add 10.78.1.254 lladdr {router} dev t0"));
        bed.h1.ip("route add 10.78.2.0/24 via 10.78.1.254");
        let ping = bed.h1.command("ping").args(["-c", "3", "-i", "0.01", "-W", "1", "10.78.2.1"]).output();
        ping.expect("ping");
        wait_until("what was pinged leaves", || packets(&fs::read(&output).expect("the output")).len() >= 3);
        let out = pair.end();
        let summary = Summary::parse(&out.stdout);
        assert!(out.status.success() && summary.detail(0).ends_with(router), "{}", summary.detail(0));
        for packet in packets(&fs::read(&output).expect("the output")) {
            assert_eq!(packet[..14], [2, 0, 0, 0, 0, 2, 2, b'n', b'e', b't', 0, 1, 8, 0]);
        }
    }
}

#[test]
fn packet_ports_go_on_when_their_interface_is_made_again() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("packet-again");
    let (input, output) = (folder.write("in", &pcap(&sendable(MOST))), folder.path("out"));
    let receiving = Pair::receiver(&bed.dut, "packet:one", &output);
    let sending = Pair::start(&bed.h1, &format!("pcap:in={},loop=0", input.display()), "packet:eth0");
    frames_come(&output);
    for _ in 0..3 {
        bed.h1.ip("link del eth0");
        bed.wire(1, 1);
        frames_come(&output);
    }
    sending.end_after_port_down("packet:eth0");
    receiving.end_after_port_down("packet:one");
}

#[test]
fn a_tap_port_goes_on_when_its_interface_is_made_again() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("tap-again");
    let make = || {
        bed.h1.ip("tuntap add dev t0 mode tap");
        bed.h1.ip("link set dev t0 up");
    };
    make();
    let (input, output) = (folder.write("in", &pcap(&sendable(MOST))), folder.path("out"));
    let receiving = Pair::receiver(&bed.h1, "tap:t0", &output);
    let sending = Pair::start(&bed.h1, &format!("pcap:in={},loop=0", input.display()), "packet:t0");
    frames_come(&output);
    for _ in 0..3 {
        bed.h1.ip("link del t0");
        make();
        frames_come(&output);
    }
    sending.end_after_port_down("packet:t0");
    receiving.end_after_port_down("tap:t0");
}

/// Waits until the file has grown twice: bytes that were in a buffer before do not count.
fn frames_come(output: &Path) {
    for _ in 0..2 {
        let length = || fs::metadata(output).expect("the output").len();
        let before = length();
        wait_until("frames come", || length() > before + (1 << 16));
    }
}
