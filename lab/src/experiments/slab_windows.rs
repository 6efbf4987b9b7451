//! Two more kinds of variants: windows after an untimed preparation, and a loop while another core works.

use crate::bench::Effort;
use crate::method::clock::Clock;
use crate::method::poll::beside;
use crate::method::round::{Label, Variant};
use crate::method::window::{Window, Windows};

/// Returns the effort for each of a hundred cells and more: rounds divided by `part`, and few windows in each.
pub(super) fn short(effort: Effort, part: usize) -> Effort {
    Effort { rounds: effort.rounds.div_ceil(part), windows: effort.windows.div_ceil(3 * part) }
}

/// Work that must be prepared again before each window.
pub(super) trait Work {
    /// Untimed: restores the state at the beginning of a window.
    fn prepare(&mut self);

    /// Timed: does all of the work. Returns the number of operations.
    fn run(&mut self) -> u64;
}

/// A variant in which every window is one prepared piece of work.
pub(super) struct Prepared<'a, C: Clock> {
    label: Label,
    clock: &'a C,
    work: Box<dyn Work + 'a>,
}

impl<'a, C: Clock> Prepared<'a, C> {
    /// Takes `work`, whose size is the length of a window.
    pub(super) fn boxed(label: Label, clock: &'a C, work: impl Work + 'a) -> Box<dyn Variant + 'a> {
        Box::new(Self { label, clock, work: Box::new(work) })
    }

    fn window(&mut self) -> Window {
        self.work.prepare();
        let start = self.clock.ticks();
        let ops = self.work.run();
        let ticks = self.clock.ticks().wrapping_sub(start);
        Window { ticks, ops, steps: 1, longest_step: ticks }
    }
}

impl<C: Clock> Variant for Prepared<'_, C> {
    fn label(&self) -> &Label {
        &self.label
    }

    /// The first window loads the variant's own lines into the cache and does not count.
    fn round(&mut self, windows: usize) -> Windows {
        self.window();
        let taken: Vec<Window> = (0..windows).map(|_| self.window()).collect();
        Windows::without_pauses(&taken, 0.0)
    }
}

/// A variant with a `peer` that runs on another core during the measurement.
pub(super) struct Beside<'a> {
    variant: Box<dyn Variant + 'a>,
    core: Option<usize>,
    peer: Box<dyn FnMut() + Send + 'a>,
}

impl<'a> Beside<'a> {
    /// Puts `peer`, which is called repeatedly, onto `core`.
    pub(super) fn boxed(
        variant: Box<dyn Variant + 'a>,
        core: Option<usize>,
        peer: impl FnMut() + Send + 'a,
    ) -> Box<dyn Variant + 'a> {
        Box::new(Self { variant, core, peer: Box::new(peer) })
    }
}

impl Variant for Beside<'_> {
    fn label(&self) -> &Label {
        self.variant.label()
    }

    fn round(&mut self, windows: usize) -> Windows {
        let Self { variant, core, peer } = self;
        beside(*core, &mut **peer, || variant.round(windows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Params;
    use crate::method::clock::tests::Synthetic;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Preparation takes ten times as long as the work.
    struct Slow<'a>(&'a Synthetic, bool);

    impl Work for Slow<'_> {
        fn prepare(&mut self) {
            self.0.advance(5_000);
            self.1 = true;
        }

        fn run(&mut self) -> u64 {
            assert!(std::mem::take(&mut self.1), "a window without its preparation");
            self.0.advance(500);
            100
        }
    }

    fn label() -> Label {
        Label { variant: "netmem".into(), params: Params::new() }
    }

    #[test]
    fn a_short_run_has_at_least_one_round_and_one_window() {
        let effort = Effort { rounds: 21, windows: 48 };
        assert_eq!(short(effort, 2), Effort { rounds: 11, windows: 8 });
        let one = Effort { rounds: 1, windows: 1 };
        assert_eq!(short(one, 2), one);
    }

    #[test]
    fn preparation_is_not_timed() {
        let clock = Synthetic::default();
        let windows = Prepared::boxed(label(), &clock, Slow(&clock, false)).round(8);
        assert_eq!((windows.per_op, windows.paused), (vec![5.0; 8], 0));
    }

    #[test]
    fn the_peer_works_in_every_round_and_the_figures_are_the_variants() {
        let clock = Synthetic::default();
        let turns = AtomicU64::new(0);
        let alone = Prepared::boxed(label(), &clock, Slow(&clock, false));
        let mut both = Beside::boxed(alone, None, || {
            turns.fetch_add(1, Relaxed);
            std::thread::yield_now();
        });
        assert_eq!(both.round(4).per_op, [5.0; 4]);
        assert_eq!(both.label().variant, "netmem");
    }
}
