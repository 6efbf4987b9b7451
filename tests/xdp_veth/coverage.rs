//! Receive queues that an interface gets while it has ports.

use crate::netns::{in_namespace, ip, veth};
use crate::{bench, small, wait_for};
use netmem::port::xdp::XdpQueues;
use netmem::port::{Port, PortState, Wake};
use std::process::Command;

/// Gives the ends that many queues each way, in this order: the driver refuses an end with a program fewer queues
/// to receive than the other has to transmit.
fn set_queues(ends: [&str; 2], queues: u32) {
    for end in ends {
        let n = queues.to_string();
        let out = Command::new("ethtool").args(["-L", end, "rx", &n, "tx", &n]).output().expect("ethtool(8)");
        // It also fails if nothing is to be changed.
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() || said.contains("unmodified"), "{said}");
    }
}

/// Polls until what the port complains of is as it should be.
fn until(port: &mut XdpQueues, what: &str, is_so: impl Fn(Option<String>) -> bool) {
    wait_for(what, || {
        let _ = port.arm();
        port.disarm();
        let is_done = port.state() == PortState::Up && is_so(port.complaint());
        is_done.then_some(())
    });
}

fn names(complaint: Option<String>) -> bool {
    complaint.is_some_and(|line| line.starts_with("2 of the 4 receive queues of a0 have no port"))
}

/// Seen: a server on all queues was up and without a complaint, and half of its clients got no answer.
#[test]
fn a_port_of_all_queues_complains_while_its_interface_has_more() {
    in_namespace("coverage::a_port_of_all_queues_complains_while_its_interface_has_more", || {
        veth("a0", "a1", 4);
        set_queues(["a1", "a0"], 2);
        let mut here = bench(512);
        let all = XdpQueues::all_of("a0").unwrap();
        let mut port = XdpQueues::open(&here.umem, &mut here.w, &here.pool, "a0", &all, &small()).unwrap();
        until(&mut port, "no complaint", |complaint| complaint.is_none());
        set_queues(["a0", "a1"], 4);
        until(&mut port, "a complaint of two queues", names);
        set_queues(["a1", "a0"], 2);
        until(&mut port, "the end of the complaint", |complaint| complaint.is_none());
        ip("link del dev a0");
        wait_for("the interface to be missed", || {
            let _ = port.arm();
            port.disarm();
            (port.state() != PortState::Up).then_some(())
        });
        veth("a0", "a1", 4);
        until(&mut port, "a complaint of the other interface", names);
        // The queues of another port of the memory are its own.
        let rest = XdpQueues::open(&here.umem, &mut here.w, &here.pool, "a0", &[2, 3], &small()).unwrap();
        until(&mut port, "the end of that complaint", |complaint| complaint.is_none());
        drop(rest);
    });
}

#[test]
fn a_port_of_some_queues_on_purpose_does_not_complain() {
    in_namespace("coverage::a_port_of_some_queues_on_purpose_does_not_complain", || {
        veth("a0", "a1", 4);
        set_queues(["a1", "a0"], 2);
        let mut here = bench(512);
        let mut port = XdpQueues::open(&here.umem, &mut here.w, &here.pool, "a0", &[1], &small()).unwrap();
        // Another one on all queues shows by its complaint that both were looked at.
        veth("b0", "b1", 1);
        let mut whole = here.open("b0").unwrap();
        set_queues(["a0", "a1"], 4);
        ip("link del dev b0");
        wait_for("the interface to be missed", || {
            let _ = whole.arm();
            whole.disarm();
            (whole.state() != PortState::Up).then_some(())
        });
        veth("b0", "b1", 2);
        wait_for("a complaint of one queue", || {
            for one in [&mut port as &mut dyn Port, &mut whole] {
                let _ = one.arm();
                one.disarm();
            }
            whole.complaint().map(|line| assert!(line.starts_with("1 of the 2 "), "{line}"))
        });
        assert_eq!((port.complaint(), port.state()), (None, PortState::Up));
    });
}
