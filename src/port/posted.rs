//! The posted frame: one that a device inside this process holds.

use crate::pool::{Frame, unposted_from_anywhere};

/// A frame between being posted and coming back, counted as posted in its pool's ledger.
///
/// Dropped (a ring torn down with frames inside) it is counted back and goes home.
#[derive(Debug)]
pub(crate) struct Posted(Option<Frame>);

const _: () = assert!(size_of::<Posted>() == 8);

impl Posted {
    /// The port's caller has counted it as posted.
    #[inline(always)]
    pub(crate) fn new(frame: Frame) -> Posted {
        Posted(Some(frame))
    }

    /// What the device reads and writes.
    #[inline(always)]
    pub(crate) fn frame(&mut self) -> Option<&mut Frame> {
        self.0.as_mut()
    }

    /// The frame comes back; the port counts it as such.
    #[inline(always)]
    pub(crate) fn into_frame(mut self) -> Option<Frame> {
        self.0.take()
    }
}

impl Drop for Posted {
    #[inline]
    fn drop(&mut self) {
        if let Some(frame) = self.0.take() {
            lost(frame);
        }
    }
}

#[cold]
#[inline(never)]
fn lost(frame: Frame) {
    unposted_from_anywhere(std::slice::from_ref(&frame));
}
