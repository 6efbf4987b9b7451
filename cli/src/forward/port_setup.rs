//! The common set-up of a run's ports.

use super::lending;
use crate::args::FrameSize;
use netmem::page::Memory;
use netmem::port::memif::MemifPort;
use netmem::port::xdp::{Punt, XdpModePreference};
use netmem_ports::{OpenConfig, PortOpener};

/// The common set-up of a run's ports.
#[derive(Debug, Clone, Copy)]
pub struct PortSetup {
    /// Number of threads, each with a queue of every port.
    pub workers: usize,
    /// Slots of each ring.
    pub ring: u32,
    /// Bytes of the frames that are received into.
    pub frame_size: FrameSize,
    /// The mode of the redirect program of interfaces.
    pub xdp_mode: XdpModePreference,
    /// The packets that interfaces leave to the kernel by default.
    pub punt: Punt,
    /// True if packet ports hide the packets that they take from the kernel, if they can.
    pub packets_alone: bool,
    /// The MTU of the narrowest interface. TCP packets without a given segment size are segmented for it.
    pub cut_mtu: Option<u16>,
    /// Waits for the peer of an opened memif port.
    pub greet: fn(&mut MemifPort),
}

impl PortSetup {
    /// Returns the opener of ports over `memory`.
    pub fn opener(&self, memory: &Memory) -> PortOpener {
        let &PortSetup { workers, ring, xdp_mode, punt, packets_alone, cut_mtu, greet, .. } = self;
        let lend = Some(lending::said_by_the_operator());
        let config = OpenConfig { ring, workers, xdp_mode, punt, packets_alone, cut_mtu, lend, greet };
        PortOpener::new(memory, config)
    }
}

/// Default slots of a ring, if a worker's ports have many frames.
const RING: u32 = 2048;
/// Slots of the smallest ring.
const RING_MIN: u32 = 2;

/// Returns the default slots of each of `pairs` pairs of receive and transmit rings of one worker. The number is
/// small enough that no port can have more than its share of the worker's frames in its rings. A port whose far
/// side stands still keeps them all that time.
pub fn ring_of(frames: Option<usize>, pairs: usize) -> u32 {
    let share =
        frames.map_or(u32::MAX, |frames| u32::try_from(frames / (2 * pairs.max(1))).unwrap_or(u32::MAX));
    let ring = share.clamp(RING_MIN, RING);
    1 << ring.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: of 64 frames, a memif port whose peer stood still had 56, and the other ports had none.
    #[test]
    fn no_port_has_more_than_its_share_of_few_frames_in_its_rings() {
        assert_eq!([None, Some(8192), Some(1 << 20)].map(|frames| ring_of(frames, 2)), [2048; 3]);
        for (frames, pairs) in [(64, 2), (64, 3), (100, 2), (8191, 2), (512, 1), (8, 2)] {
            let ring = ring_of(Some(frames), pairs);
            assert!(
                ring.is_power_of_two() && 2 * ring as usize * pairs <= frames,
                "{frames} {pairs}: {ring}"
            );
            assert!(4 * ring as usize * pairs > frames, "{frames} {pairs}: {ring} could be more");
        }
        assert_eq!((ring_of(Some(64), 200), ring_of(Some(64), 0)), (RING_MIN, 32));
    }
}
