//! What a caller must promise before frames are lent to a peer.
//!
//! A peer that is lent frames maps the whole region that they lie in. It can write any byte of the region at any time,
//! while safe code holds a `&[u8]` of a frame ([`Frame::data`](crate::pool::Frame::data)). The kernel cannot forbid
//! this, so the caller has to promise that it does not happen. For this reason an `unsafe` call enables lending.

/// The caller's confirmation that frames may be lent to peers, for [`MemifConfig::lend`](super::MemifConfig::lend).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lend(());

impl Lend {
    /// Confirms that peers may be lent frames.
    ///
    /// # Safety
    /// Every peer of every port that is opened with this value follows the protocol as long as it maps the memory, also
    /// after its connection has ended. It writes only into frames that are posted for reception while it owns their
    /// slots, and into no other byte of the region. A peer that does otherwise changes bytes behind references that
    /// safe code holds, which is undefined behaviour. A caller that cannot promise this lets the port copy (the
    /// default), or holds no reference to bytes of that memory while the peer maps it.
    pub const unsafe fn to_trusted_peers() -> Lend {
        Lend(())
    }

    /// For the tests of this crate, in which no reference exists while a peer writes.
    #[cfg(test)]
    pub(crate) const fn in_tests() -> Lend {
        Lend(())
    }
}
