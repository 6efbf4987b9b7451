//! Frames of every length and every type, from wire to wire byte for byte, also through ports around the wires.

use super::{Forwarder, Mode, Rig, rig, wire};
use crate::limits::BATCH_MAX;
use crate::port::fault::{FaultConfig, FaultPort};
use crate::port::mem::{MemConfig, MemDevice};
use crate::port::trace::{TraceConfig, TracePort};

/// Frames in all: every length up to the longest frame without a tag and two more, and every type.
const FRAMES: usize = LENGTHS + (1 << 16);
const LENGTHS: usize = 1519;

/// The `n`-th of them.
fn frame(n: usize) -> Vec<u8> {
    let (len, kind) = if n < LENGTHS { (n, 0x88b5) } else { (60, (n - LENGTHS) as u16) };
    let mut bytes: Vec<u8> = (0..len).map(|i| (31 * i + 7 * n) as u8).collect();
    if let Some(place) = bytes.get_mut(12..14) {
        place.copy_from_slice(&kind.to_be_bytes());
    }
    bytes
}

/// Sends all frames into one device, and asserts that they come out of the other.
fn cross(rig: &mut Rig, from: &mut MemDevice, to: &mut MemDevice) {
    let (mut sent, mut come) = (0, 0);
    while come < FRAMES {
        rig.forwarder.poll(&mut rig.w);
        sent += from.deliver(BATCH_MAX.min(FRAMES - sent), {
            let mut next = sent;
            move |room| {
                let bytes = frame(next);
                next += 1;
                room[..bytes.len()].copy_from_slice(&bytes);
                bytes.len()
            }
        });
        to.collect(usize::MAX, |bytes| {
            assert!(bytes == frame(come), "frame {come}: {bytes:02x?}");
            come += 1;
        });
    }
    for _ in 0..64 {
        rig.forwarder.poll(&mut rig.w);
        to.collect(BATCH_MAX, |_| panic!("one too many"));
    }
    rig.check();
    assert_eq!((sent, rig.forwarder.meters().drops.total()), (FRAMES, 0));
}

#[test]
fn every_length_and_every_type_goes_from_wire_to_wire_byte_for_byte() {
    let mut rig = rig(1024, Mode::CrossConnect);
    let [(a, mut da), (b, mut db)] = ["0", "1"].map(|name| wire(name, &MemConfig::default()).unwrap());
    let ports = vec![Box::new(a) as _, Box::new(b) as _];
    rig.forwarder = Forwarder::new(ports, rig.pool.clone(), Mode::CrossConnect).unwrap();
    cross(&mut rig, &mut da, &mut db);
    drop((da, db));
    rig.end();
}

#[test]
fn ports_around_the_wires_leave_every_length_and_every_type_as_it_is() {
    let file = std::env::temp_dir().join(format!("netmem-odd-{}", std::process::id()));
    let mut rig = rig(1024, Mode::CrossConnect);
    let [(a, mut da), (b, mut db)] = ["0", "1"].map(|name| wire(name, &MemConfig::default()).unwrap());
    let faulty = FaultPort::new(Box::new(a), rig.pool.clone(), FaultConfig::default());
    let config = TraceConfig { file: Some(file.clone()), ..TraceConfig::default() };
    let traced = TracePort::new(Box::new(b), &config).unwrap();
    let written = traced.written();
    let ports = vec![Box::new(faulty) as _, Box::new(traced) as _];
    rig.forwarder = Forwarder::new(ports, rig.pool.clone(), Mode::CrossConnect).unwrap();
    cross(&mut rig, &mut da, &mut db);
    drop((da, db));
    rig.end();
    std::fs::remove_file(file).unwrap();
    assert!(written.written.get() >= FRAMES as u64);
}
