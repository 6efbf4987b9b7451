//! Forwarders that drop packets for the reasons that no file of packets causes. The drops are recorded, and tshark
//! reads them.

use super::*;
use crate::args::LOST_BETWEEN;
use crate::recorded::Capture;
use netmem::forward::local_queue::local_queue;
use netmem::forward::{CrossConnect, Forwarder, PacketPath, PassAll, Reason, Verdicts};
use netmem::packet::HeadCache;
use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::port::pcap::{PcapConfig, PcapPort};
use netmem::steer::Source;
use netmem::sync::Worker;
use netmem::wire::offload::{Gso, GsoKind, Offload};
use netmem_router::route::{Change, FibControl, FibEntry, HopId, Neighbour, Path as RoutePath, fib};
use netmem_router::{Fib, ReversePath, Router, neighbour_queues};
use netmem_traffic::{self as traffic, Traffic};
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::iter::from_fn;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::Path;
use std::process::Command;

/// The reasons that a file of packets causes. `tests/record.rs` checks each in a run of the program.
const FROM_A_FILE: [&str; 17] = [
    "short",
    "unknown_ethertype",
    "arp",
    "not_for_us",
    "link_multicast",
    "bad_version",
    "bad_header_length",
    "bad_total_length",
    "truncated",
    "bad_checksum",
    "martian",
    "ttl_expired",
    "no_route",
    "filter_drop",
    "bad_options",
    "source_route",
    "beyond_scope",
];

/// The reasons that links cause, and no device of this process. `tests/netns/reasons.rs` checks them, and most of
/// the others, in a run.
const FROM_LINKS: [&str; 1] = ["tx_too_long"];

/// The reasons of packets between two workers. No decision was made about them and no recorder has seen them: they
/// are only counted (ADR 0044).
const NOT_RECORDED: [&str; 3] = ["inbox_full", "flow_limit", "inbox_gone"];

/// A forwarder with a recorder, and the device at the other end of its first port.
struct Rig {
    recordings: Recordings,
    forwarder: Forwarder,
    near: MemDevice,
    /// Kept, because the second port's ring does not exist without it.
    _far: MemDevice,
    pool: Pool,
    w: Worker,
    memory: Memory,
}

impl Rig {
    /// Makes a rig whose ports have the reason's name. `far` may replace the second port.
    fn new(reason: Reason, decision: Box<dyn Decide>, far: Option<Box<dyn Port>>) -> Rig {
        let backing = BackingPreference::Small;
        let config = MemoryConfig { bytes: 4 << 20, workers: 1, backing, ..MemoryConfig::default() };
        let memory = Memory::new(&config).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 512, ..PoolConfig::default() }).unwrap();
        let names = [0, 1].map(|at| format!("{}-{at}", reason.name()));
        let [(a, near), (b, _far)] =
            names.map(|name| MemPort::pair(&name, &MemConfig { ring: 64, coalesce: 1 }).unwrap());
        let ports = [a.name(), b.name()].map(str::to_owned).to_vec();
        let (decision, recording) = recorder(decision, 2, RecorderConfig { packets: 256 });
        let ports_of = vec![Box::new(a) as Box<dyn Port>, far.unwrap_or(Box::new(b))];
        let mut forwarder = Forwarder::new(ports_of, pool.clone(), Box::new(decision)).unwrap();
        forwarder.poll(&mut w);
        let recordings = Recordings { ports, workers: vec![recording] };
        Rig { recordings, forwarder, near, _far, pool, w, memory }
    }

    /// Receives this many packets of the built-in traffic, changed by `change`, and goes on for some rounds.
    fn receive(&mut self, packets: usize, size: usize, change: impl Fn(&mut [u8])) {
        let mut traffic = Traffic::new(1, size).unwrap();
        for _ in 0..packets {
            self.near.deliver(1, |room| {
                let n = traffic.write(room);
                change(&mut room[..n]);
                n
            });
            self.forwarder.poll(&mut self.w);
        }
        for _ in 0..4 {
            self.forwarder.poll(&mut self.w);
        }
    }

    /// Returns the recorded packets. Asserts that as many were dropped for the reason.
    #[track_caller]
    fn recorded(self, reason: Reason) -> Vec<Recorded> {
        let recorded: Vec<_> = self.recordings.read(&[]).collect();
        let said = recorded.iter().filter(|packet| packet.dropped.as_deref() == Some(reason.name())).count();
        assert_eq!(said as u64, self.forwarder.meters().drops.get(reason), "{reason:?}");
        assert!(said > 0, "{reason:?} was not met");
        assert!(self.pool.ledger().balanced(), "{reason:?}: {:?}", self.pool.ledger());
        recorded
    }
}

