//! Tests of several workers, each with its own queues.

use crate::accounting::{assert_wires_add_up, make_neighbours_static};
use crate::forwarder::{Forwarder, netmem, said};
use crate::stream::{Flow, streams};
use crate::summary::Summary;
use crate::testbed::{Testbed, Wiring, host_mac, scratch, wait_until};
use crate::traffic::assert_ping_both_ways;
use crate::wire::{Wire, full_buffers};
use ::netmem::{Batch, Frame, Memory, MemoryConfig, Pool, PoolConfig};
use netmem_ports::{OpenConfig, PortOpener, PortPlace, port_spec};
use rustix::process::Signal;
use serde_json::Value;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Between two packets of a flow.
const INTERVAL: Duration = Duration::from_micros(500);
/// Flows, half of them each way: enough for both queues of each interface to get some.
const FLOWS: usize = 16;

/// Packets of a flow: as many as NETMEM_STRESS_SECONDS say, two seconds of them otherwise.
fn packets() -> u64 {
    let seconds = env::var("NETMEM_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    (Duration::from_secs(seconds.unwrap_or(2)).as_micros() / INTERVAL.as_micros()) as u64
}

#[test]
fn two_workers_on_two_queues_account_for_every_packet_of_routed_flows_both_ways() {
    let Some(received) = flows_both_ways(Wiring::Routed, &["--xdp-mode=native"]) else { return };
    assert!(received.iter().all(|&received| received > 0), "both workers have work: {received:?}");
}

#[test]
fn two_workers_on_two_queues_account_for_every_packet_of_bridged_flows_both_ways_on_the_full_path() {
    let options = ["--xdp-mode=native", "--path=full", "--ready-packets=50"];
    let Some(received) = flows_both_ways(Wiring::Bridged, &options) else { return };
    assert!(received.iter().all(|&received| received > 0), "both workers have work: {received:?}");
}

#[test]
fn two_workers_account_for_every_packet_in_generic_mode_in_which_veth_does_not_distinguish_queues() {
    flows_both_ways(Wiring::Routed, &["--xdp-mode=generic"]);
}

#[test]
fn workers_that_share_packets_by_hash_account_for_every_packet_and_keep_the_order_of_each_flow() {
    let Some(received) = flows_both_ways(Wiring::Routed, &["--xdp-mode=native", "--steer=hash"]) else {
        return;
    };
    assert!(received.iter().all(|&received| received > 0), "both queues have work: {received:?}");
}

#[test]
fn one_worker_receives_all_and_two_forward_what_leaves_by_their_own_queues_in_generic_mode() {
    let steer = ["--steer=map=rx0:0,1,tx-queue=fwd-worker", "--idle=sleep", "--path=full"];
    flows_both_ways(Wiring::Bridged, &[&["--xdp-mode=generic"], &steer[..]].concat());
}

/// Seen: each of two workers had a packet port of an interface, and received every packet. No counter showed it.
#[test]
fn two_workers_share_the_flows_of_packet_ports_and_each_packet_crosses_once() {
    for (wiring, options) in
        [(Wiring::Bridged, &["--idle=sleep"][..]), (Wiring::Routed, &["--path=full", "--steer=hash"])]
    {
        let options = [&["--workers=2"], options].concat();
        let start = |bed: &Testbed| Forwarder::start_on(bed, ["packet:one", "packet:two"], &options);
        let Some(received) = flows_through(wiring, 1, start, |_| ()) else { return };
        assert!(received.iter().all(|&received| received > 0), "both workers have work: {received:?}");
    }
}

/// Found by reasoning: in C each thread opens a port by itself, and each port received every packet.
#[test]
fn packet_ports_with_fanout_share_the_packets_of_their_interface_though_each_was_opened_for_one_worker() {
    const PACKETS: usize = 500;
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let memory = Memory::new(&MemoryConfig { bytes: 16 << 20, ..MemoryConfig::default() }).expect("a memory");
    let mut opener = PortOpener::new(&memory, OpenConfig::default());
    let mut workers: [_; 2] = std::array::from_fn(|_| {
        let mut worker = memory.worker().expect("a worker");
        let pool = Pool::new(&memory, &mut worker, &PoolConfig { frames: 1024, ..PoolConfig::default() });
        let (pool, spec) = (pool.expect("a pool"), port_spec("packet:one,fanout=yes").expect("a port"));
        let opened = bed.dut.inside(|| opener.open(&spec, PortPlace::default(), &mut worker, &pool));
        (opened.expect("the port opens").port, pool, worker, 0)
    });
    let (to, count) = (host_mac(2).to_string(), PACKETS.to_string());
    let mut generator = bed.h1.command(env!("CARGO_BIN_EXE_netmem"));
    generator.args(["gen", "--port", "packet:eth0", "--flows", "50", "--count", &count]);
    generator.args(["--dst", "10.77.2.1", "--dst-mac", &to]);
    assert!(generator.output().expect("netmem").status.success());
    let mut batch = Batch::new();
    while workers.iter().map(|(_, _, _, received)| received).sum::<usize>() < PACKETS {
        for (port, pool, worker, received) in &mut workers {
            port.refill(worker, pool);
            port.rx(worker, &mut batch);
            // The kernels of both hosts send packets of their own too.
            let is_sent = |frame: &&Frame| frame.data().get(30..34) == Some(&[10, 77, 2, 1]);
            *received += batch.iter().filter(is_sent).count();
            batch.free(worker);
        }
    }
    let received = workers.map(|(mut port, _, _, received)| (received, port.rx_pending()));
    assert!(received.iter().all(|&(received, pending)| received > 0 && pending == Some(0)), "{received:?}");
}

#[test]
fn the_map_is_changed_under_traffic_between_real_hosts_and_no_flow_loses_its_order() {
    let socket = scratch("map");
    let socket = socket.to_str().expect("a path in UTF-8").to_owned();
    let options = ["--xdp-mode=native", "--steer=map=rx0:1,rx1:0", "--control", &socket];
    flows_both_ways_while(Wiring::Routed, &options, |bed| {
        for map in ["rx0:0,rx1:1", "rx0:0,1,rx1:0,1", "rx0:1", "rx1:0", "rx0:1,rx1:0"].repeat(8) {
            let out =
                netmem(bed).args(["set", "steer.map", map, "--control", &socket]).output().expect("netmem");
            assert_eq!(String::from_utf8_lossy(&out.stderr), "");
        }
    });
}

#[test]
fn one_worker_on_all_queues_of_each_interface_accounts_for_every_packet() {
    on_queues("all", 3, &["--xdp-mode=native"]);
}

#[test]
fn one_worker_that_sleeps_wakes_for_packets_of_any_of_its_queues() {
    on_queues("all", 2, &["--xdp-mode=native", "--idle=sleep", "--path=full", "--ready-packets=50"]);
}

#[test]
fn two_workers_on_three_queues_of_each_interface_account_for_every_packet() {
    let Some(received) = on_queues("3", 3, &["--xdp-mode=native", "--workers=2"]) else { return };
    assert!(received.iter().all(|&received| received > 0), "both workers have work: {received:?}");
}

/// Runs flows in both directions over interfaces with this number of queues, all of which belong to the forwarder.
fn on_queues(said: &str, queues: u32, options: &[&str]) -> Option<Vec<u64>> {
    let ports = ["one", "two"].map(|interface| format!("xdp:{interface},queues={said}"));
    let ports = [ports[0].as_str(), ports[1].as_str()];
    let start = |bed: &Testbed| Forwarder::start_with(bed, ports, queues as usize, options);
    flows_through(Wiring::Routed, queues, start, |_| ())
}

/// Every flow keeps its order, and at each place as many packets leave as came, less those that it counted as dropped.
///
/// Gives what each worker received.
fn flows_both_ways(wiring: Wiring, options: &[&str]) -> Option<Vec<u64>> {
    flows_both_ways_while(wiring, options, |_| ())
}

/// As [`flows_both_ways`], with something going on meanwhile.
fn flows_both_ways_while(
    wiring: Wiring,
    options: &[&str],
    meanwhile: impl FnOnce(&Testbed) + Send,
) -> Option<Vec<u64>> {
    let start = |bed: &Testbed| Forwarder::start(bed, &[&["--workers=2"], options].concat());
    flows_through(wiring, 2, start, meanwhile)
}

/// Seen: nothing was said, and the kernel forwarded what came by the other queue past the rules.
#[test]
fn queues_without_a_port_are_reported_at_start_with_the_remedy() {
    let Some(bed) = Testbed::lay_with_queues(Wiring::Routed, 2, &[]) else { return };
    bed.dut.inside(|| fs::write("/proc/sys/net/ipv4/conf/two/forwarding", "1")).expect("forwarding");
    let of_start = |ports: [&str; 2], queues: usize| {
        let out = Forwarder::start_with(&bed, ports, queues, &[]).end(Signal::INT);
        assert!(out.status.success());
        said(&out)
    };
    let one = "netmem: xdp:one: no port takes 1 of its 2 queues: packets that arrive there go to the kernel: xdp:one,queues=all, or \
               ethtool -L one rx 1 tx 1\n";
    let two = "netmem: xdp:two: no port takes 1 of its 2 queues: packets that arrive there go to the kernel, which forwards them past \
               the dataplane's rules and checks: xdp:two,queues=all, or ethtool -L two rx 1 tx 1\n";
    assert_eq!(of_start(["xdp:one", "xdp:two"], 1), format!("{one}{two}"));
    assert_eq!(of_start(["xdp:one,queues=all", "xdp:two,queues=2"], 2), "");
    bed.assert_nothing_left();
}

/// Does the same as [`flows_both_ways_while`], through any forwarder between interfaces with this number of queues.
fn flows_through(
    wiring: Wiring,
    queues: u32,
    start: impl FnOnce(&Testbed) -> Forwarder,
    meanwhile: impl FnOnce(&Testbed) + Send,
) -> Option<Vec<u64>> {
    let bed = Testbed::lay_with_queues(wiring, queues, &["ping"])?;
    let forwarder = start(&bed);
    bed.wait_for_the_path();
    make_neighbours_static(&bed);
    let flows: [Flow; FLOWS] = std::array::from_fn(|i| {
        let (from, to) = if i % 2 == 0 { (1, 2) } else { (2, 1) };
        Flow { from, to, port: 9000 + i as u16 }
    });
    let before = Counts::of_both(&bed);
    let received = thread::scope(|scope| {
        // The namespace is the program's, not this thread's.
        let going_on = scope.spawn(|| meanwhile(&bed));
        let received = streams(&bed, flows, packets(), INTERVAL);
        going_on.join().expect("what went on");
        received
    });
    let after = Counts::of_both(&bed);
    let summary = forwarder.interrupt();

    for flow in &received {
        assert_eq!((flow.corrupt, flow.twice, flow.reordered), (0, 0, 0), "{received:?}");
    }
    for (host, (before, after)) in [1, 2].into_iter().zip(before.into_iter().zip(after)) {
        let sent = packets() * (FLOWS / 2) as u64;
        assert_eq!(after.offered - before.offered, sent, "sent by h{host} or dropped by its interface");
        let to_it = flows.iter().zip(&received).filter(|(flow, _)| flow.to == host);
        let good: u64 = to_it.map(|(_, flow)| flow.good).sum();
        let overrun = after.full_buffers - before.full_buffers;
        assert_eq!(
            after.arrived - before.arrived,
            good + overrun,
            "at h{host}, taken or dropped by its sockets"
        );
    }
    assert_wires_add_up(&bed, &summary);
    summary.assert_adds_up();
    bed.assert_nothing_left();
    Some(summary.received_by_workers())
}

/// Returns the counters of a host.
struct Counts {
    offered: u64,
    arrived: u64,
    full_buffers: u64,
}

impl Counts {
    fn of_both(bed: &Testbed) -> [Counts; 2] {
        [&bed.h1, &bed.h2].map(|host| {
            let Wire { rx, tx, tx_dropped } = Wire::read(host, "eth0");
            Counts { offered: tx + tx_dropped, arrived: rx, full_buffers: full_buffers(host) }
        })
    }
}

#[test]
fn an_interface_that_is_gone_takes_all_its_queues_along_and_brings_them_back_with_it() {
    let Some(bed) = Testbed::lay_with_queues(Wiring::Routed, 2, &["ping"]) else { return };
    let ports = ["xdp:one,queues=2", "xdp:two,queues=2"];
    let forwarder = Forwarder::start_with(&bed, ports, 2, &["--idle=sleep"]);
    bed.wait_for_the_path();
    for _ in 0..2 {
        bed.h1.ip("link del eth0");
        bed.wire(1, 2);
        wait_until("both queues are bound again", || bed.has_programs() && bed.sockets() == 4);
        bed.wait_for_the_path();
    }
    let out = forwarder.end(Signal::INT);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Summary::parse(&out.stdout).assert_adds_up();
    bed.assert_nothing_left();
}

#[test]
fn an_interface_with_fewer_queues_than_workers_is_named_with_the_remedy_and_nothing_is_left() {
    let Some(bed) = Testbed::lay_with_queues(Wiring::Bridged, 2, &[]) else { return };
    let ports = ["--port", "xdp:one", "--port", "xdp:two"];
    let forward = ["forward", "--mode", "cross-connect", "--workers", "3"];
    let out = netmem(&bed).args(forward).args(ports).output().expect("netmem");
    assert_eq!(
        String::from_utf8_lossy(&out.stderr),
        "error: interface one has no queue 2: its queues are 0 to 1; each of 3 workers needs a queue of its own: \
         give the interface more queues (ethtool -L), or use fewer workers\n"
    );
    assert_eq!(out.status.code(), Some(2));
    bed.assert_nothing_left();
}

#[test]
fn sleeping_workers_wake_for_packets_and_poll_a_few_times_a_second_without_traffic_in_native_mode() {
    sleep_in_silence("native");
}

#[test]
fn sleeping_workers_wake_for_packets_and_poll_a_few_times_a_second_without_traffic_in_generic_mode() {
    sleep_in_silence("generic");
}

fn sleep_in_silence(mode: &str) {
    let Some(bed) = Testbed::lay_with_queues(Wiring::Routed, 2, &["ping"]) else { return };
    let socket = scratch(&format!("idle-{mode}"));
    let socket = socket.to_str().expect("a path in UTF-8");
    let forwarder =
        Forwarder::start(&bed, &["--workers=2", "--idle=sleep", "--xdp-mode", mode, "--control", socket]);
    bed.wait_for_the_path();
    let idle_rounds = || {
        let out =
            netmem(&bed).args(["stat", "workers", "--json", "--control", socket]).output().expect("netmem");
        let said: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let workers = said["workers"].as_array().expect("workers");
        workers.iter().map(|worker| worker["idle_rounds"].as_u64().expect("rounds")).sum::<u64>()
    };
    let (rounds, begun) = (idle_rounds(), Instant::now());
    thread::sleep(Duration::from_secs(2));
    let (rounds, seconds) = (idle_rounds() - rounds, begun.elapsed().as_secs() + 1);
    assert!(rounds < 2 * 100 * seconds, "{rounds} rounds of two workers in {seconds} s of silence");
    assert_ping_both_ways(&bed);
    let summary = forwarder.interrupt();
    assert_wires_add_up(&bed, &summary);
    summary.assert_adds_up();
    bed.assert_nothing_left();
}
