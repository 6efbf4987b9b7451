//! Frames whose next hop's MAC address is not known when they arrive.

use super::router::{HOSTS, RouterRig, Way, datagram};
use super::*;
use netmem::wire::MacAddr;
use netmem_router::Interface;
use netmem_router::route::Change;
use netmem_router::route::{FibControl, FibEntry, FibReader, HopId, Neighbour, Path, fib};
use netmem_router::{NeighbourQueues, UnresolvedNeighbours, neighbour_queues};
use std::net::IpAddr;

/// A table that routes the built-in traffic to port 1, with an unknown next router.
fn unresolved() -> (FibReader, FibControl, Neighbour) {
    let routes = traffic::routes();
    let (control, reader) = fib(Fib::new(traffic::INTERFACES.to_vec()));
    let mut control = control;
    let neighbour = Neighbour { port: 1, address: IpAddr::from([10, 9, 9, 9]) };
    let path = Path { port: Some(1), via: Some(neighbour.address), weight: 1, mtu: None };
    let to = routes.iter().find(|route| route.port == 1).expect("a route out");
    control.apply(vec![Change::Paths(HopId(0), [path].into()), Change::Route(to.prefix, HopId(0))]);
    (reader, control, neighbour)
}

/// The MAC address of the built-in sink.
fn host() -> MacAddr {
    traffic::routes().iter().find(|route| route.port == 1).expect("a route out").mac
}

fn resolved(control: &mut FibControl) {
    control.apply(vec![Change::Hop(HopId(0), FibEntry::station(1, host()))]);
}

/// A rig that lets at most `most` frames wait.
fn waiting_rig(most: usize) -> (Rig, FibControl, UnresolvedNeighbours, Neighbour) {
    let (reader, control, neighbour) = unresolved();
    let (queues, unresolved): (NeighbourQueues, UnresolvedNeighbours) = neighbour_queues(most);
    let mut rig = rig(1024, Box::new(Router::new(reader).with_neighbour_queues(queues)));
    rig.forwarder.poll(&mut rig.w);
    (rig, control, unresolved, neighbour)
}

fn names(unresolved: &mut UnresolvedNeighbours) -> Vec<Neighbour> {
    let mut names = Vec::new();
    unresolved.read(|name| names.push(name));
    // A name comes again a second later.
    names.dedup();
    names
}

#[test]
fn frames_wait_until_their_neighbour_is_known_and_leave_in_order_after_one_request() {
    let (mut rig, mut control, mut unresolved, neighbour) = waiting_rig(512);
    let (mut traffic, mut sink) = (Traffic::new(1, 90).unwrap(), Sink::new(1, 90, Hop::Routed).unwrap());
    for _ in 0..3 {
        assert_eq!(rig.devices[0].deliver(15, |room| traffic.write(room)), 15);
        rig.settle(|_| panic!("a frame left for nowhere"));
    }
    assert_eq!(rig.forwarder.meters().held.get(), 45);
    assert_eq!(names(&mut unresolved), [neighbour]);
    resolved(&mut control);
    rig.settle(|data| check(&mut sink, data));
    let tally = sink.tally();
    assert_eq!((tally.received, tally.corrupt, tally.reordered), (45, 0, 0));
    assert_eq!(rig.forwarder.meters().held.get(), 0);
    rig.end();
}

/// Seen: they were dropped as frames for another station.
#[test]
fn waiting_frames_leave_also_after_their_interface_got_another_address() {
    for v6 in [false, true] {
        let (mut rig, mut control, _unresolved, neighbour) = waiting_rig(512);
        let sent = if v6 {
            let net = "fd00:7::/32".parse().unwrap();
            control.apply(vec![Change::Route(net, HopId(0))]);
            rig.forwarder.poll(&mut rig.w);
            super::router::datagram("fd00::1", "fd00:7::1", 64, 30)
        } else {
            let mut sent = vec![0; 90];
            assert_eq!(Traffic::new(1, 90).unwrap().write(&mut sent), 90);
            sent
        };
        rig.devices[0].deliver(1, |room| {
            room[..sent.len()].copy_from_slice(&sent);
            sent.len()
        });
        rig.settle(|_| panic!("a frame left for nowhere"));
        assert_eq!(rig.forwarder.meters().held.get(), 1);
        let other = Interface { mac: MacAddr::new([2, 7, 7, 7, 7, 7]), ..traffic::INTERFACES[0] };
        control.apply(vec![Change::Interface(0, other)]);
        rig.settle(|_| panic!("a frame left for nowhere"));
        control.apply(vec![Change::Neighbour(neighbour, Some(host()))]);
        let mut left = 0;
        rig.settle(|_| left += 1);
        assert_eq!((left, rig.forwarder.meters().drops.total()), (1, 0));
        rig.end();
    }
}

