//! Tests of ports that only transmit: their rules take nothing, so they need no program, and the interface may have that
//! of another owner.

use crate::netns::{Wire, in_namespace, ip, veth};
use crate::{Bench, bench, ethernet, program_on, receive, small, wait_for};
use netmem::pool::Batch;
use netmem::port::xdp::{Take, XdpConfig, XdpError, XdpMode, XdpModePreference, XdpPort};
use netmem::port::{Complete, Port, Tx, Wake};
use netmem::system::bpf::{RedirectProgram, SocketMap};
use netmem::system::netdev::Netdev;

fn take(text: &str) -> Take {
    text.parse().unwrap()
}

fn transmitting() -> XdpConfig {
    XdpConfig { take: Some(Take::default()), ..small() }
}

/// Sends a frame by the port, and sees it at the other end.
fn send(port: &mut XdpPort, here: &mut Bench, wire: &Wire, n: u8) {
    let mut frame = here.pool.alloc(&mut here.w).unwrap();
    frame.put_slice(&ethernet(n)).unwrap();
    let mut frames = Batch::new();
    frames.push(frame).unwrap();
    assert_eq!(port.tx(&mut here.w, &mut frames), 1);
    wait_for("the frame to be sent", || {
        port.kick();
        port.complete(&mut here.w, &mut frames);
        (!frames.is_empty()).then_some(())
    });
    frames.free(&mut here.w);
    wait_for("the frame at the other end", || (wire.receive() == ethernet(n)).then_some(()));
}

/// Seen: -EBUSY of the second of two programs that only transmit, each by a queue of its own.
#[test]
fn two_owners_that_take_nothing_transmit_by_queues_of_one_interface_without_a_program() {
    in_namespace(
        "transmit::two_owners_that_take_nothing_transmit_by_queues_of_one_interface_without_a_program",
        || {
            veth("a0", "a1", 2);
            let (mut one, mut other) = (bench(256), bench(256));
            let mut first = one.open_with("a0", 0, &transmitting()).unwrap();
            let mut second = other.open_with("a0", 1, &transmitting()).unwrap();
            assert_eq!(program_on("a0"), None);
            let wire = Wire::open("a1");
            for n in 0..100 {
                send(&mut first, &mut one, &wire, n);
                send(&mut second, &mut other, &wire, n + 100);
            }
            drop((first, second));
            assert!(one.pool.ledger().all_freed() && other.pool.ledger().all_freed());
        },
    );
}

/// Seen: -EBUSY of a program that only transmits, on an interface with the XDP program of another owner.
#[test]
fn a_port_that_takes_nothing_transmits_beside_the_program_of_another_owner() {
    in_namespace("transmit::a_port_that_takes_nothing_transmits_beside_the_program_of_another_owner", || {
        for mode in [XdpMode::Native, XdpMode::Generic] {
            veth("a0", "a1", 1);
            let map = SocketMap::new(1).unwrap();
            let index = Netdev::open("a0").unwrap().index();
            let link = RedirectProgram::load(&map, None, false).unwrap().attach(index, mode).unwrap();
            let (there, mut here, wire) = (program_on("a0"), bench(256), Wire::open("a1"));
            let some = XdpConfig { take: Some(take("udp:7")), ..small() };
            assert!(matches!(here.open_with("a0", 0, &some), Err(XdpError::ProgramAttached { .. })));
            let mut port =
                wait_for("the queue to be free again", || here.open_with("a0", 0, &transmitting()).ok());
            send(&mut port, &mut here, &wire, 7);
            assert_eq!(program_on("a0"), there);
            // Rules need a program, for which there is no room.
            let control = port.take_control().unwrap();
            let refused = control.set(&take("udp:7")).unwrap_err();
            assert!(refused.to_string().contains("attach"), "{refused}");
            assert_eq!((control.get(), program_on("a0")), (Take::default(), there));
            send(&mut port, &mut here, &wire, 8);
            drop((port, link));
            assert_eq!(program_on("a0"), None);
            ip("link del dev a0");
        }
    });
}

#[test]
fn a_port_that_took_nothing_gets_its_program_with_the_first_rules() {
    in_namespace("transmit::a_port_that_took_nothing_gets_its_program_with_the_first_rules", || {
        for (preference, mode) in [
            (XdpModePreference::NativeThenGeneric, XdpMode::Native),
            (XdpModePreference::Generic, XdpMode::Generic),
        ] {
            veth("a0", "a1", 1);
            ip("link set dev a0 address 02:00:00:00:00:01");
            let (mut here, wire) = (bench(256), Wire::open("a1"));
            let config = XdpConfig { mode: preference, ..transmitting() };
            let mut port = here.open_with("a0", 0, &config).unwrap();
            assert_eq!((port.mode(), program_on("a0")), (mode, None));
            let control = port.take_control().unwrap();
            control.set(&take("udp:7")).unwrap();
            assert!(program_on("a0").is_some_and(|shown| shown.contains("prog/xdp")));
            let datagram = [&ethernet(0)[..12], &[8, 0], &UDP].concat();
            wire.send(&datagram);
            let mut frames = Batch::new();
            receive(&mut port, &mut here.w, &mut frames, 1);
            assert_eq!(frames[0].data(), datagram);
            frames.free(&mut here.w);
            // The program stays when nothing is taken any more, and goes with the port.
            control.set(&Take::default()).unwrap();
            wire.send(&datagram);
            send(&mut port, &mut here, &wire, 1);
            assert_eq!(port.counters().rx.get(), 1);
            assert!(program_on("a0").is_some());
            drop(port);
            assert_eq!(program_on("a0"), None);
            ip("link del dev a0");
        }
    });
}

/// A datagram to UDP port 7 of 192.0.2.1, with a payload of 18 bytes.
const UDP: [u8; 46] = {
    let mut packet = [0; 46];
    let begin = [0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 9, 192, 0, 2, 1, 0, 9, 0, 7, 0, 26];
    let mut at = 0;
    while at < begin.len() {
        packet[at] = begin[at];
        at += 1;
    }
    packet
};
