//! The stage `packet` adds heads, chains and shared bytes to frames.
//!
//! There are two levels. A [`Frame`](crate::pool::Frame) is enough to drop, send on or redirect. A [`Packet`] also has
//! a head, an object of its own. The head records what the path learns about the packet: its receive queue and its
//! flow's hash. A frame becomes a packet, and a packet a frame, without a copy.
//!
//! | question | answer |
//! |---|---|
//! | source of heads | [`HeadCache`]: a worker's array above a slab cache, in one of the [`HeadCacheMode`]s of [brouer15-bulk] |
//! | location of the bytes | in a frame, a shared frame, a piece of a frame, or [`External`] memory |
//! | a second packet over the same bytes | [`HeadCache::share`], [`HeadCache::split`]; the bytes are read-only until only one packet is left |
//! | bytes in several places | [`Packet::append`], [`Packet::segments`], [`HeadCache::linearize`] |
//! | a head and a frame that stay together | [`ReadyPackets`] by worker, `ReadyStack` (feature `comparisons`) under the caller's lock ([rizzo02-mbuf]) |
//! | a packet on its way to another worker | [`QueuedPacket`]; the ledgers of its frames count it as queued |
//! | packets that are kept | [`CopyBreak`]: copies small slices out of the large memory that they pin |

mod chain;
mod copy_break;
mod copy;
mod data;
mod external;
mod in_flight;
mod head;
mod heads;
mod offload;
#[allow(clippy::module_inception)]
mod packet;
mod packets;
mod ready;
mod queued;
#[allow(unsafe_code)]
mod raw;
#[cfg(test)]
mod tests;

pub use chain::SplitError;
pub use copy::CopyError;
pub use copy_break::CopyBreak;
pub use external::External;
pub use heads::{HeadCache, HeadCacheConfig, HeadCacheError, HeadCacheMode, HeadCacheStats};
pub use in_flight::InFlightHeads;
pub use packet::Packet;
pub use packets::Packets;
pub use queued::QueuedPacket;
#[cfg(feature = "comparisons")]
pub use ready::{Locking, ReadyList, ReadyStack, Reset};
pub use ready::{ReadyPackets, ReadyPacketsStats};
