//! Interfaces that are set down, removed and made again while frames are in every ring.

use crate::netns::{Wire, in_namespace, ip, veth};
use crate::refusals::Without;
use crate::{Bench, bench, ethernet, program_on, receive, small, wait_for};
use netmem::pool::{Batch, Pool};
use netmem::port::xdp::{XdpConfig, XdpGrant, XdpModePreference, XdpPort, XdpQueues};
use netmem::port::{Complete, Fill, Port, PortState, Rx, Tx, Wake};
use netmem::sync::Worker;
use rustix::thread::capabilities;

/// Polls as a forwarder does, and waits until the port's state is as wanted.
pub fn poll_until(
    port: &mut dyn Port,
    w: &mut Worker,
    pool: &Pool,
    wanted: impl Fn(&PortState) -> bool,
) -> PortState {
    wait_for("the port's state to change", || {
        let mut frames = Batch::new();
        port.rx(w, &mut frames);
        port.complete(w, &mut frames);
        frames.free(w);
        port.refill(w, pool);
        port.kick();
        Some(port.state()).filter(|state| wanted(state))
    })
}

/// Takes the frames of the ports until all are in their pool.
fn bring_home(ports: &mut [XdpPort], w: &mut Worker, pool: &Pool) {
    wait_for("the frames to come home", || {
        for port in &mut *ports {
            let mut frames = Batch::new();
            port.rx(w, &mut frames);
            port.complete(w, &mut frames);
            frames.free(w);
            port.kick();
        }
        pool.ledger().all_freed().then_some(())
    });
}

pub fn is_up(state: &PortState) -> bool {
    *state == PortState::Up
}

pub fn says(reason: &'static str) -> impl Fn(&PortState) -> bool {
    move |state| matches!(state, PortState::Down(said) if said.contains(reason))
}

/// Posts `n` frames for transmission.
fn transmit(port: &mut XdpPort, w: &mut Worker, pool: &Pool, n: u8) {
    let mut frames = Batch::new();
    for n in 0..n {
        let mut frame = pool.alloc(w).unwrap();
        frame.put(60).unwrap();
        frame.data_mut().copy_from_slice(&ethernet(n));
        frames.push(frame).unwrap();
    }
    assert_eq!(port.tx(w, &mut frames), usize::from(n));
}

/// Sends a frame in each direction, once the far end has its carrier. The kernel notices the carrier up to a second
/// late, and loses frames that are sent before.
fn assert_carries(port: &mut XdpPort, w: &mut Worker, pool: &Pool) {
    wait_for("the carrier", || ip("link show dev a1").contains("state UP").then_some(()));
    let (wire, mut frames) = (Wire::open("a1"), Batch::new());
    wire.send(&ethernet(7));
    receive(port, w, &mut frames, 1);
    assert_eq!(frames[0].data(), ethernet(7));
    frames.free(w);
    transmit(port, w, pool, 1);
    port.kick();
    assert_eq!(wire.receive(), ethernet(0));
}

