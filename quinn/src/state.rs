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
    /// Received frames that are not a UDP datagram over IPv4 or IPv6, or one in fragments, with IPv4 options, IPv6 extension
    /// headers or a VLAN tag.
    pub not_datagram: u64,
    /// Received datagrams with a wrong checksum, or without one over IPv6.
    pub wrong_checksum: u64,
    /// Received datagrams for another address or UDP port, or of the IP version that the socket does not have.
    pub other_address: u64,
    /// Received datagrams that must not be answered ([`Datagram::answer`](netmem::wire::Datagram::answer)), or whose
    /// addresses of IPv6 stand for some of IPv4 (`::ffff:192.0.2.1`).
    pub unanswerable: u64,
    /// Received datagrams that are empty, which no packet of QUIC is, or longer than quinn's buffer.
    pub unreadable: u64,
    /// Datagrams that were not sent because no next hop of their destination is known.
    pub no_next_hop: u64,
    /// Panics of the function that returns next hops ([`PortSocket::set_next_hop`](crate::PortSocket::set_next_hop)). The
    /// datagrams of such a transmission are in [`SocketStats::no_next_hop`] too.
    pub next_hop_panics: u64,
    /// Datagrams that were not sent because they are longer than every frame of the pool has room for
    /// ([`Pool::room`](netmem::Pool::room) less the headers). quinn learns the path's MTU from them.
    pub too_long: u64,
    /// Datagrams that were not sent because no source address fits: the destination has the other IP version, or the
    /// socket's address is unspecified and quinn gave none.
    pub unaddressable: u64,
    /// Datagrams that were not sent because their transmission had more of them than the socket takes at once.
    pub too_many: u64,
}

impl SocketStats {
    /// Frames that were received and freed unread, for any reason.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        self.not_datagram + self.wrong_checksum + self.other_address + self.unanswerable + self.unreadable
    }
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
