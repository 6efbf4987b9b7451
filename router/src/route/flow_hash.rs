//! The hash by which a flow selects one of several paths.

use netmem::steer::FlowKey;
use std::fmt;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::OnceLock;

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

    /// Returns the hash of a frame's flow, or 0 if the frame is not IP.
    pub(crate) fn of(self, frame: &[u8]) -> u32 {
        FlowKey::of(frame).map_or(0, |key| self.of_key(&key))
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

impl fmt::Debug for FlowHash {
    /// Omits the seed, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowHash").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flow_hashes_of_a_process_have_one_seed_and_do_not_print_it() {
        let (own, to) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let [a, b] = [FlowHash::default(), FlowHash::default()];
        assert_eq!(a.between(own, to), b.between(own, to));
        assert_ne!(a.between(own, to), a.between(to, own));
        let given = FlowHash::seeded(0x1234_5678);
        assert_ne!(given.between(own, to), FlowHash::seeded(0x1234_5679).between(own, to));
        assert_eq!(format!("{given:?}"), "FlowHash { .. }");
        assert_eq!([given.of(&[0; 60]), given.between(own, IpAddr::from([0; 16]))], [0, 0]);
    }

    #[test]
    fn a_frame_without_ports_has_the_hash_of_its_addresses() {
        let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let mut frame = Vec::new();
        let packet = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(src, dst, 64);
        packet.icmpv4_echo_request(1, 1).write(&mut frame, &[0; 8]).unwrap();
        let hash = FlowHash::seeded(7);
        assert_eq!(hash.of(&frame), hash.between(src.into(), dst.into()));
    }
}
