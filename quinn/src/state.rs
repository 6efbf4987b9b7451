//! The state that the tasks of an endpoint share.

use netmem::Batch;
use netmem::port::NextHops;
use netmem_tokio::AsyncPort;

/// Maximum number of datagrams that are sent by one call, and received as one buffer. With a pool of fewer than 128
/// frames, a quarter of its frames are sent by one call.
pub const SEGMENTS_MAX: usize = 32;

/// Counts of datagrams that were not received or not sent, since the socket was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketStats {
    /// Frames that were freed unread: not a datagram, a wrong checksum, another address or port, one that must not be
    /// answered ([`Datagram::answer`](netmem::wire::Datagram::answer)), or longer than quinn's buffer.
    pub ignored: u64,
    /// Datagrams that were not sent because no next hop of their destination is known.
    pub no_next_hop: u64,
    /// Panics of the function that returns next hops ([`PortSocket::set_next_hop`](crate::PortSocket::set_next_hop)). The
    /// datagrams of such a transmission are in [`SocketStats::no_next_hop`] too.
    pub next_hop_panics: u64,
    /// Datagrams that were not sent because they are longer than a frame has room for.
    pub too_long: u64,
    /// Datagrams that were not sent because no source address fits: the destination has the other IP version, or the
    /// socket's address is unspecified and quinn gave none.
    pub unaddressable: u64,
    /// Datagrams that were not sent because their transmission had more of them than the socket takes at once.
    pub too_many: u64,
}

/// A port, its received frames, and its frames to send.
#[derive(Debug)]
pub struct State {
    pub port: AsyncPort,
    /// Maximum number of frames posted for reception, as the port was set.
    pub posted_max: usize,
    pub next_hops: NextHops,
    /// Frames that were received and not read yet.
    pub received: Batch,
    /// Empty frames for the next transmissions.
    pub fresh: Batch,
    /// Frames for which the device had no room yet.
    pub to_send: Batch,
    pub counts: SocketStats,
}

impl State {
    /// Keeps a quarter of the pool's frames out of the receive ring, also if the pool has another size now. Returns the
    /// maximum number of datagrams of one transmission, for which they suffice.
    pub fn follow_pool(&mut self) -> usize {
        let frames = self.port.pool().frames();
        let kept = (frames / 4).max(1);
        self.port.set_posted_max(self.posted_max.min(frames.saturating_sub(kept)));
        kept.min(SEGMENTS_MAX)
    }
}