#[test]
fn a_full_queue_keeps_the_latest_frames_and_counts_the_others() {
    let (mut rig, mut control, _unresolved, _) = waiting_rig(512);
    let (mut traffic, mut left) = (Traffic::new(1, 90).unwrap(), Vec::new());
    let mut sent = Vec::new();
    for _ in 0..10 {
        rig.devices[0].deliver(10, |room| {
            let n = traffic.write(room);
            sent.push(room[34..n].to_vec());
            n
        });
        rig.settle(|_| panic!("a frame left for nowhere"));
    }
    let meters = rig.forwarder.meters();
    assert_eq!((meters.held.get(), meters.drops.get(Reason::NeighQueueFull)), (64, 36));
    resolved(&mut control);
    rig.settle(|data| left.push(data[34..].to_vec()));
    assert_eq!(left, sent[36..]);
    rig.end();
}

#[test]
fn frames_for_a_neighbour_that_does_not_answer_are_dropped_and_counted() {
    let (mut rig, mut control, mut unresolved, neighbour) = waiting_rig(20);
    let mut traffic = Traffic::new(1, 64).unwrap();
    assert_eq!(rig.devices[0].deliver(30, |room| traffic.write(room)), 30);
    rig.settle(|_| panic!("a frame left for nowhere"));
    let meters = rig.forwarder.meters();
    assert_eq!((meters.held.get(), meters.drops.get(Reason::NeighQueueFull)), (20, 10));
    control.apply(vec![Change::Neighbour(neighbour, None)]);
    rig.settle(|_| panic!("a frame left for nowhere"));
    assert_eq!((meters.held.get(), meters.drops.get(Reason::NeighFailed)), (0, 20));
    // After it is forgotten, the neighbour is asked for again.
    names(&mut unresolved);
    control.apply(vec![Change::Forget(neighbour)]);
    rig.devices[0].deliver(1, |room| traffic.write(room));
    rig.settle(|_| panic!("a frame left for nowhere"));
    assert_eq!((names(&mut unresolved), meters.held.get()), (vec![neighbour], 1));
    rig.end();
}

/// Seen: after each change of the table, every waiting frame was decided about again, however many of both there
/// were.
#[test]
fn a_change_of_other_routes_does_not_affect_waiting_frames() {
    let (mut rig, mut control, mut unresolved, neighbour) = waiting_rig(512);
    let mut traffic = Traffic::new(1, 64).unwrap();
    rig.devices[0].deliver(9, |room| traffic.write(room));
    rig.settle(|_| panic!("a frame left for nowhere"));
    assert_eq!(names(&mut unresolved), [neighbour]);
    let other = Neighbour { port: 1, address: IpAddr::from([10, 9, 9, 8]) };
    control.apply(vec![Change::Neighbour(other, Some(host()))]);
    rig.settle(|_| panic!("a frame left for nowhere"));
    assert_eq!(rig.forwarder.meters().held.get(), 9);
    resolved(&mut control);
    let mut left = 0;
    rig.settle(|_| left += 1);
    assert_eq!(left, 9);
    rig.end();
}

#[test]
fn frames_do_not_wait_in_a_router_without_neighbour_queues() {
    let (reader, _control, _) = unresolved();
    let mut rig = rig(256, Box::new(Router::new(reader)));
    rig.forwarder.poll(&mut rig.w);
    let mut traffic = Traffic::new(1, 64).unwrap();
    rig.devices[0].deliver(9, |room| traffic.write(room));
    rig.settle(|_| panic!("a frame left for nowhere"));
    assert_eq!(rig.forwarder.meters().drops.get(Reason::NeighQueueFull), 9);
    rig.end();
}

#[test]
fn routes_without_a_next_hop_are_counted_by_their_kind() {
    let (reader, mut control, _) = unresolved();
    let mut rig = rig(256, Box::new(Router::new(reader)));
    rig.forwarder.poll(&mut rig.w);
    let (mut traffic, meters) = (Traffic::new(1, 64).unwrap(), rig.forwarder.meters());
    for (hop, reason) in [
        (FibEntry::LOCAL, Reason::LocalAddress),
        (FibEntry::BLACKHOLE, Reason::Blackhole),
        (FibEntry::UNREACHABLE, Reason::Unreachable),
        (FibEntry::PROHIBIT, Reason::Prohibited),
        (FibEntry::ELSEWHERE, Reason::NoRoute),
    ] {
        control.apply(vec![Change::Hop(HopId(0), hop)]);
        rig.devices[0].deliver(3, |room| traffic.write(room));
        rig.settle(|_| panic!("a frame left for nowhere"));
        assert_eq!(meters.drops.get(reason), 3, "{hop:?}");
    }
    rig.end();
}

