//! The stage `ring` has the rings between cores.
//!
//! [`cursor`](self) is the arithmetic of the two indices of every ring: the rings between threads in this stage, and
//! the rings in the ports that a kernel or a peer maps.

pub(crate) mod cursor;
#[cfg(feature = "comparisons")]
mod ids;
#[allow(unsafe_code)]
mod loan;
mod mpsc;
#[allow(unsafe_code)]
mod slots;
#[allow(unsafe_code)]
mod spsc;
#[cfg(test)]
pub(crate) mod tests;

pub use cursor::Corrupt;
#[cfg(feature = "comparisons")]
pub use ids::{IdReceiver, IdSender, id_ring};
pub(crate) use loan::{Borrower, Lender, loan};
pub(crate) use mpsc::Mpsc;
pub use spsc::{Receiver, Sender, ring, try_ring};
pub(crate) use spsc::{Vacant, Waiting};

/// The number of slots of a ring that has at least `size` slots: a power of two.
///
/// # Panics
/// If `size` is above 2^31, which indices of 32 bits cannot count.
fn slots_for(size: u32) -> u32 {
    assert!(size <= 1 << 31, "a ring of {size} slots: 2^31 are the most");
    size.max(1).next_power_of_two()
}

/// The `n` slots from the one at `at` on: the run up to the array's end, and the run from its beginning.
#[inline(always)]
fn runs<S>(slots: &[S], at: usize, n: usize) -> [&[S]; 2] {
    let (before, after) = slots.split_at(at);
    let front = n.min(after.len());
    [&after[..front], &before[..n - front]]
}
