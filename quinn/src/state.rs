//! What the tasks of an endpoint share.

use netmem::Batch;
use netmem::port::NextHops;
use netmem_tokio::AsyncPort;

/// Datagrams that are sent by one call at most, and received as one buffer.
pub const SEGMENTS_MAX: usize = 32;

/// What was not received or not sent, since the socket was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketCounts {
    /// Frames that were freed unread: no datagram, a wrong checksum, another address or port, or longer than quinn's buffer.
    pub ignored: u64,
    /// Datagrams that were not sent: no next hop of their destination is known.
    pub no_next_hop: u64,
    /// Datagrams that were not sent: they are longer than a frame has room for.
    pub too_long: u64,
}

/// A port, what it received, and what it is to send.
#[derive(Debug)]
pub struct State {
    pub port: AsyncPort,
    pub next_hops: NextHops,
    /// Frames that were received and not read yet.
    pub received: Batch,
    /// Empty frames for what is sent next.
    pub fresh: Batch,
    /// Frames that the device had no room for yet.
    pub to_send: Batch,
    pub counts: SocketCounts,
}
