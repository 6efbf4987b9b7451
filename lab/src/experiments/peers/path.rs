//! A path: two ends and the part between them.

use std::cell::RefCell;

use netmem::limits::BATCH_MAX;
use netmem_traffic::StreamConfig;

use super::{Ends, Middle};
use crate::bench::{Bench, SetUpError};
use crate::experiments::check_all_freed;
use crate::method::clock::{Clock, Tsc};
use crate::method::round::{Label, Variant};
use crate::method::window::Windows;

/// The time limit for packets in flight. A step counts with at most [`STEP_NS`], because the machine may be paused
/// in it.
const PATIENCE_NS: f64 = 2e9;
const STEP_NS: f64 = 1e6;

/// The time limit for a device to begin, in checks of [`LOOK_NS`] each.
const LOOKS: usize = 4_000;
const LOOK_NS: f64 = 5e6;

/// Two checks with more time between them had a pause of the machine between them. A full burst by system calls
/// takes half of it.
const GAP_NS: f64 = 100_000.0;

/// Two ends, with the device under test or the kernel alone between them.
pub(in crate::experiments) struct Path {
    pub(super) label: Label,
    pub(super) clock: Tsc,
    pub(super) ends: Ends,
    middle: Option<Middle>,
    /// The reason why nothing more can be measured.
    pub(super) broken: Option<String>,
}

impl Path {
    /// Makes a path with `middle` between both ends, or the kernel alone. Waits until packets come through, and
    /// leaves the device stopped.
    ///
    /// # Errors
    /// If no packet comes through.
    pub(in crate::experiments) fn new(
        label: Label,
        (ends, middle): (Ends, Option<Middle>),
        stream: &StreamConfig,
    ) -> Result<Path, SetUpError> {
        let mut path = Path { label, clock: Tsc::new(), ends, middle, broken: None };
        path.begin().map_err(SetUpError::at("first packets through the device"))?;
        path.ends.forget(stream.clone())?;
        path.hold().map_err(SetUpError::at("hold the device"))?;
        Ok(path)
    }

    /// Returns true if a process is between the ends, and not the kernel alone.
    pub(super) fn has_device(&self) -> bool {
        self.middle.is_some()
    }

    /// Stops the device.
    pub(super) fn hold(&mut self) -> Result<(), String> {
        self.middle.as_mut().map_or(Ok(()), Middle::hold).map_err(|error| error.to_string())
    }

    /// Resumes the device.
    pub(super) fn release(&mut self) -> Result<(), String> {
        self.middle.as_mut().map_or(Ok(()), Middle::release).map_err(|error| error.to_string())
    }

    /// Returns a wait for packets in flight.
    pub(super) fn patience(clock: &Tsc) -> Patience {
        Patience::new(clock, PATIENCE_NS)
    }

    /// Returns true if the machine was paused in a step of this many ticks.
    pub(super) fn is_gap(&self, ticks: u64) -> bool {
        ticks as f64 > GAP_NS * self.clock.ticks_per_ns()
    }

    /// Sends until a burst has come through unchanged.
    fn begin(&mut self) -> Result<(), String> {
        let mut up = Ok(());
        for _ in 0..LOOKS {
            if let Some(error) = self.middle.as_mut().and_then(Middle::ended) {
                return Err(error.to_string());
            }
            up = self.ends.are_up();
            if up.is_ok() {
                self.ends.post();
                self.ends.write(BATCH_MAX);
                self.ends.send();
            }
            let come = self.collect(BATCH_MAX, LOOK_NS);
            self.ends.complete();
            if come >= BATCH_MAX {
                // Packets sent before may still come. They must not be part of the measurement.
                while self.collect(usize::MAX, 10.0 * LOOK_NS) > 0 {}
                self.ends.complete();
                return Ok(());
            }
        }
        Err(up.err().unwrap_or_else(|| "no packet comes out of it".to_owned()))
    }

    /// Receives until `n` packets have come, or none comes for `ns`. Returns the number of unchanged packets.
    fn collect(&mut self, n: usize, ns: f64) -> usize {
        let mut waited = Patience::new(&self.clock, ns);
        let (mut come, mut whole) = (0, 0);
        while come < n && !waited.is_over(&self.clock) {
            let got = self.ends.receive();
            self.ends.kick();
            if got > 0 {
                come += got;
                whole += self.ends.judge();
                self.ends.post();
                waited = Patience::new(&self.clock, ns);
            }
        }
        whole
    }

    /// Checks that every packet came unchanged and once, and that all frames are back in the pool, when the path is
    /// closed.
    pub(super) fn settle(self, bench: &mut Bench<'_>) {
        let Path { label, ends, middle, broken, .. } = self;
        let (name, sent, tally) = (label.variant, ends.sent(), ends.arrivals().tally());
        let foreign = ends.arrivals().foreign();
        let lost = sent.saturating_sub(tally.distinct());
        bench.check(
            &format!("{name}: every packet accounted for"),
            lost == 0 && tally.duplicates == 0 && broken.is_none(),
            format!(
                "{sent} sent, {} came whole, {lost} lost, {} twice, {foreign} foreign frames{}",
                tally.distinct(),
                tally.duplicates,
                broken.map_or_else(String::new, |why| format!("; {why}")),
            ),
        );
        let (corrupt, reordered) = (tally.corrupt, tally.reordered);
        bench.check(
            &format!("{name}: contents and order intact"),
            corrupt == 0 && reordered == 0,
            format!("{corrupt} corrupt, {reordered} behind later ones"),
        );
        let tools = ends.close();
        drop(middle);
        check_all_freed(bench, &name, &tools.pool);
    }
}

/// A variant that outlives the measurement, so that it can be settled.
pub(in crate::experiments) struct Borrowed<'a, V>(&'a RefCell<V>, Label);

impl<'a, V: Variant> Borrowed<'a, V> {
    /// Returns it as one of several variants.
    pub(in crate::experiments) fn new(variant: &'a RefCell<V>) -> Borrowed<'a, V> {
        let label = variant.borrow().label().clone();
        Borrowed(variant, label)
    }
}

impl<V: Variant> Variant for Borrowed<'_, V> {
    fn label(&self) -> &Label {
        &self.1
    }

    fn round(&mut self, windows: usize) -> Windows {
        self.0.borrow_mut().round(windows)
    }
}

/// A bounded wait, in which a pause of the machine counts little.
pub(super) struct Patience {
    left: u64,
    step_max: u64,
    /// The clock at the last check.
    pub(super) now: u64,
}

impl Patience {
    fn new(clock: &Tsc, ns: f64) -> Patience {
        let ticks = |ns: f64| (ns * clock.ticks_per_ns()) as u64;
        Patience { left: ticks(ns), step_max: ticks(STEP_NS), now: clock.ticks() }
    }

    /// Reads the clock. Returns true if the time is over.
    #[inline]
    pub(super) fn is_over(&mut self, clock: &Tsc) -> bool {
        let now = clock.ticks();
        self.left = self.left.saturating_sub(now.wrapping_sub(self.now).min(self.step_max));
        self.now = now;
        self.left == 0
    }
}
