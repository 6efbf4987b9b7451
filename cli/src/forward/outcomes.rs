//! The outcomes of reloads and recordings, which scrapers read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// The outcomes of a run so far. Any thread may read them.
pub struct Outcomes {
    is_refused: AtomicBool,
    /// Milliseconds since 1970 at which a configuration was last taken, first at the start.
    taken: AtomicU64,
    failed_recordings: AtomicU64,
}

impl Default for Outcomes {
    /// The outcomes of a run that starts now, whose configuration is good.
    fn default() -> Outcomes {
        let (is_refused, failed_recordings) = Default::default();
        Outcomes { is_refused, taken: AtomicU64::new(now()), failed_recordings }
    }
}

impl Outcomes {
    /// Notes the end of a reload.
    pub fn reloaded(&self, is_taken: bool) {
        self.is_refused.store(!is_taken, Relaxed);
        if is_taken {
            self.taken.store(now(), Relaxed);
        }
    }

    /// Returns true if the last reload was taken, or there was none.
    pub fn is_configuration_taken(&self) -> bool {
        !self.is_refused.load(Relaxed)
    }

    /// Returns the time since 1970 at which a configuration was last taken.
    pub fn taken(&self) -> Duration {
        Duration::from_millis(self.taken.load(Relaxed))
    }

    /// Counts a recording that could not be written.
    pub fn recording_failed(&self) {
        self.failed_recordings.fetch_add(1, Relaxed);
    }

    /// Returns the number of recordings that could not be written.
    pub fn failed_recordings(&self) -> u64 {
        self.failed_recordings.load(Relaxed)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
