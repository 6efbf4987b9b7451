//! A load balancer of layer 4 on two workers: each flow goes to one of the back ends, and stays with it. Flows are
//! distributed by hash, so that one worker's table sees all packets of its flows: `balancer [PACKETS]`, by default
//! 100,000.

use netmem::forward::Steering;
use netmem::port::mem::{MemConfig, MemPort};
use netmem::steer::{FlowKey, MeshConfig, Source};
use netmem::wire::{Ethernet, Ipv4, MacAddr, Udp, ethernet, ipv4};
use netmem::{Decide, Forwarder, Memory, MemoryConfig, Pool, PoolConfig, Port, Reason, Verdict, Worker};
use std::collections::HashMap;
use std::error::Error;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const BACK_ENDS: [u8; 3] = [1, 2, 3];
const FLOWS: usize = 97;

/// Flows that a worker remembers. Senders of packets choose the flows, so their number needs a limit.
const FLOWS_MAX: usize = 1 << 16;

/// One worker's flows, each with its back end. TCP and UDP of the same addresses and ports are two flows. A new flow goes
/// to the next back end in turn. If the table is full, the flow's hash chooses the back end.
struct Balance(HashMap<FlowKey, usize>);

impl Balance {
    /// Makes an empty table with room for all flows: none is allocated later.
    fn new() -> Balance {
        Balance(HashMap::with_capacity(FLOWS_MAX))
    }

    fn back_end(&mut self, flow: FlowKey) -> u8 {
        let (hash, next) = (self.0.hasher().hash_one(flow) as usize, self.0.len());
        let is_full = next >= FLOWS_MAX;
        let number = match self.0.get(&flow) {
            Some(&known) => known,
            None if is_full => hash,
            None => *self.0.entry(flow).or_insert(next),
        };
        BACK_ENDS[number % BACK_ENDS.len()]
    }
}

impl Decide for Balance {
    fn decide(&mut self, from: Source, frame: &mut [u8]) -> Verdict {
        let Some(flow) = FlowKey::of(frame) else { return Verdict::Drop(Reason::UnknownEthertype) };
        let back_end = self.back_end(flow);
        let Ok((link, _)) = Ethernet::parse_mut(frame) else { return Verdict::Drop(Reason::Short) };
        (link.src, link.dst) = (link.dst, MacAddr::new([2, 0, 0, 0, 1, back_end]));
        Verdict::Redirect(from.port ^ 1)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Ok(packets) = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse()) else {
        eprintln!("usage: balancer [PACKETS]");
        std::process::exit(2);
    };
    for (number, flows) in run(packets)?.iter().enumerate() {
        println!("back end {number}: {} flows, {} packets", flows.len(), flows.values().sum::<usize>());
    }
    Ok(())
}

/// Sends that many packets of 97 flows by the first worker's port. Returns what each back end got of each, by client
/// port.
pub fn run(packets: usize) -> Result<[HashMap<u16, usize>; 3], Box<dyn Error>> {
    let memory = Memory::new(&MemoryConfig { bytes: 32 << 20, workers: 2, ..Default::default() })?;
    let (_, ends) = Steering::between(&MeshConfig { policy: "hash".parse()?, ..Default::default() })?;
    let mut got = <[HashMap<u16, usize>; 3]>::default();
    let (mut far_ends, mut workers) = (Vec::new(), Vec::new());
    for end in ends {
        let mut w = memory.worker()?;
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 2048, ..Default::default() })?;
        let (front, client) = MemPort::pair("front", &MemConfig::default())?;
        let (back, server) = MemPort::pair("back", &MemConfig::default())?;
        let ports: Vec<Box<dyn Port>> = vec![Box::new(front), Box::new(back)];
        let mut forwarder = Forwarder::new(ports, pool, Box::new(Balance::new()))?;
        forwarder.set_steering(end);
        far_ends.push((client, server));
        workers.push((w, forwarder));
    }
    let (mut sent, mut came, stop) = (0, 0, &AtomicBool::new(false));
    thread::scope(|scope| {
        let run =
            |(mut w, mut forwarder): (Worker, Forwarder)| scope.spawn(move || forwarder.run(&mut w, stop));
        let threads: Vec<_> = workers.into_iter().map(run).collect();
        // A worker that has ended before has panicked, and so does the scope.
        while came < packets && !threads.iter().any(|thread| thread.is_finished()) {
            // No more in flight than every ring has slots for, so that none is lost.
            let burst = (packets - sent).min(256 - (sent - came));
            let mut flow = sent..;
            sent += far_ends[0].0.deliver(burst, |room| write_packet(room, flow.next()));
            for (_, server) in &mut far_ends {
                came += server.collect(64, |data| {
                    let flow = u16::from_be_bytes([data[34], data[35]]);
                    *got[usize::from(data[5]) - 1].entry(flow).or_default() += 1;
                });
            }
        }
        stop.store(true, Relaxed);
    });
    Ok(got)
}

/// Writes a packet of one of the flows. Returns its number of bytes.
pub fn write_packet(room: &mut [u8], flow: Option<usize>) -> usize {
    let port = 2000 + (flow.unwrap_or(0) % FLOWS) as u16;
    let [client, balancer] = [1, 2].map(|last| MacAddr::new([2, 0, 0, 0, 0, last]));
    let header = Ipv4::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), ipv4::UDP, 64, 26);
    room[..14].copy_from_slice(&Ethernet::new(balancer, client, ethernet::IPV4).to_bytes());
    room[14..34].copy_from_slice(&header.to_bytes());
    room[34..42].copy_from_slice(&Udp::new(port, 443, 18).to_bytes());
    60
}
