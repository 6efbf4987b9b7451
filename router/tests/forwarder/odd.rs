//! Frames of every length and every type, from wire to wire byte for byte, also through ports around the wires.

use super::{Forwarder, MemPort, Rig, cross_connect, rig, rig_over};
use netmem::limits::BATCH_MAX;
use netmem::pool::PoolConfig;
use netmem::port::fault::{FaultConfig, FaultPort};
use netmem::port::mem::{MemConfig, MemDevice};
use netmem::port::trace::{TraceConfig, TracePort};

/// Number of frames: every length up to the longest frame without a tag and two more, and every type.
const FRAMES: usize = LENGTHS + (1 << 16);
const LENGTHS: usize = 1519;

/// Returns the `n`-th frame.
fn frame(n: usize) -> Vec<u8> {
    let (len, kind) = if n < LENGTHS { (n, 0x88b5) } else { (60, (n - LENGTHS) as u16) };
    frame_of(n, len, kind)
}

/// Returns the `n`-th frame, with this length and type.
fn frame_of(n: usize, len: usize, kind: u16) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (31 * i + 7 * n) as u8).collect();
    if let Some(place) = bytes.get_mut(12..14) {
        place.copy_from_slice(&kind.to_be_bytes());
    }
    bytes
}

/// Sends all frames into one device, and asserts that they come out of the other.
fn cross(rig: &mut Rig, from: &mut MemDevice, to: &mut MemDevice) {
    cross_each(rig, from, to, FRAMES, frame);
}

/// Sends `frames` frames made by `frame`.
fn cross_each(
    rig: &mut Rig,
    from: &mut MemDevice,
    to: &mut MemDevice,
    frames: usize,
    frame: impl Fn(usize) -> Vec<u8>,
) {
    let (mut sent, mut come) = (0, 0);
    while come < frames {
        rig.forwarder.poll(&mut rig.w);
        sent += from.deliver(BATCH_MAX.min(frames - sent), {
            let (mut next, frame) = (sent, &frame);
            move |room| {
                let bytes = frame(next);
                next += 1;
                room[..bytes.len()].copy_from_slice(&bytes);
                bytes.len()
            }
        });
        to.collect(usize::MAX, |bytes| {
            assert!(bytes == frame(come), "frame {come}: {:02x?}", &bytes[..bytes.len().min(60)]);
            come += 1;
        });
    }
    for _ in 0..64 {
        rig.forwarder.poll(&mut rig.w);
        to.collect(BATCH_MAX, |_| panic!("one too many"));
    }
    rig.check();
    assert_eq!((sent, rig.forwarder.meters().drops.total()), (frames, 0));
}

#[test]
fn frames_of_every_length_and_every_type_are_forwarded_byte_for_byte() {
    let mut rig = rig(1024, cross_connect());
    let [(a, mut da), (b, mut db)] =
        ["0", "1"].map(|name| MemPort::pair(name, &MemConfig::default()).unwrap());
    let ports = vec![Box::new(a) as _, Box::new(b) as _];
    rig.forwarder = Forwarder::new(ports, rig.pool.clone(), cross_connect()).unwrap();
    cross(&mut rig, &mut da, &mut db);
    drop((da, db));
    rig.end();
}

#[test]
fn jumbo_frames_of_every_length_that_fits_are_forwarded_byte_for_byte() {
    for size in [4096, 8192, 16_384, 32_768] {
        let config = PoolConfig { frames: (3 << 20) / size, ..PoolConfig::of_frames(size) };
        let mut rig = rig_over(&config, cross_connect());
        let [(a, mut da), (b, mut db)] =
            ["0", "1"].map(|name| MemPort::pair(name, &MemConfig::default()).unwrap());
        let ports = vec![Box::new(a) as _, Box::new(b) as _];
        rig.forwarder = Forwarder::new(ports, rig.pool.clone(), cross_connect()).unwrap();
        let room = PoolConfig::room(size);
        let giant = |n| frame_of(n, LENGTHS + n, 0x88b5);
        cross_each(&mut rig, &mut da, &mut db, room - LENGTHS + 1, giant);
        drop((da, db));
        rig.end();
    }
}

#[test]
fn wrapping_ports_leave_frames_of_every_length_and_every_type_unchanged() {
    let file = std::env::temp_dir().join(format!("netmem-odd-{}", std::process::id()));
    let mut rig = rig(1024, cross_connect());
    let [(a, mut da), (b, mut db)] =
        ["0", "1"].map(|name| MemPort::pair(name, &MemConfig::default()).unwrap());
    let faulty = FaultPort::new(Box::new(a), rig.pool.clone(), FaultConfig::default());
    let config = TraceConfig { file: Some(file.clone()), ..TraceConfig::default() };
    let traced = TracePort::new(Box::new(b), &config).unwrap();
    let written = traced.written();
    let ports = vec![Box::new(faulty) as _, Box::new(traced) as _];
    rig.forwarder = Forwarder::new(ports, rig.pool.clone(), cross_connect()).unwrap();
    cross(&mut rig, &mut da, &mut db);
    drop((da, db));
    rig.end();
    std::fs::remove_file(file).unwrap();
    assert!(written.written.get() >= FRAMES as u64);
}
