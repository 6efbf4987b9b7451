//! The configuration of the local queue, from the arguments.

use crate::args::{ForwardArgs, ModeArg, PacketArgs, PathArg, Switch};
use crate::failure::Failure;
use netmem::forward::filter::Action;
use std::time::Duration;

/// The limits of the local queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Maximum number of packets.
    pub frames: usize,
    /// Maximum bytes of memory that they may take, or None for no limit.
    pub bytes: Option<usize>,
    /// The time that each packet is kept.
    pub time: Duration,
    /// True if short packets are copied out of their frames.
    pub copies: bool,
}

impl Hold {
    /// Returns a local queue if packets are passed, or if a change of the rules may pass packets: such a change
    /// cannot create a queue.
    ///
    /// # Errors
    /// [`Failure::Input`] if packets are to be kept and none is passed.
    pub fn of(args: &ForwardArgs) -> Result<Option<Hold>, Failure> {
        let PacketArgs { path, rule, hold: frames, hold_bytes, hold_seconds, hold_copybreak, .. } = &args.way;
        let passes = args.mode == ModeArg::Pass || rule.iter().any(|rule| rule.action == Action::Pass);
        let may_pass = *path == PathArg::Full && (args.config.is_some() || args.control.is_some());
        let asked = *frames > 0 || hold_bytes.is_some() || hold_seconds.is_some() || hold_copybreak.is_some();
        if !passes && !may_pass && asked {
            let line = "--hold is for passed frames: give --mode pass, or --path full and a --rule pass,...";
            return Err(Failure::Input(line.into()));
        }
        let time = hold_seconds.map_or(Duration::MAX, Duration::from_secs_f64);
        let copies = *hold_copybreak == Some(Switch::On);
        Ok((passes || may_pass).then_some(Hold { frames: *frames, bytes: *hold_bytes, time, copies }))
    }
}
