//! Stage `ring`: what crosses cores.
//!
//! [`cursor`](self) is the arithmetic of two indices that every ring shares: the one between threads here,
//! and those that a kernel or a peer maps in the ports.

pub(crate) mod cursor;
mod ids;
#[allow(unsafe_code)]
mod loan;
mod mpsc;
#[allow(unsafe_code)]
mod spsc;
#[cfg(test)]
pub(crate) mod tests;

pub use cursor::Corrupt;
pub use ids::{IdReceiver, IdSender, id_ring};
pub(crate) use loan::{Borrower, Lender, loan};
pub(crate) use mpsc::Mpsc;
pub use spsc::{Receiver, Sender, ring};
pub(crate) use spsc::{Vacant, Waiting};
