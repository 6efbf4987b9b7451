//! The kernel's counters outside of the forwarder.

use crate::testbed::Namespace;
use std::fs;

/// Packets at one end of a wire.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    pub rx: u64,
    pub tx: u64,
    /// Packets that should have gone out and found the other end full.
    pub tx_dropped: u64,
}

impl Wire {
    /// The counters of an interface.
    pub fn read(host: &Namespace, interface: &str) -> Wire {
        let dev = proc_net(host, "dev");
        let line = dev.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'));
        let numbers: Vec<u64> = line.expect("the interface").split_whitespace().map(number).collect();
        // Received: bytes packets errs drop fifo frame compressed multicast; sent: bytes packets errs drop …
        Wire { rx: numbers[1], tx: numbers[9], tx_dropped: numbers[11] }
    }
}

/// UDP packets of a host that found their socket's buffer full.
pub fn full_buffers(host: &Namespace) -> u64 {
    let snmp = proc_net(host, "snmp");
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, numbers) = (lines.next().expect("names"), lines.next().expect("numbers"));
    let column = names.split(' ').position(|name| name == "RcvbufErrors").expect("RcvbufErrors");
    numbers.split(' ').nth(column).map(number).expect("a number in its column")
}

fn proc_net(host: &Namespace, file: &str) -> String {
    host.inside(|| fs::read_to_string(format!("/proc/thread-self/net/{file}"))).expect("a file of /proc")
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}
