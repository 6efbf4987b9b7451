//! The size of frames, and sizes derived from it.

use super::number::power_of_two;
use netmem::limits::{CHUNK_SIZE, FRAME_SIZE_MAX};
use netmem::pool::PoolConfig;
use netmem::wire::ethernet::{HEADER_LEN, TAG_LEN};
use std::fmt;

/// Bytes of all frames of one pool at most.
const POOL_MAX: usize = 2 << 30;

/// Bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameSize(usize);

impl Default for FrameSize {
    fn default() -> Self {
        FrameSize(CHUNK_SIZE)
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads `--frame-size`.
pub fn frame_size(text: &str) -> Result<FrameSize, String> {
    let range = CHUNK_SIZE as u32..=FRAME_SIZE_MAX as u32;
    power_of_two(range)(text).map(|bytes| FrameSize(bytes as usize))
}

impl FrameSize {
    /// Bytes.
    pub fn bytes(self) -> usize {
        self.0
    }

    /// Bytes of the longest packet that every frame has room for, with a VLAN tag more.
    pub fn longest(self) -> usize {
        PoolConfig::room(self.0) - TAG_LEN
    }

    /// The MTU of a link that has no interface to say one: 1,500 where frames are of 2,048 bytes.
    pub fn mtu(self) -> u16 {
        u16::try_from(self.longest() - HEADER_LEN).unwrap_or(u16::MAX)
    }

    /// Frames that a pool may have.
    pub fn frames_max(self) -> usize {
        POOL_MAX / self.0
    }

    /// Refuses more frames than a pool may have.
    ///
    /// # Errors
    /// A line with how many it may.
    pub fn check_frames(self, frames: Option<usize>) -> Result<(), String> {
        match frames {
            Some(frames) if frames > self.frames_max() => Err(format!(
                "--frames {frames} with --frame-size {self} are more than 2 GiB: give at most {}",
                self.frames_max()
            )),
            _ => Ok(()),
        }
    }

    /// Refuses packets that no frame has room for.
    ///
    /// # Errors
    /// A line with what fits, and the frames that have room.
    pub fn check_packets(self, sizes: &[usize]) -> Result<(), String> {
        let Some(size) = sizes.iter().find(|&&size| size > self.longest()) else { return Ok(()) };
        let all = (0..).map(|twice| FrameSize(CHUNK_SIZE << twice)).take_while(|one| one.0 <= FRAME_SIZE_MAX);
        let enough = { all }.find(|one| one.longest() >= *size);
        let remedy = enough.map_or_else(String::new, |one| format!(", or --frame-size {one}"));
        Err(format!("--size {size} with --frame-size {self}: give at most {}{remedy}", self.longest()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_as_long_as_ethernets_in_usual_frames_and_longer_in_larger_ones() {
        let of = |text| frame_size(text).map(|size| (size.longest(), size.mtu(), size.frames_max())).unwrap();
        assert_eq!(of("2048"), (1514, 1500, 1 << 20));
        assert_eq!(of("16384"), (14_524, 14_510, 1 << 17));
        assert_eq!(of("32768"), (29_116, 29_102, 1 << 16));
        for bad in ["0", "1024", "3000", "65536", "-2048", "jumbo", ""] {
            assert_eq!(frame_size(bad).unwrap_err(), "give a power of two from 2048 to 32768", "{bad}");
        }
    }

    #[test]
    fn a_packet_size_that_does_not_fit_is_refused_with_the_frame_size_that_fits() {
        let refused = |size| FrameSize::default().check_packets(&[64, size]).unwrap_err();
        assert_eq!(
            refused(9018),
            "--size 9018 with --frame-size 2048: give at most 1514, or --frame-size 16384"
        );
        assert_eq!(refused(40_000), "--size 40000 with --frame-size 2048: give at most 1514");
        assert!(FrameSize(16384).check_packets(&[64, 9018]).is_ok());
    }
}
