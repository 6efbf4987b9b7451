//! Which station on the link has a destination, for packets without a header of the link.

use netmem::wire::{Ethernet, Ipv4, Ipv6, MacAddr, ethernet};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

/// Destinations that are known at most; beyond that one is forgotten for each that is new.
const KNOWN_MAX: usize = 16_384;

/// Whereto a packet is sent on the link, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// The MAC address of the port's interface.
    pub src_mac: MacAddr,
    /// The destination's, or its router's.
    pub dst_mac: MacAddr,
}

/// Who says the next hop of a destination that has not sent anything yet.
pub type AskNextHop = Box<dyn FnMut(IpAddr) -> Option<NextHop> + Send>;

/// Next hops of destinations: what was seen of them, or what somebody says.
#[derive(Default)]
pub struct Stations {
    known: HashMap<IpAddr, NextHop>,
    pub ask: Option<AskNextHop>,
}

impl fmt::Debug for Stations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stations").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

impl Stations {
    /// Sees that a frame of IP came, and from where; false for other frames.
    pub fn see(&mut self, frame: &[u8]) -> bool {
        let Ok((link, packet)) = Ethernet::parse(frame) else { return false };
        let from = match link.ethertype() {
            ethernet::IPV4 => source_v4(packet),
            ethernet::IPV6 => source_v6(packet),
            _ => None,
        };
        let Some(from) = from else { return false };
        if !link.src.is_group() && !link.dst.is_group() {
            self.learn(from, NextHop { src_mac: link.dst, dst_mac: link.src });
        }
        true
    }

    fn learn(&mut self, from: IpAddr, hop: NextHop) {
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&from) {
            let forgotten = self.known.keys().next().copied();
            forgotten.map(|forgotten| self.known.remove(&forgotten));
        }
        self.known.insert(from, hop);
    }

    /// The header of the link for a packet of IP; None where no next hop is known.
    pub fn header(&mut self, packet: &[u8]) -> Option<[u8; ethernet::HEADER_LEN]> {
        let (ethertype, to) = destination(packet)?;
        let hop = match self.known.get(&to) {
            Some(hop) => *hop,
            None => self.ask.as_mut()?(to)?,
        };
        Some(Ethernet::new(hop.dst_mac, hop.src_mac, ethertype).to_bytes())
    }
}

fn source_v4(packet: &[u8]) -> Option<IpAddr> {
    Ipv4::parse(packet).ok().map(|(header, _)| header.src().into())
}

fn source_v6(packet: &[u8]) -> Option<IpAddr> {
    Ipv6::parse(packet).ok().map(|header| header.src().into())
}

/// What a packet is, and whereto.
fn destination(packet: &[u8]) -> Option<(u16, IpAddr)> {
    match packet.first()? >> 4 {
        4 => Ipv4::parse(packet).ok().map(|(header, _)| (ethernet::IPV4, header.dst().into())),
        6 => Ipv6::parse(packet).ok().map(|header| (ethernet::IPV6, header.dst().into())),
        _ => None,
    }
}
