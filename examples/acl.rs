//! An access list in front of a link. Packets from the given prefixes are dropped under a reason of their own, all
//! others cross. `acl [PREFIX…]`, by default 10.0.7.0/24; the ports are a link inside the process, and 25,600 packets
//! come.

use ipnet::Ipv4Net;
use netmem::port::mem::{MemConfig, MemPort};
use netmem::steer::Source;
use netmem::wire::{Ethernet, Ipv4, MacAddr, ethernet, ipv4};
use netmem::{Decide, Forwarder, Memory, MemoryConfig, Pool, PoolConfig, Port, Reason, Verdict};
use std::error::Error;
use std::net::Ipv4Addr;

/// The prefixes that are refused, also behind VLAN tags. ARP crosses, so that hosts find each other. Other packets that
/// are not IPv4 cannot be checked against the list, and are dropped.
pub struct Acl(pub Vec<Ipv4Net>);

impl Decide for Acl {
    fn decide(&mut self, from: Source, frame: &mut [u8]) -> Verdict {
        let source = match ethernet::behind_tags(frame) {
            Ok((ethernet::IPV4, packet)) => Ipv4::parse(packet).map(|(header, _)| header.src()),
            Ok((ethernet::ARP, _)) => return Verdict::Redirect(from.port ^ 1),
            Ok(_) => return Verdict::Drop(Reason::Own(1)),
            Err(malformed) => Err(malformed),
        };
        match source {
            Ok(source) if self.0.iter().any(|prefix| prefix.contains(&source)) => {
                Verdict::Drop(Reason::Own(0))
            }
            Ok(_) => Verdict::Redirect(from.port ^ 1),
            Err(malformed) => Verdict::Drop(malformed.into()),
        }
    }

    fn reasons(&self) -> &'static [&'static str] {
        &["acl_denied", "acl_unknown"]
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let prefixes: Result<Vec<Ipv4Net>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    let prefixes = match prefixes {
        Ok(none) if none.is_empty() => vec!["10.0.7.0/24".parse()?],
        Ok(some) => some,
        Err(_) => {
            eprintln!("usage: acl [PREFIX...], each an IPv4 network such as 10.0.7.0/24");
            std::process::exit(2);
        }
    };
    run(prefixes, 25_600)?.iter().for_each(|(fate, packets)| println!("{fate}: {packets} packets"));
    Ok(())
}

/// Sends that many packets, a hundred from each network 10.0.x.0/24 in turn. Returns how many crossed, and the drops by
/// name.
pub fn run(denied: Vec<Ipv4Net>, packets: usize) -> Result<Vec<(&'static str, u64)>, Box<dyn Error>> {
    let memory = Memory::new(&MemoryConfig { bytes: 16 << 20, ..Default::default() })?;
    let mut w = memory.worker()?;
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 2048, ..Default::default() })?;
    let (inside, mut hosts) = MemPort::pair("inside", &MemConfig::default())?;
    let (outside, mut network) = MemPort::pair("outside", &MemConfig::default())?;
    let ports: Vec<Box<dyn Port>> = vec![Box::new(inside), Box::new(outside)];
    let mut forwarder = Forwarder::new(ports, pool.clone(), Box::new(Acl(denied)))?;
    let (mut sent, mut crossed) = (0, 0);
    while sent < packets || forwarder.poll(&mut w) > 0 {
        forwarder.poll(&mut w);
        let mut number = sent;
        sent += hosts.deliver((packets - sent).min(32), |room| {
            number += 1;
            write_packet(room, Ipv4Addr::new(10, 0, ((number - 1) / 100) as u8, 1))
        });
        crossed += network.collect(64, |_| ());
    }
    let meters = forwarder.meters();
    while crossed < meters.transmitted.get() as usize {
        crossed += network.collect(64, |_| ());
    }
    forwarder.poll(&mut w);
    let dropped = meters.drops.iter().filter(|(_, packets)| *packets > 0);
    let dropped = dropped.map(|(reason, packets)| (meters.drops.name(reason), packets));
    let fates = [("crossed", crossed as u64)].into_iter().chain(dropped).collect();
    drop((forwarder, hosts, network));
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
    Ok(fates)
}

/// Writes a packet from that source. Returns its number of bytes.
fn write_packet(room: &mut [u8], source: Ipv4Addr) -> usize {
    let link =
        Ethernet::new(MacAddr::new([2, 0, 0, 0, 0, 2]), MacAddr::new([2, 0, 0, 0, 0, 1]), ethernet::IPV4);
    let header = Ipv4::new(source, Ipv4Addr::new(192, 0, 2, 1), ipv4::UDP, 64, 26);
    room[..14].copy_from_slice(&link.to_bytes());
    room[14..34].copy_from_slice(&header.to_bytes());
    60
}
