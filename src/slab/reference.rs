//! The items on the lists of free objects.

use crate::sys::lifo::Lifo;

/// A free object: its address, with its cache's number in the upper 16 bits ([`TAG_SHIFT`]).
pub(super) type Ref = u64;
/// The position of the cache's number.
pub(super) const TAG_SHIFT: u32 = 48;
/// The bits of the address.
pub(super) const ADDRESS: u64 = (1 << TAG_SHIFT) - 1;

/// An array of free objects.
pub(super) type Sheaf = Lifo<Ref>;