#[test]
fn a_port_comes_back_each_time_its_interface_is_made_again_with_every_frame_in_its_place() {
    in_namespace(
        "absence::a_port_comes_back_each_time_its_interface_is_made_again_with_every_frame_in_its_place",
        || {
            for mode in [XdpModePreference::Native, XdpModePreference::Generic] {
                veth("a0", "a1", 1);
                let mut here = bench(256);
                let mut port = here.open_with("a0", 0, &XdpConfig { mode, ..small() }).unwrap();
                let Bench { mut w, pool, .. } = here;
                for round in 1..=3 {
                    assert_carries(&mut port, &mut w, &pool);
                    // Some received and not taken, some sent and not completed, some not even sent.
                    let wire = Wire::open("a1");
                    let room = port.fill_room();
                    (0..8).for_each(|n| wire.send(&ethernet(n)));
                    // Each took the frame that was posted for it. Others would be gone with the interface.
                    wait_for("the frames to arrive", || (port.fill_room() >= room + 8).then_some(()));
                    transmit(&mut port, &mut w, &pool, 8);
                    port.kick();
                    transmit(&mut port, &mut w, &pool, 8);
                    let before = port.counters().rx.get();
                    ip("link del dev a0");
                    poll_until(&mut port, &mut w, &pool, says("interface a0 is gone"));
                    bring_home(std::slice::from_mut(&mut port), &mut w, &pool);
                    assert_eq!(port.counters().rx.get(), before + 8, "what had been received was taken");
                    let counted = port.counters();
                    assert_eq!((counted.tx.get(), counted.completed.get()), (17 * round, 17 * round));
                    // The kernel may have taken frames that were only posted while the port looked for its interface.
                    assert!(counted.tx_lost.get() <= 8 * round);
                    assert_eq!((port.rx_posted(), port.tx_posted()), (0, 0));
                    let mut frames = Batch::new();
                    frames.push(pool.alloc(&mut w).unwrap()).unwrap();
                    assert_eq!((port.tx(&mut w, &mut frames), port.fill(&mut w, &mut frames)), (0, 0));
                    frames.free(&mut w);
                    // An interface that is down cannot be used.
                    ip("link add a0 type veth peer name a1");
                    poll_until(&mut port, &mut w, &pool, says("interface a0 is down"));
                    ip("link set dev a1 up");
                    ip("link set dev a0 up");
                    poll_until(&mut port, &mut w, &pool, is_up);
                    assert!(program_on("a0").is_some() && pool.ledger().balanced(), "{:?}", pool.ledger());
                }
                assert_carries(&mut port, &mut w, &pool);
                assert_eq!(port.close().stranded, 0);
                assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
                ip("link del dev a0");
            }
        },
    );
}

#[test]
fn an_interface_set_down_and_up_keeps_its_socket_and_what_waits_to_be_sent() {
    in_namespace("absence::an_interface_set_down_and_up_keeps_its_socket_and_what_waits_to_be_sent", || {
        for mode in [XdpModePreference::Native, XdpModePreference::Generic] {
            veth("a0", "a1", 1);
            let mut here = bench(256);
            let mut port = here.open_with("a0", 0, &XdpConfig { mode, ..small() }).unwrap();
            let Bench { mut w, pool, .. } = here;
            for _ in 0..3 {
                assert_carries(&mut port, &mut w, &pool);
                ip("link set dev a0 down");
                let state = poll_until(&mut port, &mut w, &pool, |state| !is_up(state));
                assert_eq!(state, PortState::Down("interface a0 is down".into()));
                assert!(pool.ledger().balanced(), "{:?}", pool.ledger());
                ip("link set dev a0 up");
                poll_until(&mut port, &mut w, &pool, is_up);
            }
            assert_carries(&mut port, &mut w, &pool);
            drop(port);
            assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
            ip("link del dev a0");
        }
    });
}

#[test]
fn a_port_whose_interface_was_renamed_goes_on_and_never_uses_the_one_that_has_its_name_now() {
    in_namespace(
        "absence::a_port_whose_interface_was_renamed_goes_on_and_never_uses_the_one_that_has_its_name_now",
        || {
            veth("a0", "a1", 1);
            let mut here = bench(256);
            let mut port = here.open("a0").unwrap();
            let Bench { mut w, pool, .. } = here;
            ip("link set dev a0 down");
            ip("link set dev a0 name old");
            ip("link set dev old up");
            ip("link add a0 type veth peer name a2");
            ip("link set dev a0 up");
            poll_until(&mut port, &mut w, &pool, is_up);
            assert_carries(&mut port, &mut w, &pool);
            assert!(program_on("old").is_some() && program_on("a0").is_none());
            assert_eq!(port.netdev().mac().unwrap(), mac_of("old"));
            drop(port);
            assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
        },
    );
}

