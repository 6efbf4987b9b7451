//! What a caller must vouch for before frames are lent to a peer.
//!
//! A peer that is lent frames maps the whole region that they lie in, and may write any byte of it at any time, while safe code
//! holds `&[u8]` of a frame ([`Frame::data`](crate::pool::Frame::data)). The kernel cannot forbid that, so somebody has to
//! promise it: lending begins with an `unsafe` call.

/// The caller's confirmation that frames may be lent to peers, for [`MemifConfig::lend`](super::MemifConfig::lend).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lend(());

impl Lend {
    /// Gives the word.
    ///
    /// # Safety
    /// Every peer of every port that is opened with it follows the protocol for as long as it maps the memory, also after its
    /// connection has ended: it writes only into frames that are posted for reception and whose slots are its turn, and into no
    /// other byte of the region. A peer that does otherwise changes bytes behind references that safe code holds, which is
    /// undefined behaviour. Whoever cannot promise that of a peer lets the port copy (the default), or holds no reference to
    /// bytes of that memory while the peer maps it.
    pub const unsafe fn to_trusted_peers() -> Lend {
        Lend(())
    }

    /// For this crate's own tests, whose peers write while nobody holds a reference.
    #[cfg(test)]
    pub(crate) const fn in_tests() -> Lend {
        Lend(())
    }
}
