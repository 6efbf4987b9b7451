//! The hash by which a flow selects one of several paths.

use netmem::steer::FlowKey;
use netmem::wire::{Ethernet, Icmp, Ipv4, Ipv6, ethernet, icmp, ipv6};
use std::fmt;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::OnceLock;

/// The types of ICMP errors that quote a packet: destination unreachable, source quench, redirect, time exceeded and
/// parameter problem (RFC 792).
const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
/// The same for IPv6: destination unreachable, packet too big, time exceeded and parameter problem (RFC 4443 §3).
const ERRORS_V6: [u8; 4] = [1, 2, 3, 4];

/// Hashes flows with a seed. All tables of a process use the same seed, which is drawn at random on first use. A
/// test may set another.
///
/// If routers in a row used one seed, all flows of one path would take one path again at the next router. A sender
/// that knew the seed could select its path. The hash differs from the one that spreads flows over receive queues
/// and workers. With that hash, each queue or worker would use only a part of the paths.
#[derive(Clone, Copy)]
pub(crate) struct FlowHash {
    seed: u64,
}

impl Default for FlowHash {
    fn default() -> FlowHash {
        static SEED: OnceLock<u64> = OnceLock::new();
        // The standard library seeds it with random numbers of the system. SipHash of a fixed number is then a
        // random number too.
        FlowHash { seed: *SEED.get_or_init(|| RandomState::new().hash_one(0)) }
    }
}

impl FlowHash {
    /// Returns the hash with this seed.
    pub(super) fn seeded(seed: u64) -> FlowHash {
        FlowHash { seed }
    }

    /// Returns the hash of a frame's flow, or 0 if the frame is not IP. An ICMP error has the hash of the flow that it is
    /// about, in its own direction. If several servers have one address, it thus reaches the one that sent the packet
    /// (RFC 7690).
    pub(crate) fn of(self, frame: &[u8]) -> u32 {
        let Some(key) = FlowKey::of(frame) else { return 0 };
        if key.has_ports() { self.of_key(&key) } else { self.of_key(&followed(frame).unwrap_or(key)) }
    }

    /// Returns the hash of an ICMP error about the packet in `frame`, as [`of`](Self::of) of the error does.
    pub(crate) fn of_error_about(self, frame: &[u8]) -> u32 {
        FlowKey::of(frame).map_or(0, |key| self.of_key(&key.reversed()))
    }

    /// Hashes a flow without ports. Returns 0 if one address is IPv4 and the other IPv6.
    pub(crate) fn between(self, src: IpAddr, dst: IpAddr) -> u32 {
        FlowKey::between(src, dst).map_or(0, |key| self.of_key(&key))
    }

    fn of_key(self, key: &FlowKey) -> u32 {
        // SipHash: keys that collide with one seed do not collide with another. A sender cannot search for
        // collisions without the seed.
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher.write(key.bytes());
        hasher.finish() as u32
    }
}

/// Returns the key of the flow that the ICMP error in `frame` is about, in the direction of the error. Returns None if it
/// is no error, or quotes less than the addresses. Later fragments of an error quote nothing, so the first is not
/// examined either: all take one path.
#[cold]
#[inline(never)]
fn followed(frame: &[u8]) -> Option<FlowKey> {
    let (link, packet) = Ethernet::parse(frame).ok()?;
    let (message, errors): (&[u8], &[u8]) = match link.ethertype() {
        ethernet::IPV4 => {
            let (header, message) = Ipv4::parse(packet).ok()?;
            let is_whole = header.protocol() == icmp::PROTOCOL && !header.is_fragment();
            (message, is_whole.then_some(&ERRORS)?)
        }
        ethernet::IPV6 => {
            let header = Ipv6::parse(packet).ok()?;
            let message = packet.get(ipv6::HEADER_LEN..header.total_length())?;
            (message, (header.next_header() == icmp::PROTOCOL_V6).then_some(&ERRORS_V6)?)
        }
        _ => return None,
    };
    let (header, quoted) = Icmp::read(message)?;
    if !errors.contains(&header.kind()) {
        return None;
    }
    FlowKey::of_packet(quoted).map(|key| key.reversed())
}

impl fmt::Debug for FlowHash {
    /// Omits the seed, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowHash").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