fn mac_of(interface: &str) -> [u8; 6] {
    let shown = ip(&format!("link show dev {interface}"));
    let mac = shown.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap();
    let bytes: Vec<u8> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

#[test]
fn two_ports_of_one_memory_lose_both_ends_of_their_wire_at_once_and_come_back() {
    in_namespace(
        "absence::two_ports_of_one_memory_lose_both_ends_of_their_wire_at_once_and_come_back",
        || {
            veth("a0", "a1", 2);
            let mut here = bench(512);
            // Two queues of one end, and the other end.
            let places = [("a0", 0), ("a0", 1), ("a1", 0)];
            let mut ports = places.map(|(name, queue)| here.open_with(name, queue, &small()).unwrap());
            let Bench { mut w, pool, .. } = here;
            for _ in 0..2 {
                for port in &mut ports {
                    transmit(port, &mut w, &pool, 8);
                }
                ip("link del dev a0");
                for port in &mut ports {
                    poll_until(port, &mut w, &pool, says("is gone"));
                }
                bring_home(&mut ports, &mut w, &pool);
                // Queue 1 is not there yet.
                veth("a0", "a1", 1);
                poll_until(&mut ports[0], &mut w, &pool, is_up);
                poll_until(&mut ports[1], &mut w, &pool, says("has no queue 1"));
                poll_until(&mut ports[2], &mut w, &pool, is_up);
                ip("link del dev a0");
                veth("a0", "a1", 2);
                for port in [0, 2] {
                    poll_until(&mut ports[port], &mut w, &pool, says("is gone"));
                }
                for port in &mut ports {
                    poll_until(port, &mut w, &pool, is_up);
                }
            }
            drop(ports);
            assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
        },
    );
}

#[test]
fn a_port_that_is_closed_while_its_interface_is_gone_frees_the_remaining_frames() {
    const TEST: &str =
        "absence::a_port_that_is_closed_while_its_interface_is_gone_frees_the_remaining_frames";
    in_namespace(TEST, || {
        for again in [false, true] {
            veth("a0", "a1", 1);
            let mut here = bench(256);
            let mut port = here.open("a0").unwrap();
            let Bench { mut w, pool, .. } = here;
            transmit(&mut port, &mut w, &pool, 16);
            ip("link del dev a0");
            // The frames that were to be sent are not taken back.
            wait_for("the port to give its frames up", || {
                port.kick();
                (port.rx_posted() == 0).then_some(())
            });
            assert_eq!((port.tx_posted(), pool.ledger().posted), (16, 16));
            if again {
                veth("a0", "a1", 1);
                (0..10_000).for_each(|_| port.kick());
                assert!(!is_up(&port.state()), "not before that was taken back");
                poll_until(&mut port, &mut w, &pool, is_up);
                assert_eq!(port.tx_posted(), 0);
                ip("link del dev a0");
            }
            assert_eq!(port.close().stranded, 0);
            assert_eq!(port.close().freed, 0);
            let counted = port.counters();
            assert_eq!((counted.tx.get(), counted.completed.get()), (16, 16));
            assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
        }
    });
}

#[test]
fn a_queue_never_shares_the_program_of_an_interface_that_is_gone_though_the_new_one_has_its_number() {
    const TEST: &str = "absence::a_queue_never_shares_the_program_of_an_interface_that_is_gone_though_the_new_one_has_its_number";
    in_namespace(TEST, || {
        let lay = || {
            ip("link add a0 index 77 numrxqueues 2 numtxqueues 2 type veth peer name a1");
            ip("link set dev a0 up");
            ip("link set dev a1 up");
        };
        lay();
        let mut here = bench(256);
        let mut ports = [0, 1].map(|queue| here.open_with("a0", queue, &small()).unwrap());
        let Bench { mut w, pool, .. } = here;
        ip("link del dev a0");
        poll_until(&mut ports[0], &mut w, &pool, says("is gone"));
        lay();
        // The other queue has not looked yet, and holds the old program still.
        poll_until(&mut ports[0], &mut w, &pool, is_up);
        assert!(program_on("a0").is_some());
        poll_until(&mut ports[1], &mut w, &pool, says("is gone"));
        poll_until(&mut ports[1], &mut w, &pool, is_up);
        assert!(program_on("a0").is_some());
        drop(ports);
        assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
    });
}

#[test]
fn a_port_of_several_queues_is_down_while_packets_come_by_one_that_cannot_be_bound() {
    const TEST: &str =
        "absence::a_port_of_several_queues_is_down_while_packets_come_by_one_that_cannot_be_bound";
    in_namespace(TEST, || {
        veth("a0", "a1", 2);
        let mut here = bench(512);
        let mut port = XdpQueues::open(&here.umem, &mut here.w, &here.pool, "a0", &[0, 1], &small()).unwrap();
        let Bench { mut w, pool, .. } = here;
        ip("link del dev a0");
        poll_until(&mut port, &mut w, &pool, says("is gone"));
        ip("link add a0 numrxqueues 2 numtxqueues 1 type veth peer name a1");
        ip("link set dev a0 up");
        ip("link set dev a1 up");
        wait_for("the queue that can be bound", || {
            poll_until(&mut port, &mut w, &pool, |_| true);
            is_up(&port.queues()[0].state()).then_some(())
        });
        poll_until(&mut port, &mut w, &pool, says("has no queue 1"));
        // Not for a moment only.
        (0..10_000).for_each(|_| port.kick());
        assert!(says("has no queue 1")(&port.state()), "{:?}", port.state());
        drop(port);
        assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
    });
}

#[test]
fn a_port_of_several_queues_carries_on_where_its_interface_comes_back_with_fewer() {
    in_namespace(
        "absence::a_port_of_several_queues_carries_on_where_its_interface_comes_back_with_fewer",
        || {
            veth("a0", "a1", 2);
            let mut here = bench(512);
            let mut port =
                XdpQueues::open(&here.umem, &mut here.w, &here.pool, "a0", &[0, 1], &small()).unwrap();
            let Bench { mut w, pool, .. } = here;
            for queues in [1, 2, 1] {
                ip("link del dev a0");
                poll_until(&mut port, &mut w, &pool, says("is gone"));
                veth("a0", "a1", queues);
                poll_until(&mut port, &mut w, &pool, is_up);
                let states = || port.queues().iter().filter(|queue| is_up(&queue.state())).count();
                assert!(states() >= 1);
                let (wire, mut frames) = (Wire::open("a1"), Batch::new());
                if queues == 1 {
                    assert_eq!(states(), 1);
                    wire.send(&ethernet(7));
                    wait_for("a frame", || {
                        port.kick();
                        port.rx(&mut w, &mut frames);
                        (!frames.is_empty()).then_some(())
                    });
                    assert_eq!(frames[0].data(), ethernet(7));
                    frames.free(&mut w);
                }
            }
            drop(port);
            assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
        },
    );
}

/// Seen: without privileges, the port went on trying to open a socket, `is_failed` was false, and its state
/// asked for capabilities.
#[test]
fn a_granted_port_without_privileges_has_failed_when_its_interface_is_removed() {
    const TEST: &str = "absence::a_granted_port_without_privileges_has_failed_when_its_interface_is_removed";
    in_namespace(TEST, || {
        veth("a0", "a1", 1);
        let Bench { umem, mut w, pool, .. } = bench(256);
        let take = "udp:7".parse().unwrap();
        let grant = XdpGrant::new("a0", &[0], XdpModePreference::default(), &take).unwrap();
        let _without = Without::these(capabilities(None).unwrap().effective);
        let mut port = XdpPort::open_granted(&umem, &mut w, &pool, grant, &small()).unwrap();
        assert_eq!((port.state(), port.is_failed()), (PortState::Up, false));
        transmit(&mut port, &mut w, &pool, 3);
        ip("link del dev a0");
        let state =
            poll_until(&mut port, &mut w, &pool, says("a0 is gone, and the grant with it: ask for another"));
        assert!(port.is_failed() && pool.ledger().all_freed(), "{:?}", pool.ledger());
        veth("a0", "a1", 1);
        for _ in 0..8192 {
            port.kick();
        }
        assert!(port.is_failed() && port.state() == state && program_on("a0").is_none());
    });
}
