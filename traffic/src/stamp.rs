//! The stamp, which identifies every generated packet. The built-in network, [`Stream`](super::Stream) and
//! [`Arrivals`](super::Arrivals) use the same stamp.

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::noise::WINDOWS;
use netmem::wire::checksum::Sum;

/// The magic number at the start of a stamp.
const MAGIC: u16 = 0x6e6d;

/// The limit of sequence numbers and times. They wrap.
pub(super) const WRAP: u64 = 1 << 48;

/// The identity of a packet, and the time it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Identity {
    /// The number of the stream. Two generators that send to one sink have different numbers.
    pub stream: u16,
    /// The flow within the stream.
    pub flow: u16,
    /// The sequence number in the flow, from 0, below 2^48.
    pub seq: u64,
    /// The sender's clock in nanoseconds at sending, below 2^48 (78 hours). 0 in the built-in network.
    pub time: u64,
}

/// The first 22 bytes behind the UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Stamp {
    magic: U16,
    stream: U16,
    flow: U16,
    seq: U48,
    time: U48,
    check: U32,
}

const _: () = assert!(size_of::<Stamp>() == 22);

/// A number below 2^48, in network byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct U48 {
    high: U16,
    low: U32,
}

impl U48 {
    #[inline]
    fn new(number: u64) -> Self {
        U48 { high: U16::new((number >> 32) as u16), low: U32::new(number as u32) }
    }

    #[inline]
    fn get(self) -> u64 {
        u64::from(self.high.get()) << 32 | u64::from(self.low.get())
    }

    #[inline]
    fn sum(self) -> Sum {
        Sum::new().word(self.high.get()).double_word(self.low.get())
    }
}

impl Stamp {
    /// Makes the stamp of this packet.
    #[inline]
    pub(super) fn new(of: Identity) -> Self {
        let Identity { stream, flow, seq, time } = of;
        Stamp {
            magic: U16::new(MAGIC),
            stream: U16::new(stream),
            flow: U16::new(flow),
            seq: U48::new(seq),
            time: U48::new(time),
            check: U32::new(check(of)),
        }
    }

    /// Returns the identity in the stamp.
    #[inline]
    pub(super) fn identity(&self) -> Identity {
        let Stamp { stream, flow, seq, time, .. } = self;
        Identity { stream: stream.get(), flow: flow.get(), seq: seq.get(), time: time.get() }
    }

    /// Returns true if it begins with the magic number.
    #[inline]
    pub(super) fn has_magic(&self) -> bool {
        self.magic.get() == MAGIC
    }

    /// Returns true if the check agrees with the other fields.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.check.get() == check(self.identity())
    }

    /// Returns the sum over the stamp, for the UDP checksum.
    #[inline]
    pub(super) fn sum(&self) -> Sum {
        Sum::new()
            .word(self.magic.get())
            .word(self.stream.get())
            .word(self.flow.get())
            .double_word(self.check.get())
            + self.seq.sum()
            + self.time.sum()
    }

    /// Returns the number of the noise window that follows.
    #[inline]
    pub(super) fn window(&self) -> usize {
        self.check.get() as usize % WINDOWS
    }
}

/// Returns 32 bits that depend on every bit of the identity. Both mixed halves are one-to-one functions of their
/// inputs. So a change of one of them is detected except with a chance of 2^-32.
#[inline]
fn check(Identity { stream, flow, seq, time }: Identity) -> u32 {
    let packet = u64::from(flow) << 48 | seq;
    let sent = (u64::from(stream) << 48 | time).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mix(packet ^ sent) as u32
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit of the input affects every bit of
/// the output.
#[inline]
pub(super) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
