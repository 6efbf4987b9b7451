//! Interfaces that are renamed while they are asked, or give their name to another kind of interface: in a network
//! namespace, as root.

#![allow(clippy::unwrap_used)]

// It uses a part of this.
#[allow(dead_code)]
mod netns;

use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};
use netmem::port::tap::TapConfig;
use netmem::system::netdev::Netdev;
use netmem::{Port, PortState, TapPort, Wake};
use netns::{in_namespace, ip, veth};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Number of times that the interfaces swap their names.
const SWAPS: usize = 200;

/// Has two interfaces swap their names.
fn swap_names(one: &str, two: &str) {
    let lines = format!("link set {one} name third\nlink set {two} name {one}\nlink set third name {two}\n");
    let mut ip = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    ip.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(ip.wait().unwrap().success());
}

/// Ends the questions, also if this thread panics.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Seen: the kernel is asked for the name and then by the name. In between, another interface got the name, or none had
/// it. A `packet` port took its interface for removed, and went on with the other one.
#[test]
fn an_interface_that_is_renamed_while_it_is_asked_answers_for_itself() {
    in_namespace("an_interface_that_is_renamed_while_it_is_asked_answers_for_itself", || {
        veth("a0", "a1", 1);
        ip("link set a1 mtu 1400");
        // Before Linux 6.2 no interface that is up is renamed.
        ip("link set a0 down");
        ip("link set a1 down");
        let (one, two) = (Netdev::open("a0").unwrap(), Netdev::open("a1").unwrap());
        let macs = [one.mac().unwrap(), two.mac().unwrap()];
        let (rounds, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let ask = || {
            while !over.load(Relaxed) {
                assert_eq!([one.is_up(), two.is_up()], [Ok(false), Ok(false)]);
                assert_eq!([one.mac(), two.mac()], macs.map(Ok));
                assert_eq!([one.mtu(), two.mtu()], [Ok(1500), Ok(1400)]);
                rounds.fetch_add(1, Relaxed);
            }
        };
        thread::scope(|scope| {
            let asking = scope.spawn(ask);
            let _end = SetAtEnd(&over);
            for _ in 0..SWAPS {
                swap_names("a0", "a1");
                // So that one swap at most comes within a question, behind which the name is another one.
                let asked = rounds.load(Relaxed);
                while rounds.load(Relaxed) == asked && !asking.is_finished() {
                    thread::yield_now();
                }
            }
        });
    });
}

/// Found in a review: the port took its interface for removed, and stayed down while there was none of its first name.
#[test]
fn a_tap_port_whose_interface_gets_a_name_that_is_no_text_goes_on() {
    in_namespace("a_tap_port_whose_interface_gets_a_name_that_is_no_text_goes_on", || {
        let mut port = TapPort::open("t0", &TapConfig::default()).unwrap();
        let name = OsStr::from_bytes(b"\xe9");
        let done = Command::new("ip").args(["link", "set", "t0", "name"]).arg(name).status().unwrap();
        assert!(done.success());
        let done = Command::new("ip").args(["link", "set", "dev"]).arg(name).arg("up").status().unwrap();
        assert!(done.success());
        for _ in 0..2 {
            let _ = port.arm();
            assert_eq!(port.state(), PortState::Up);
        }
    });
}

/// Seen: the port was up again with a TUN interface that got the name of its own, and sent Ethernet frames into it.
#[test]
fn a_packet_port_does_not_go_on_with_an_interface_without_ethernet_frames() {
    in_namespace("a_packet_port_does_not_go_on_with_an_interface_without_ethernet_frames", || {
        veth("a0", "a1", 1);
        let mut port = AfPacketPort::open("a0", &AfPacketConfig::default()).unwrap();
        let mut look = || {
            let _ = port.arm();
            port.disarm();
            port.state()
        };
        ip("link del a0");
        ip("tuntap add a0 mode tun");
        ip("link set a0 up");
        let refused = "interface a0 is there again: it is not an Ethernet interface";
        loop {
            match look() {
                PortState::Down(why) if why == refused => break,
                PortState::Down(_) => thread::yield_now(),
                state => panic!("{state:?}"),
            }
        }
        ip("link del a0");
        veth("a0", "a1", 1);
        while look() != PortState::Up {
            thread::yield_now();
        }
    });
}
