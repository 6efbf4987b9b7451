//! The method of measurement on a machine that is small, shared and paused without notice.
//!
//! A [window] is some 25 µs of work between two readings of the time stamp counter. A pause affects the one window
//! in which it occurs, and that window is dropped and counted. A [round] runs every variant once, in shuffled
//! order, on the same pinned cores. A [ratio] is computed inside a round, so the machine's state in that round
//! affects both sides. The median over rounds has a bootstrap interval. An experiment is set up several times in a
//! run, because the location of its memory affects its cost during a whole set-up. The interval includes that share
//! too. No mean over a run is reported.
//!
//! - [`clock`]: the source of ticks, so that tests can control time.
//! - [`window`]: windows of a loop of operations on one core.
//! - [`poll`]: windows of a poll loop that a generator on another core feeds. [`peer`]: a thread there that stays from
//!   round to round.
//! - [`round`]: the interleaving. [`placement`]: the distance between two cores in each round. [`layout`]: the
//!   differences between set-ups.
//! - [`ratio`]: the bootstrap interval, which uses [`quantile`] and [`random`].
//! - [`machine`]: the fingerprint of the machine. [`memory`]: what is left of its memory. [`pauses`]: the time lost to
//!   pauses.

pub mod clock;
pub mod layout;
pub mod machine;
pub mod memory;
pub mod pauses;
pub mod peer;
pub mod placement;
pub mod poll;
pub mod quantile;
pub mod random;
pub mod ratio;
pub mod round;
pub mod window;

#[cfg(test)]
mod tests;
