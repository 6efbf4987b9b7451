//! The example `hold` beside the traffic of two hosts.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../tests/testbed/mod.rs"]
mod testbed;

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use testbed::{Testbed, Wiring, example};

const PACKETS: u64 = 20_000;

#[test]
fn one_packet_of_a_thousand_is_held_for_seconds_and_no_other_finds_the_pool_empty() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    let mut command = bed.dut.command(&example("netmem-bytes", "hold").display().to_string());
    let mut child = command
        .args(["one", &PACKETS.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    assert_eq!(line, "sees one\n");
    let socket = bed.h1.inside(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap());
    let receiver = bed.dut.inside(|| UdpSocket::bind(("10.77.0.254", 9)).unwrap());
    // As many more as the machine loses while it is stopped.
    while child.try_wait().unwrap().is_none() {
        for _ in 0..64 {
            socket.send_to(&[7; 1000], ("10.77.0.254", 9)).unwrap();
        }
        thread::sleep(Duration::from_millis(1));
    }
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    let number = |before: &str, after: &str| -> u64 {
        let from = rest.split(before).nth(1).unwrap_or_else(|| panic!("no {before:?} in {rest}"));
        from.split(after).next().unwrap().trim().parse().unwrap_or_else(|_| panic!("{before:?} in {rest}"))
    };
    // The held packets were not copied, and starved nobody.
    assert_eq!(number("seen, ", " found no frame"), 0, "{rest}");
    assert_eq!(number("are held, ", " were copied"), 0, "{rest}");
    assert_eq!(number("copied\n", " were held"), PACKETS / 1000, "{rest}");
    assert!(rest.contains("all home: true"), "{rest}");
    // The kernel also has all of them.
    let mut datagram = [0; 2000];
    assert_eq!((receiver.recv(&mut datagram).unwrap(), datagram[0]), (1000, 7));
}
