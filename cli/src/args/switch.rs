//! A value that is on or off.

use clap::ValueEnum;

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// The generator waits until the ring has room, as on links with flow control.
    On,
    /// The device drops the packet, and counts it as an rx drop.
    Off,
}
