//! Frames that pass a port with faults are judged exactly by the faults that the port reports.

use super::super::*;
use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::fault::{Chance, FaultConfig, FaultCounters, FaultPort};
use netmem::port::mem::{MemConfig, MemPort};
use netmem::port::{Fill, Rx};

const SENT: u64 = 10_000;
const BURST: usize = 20;

/// Sends [`SENT`] packets of 3 flows through such a port. Returns the arrivals and the port's faults.
fn through(config: FaultConfig) -> (Arrivals, std::sync::Arc<FaultCounters>) {
    let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 512, ..PoolConfig::default() }).unwrap();
    let (port, mut device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 4 }).unwrap();
    let mut port = FaultPort::new(Box::new(port), pool.clone(), config);
    let setting = StreamConfig { flows: 3, sizes: vec![64, 1000, 71], ..StreamConfig::default() };
    // All sent frames have these values, so that a flipped bit in them is detected.
    let expected = Expected {
        src_mac: Some(setting.src_mac),
        dst_mac: Some(setting.dst_mac),
        ttl: Some(setting.ttl),
        ..Expected::default()
    };
    let (mut stream, mut arrivals) = (Stream::new(setting).unwrap(), Arrivals::new(expected));
    for burst in 0..=SENT / BURST as u64 {
        port.refill(&mut w, &pool);
        let n = if burst < SENT / BURST as u64 { BURST } else { 0 };
        assert_eq!(device.deliver(n, |room| stream.write(room, burst)), n);
        let mut batch = Batch::new();
        port.rx(&mut w, &mut batch);
        for frame in &*batch {
            assert_ne!(arrivals.take(frame.data()), Arrival::Foreign);
        }
        batch.free(&mut w);
    }
    (arrivals, port.faults())
}

fn one_in(n: f64) -> Chance {
    (1.0 / n).to_string().parse().unwrap()
}

fn lost(arrivals: &Arrivals) -> u64 {
    SENT - arrivals.tally().distinct() - arrivals.tally().corrupt
}

#[test]
fn a_dropped_packet_counts_as_missing() {
    let (arrivals, faults) = through(FaultConfig { drop: one_in(20.0), ..FaultConfig::default() });
    let tally = arrivals.tally();
    assert!(faults.dropped.get() > 100 && lost(&arrivals) == faults.dropped.get(), "{tally:?}");
    // A lost packet is not detected by its number if none of its flow arrived after it.
    assert!(tally.missing <= faults.dropped.get() && tally.missing + 10 > faults.dropped.get(), "{tally:?}");
    assert_eq!((tally.corrupt, tally.reordered, tally.duplicates), (0, 0, 0));
}

#[test]
fn a_repeated_packet_counts_as_a_duplicate_also_among_losses() {
    let config =
        FaultConfig { duplicate: one_in(10.0), drop: one_in(30.0), seed: 5, ..FaultConfig::default() };
    let (arrivals, faults) = through(config);
    let tally = arrivals.tally();
    assert!(faults.duplicated.get() > 100, "{faults:?}");
    assert_eq!((tally.duplicates, lost(&arrivals)), (faults.duplicated.get(), faults.dropped.get()));
    assert_eq!((tally.corrupt, tally.reordered), (0, 0));
}

#[test]
fn a_turned_bit_is_corrupt_wherever_it_is() {
    let (arrivals, faults) = through(FaultConfig { corrupt: one_in(2.0), ..FaultConfig::default() });
    let tally = arrivals.tally();
    assert!(faults.corrupted.get() > 4000, "{faults:?}");
    assert_eq!((tally.corrupt, tally.received, tally.duplicates), (faults.corrupted.get(), SENT, 0));
    assert_eq!(lost(&arrivals), 0);
}

#[test]
fn a_packet_behind_later_ones_of_its_flow_counts_as_reordered() {
    let (arrivals, faults) = through(FaultConfig { reorder: Chance::Every(50), ..FaultConfig::default() });
    // The last one is released when no more packets arrive, so it arrives in order.
    assert_eq!(faults.reordered.get(), SENT / 50);
    let tally = Tally { received: SENT, reordered: SENT / 50 - 1, ..Tally::default() };
    assert_eq!((arrivals.tally(), lost(&arrivals)), (tally, 0));
}
