//! The decisions that use no table.

use super::decide::{Decide, Verdicts};
use super::verdict::{Reason, Verdict};
use crate::pool::Batch;
use crate::steer::Source;
use crate::wire::Ethernet;
use std::error::Error;
use std::mem;

/// Sends frames from port 0 by port 1 and from port 1 by port 0 (2 and 3 likewise), unchanged, including link padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CrossConnect;

/// Sends every frame by the port that received it, with its MAC addresses swapped and its length unchanged, as `XDP_TX`
/// does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reflect;

/// Drops every frame unread, as `XDP_DROP` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DropAll;

/// Puts every frame into the [local queue](super::local_queue), unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PassAll;

/// The error of [`CrossConnect`] for an odd number of ports.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0} ports: give an even number in cross-connect mode")]
pub struct Unpaired(pub usize);

impl Decide for CrossConnect {
    fn takes_offloads(&self) -> bool {
        true
    }

    fn check(&self, ports: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        if ports.is_multiple_of(2) { Ok(()) } else { Err(Box::new(Unpaired(ports))) }
    }

    #[inline]
    fn decide(&mut self, from: Source, _: &mut [u8]) -> Verdict {
        Verdict::Redirect(from.port ^ 1)
    }

    fn decide_burst(&mut self, from: Source, _: &mut Batch, verdicts: &mut Verdicts) {
        verdicts.fill(Verdict::Redirect(from.port ^ 1));
    }
}

impl Decide for Reflect {
    fn takes_offloads(&self) -> bool {
        true
    }

    #[inline]
    fn decide(&mut self, _: Source, frame: &mut [u8]) -> Verdict {
        let Ok((link, _)) = Ethernet::parse_mut(frame) else { return Verdict::Drop(Reason::Short) };
        mem::swap(&mut link.dst, &mut link.src);
        Verdict::Tx
    }
}

impl Decide for DropAll {
    fn takes_offloads(&self) -> bool {
        true
    }

    fn decide(&mut self, _: Source, _: &mut [u8]) -> Verdict {
        Verdict::Drop(Reason::FilterDrop)
    }

    fn decide_burst(&mut self, _: Source, _: &mut Batch, verdicts: &mut Verdicts) {
        verdicts.fill(Verdict::Drop(Reason::FilterDrop));
    }
}

impl Decide for PassAll {
    fn decide(&mut self, _: Source, _: &mut [u8]) -> Verdict {
        Verdict::Pass
    }

    fn decide_burst(&mut self, _: Source, _: &mut Batch, verdicts: &mut Verdicts) {
        verdicts.fill(Verdict::Pass);
    }
}
