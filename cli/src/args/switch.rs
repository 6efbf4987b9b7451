//! What is on or off.

use clap::ValueEnum;

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// A packet that finds no place is refused and tried again.
    On,
    /// A packet that finds no place is dropped by the device and counted.
    Off,
}