/// A router that sends packets by port 1 to a neighbour that is not known, and the control and neighbour to change
/// that.
fn router(mtu: Option<u16>) -> (Router, FibControl, Neighbour) {
    let (mut control, reader) = fib(Fib::new(traffic::INTERFACES.to_vec()));
    let neighbour = Neighbour { port: 1, address: IpAddr::from([10, 9, 9, 9]) };
    let path = RoutePath { port: Some(1), via: Some(neighbour.address), weight: 1, mtu };
    let to = traffic::routes().into_iter().find(|route| route.port == 1).unwrap();
    control.apply(vec![Change::Paths(HopId(0), [path].into()), Change::Route(to.prefix, HopId(0))]);
    (Router::new(reader), control, neighbour)
}

/// Sends packets to a route of this kind.
fn to_hop(reason: Reason, hop: FibEntry) -> Rig {
    let (router, mut control, _) = router(None);
    control.apply(vec![Change::Hop(HopId(0), hop)]);
    let mut rig = Rig::new(reason, Box::new(router), None);
    rig.receive(3, 64, |_| ());
    rig
}

/// Sends packets to a neighbour that is not asked for, or that is asked for and does not answer.
fn to_neighbour(reason: Reason, is_asked: bool) -> Rig {
    let (router, mut control, neighbour) = router(None);
    let (queues, _unresolved) = neighbour_queues(20);
    let router = if is_asked { router.with_neighbour_queues(queues) } else { router };
    let mut rig = Rig::new(reason, Box::new(router), None);
    rig.receive(3, 64, |_| ());
    control.apply(vec![Change::Neighbour(neighbour, None)]);
    rig.receive(0, 64, |_| ());
    rig
}

/// Sends packets whose source has no route, on a port with a source check.
fn from_nowhere(reason: Reason) -> Rig {
    let mut table = Fib::new(traffic::INTERFACES.to_vec());
    table.reverse_path = vec![ReversePath::Loose];
    let mut rig = Rig::new(reason, Box::new(Router::new(table.into())), None);
    rig.receive(3, 64, |_| ());
    rig
}

