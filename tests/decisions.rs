//! Tests of the examples of decisions outside of the crate. Their packets are counted.

// Their `main` is the program's.
#[allow(dead_code)]
#[path = "../examples/acl.rs"]
mod acl;
#[allow(dead_code)]
#[path = "../examples/balancer.rs"]
mod balancer;
#[path = "decisions/end.rs"]
mod end;

use netmem::forward::{Steering, SteeringControl};
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::steer::{MeshConfig, Source};
use netmem::wire::{Ipv4, ethernet, ipv4};
use netmem::{Decide, Forwarder, Memory, MemoryConfig, Pool, PoolConfig, Port, Reason, Verdict, Worker};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

#[test]
fn an_acl_drops_listed_packets_under_its_own_reason_and_forwards_all_others() {
    let denied = ["10.0.7.0/24", "10.0.16.0/20"].map(|prefix| prefix.parse().expect("a prefix"));
    let fates = acl::run(denied.into(), 25_600).expect("a run");
    assert_eq!(fates, [("crossed", 25_600 - 1_700), ("acl_denied", 1_700)]);
}

#[test]
fn no_vlan_tag_carries_a_packet_past_an_acl() {
    let mut acl = acl::Acl(vec!["10.0.7.0/24".parse().expect("a prefix")]);
    let mut judged = |tags: &[[u8; 2]], source: u8, ethertype: u16| {
        let mut frame = vec![2; 12];
        tags.iter().for_each(|tag| frame.extend([tag[0], tag[1], 0, 7]));
        frame.extend(ethertype.to_be_bytes());
        let address = Ipv4Addr::new(10, 0, source, 1);
        frame.extend(Ipv4::new(address, Ipv4Addr::new(192, 0, 2, 1), ipv4::UDP, 64, 26).to_bytes());
        frame.resize(90, 0);
        acl.decide(Source::default(), &mut frame)
    };
    let (vlan, service) = (ethernet::VLAN.to_be_bytes(), ethernet::SERVICE_VLAN.to_be_bytes());
    for tags in [&[][..], &[vlan], &[service, vlan], &[vlan; 5]] {
        assert_eq!(judged(tags, 7, ethernet::IPV4), Verdict::Drop(Reason::Own(0)), "{tags:?}");
        assert_eq!(judged(tags, 8, ethernet::IPV4), Verdict::Redirect(1), "{tags:?}");
        assert_eq!(judged(tags, 7, ethernet::ARP), Verdict::Redirect(1), "{tags:?}");
        assert_eq!(judged(tags, 8, 0x9100), Verdict::Drop(Reason::Own(1)), "what cannot be read: {tags:?}");
    }
}

#[test]
fn a_load_balancer_on_two_workers_keeps_each_flow_with_one_back_end() {
    const PACKETS: usize = 50_000;
    let got = balancer::run(PACKETS).expect("a run");
    let packets: usize = got.iter().flat_map(|flows| flows.values()).sum();
    let mut flows: Vec<u16> = got.iter().flat_map(|flows| flows.keys().copied()).collect();
    flows.sort_unstable();
    assert_eq!((packets, flows), (PACKETS, (2000..2097).collect()), "each flow in one place, whole");
    // Each worker gives its flows out in turn.
    assert!(
        got.iter().all(|flows| (97 / 3 - 2..=97 / 3 + 2).contains(&flows.len())),
        "{:?}",
        got.map(|flows| flows.len())
    );
}

/// Forwards to the other port; panics at the first packet if it is told to.
struct Cross {
    panics: bool,
}

impl Decide for Cross {
    fn decide(&mut self, from: Source, _frame: &mut [u8]) -> Verdict {
        assert!(!self.panics, "the panic of this test");
        Verdict::Redirect(from.port ^ 1)
    }
}

/// The far ends of a worker's two ports.
type FarEnds = (MemDevice, MemDevice);

/// Two workers that share packets by flow, each with two ports; the second one's decision may panic.
fn two_workers(panics: bool) -> (SteeringControl, Vec<(Worker, Forwarder)>, Vec<FarEnds>) {
    let memory =
        Memory::new(&MemoryConfig { bytes: 32 << 20, workers: 2, ..Default::default() }).expect("memory");
    let config = MeshConfig { policy: "hash".parse().expect("a policy"), ..Default::default() };
    let (control, ends) = Steering::between(&config).expect("steering");
    let (mut workers, mut far_ends) = (Vec::new(), Vec::new());
    for (me, end) in ends.into_iter().enumerate() {
        let mut w = memory.worker().expect("a worker");
        let pool =
            Pool::new(&memory, &mut w, &PoolConfig { frames: 2048, ..Default::default() }).expect("a pool");
        let (front, client) = MemPort::pair("front", &MemConfig::default()).expect("a port");
        let (back, server) = MemPort::pair("back", &MemConfig::default()).expect("a port");
        let ports: Vec<Box<dyn Port>> = vec![Box::new(front), Box::new(back)];
        let decision = Cross { panics: panics && me == 1 };
        let mut forwarder = Forwarder::new(ports, pool, Box::new(decision)).expect("a forwarder");
        forwarder.set_steering(end);
        workers.push((w, forwarder));
        far_ends.push((client, server));
    }
    (control, workers, far_ends)
}

/// Runs the two workers with the guide's code and ends them, the heir first, under traffic that goes on until the other
/// has retired. Returns for each whether it panicked, and the number of frames dropped because a reader was gone.
fn end_under_traffic(panics: bool) -> ([bool; 2], u64) {
    let (control, workers, mut far_ends) = two_workers(panics);
    let (stop, retired) = ([AtomicBool::new(false), AtomicBool::new(false)], AtomicUsize::new(0));
    let panicked = thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .zip(&stop)
            .enumerate()
            .map(|(me, ((mut w, mut forwarder), stop))| {
                let retired = &retired;
                scope.spawn(move || end::forward(&mut forwarder, &mut w, (me, 2), stop, retired))
            })
            .collect();
        let mut sent = 0;
        while !threads.iter().all(|thread| thread.is_finished()) {
            let is_last = retired.load(Ordering::Relaxed) > 0;
            for (client, server) in &mut far_ends {
                client.deliver(if is_last { 0 } else { 8 }, |room| {
                    sent += 1;
                    balancer::write_packet(room, Some(sent))
                });
                server.collect(64, |_| ());
            }
            stop.iter()
                .zip([20_000, 40_000])
                .for_each(|(stop, at)| stop.store(is_last || sent > at, Ordering::Relaxed));
        }
        threads.into_iter().map(|thread| thread.join().is_err()).collect::<Vec<_>>()
    });
    ([panicked[0], panicked[1]], control.drops().inbox_gone)
}

/// Seen: the heir's time limit had passed when the last of the others had handed over its inbox.
#[test]
fn what_a_worker_hands_over_at_its_end_is_forwarded_by_the_heir() {
    assert_eq!(end_under_traffic(false), ([false, false], 0));
}

/// Seen: the heir waited forever for a worker whose decision had panicked.
#[test]
fn the_heir_ends_after_a_panic_of_another_worker() {
    let (panicked, _) = end_under_traffic(true);
    assert_eq!(panicked, [false, true]);
}

#[test]
fn the_end_of_several_workers_is_that_of_the_guide() {
    assert!(include_str!("../docs/guide/decision.md").contains(include_str!("decisions/end.rs")));
}
