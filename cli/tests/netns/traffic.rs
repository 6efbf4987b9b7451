//! The hosts' traffic: pings, and TCP by iperf3.

use crate::iperf3::{PORT, arrives};
use crate::testbed::{Namespace, Testbed};

/// Bytes that each TCP transfer carries.
const TCP_BYTES: u64 = 64 << 20;

/// Whether the address answers a ping within a second.
pub fn ping_once(from: &Namespace, address: &str) -> bool {
    from.command("ping").args(["-c", "1", "-W", "1", address]).output().expect("ping").status.success()
}

/// Asserts that each host answers every ping of the other.
pub fn assert_ping_both_ways(bed: &Testbed) {
    for (from, to) in [(&bed.h1, 2), (&bed.h2, 1)] {
        from.ping(&bed.address(to).to_string(), 5, "-i 0.2 -s 1000");
    }
}

/// Asserts that a TCP transfer from h1 to h2 completes, and one from h2 to h1.
pub fn assert_tcp_both_ways(bed: &Testbed) {
    for direction in [&[][..], &["--reverse"]] {
        assert!(arrives(&bed.h1, &bed.h2, (&bed.address(2), PORT), TCP_BYTES, direction), "{direction:?}");
    }
}
