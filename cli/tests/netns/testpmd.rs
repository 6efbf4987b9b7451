//! DPDK's testpmd at the other end of a wire, through its own AF_XDP driver.

use crate::dpdk::Testpmd;
use crate::links::Pair;
use crate::summary::Summary;
use crate::test_frames::{Folder, packets, pcap, sendable};
use crate::testbed::{Testbed, Wiring, wait_until};
use std::fs;

/// Times that all frames are sent.
const TIMES: usize = 10;

#[test]
fn testpmd_sends_every_frame_back_by_a_veth_byte_for_byte_and_counts_as_many_in_native_mode() {
    testpmd_sends_every_frame_back("native");
}

#[test]
fn testpmd_sends_every_frame_back_by_a_veth_byte_for_byte_and_counts_as_many_in_generic_mode() {
    testpmd_sends_every_frame_back("generic");
}

fn testpmd_sends_every_frame_back(mode: &str) {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["dpdk-testpmd"]) else { return };
    let folder = Folder::new(&format!("testpmd-{mode}"));
    let device = "net_af_xdp0,iface=eth0,start_queue=0,queue_count=1".to_owned();
    // Its output is to appear line by line.
    let mut command = bed.h1.command("stdbuf");
    command.args(["-oL", "dpdk-testpmd"]);
    let testpmd = Testpmd::start(command, &[device], folder.path("testpmd"));
    let testpmd = testpmd.expect("it was seen to be installed");
    // Then its socket is in the map of its program, and packets that arrive before it polls wait in the socket.
    wait_until("testpmd forwards", || testpmd.forwards());
    assert!(bed.h1.xdp_sockets() == 1 && bed.h1.ip("link show dev eth0").contains(" xdp"));

    let frames = sendable(1514);
    let sent: Vec<_> = (0..TIMES).flat_map(|_| frames.clone()).collect();
    let (input, output) = (folder.write("in", &pcap(&frames)), folder.path("out"));
    let files = format!("pcap:in={},out={},loop={TIMES}", input.display(), output.display());
    let pair = Pair::start_with(&bed.dut, [&files, "xdp:one"], &["--xdp-mode", mode]);
    let come = || fs::read(&output).map_or(Vec::new(), |bytes| packets(&bytes));
    wait_until("all frames are back", || come().len() >= sent.len());
    let out = pair.end();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let summary = Summary::parse(&out.stdout);
    summary.assert_adds_up();
    let n = sent.len() as u64;
    assert_eq!((summary.interface("one", "tx"), summary.interface("one", "rx")), (n, n));
    assert!(come() == sent, "not the frames that were sent, or not in their order");
    assert_eq!(testpmd.end(), [n, n], "received and sent, as testpmd counts");
    bed.assert_nothing_left();
}
