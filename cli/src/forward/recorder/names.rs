//! Ports that share a name, in a recording.

use super::*;
use crate::recorded::Capture;
use netmem::forward::{CrossConnect, Forwarder};
use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemPort};

/// Returns the number of interface blocks of a pcapng file.
fn interfaces(file: &[u8]) -> usize {
    let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut found) = (0, 0);
    while at < file.len() {
        found += usize::from(word(at) == 1);
        at += word(at + 4) as usize;
    }
    found
}

#[test]
fn only_ports_that_share_a_name_have_their_number() {
    let names = unique_names(["memif:/a.sock", "xdp:eth0", "memif:/a.sock"].into_iter());
    assert_eq!(names, ["memif:/a.sock#0", "xdp:eth0", "memif:/a.sock#2"]);
}

/// Returns the recordings of one worker with two ports of the same name, each of which has received this many packets.
pub fn recordings(each: usize) -> Recordings {
    let backing = BackingPreference::Small;
    let config = MemoryConfig { bytes: 4 << 20, workers: 1, backing, ..MemoryConfig::default() };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 512, ..PoolConfig::default() }).unwrap();
    let [(a, mut at_a), (b, mut at_b)] =
        [0, 1].map(|_| MemPort::pair("same", &MemConfig { ring: 64, coalesce: 1 }).unwrap());
    let ports = unique_names([a.name(), b.name()].into_iter());
    let decision: Box<dyn Decide> = Box::new(CrossConnect);
    let (decision, recording) = recorder(decision, 2, RecorderConfig { packets: 64.max(each) });
    let both: Vec<Box<dyn Port>> = vec![Box::new(a), Box::new(b)];
    let mut forwarder = Forwarder::new(both, pool.clone(), Box::new(decision)).unwrap();
    forwarder.poll(&mut w);
    for _ in 0..each {
        for device in [&mut at_a, &mut at_b] {
            device.deliver(1, |room| {
                room[..60].fill(0);
                60
            });
            forwarder.poll(&mut w);
        }
    }
    Recordings { ports, workers: vec![recording] }
}

/// Seen: a recording had the packets of two memif ports of one socket on one interface.
#[test]
fn two_ports_of_one_name_are_two_interfaces_of_a_recording() {
    let packets: Vec<_> = recordings(1).read(&[]).collect();
    let names: Vec<_> = packets.iter().map(|packet| (packet.port.as_str(), packet.to.as_deref())).collect();
    assert_eq!(names, [("mem:same#0", Some("mem:same#1")), ("mem:same#1", Some("mem:same#0"))]);
    let mut capture = Capture::new(Vec::new()).unwrap();
    packets.iter().for_each(|packet| capture.write(packet).unwrap());
    assert_eq!(interfaces(capture.to()), 2);
}
