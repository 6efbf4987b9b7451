//! What the lists of free objects hold.

use crate::sync::Lifo;

/// A free object: its address, with its cache's number in the upper 16 bits ([`TAG_SHIFT`]).
pub(super) type Ref = u64;
/// Where the cache's number begins.
pub(super) const TAG_SHIFT: u32 = 48;
/// The bits of the address.
pub(super) const ADDRESS: u64 = (1 << TAG_SHIFT) - 1;

/// An array of free objects.
pub(super) type Sheaf = Lifo<Ref>;
