//! What the set-up calls return to a process that may open no more descriptors.

use super::{capture, run};
use crate::prefix::{GCC, compiled, good, prefix, scratch};
use crate::testbed::{self, Testbed, Wiring};

/// Seen: -EIO for all ports, -EINVAL for a lane, -ENOMEM ("ask for less") for a memory in a file.
#[test]
fn a_memory_or_a_lane_without_a_descriptor_says_so_and_names_the_limit() {
    assert_eq!(run("tests/c/descriptors.c", &[]), "as it should be\n");
}

#[test]
fn ports_of_files_and_peers_without_a_descriptor_say_so_and_name_the_limit() {
    let (input, output) = (capture::write("descriptors.pcap", 3), scratch().join("descriptors-out.pcap"));
    let (input, output, socket) = (input.display(), output.display(), testbed::scratch("descriptors"));
    let (socket, trace) = (socket.display(), scratch().join("descriptors.txt"));
    let ports = [
        format!("pcap:in={input}"),
        format!("pcap:in={input},out={output}"),
        format!("trace:file={}/pcap:out={output}", trace.display()),
        format!("memif:{socket}"),
        format!("memif:{socket},role=server"),
        format!("memif:{socket},lend=yes"),
        format!("memif:{socket},lend=yes,peer=any"),
    ];
    assert_eq!(run("tests/c/descriptors.c", &ports.each_ref().map(String::as_str)), "as it should be\n");
}

#[test]
fn ports_of_interfaces_without_a_descriptor_say_so_and_name_the_limit() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let mut program = bed.dut.command("timeout");
    program.arg("300").arg(compiled("tests/c/descriptors.c", &GCC));
    program.args(["packet:one", "packet:one,fanout=yes", "packet:one,kernel=control", "tap:t9"]);
    program.args(["xdp:one", "xdp:one,queues=all", "xdp:one,kernel=control", "xdp:one,take=udp:53"]);
    assert_eq!(good(program.env("LD_LIBRARY_PATH", prefix().join("lib"))), "as it should be\n");
    bed.assert_nothing_left();
}
