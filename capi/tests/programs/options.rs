//! The options of a port's string mean the same from C.

use crate::prefix::{GCC, command, compiled, prefix};
use crate::testbed::{Testbed, Wiring, wait_until};
use std::process::Stdio;

/// Seen: the program got every packet of the interface, and the host's other services none.
#[test]
fn a_port_that_takes_one_udp_port_leaves_the_rest_to_the_kernel() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    let program = compiled("examples/redirect.c", &GCC);
    let mut redirect = bed.dut.command(program.to_str().unwrap());
    redirect.args(["xdp:one,take=udp:7", "xdp:two,take=udp:7"]).env("LD_LIBRARY_PATH", prefix().join("lib"));
    let mut redirect = redirect.stdout(Stdio::null()).spawn().expect("the example");
    wait_until("both interfaces have their program", || bed.has_programs());
    bed.h1.ping("10.77.0.254", 5, "-i 0.1");
    redirect.kill().and_then(|()| redirect.wait()).expect("it runs");
}

/// Seen: `mac=any` was accepted and had no effect.
#[test]
fn an_address_that_no_call_uses_is_refused_with_the_remedy() {
    let port = "pcap:out=/dev/null,mac=any";
    let mut redirect = command(compiled("examples/redirect.c", &GCC));
    let out = redirect.args([port, port]).output().expect("the example");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains("leave it out"), "{said}");
}
