//! The carriers of the ports' interfaces, as the main thread last saw them. A port whose interface is up stays up without a
//! carrier: packets may still wait in it, and it carries frames again as soon as there is one.

use crate::log::Level;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// The values of [`Carrier::seen`].
const UNKNOWN: u8 = 0;
const ABSENT: u8 = 1;
const PRESENT: u8 = 2;
/// The interface had a carrier when it was set down.
const DOWN: u8 = 3;

/// The carrier of each port, in the order of the ports. A clone is another handle.
#[derive(Debug, Clone, Default)]
pub struct Carriers(Arc<[Carrier]>);

/// The carrier of a port's interface.
#[derive(Debug, Default)]
struct Carrier {
    seen: AtomicU8,
    /// Number of looks that found none after one that found it, while the interface was up.
    losses: AtomicU64,
    /// The last value of `seen` other than [`UNKNOWN`], or [`DOWN`].
    known: AtomicU8,
}

impl Carriers {
    /// Makes the carriers of this many ports, of which nothing is known.
    pub fn of(ports: usize) -> Carriers {
        Carriers((0..ports).map(|_| Carrier::default()).collect())
    }

    /// Returns whether the interface of a port has a carrier. None if it is down or gone, or the port has no interface.
    pub fn of_port(&self, port: usize) -> Option<bool> {
        match self.0.get(port)?.seen.load(Relaxed) {
            UNKNOWN => None,
            seen => Some(seen == PRESENT),
        }
    }

    /// Returns how often the interface of a port was seen to lose its carrier. None if none of it was seen so far.
    pub fn losses(&self, port: usize) -> Option<u64> {
        let carrier = self.0.get(port).filter(|carrier| carrier.known.load(Relaxed) != UNKNOWN)?;
        Some(carrier.losses.load(Relaxed))
    }

    /// Records what a look at the interface `name` of a port found. Returns a line if it was otherwise before, which says if
    /// the port is up.
    pub fn see(
        &self,
        number: usize,
        (now, is_up): (Option<bool>, bool),
        (port, name): (&str, &str),
    ) -> Option<(Level, String)> {
        let carrier = self.0.get(number)?;
        let seen = match now {
            None => UNKNOWN,
            Some(false) => ABSENT,
            Some(true) => PRESENT,
        };
        carrier.seen.store(seen, Relaxed);
        if seen == UNKNOWN {
            // An interface that is set up again gets its carrier a moment later. That is no loss.
            let _ = carrier.known.compare_exchange(PRESENT, DOWN, Relaxed, Relaxed);
            return None;
        }
        let before = carrier.known.swap(seen, Relaxed);
        match (before, seen) {
            (UNKNOWN | DOWN | PRESENT, ABSENT) => {
                carrier.losses.fetch_add(u64::from(before == PRESENT), Relaxed);
                let why = format!("there is no cable at interface {name}, or its other end is down");
                let up = if is_up { " is up," } else { ":" };
                Some((Level::Warning, format!("port {port}{up} no carrier: {why}")))
            }
            (ABSENT, PRESENT) => {
                let up = if is_up { " is up, and" } else { ":" };
                Some((Level::Info, format!("port {port}{up} its interface {name} has a carrier again")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: the peer of a port's interface was set down, and no line, counter or state told.
    #[test]
    fn a_carrier_that_goes_and_comes_back_has_a_line_each_and_is_counted() {
        let carriers = Carriers::of(2);
        let see = |now| carriers.see(1, (now, true), ("packet:eth0", "eth0")).map(|(_, line)| line);
        assert_eq!(carriers.of_port(1), None);
        assert_eq!(see(Some(true)), None);
        let none = see(Some(false)).expect("a line");
        assert!(none.starts_with("port packet:eth0 is up, no carrier: "), "{none}");
        assert_eq!((see(Some(false)), carriers.of_port(1), carriers.losses(1)), (None, Some(false), Some(1)));
        // Whether it has one is not known while it is down.
        assert_eq!((see(None), carriers.of_port(1)), (None, None));
        let again = "port packet:eth0 is up, and its interface eth0 has a carrier again";
        assert_eq!(see(Some(true)).as_deref(), Some(again));
        assert_eq!((carriers.of_port(1), carriers.losses(1)), (Some(true), Some(1)));
        assert!(see(Some(false)).is_some());
        assert_eq!((carriers.losses(1), carriers.losses(0), carriers.of_port(9)), (Some(2), None, None));
    }

    #[test]
    fn an_interface_without_a_carrier_at_the_first_look_has_a_line_too() {
        let carriers = Carriers::of(1);
        assert!(carriers.see(0, (Some(false), true), ("tap:t0", "t0")).is_some());
        assert_eq!((carriers.of_port(0), carriers.losses(0)), (Some(false), Some(0)));
    }

    /// Found in a review: `ip link set eth0 down` and `up` counted as a loss of the carrier, and the line said that the port was up.
    #[test]
    fn an_interface_that_is_set_down_and_up_loses_no_carrier() {
        let carriers = Carriers::of(1);
        let see = |now| carriers.see(0, (now, false), ("xdp:eth0", "eth0")).map(|(_, line)| line);
        assert_eq!((see(Some(true)), see(None), see(None), see(Some(true))), (None, None, None, None));
        assert_eq!(see(None), None);
        let none = see(Some(false)).expect("a line");
        assert!(none.starts_with("port xdp:eth0: no carrier: there is no cable"), "{none}");
        assert_eq!(carriers.losses(0), Some(0), "it came up without one");
        assert_eq!(see(Some(true)).as_deref(), Some("port xdp:eth0: its interface eth0 has a carrier again"));
        assert!(see(Some(false)).is_some());
        assert_eq!(carriers.losses(0), Some(1));
    }
}
