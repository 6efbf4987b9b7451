//! The configuration of the local queue, from the arguments.

use crate::args::{ForwardArgs, ModeArg, PathArg, Switch};
use crate::failure::Failure;
use netmem::forward::filter::Action;
use std::time::Duration;

/// The limits of the local queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalQueueConfig {
    /// Maximum number of packets.
    pub frames: usize,
    /// Maximum bytes of memory that they may take, or None for no limit.
    pub bytes: Option<usize>,
    /// The time that each packet is kept.
    pub time: Duration,
    /// True if short packets are copied out of their frames.
    pub copies: bool,
}

impl LocalQueueConfig {
    /// Returns a local queue if packets are passed, or if a change of the rules may pass packets: such a change
    /// cannot create a queue.
    ///
    /// # Errors
    /// [`Failure::Input`] if packets are to be kept and none is passed.
    pub fn of(args: &ForwardArgs) -> Result<Option<LocalQueueConfig>, Failure> {
        let packet_args = &args.packet_args;
        let (frames, bytes) = (packet_args.local_queue, packet_args.local_queue_bytes);
        let (seconds, copybreak) = (packet_args.local_queue_seconds, packet_args.local_queue_copybreak);
        let passes =
            args.mode == ModeArg::Pass || packet_args.rule.iter().any(|rule| rule.action == Action::Pass);
        let may_pass = packet_args.path == PathArg::Full && (args.config.is_some() || args.control.is_some());
        let asked = frames > 0 || bytes.is_some() || seconds.is_some() || copybreak.is_some();
        if !passes && !may_pass && asked {
            let line =
                "--local-queue is for passed frames: give --mode pass, or --path full and a --rule pass,...";
            return Err(Failure::Input(line.into()));
        }
        let time = seconds.map_or(Duration::MAX, Duration::from_secs_f64);
        let copies = copybreak == Some(Switch::On);
        Ok((passes || may_pass).then_some(LocalQueueConfig { frames, bytes, time, copies }))
    }
}
