//! The distance between the two cores of a comparison.
//!
//! A hypervisor moves virtual processors while CPUID says the same of them. Two of them may be threads of one core,
//! share the third-level cache, or share nothing. A line takes from one to the other ten times as long in the last case
//! as in the first, so a ratio across cores depends on the machine's state too. This measures the state before and
//! after each variant's turn in a round.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::quantile::median;

/// The parameter that names the [`Placement`] of a ratio. A ratio without it counts all rounds.
pub const PARAMETER: &str = "placement";

/// Groups of round trips. The median over groups is not affected by a pause.
const GROUPS: u64 = 21;

/// Round trips in a group.
const TRIPS: u64 = 16;

/// The first number of the other side. Its numbers are even, and the answer to each is the next number.
const BEGUN: u64 = 2;

/// The last number of either side.
const OVER: u64 = u64::MAX;

/// How far apart two cores are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// A line is there and back in less than 50 ns: two threads of one core.
    OneCore,
    /// In less than 200 ns: two cores that share a cache or an interconnect on one die.
    Near,
    /// In 200 ns or more: two dies or two sockets.
    Far,
}

impl Placement {
    /// Every placement, the nearest first.
    pub const ALL: [Self; 3] = [Self::OneCore, Self::Near, Self::Far];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneCore => "one core",
            Self::Near => "near",
            Self::Far => "far",
        }
    }

    /// Returns the placement in which a line takes `ns` nanoseconds there and back.
    pub fn of_round_trip(ns: f64) -> Self {
        match ns {
            ..50.0 => Self::OneCore,
            ..200.0 => Self::Near,
            _ => Self::Far,
        }
    }
}

/// The line that both sides write. It holds nothing else.
#[repr(align(128))]
struct Line(AtomicU64);

impl Line {
    /// Waits for `number`. Returns false if the other side has ended.
    fn awaits(&self, number: u64) -> bool {
        loop {
            // Relaxed, here and at each store: the number is all that is passed.
            match self.0.load(Ordering::Relaxed) {
                OVER => return false,
                seen if seen == number => return true,
                _ => spin_loop(),
            }
        }
    }

    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// Returns the nanoseconds that a line takes from this core to `peer` and back: the median of some hundred round
/// trips. Returns `None` if no thread could be pinned there.
pub fn round_trip(peer: usize) -> Option<f64> {
    let line = &Line(AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(move || {
            if netmem::system::cpu::pin(peer).is_err() {
                return line.set(OVER);
            }
            let mut number = BEGUN;
            line.set(number);
            while line.awaits(number + 1) {
                number += 2;
                line.set(number);
            }
        });
        if !line.awaits(BEGUN) {
            return None;
        }
        let groups = (0..GROUPS).map(|group| {
            let begun = Instant::now();
            let came_back = (0..TRIPS).all(|trip| {
                let number = BEGUN + 2 * (group * TRIPS + trip);
                line.set(number + 1);
                line.awaits(number + 2)
            });
            came_back.then(|| begun.elapsed().as_nanos() as f64 / TRIPS as f64)
        });
        let groups: Option<Vec<f64>> = groups.collect();
        line.set(OVER);
        median(&groups?)
    })
}

/// Returns the note of a report about the placements of its rounds across cores, or `None` if there are none.
pub fn note(placements: &[Option<Placement>]) -> Option<String> {
    let share = |placement: Option<Placement>| {
        let rounds = placements.iter().filter(|seen| **seen == placement).count();
        100.0 * rounds as f64 / placements.len() as f64
    };
    let [one_core, near, far] = Placement::ALL.map(|placement| share(Some(placement)));
    (!placements.is_empty()).then(|| {
        format!(
            "the two cores, by the round trip of a line before and after each variant's turn: one core (under 50 ns) in \
             {one_core:.0} % of the turns, near (under 200 ns) in {near:.0} %, far in {far:.0} %, moved in {:.0} %; \
             a ratio with the parameter placement counts only the rounds in which both sides had that placement",
            share(None)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_falls_into_the_placement_of_its_duration() {
        for (ns, placement) in [
            (33.0, Placement::OneCore),
            (50.0, Placement::Near),
            (87.0, Placement::Near),
            (200.0, Placement::Far),
            (507.0, Placement::Far),
        ] {
            assert_eq!(Placement::of_round_trip(ns), placement, "{ns}");
        }
    }

    #[test]
    fn the_note_has_the_share_of_each_placement() {
        let [near, far] = [Some(Placement::Near), Some(Placement::Far)];
        let note = note(&[near, near, far, None]).unwrap();
        for share in ["50 ns) in 0 %", "200 ns) in 50 %", "far in 25 %", "moved in 25 %"] {
            assert!(note.contains(share), "{note}");
        }
        assert_eq!(super::note(&[]), None);
    }

    #[test]
    fn a_line_goes_to_another_core_and_back() {
        let own = netmem::system::cpu::allowed().unwrap();
        let trip = own.last().and_then(|&core| round_trip(core));
        assert!(trip.is_some_and(|ns| ns > 0.0), "{trip:?}");
        assert_eq!(round_trip(usize::MAX), None, "there is no such core");
    }
}
