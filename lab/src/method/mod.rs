//! How a figure is taken on a machine that is small, shared and paused without notice.
//!
//! One [window] is some 25 µs of work between two readings of the time stamp counter; a pause spoils the
//! one window that it falls into, and that window is dropped and counted. A [round] runs every
//! variant once, in shuffled order, on the same pinned cores. A [ratio] is taken inside a round, so that
//! whatever the machine did in that round it did to both sides; its median over rounds comes with a bootstrap
//! interval. An experiment is set up anew several times in a run, because where its memory lies costs something for as
//! long as it lies there; the interval holds that share too. No mean over a run appears anywhere.
//!
//! - [`clock`]: where ticks come from, so that tests can drive time.
//! - [`window`]: windows of a loop of operations on one core.
//! - [`poll`]: windows of a poll loop that a generator on another core feeds.
//! - [`round`]: the interleaving. [`layout`]: what makes one set-up differ from the next.
//! - [`ratio`]: the bootstrap interval. [`quantile`], [`random`]: what it needs.
//! - [`machine`]: the fingerprint of the machine. [`pauses`]: the time that it takes away.

pub mod clock;
pub mod layout;
pub mod machine;
pub mod pauses;
pub mod poll;
pub mod quantile;
pub mod random;
pub mod ratio;
pub mod round;
pub mod window;

#[cfg(test)]
mod tests;