/// Sends packets that exceed their route's MTU, and may be fragmented or not. 60 bytes are too few for any
/// fragment.
fn too_long(reason: Reason, mtu: u16, may_be_cut: bool) -> Rig {
    let (router, mut control, neighbour) = router(Some(mtu));
    let mac = traffic::routes().into_iter().find(|route| route.port == 1).unwrap().mac;
    control.apply(vec![Change::Neighbour(neighbour, Some(mac))]);
    let mut rig = Rig::new(reason, Box::new(router), None);
    rig.receive(3, 600, |frame| {
        frame[20] = if may_be_cut { 0 } else { 0x40 };
        frame[24..26].fill(0);
        let words = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum: u32 = words.sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[24..26].copy_from_slice(&(!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes());
    });
    rig
}

/// Passes packets to a local queue of 64 slots that no thread reads, or to none.
fn to_local_queue(reason: Reason, is_there: bool) -> Rig {
    let mut rig = Rig::new(reason, Box::new(PassAll), None);
    let ends = is_there.then(|| local_queue(64));
    let reader = ends.map(|(queue, reader)| {
        rig.forwarder.set_local_queue(queue);
        reader
    });
    rig.receive(80, 64, |_| ());
    drop(reader);
    rig
}

/// A port whose file is on a full disk accepts nothing after the first packet that could not be written.
fn to_a_full_disk(reason: Reason) -> Rig {
    let config = PcapConfig { output: Some("/dev/full".into()), ring: 64, ..PcapConfig::default() };
    let port = PcapPort::open("full", &config).unwrap();
    let mut rig = Rig::new(reason, Box::new(CrossConnect), Some(Box::new(port)));
    rig.receive(200, 1000, |_| ());
    rig
}

/// No transmitted packet is taken: 64 packets are in the ring, and 64 wait for it.
fn to_a_ring_that_stays_full(reason: Reason) -> Rig {
    let mut rig = Rig::new(reason, Box::new(CrossConnect), None);
    rig.receive(140, 64, |_| ());
    rig
}

fn without_memory_for_heads(reason: Reason) -> Rig {
    let mut rig = Rig::new(reason, Box::new(CrossConnect), None);
    let heads = HeadCache::new(&rig.memory).unwrap();
    rig.forwarder.set_packet_path(PacketPath::new(heads));
    let all: Vec<_> = from_fn(|| rig.memory.alloc(&mut rig.w, 0)).collect();
    rig.receive(20, 64, |_| ());
    drop(all);
    rig
}

/// Decides to fragment each packet. It is UDP, and its offload request says that a card is to segment it as TCP.
struct Confused;

impl Decide for Confused {
    fn takes_offloads(&self) -> bool {
        true
    }

    fn decide(&mut self, _: Source, _: &mut [u8]) -> Verdict {
        Verdict::Fragment
    }

    fn decide_burst(&mut self, _: Source, burst: &mut Batch, verdicts: &mut Verdicts) {
        let gso = Gso { kind: GsoKind::TcpV4, size: NonZeroU16::new(100).unwrap() };
        for frame in burst.iter_mut() {
            frame.set_offload(Offload { checksum: None, gso: Some(gso) }).unwrap();
        }
        verdicts.fill(Verdict::Fragment);
    }
}

fn with_an_offload_that_makes_no_sense(reason: Reason) -> Rig {
    let mut rig = Rig::new(reason, Box::new(Confused), None);
    rig.receive(3, 600, |_| ());
    rig
}

/// Runs a forwarder that drops packets for this reason. Returns None for the reasons caused by a file.
fn run(reason: Reason) -> Option<Rig> {
    Some(match reason {
        Reason::IpRpfilter => from_nowhere(reason),
        Reason::LocalAddress => to_hop(reason, FibEntry::LOCAL),
        Reason::Blackhole => to_hop(reason, FibEntry::BLACKHOLE),
        Reason::Unreachable => to_hop(reason, FibEntry::UNREACHABLE),
        Reason::Prohibited => to_hop(reason, FibEntry::PROHIBIT),
        Reason::NeighFailed => to_neighbour(reason, true),
        Reason::NeighQueueFull => to_neighbour(reason, false),
        Reason::PktTooBig => too_long(reason, 500, false),
        Reason::FragFailed => too_long(reason, 60, true),
        Reason::LocalQueueFull => to_local_queue(reason, true),
        Reason::NoLocalQueue => to_local_queue(reason, false),
        Reason::TxRefused => to_a_full_disk(reason),
        Reason::TxFull => to_a_ring_that_stays_full(reason),
        Reason::NoMem => without_memory_for_heads(reason),
        Reason::GsoSeg => with_an_offload_that_makes_no_sense(reason),
        _ => return None,
    })
}

/// Returns tshark's output for a file: interface, verdict and comment of each packet. Returns None if there is no
/// tshark.
fn tshark(path: &Path) -> Option<String> {
    let fields = ["interface_name", "verdict.ebpf_xdp", "comment"];
    let fields = fields.iter().flat_map(|field| ["-e".to_owned(), format!("frame.{field}")]);
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-E", "separator=|", "-r"]).arg(path).args(fields);
    match command.output() {
        Ok(out) => Some(String::from_utf8(out.stdout).unwrap()),
        Err(error) => {
            assert!(env::var_os("NETMEM_NO_SKIP").is_none(), "no tshark: {error}");
            eprintln!("SKIPPED: every_reason_of_a_forwarder_is_met_by_a_run_and_read_by_tshark: no tshark");
            None
        }
    }
}

#[test]
fn every_reason_of_a_forwarder_is_met_by_a_run_and_read_by_tshark() {
    assert_eq!(NOT_RECORDED, LOST_BETWEEN);
    let path = env::temp_dir().join(format!("netmem-reasons-{}.pcapng", std::process::id()));
    let mut capture = Capture::new(File::create(&path).unwrap()).unwrap();
    let mut met = Vec::new();
    for &reason in Reason::ALL {
        let Some(rig) = run(reason) else {
            let is_elsewhere = FROM_A_FILE.iter().chain(&FROM_LINKS).any(|name| *name == reason.name());
            assert!(is_elsewhere, "no run meets {reason:?}");
            continue;
        };
        for packet in rig.recorded(reason) {
            let packet = Recorded { ring: packet.ring + 2 * met.len(), ..packet };
            capture.write(&packet).unwrap();
        }
        met.push(reason.name());
    }
    assert_eq!(met.len() + FROM_A_FILE.len() + FROM_LINKS.len(), Reason::ALL.len());
    let said = tshark(&path);
    fs::remove_file(&path).unwrap();
    let Some(said) = said else { return };
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for line in said.lines() {
        let [interface, verdict, comment] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let reason = comment.split_once("dropped: ").map(|(_, rest)| rest.split([';', ',']).next().unwrap());
        if let Some(reason) = reason {
            assert_eq!((interface, verdict), (&*format!("mem:{reason}-0"), "1"), "{line}");
            seen.insert(reason, line);
        }
    }
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), {
        met.sort_unstable();
        met
    });
}
