//! A forwarder that answers.

use super::error::IcmpError;
use super::limit::{IcmpControl, IcmpLimit};
use super::{Message, Silence};
use crate::forward::mode::Mode;
use crate::forward::poll::Forwarder;
use crate::forward::route::Fib;
use crate::forward::verdict::Reason;
use crate::pool::{Batch, Frame};
use crate::steer::Source;
use crate::sync::Worker;
use crate::sys::clock;

impl Forwarder {
    /// Limits how many ICMP errors are sent.
    pub fn set_icmp_limit(&mut self, limit: IcmpLimit) {
        self.limiter.control().set(limit);
    }

    /// What reads and changes the limit.
    pub fn icmp_control(&self) -> IcmpControl {
        self.limiter.control()
    }

    /// Makes errors of frames that came from there and were dropped for `reason`, and forwards them; those about which nothing
    /// is said stay in `dropped`.
    ///
    /// An error is never answered itself, so this goes no deeper than one error's own drop.
    #[cold]
    #[inline(never)]
    pub(in crate::forward) fn answer(
        &mut self,
        from: Source,
        reason: Reason,
        dropped: &mut Batch,
        w: &mut Worker,
    ) {
        let (Mode::Ip(reader), Some(message)) = (&self.mode, Message::of(reason)) else { return };
        let (fib, now) = (reader.fib(), clock::monotonic_ns());
        let (mut errors, mut back, mut silent) = (Batch::new(), Batch::new(), Batch::new());
        for mut frame in dropped.drain() {
            let said = say(&mut frame, (message, from.port, fib), || self.limiter.take(now));
            let to = match said {
                Some(Ok(Returns::OnLink)) => &mut back,
                Some(Ok(Returns::Routed)) => &mut errors,
                _ => &mut silent,
            };
            // There is room: no more come out than came in.
            drop(to.push(frame));
            match said {
                Some(Ok(_)) => self.meters.icmp.sent(message),
                Some(Err(why)) => self.meters.icmp.silent(why),
                None => {}
            }
        }
        dropped.append(&mut silent);
        let n = back.len();
        self.redirect(usize::from(from.port), &mut back.drain(), n, w);
        self.forward_admitted(from, &mut errors, w);
    }
}

/// How an error goes back.
#[derive(Clone, Copy)]
enum Returns {
    /// As a frame that comes in.
    Routed,
    /// To who sent the packet, on that link.
    OnLink,
}

/// Makes an error of the frame that holds the packet it is about, if there may be one and `has_token` says yes; None where there is
/// nothing to be said.
fn say(
    frame: &mut Frame,
    (message, from, fib): (Message, u8, &Fib),
    has_token: impl FnOnce() -> bool,
) -> Option<Result<Returns, Silence>> {
    let error = match IcmpError::about(frame.data(), message, from, fib)? {
        Ok(_) if !has_token() => return Some(Err(Silence::Limited)),
        Ok(error) => error,
        Err(why) => return Some(Err(why)),
    };
    let returns = if error.stays_on_link() { Returns::OnLink } else { Returns::Routed };
    Some(error.write(frame).map(|()| returns))
}
