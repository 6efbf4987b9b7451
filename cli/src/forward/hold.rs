//! What the local queue keeps, as the arguments say.

use crate::args::{ForwardArgs, ModeArg, PacketArgs, PathArg, Switch};
use crate::failure::Failure;
use netmem::forward::filter::Action;
use std::time::Duration;

/// What the local queue keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Packets.
    pub frames: usize,
    /// Bytes of memory that they may take up; None is no limit.
    pub bytes: Option<usize>,
    /// How long each.
    pub time: Duration,
    /// Whether short packets are copied out of their frames.
    pub copies: bool,
}

impl Hold {
    /// A local queue where something is passed, or where a change of the rules may pass something: such a change cannot make one.
    ///
    /// # Errors
    /// [`Failure::Input`], where something is to be kept and nothing is passed.
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