#[test]
fn frames_that_are_packets_wait_without_their_heads() {
    let (mut rig, mut control, _unresolved, _) = waiting_rig(512);
    let heads = netmem::packet::HeadCache::new(&rig.memory).unwrap();
    let (filter, rules) = netmem::forward::filter::filter(Vec::new()).unwrap();
    rig.forwarder.set_packet_path(netmem::forward::PacketPath::new(heads).with_hooks(filter));
    let (mut traffic, mut sink) = (Traffic::new(1, 90).unwrap(), Sink::new(1, 90, Hop::Routed).unwrap());
    rig.devices[0].deliver(40, |room| traffic.write(room));
    rig.settle(|_| panic!("a frame left for nowhere"));
    assert_eq!(rig.forwarder.meters().held.get(), 40);
    resolved(&mut control);
    rig.settle(|data| check(&mut sink, data));
    assert_eq!((sink.tally().received, sink.tally().corrupt), (40, 0));
    assert_eq!(rules.unmatched(), 40, "each was judged once");
    rig.end();
}

/// A burst of 64 packets from port 0 to addresses behind port 1, each to another address.
fn scan(network: u8) -> Vec<Vec<u8>> {
    (1..=64).map(|host| datagram("10.0.0.1", &format!("10.5.{network}.{host}"), 64, 9)).collect()
}

/// Seen: a burst of 64 packets of a scan left no room to remove the frames of one of the scan's queues. While all queues
/// were the scan's, a packet for a new neighbour behind another port was dropped, and its name was not sent.
#[test]
fn a_new_neighbour_behind_another_port_gets_a_queue_in_the_middle_of_a_long_burst_of_a_scan() {
    for (each, is_first) in [1, 2, 7].into_iter().flat_map(|each| [(each, true), (each, false)]) {
        let mut router = RouterRig::that_lets_wait(Way::Fast, 512);
        router.lead(90, "10.6.0.0/16", FibEntry::on_link(0));
        for _ in 0..each {
            assert!(router.pass_burst(0, &scan(1)).is_empty());
        }
        assert_eq!(router.held(), 64 * each, "each queue is the scan's");
        names(router.unresolved.as_mut().unwrap());
        let new = Neighbour { port: 0, address: IpAddr::from([10, 6, 0, 1]) };
        let mut burst = scan(2);
        burst[if is_first { 0 } else { 63 }] = datagram("10.0.0.1", "10.6.0.1", 64, 9);
        assert!(router.pass_burst(0, &burst).is_empty());
        let read = names(router.unresolved.as_mut().unwrap());
        assert!(read.contains(&new), "{read:?}");
        assert_eq!(router.held(), 64 * each, "one frame went for the new one");
        router.control.apply(vec![Change::Neighbour(new, Some(HOSTS[0]))]);
        let left = router.settle();
        assert_eq!(left.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [0]);
        // The rest of the ended queue is removed as soon as there is room.
        assert!(router.pass(0, &scan(1)[9]).is_empty());
        assert_eq!(router.held(), 63 * each + 1);
        router.lead(91, "10.5.0.0/16", FibEntry::BLACKHOLE);
        assert!(router.settle().is_empty());
        assert_eq!(router.held(), 0);
        router.end();
    }
}

/// Found by reading: while as many frames waited as may wait, the newest frame of the pair of ports that had most was dropped,
/// and the old ones stayed.
#[test]
fn the_newest_frame_of_the_pair_with_most_replaces_its_oldest_while_no_more_frames_may_wait() {
    let mut router = RouterRig::that_lets_wait(Way::Fast, 8);
    let from = |host: u8, to: &str| datagram(&format!("10.0.0.{host}"), to, 64, 9);
    for host in 1..=12 {
        assert!(router.pass(0, &from(host, "10.5.1.1")).is_empty());
    }
    // The only frame for another neighbour, and one more for each of the two.
    for (host, to) in [(101, "10.5.1.2"), (102, "10.5.1.2"), (13, "10.5.1.1")] {
        assert!(router.pass(0, &from(host, to)).is_empty());
    }
    assert_eq!((router.held(), router.drops()), (8, vec![("neigh_queue_full", 7)]));
    let neighbours = [1, 2].map(|last| Neighbour { port: 1, address: IpAddr::from([10, 5, 1, last]) });
    router.control.apply(neighbours.map(|neighbour| Change::Neighbour(neighbour, Some(HOSTS[1]))).into());
    let mut left: Vec<_> = router.settle().into_iter().map(|(_, frame)| frame[29]).collect();
    left.sort_unstable();
    assert_eq!(left, [8, 9, 10, 11, 12, 13, 101, 102]);
    router.end();
}
