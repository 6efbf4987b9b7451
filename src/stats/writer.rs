//! The writer and the readers of counters.

use super::{Count, Stopwatch, Windows};
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

/// Counters `T` and the right to write them, for their only writer. All other threads get a [`Writer::reader`].
///
/// It is for ports, devices and other parts made outside of this library. The library keeps its own counters in the
/// same way.
///
/// ```
/// use netmem::port::PortCounters;
/// use netmem::stats::Writer;
///
/// let counters = Writer::<PortCounters>::default();
/// let reader = counters.reader();
/// counters.add(|counters| &counters.rx, 32);
/// assert_eq!((reader.rx.get(), counters.rx.get()), (32, 32));
/// ```
/// A reader cannot write:
/// ```compile_fail,E0624
/// # use netmem::{port::PortCounters, stats::Writer};
/// let reader = Writer::<PortCounters>::default().reader();
/// reader.rx.add(32);
/// ```
/// ```compile_fail,E0624
/// # use netmem::{port::PortCounters, stats::Writer};
/// let reader = Writer::<PortCounters>::default().reader();
/// reader.rx.set(0);
/// ```
#[derive(Debug, Default)]
pub struct Writer<T>(Arc<T>);

impl<T> Writer<T> {
    /// Makes the right to write `counters`.
    pub fn new(counters: T) -> Writer<T> {
        Writer(Arc::new(counters))
    }

    /// The same counters, for reading from any thread.
    pub fn reader(&self) -> Arc<T> {
        Arc::clone(&self.0)
    }

    /// Adds `n` to the counter that `pick` returns.
    ///
    /// # Panics
    /// Panics if it is not one of these counters.
    ///
    /// # Cost
    /// A load and a store, no locked instruction.
    #[inline]
    pub fn add(&self, pick: impl FnOnce(&T) -> &Count, n: u64) {
        self.own(pick).add(n);
    }

    /// Replaces the value of the counter that `pick` returns.
    ///
    /// # Panics
    /// Panics if it is not one of these counters.
    #[inline]
    pub fn set(&self, pick: impl FnOnce(&T) -> &Count, value: u64) {
        self.own(pick).set(value);
    }

    /// Returns the counter that `pick` returns, which must lie within these: another one could be leaked and returned
    /// here.
    #[inline]
    fn own(&self, pick: impl FnOnce(&T) -> &Count) -> &Count {
        let count = pick(&self.0);
        let offset = ptr::from_ref(count).addr().wrapping_sub(Arc::as_ptr(&self.0).addr());
        assert!(offset < size_of::<T>(), "a writer writes no counters but its own");
        count
    }
}

impl Writer<Windows> {
    /// Records that the time since the last mark was work, in which `items` were done (0 if the work was for earlier
    /// items). None means that the time was idle and does not count. `now` is the clock's ticks.
    #[inline]
    pub fn mark(&self, watch: &mut Stopwatch, now: u64, items: Option<u64>) {
        self.0.mark(watch, now, items);
    }
}

impl<T> Deref for Writer<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Two {
        first: Count,
        second: Count,
    }

    #[test]
    fn a_reader_sees_what_the_writer_wrote_of_each_counter() {
        let writer = Writer::<Two>::default();
        let reader = writer.reader();
        writer.add(|two| &two.first, 3);
        writer.add(|two| &two.second, 4);
        writer.set(|two| &two.first, 7);
        assert_eq!((reader.first.get(), reader.second.get(), writer.second.get()), (7, 4, 4));
    }

    #[test]
    #[should_panic(expected = "no counters but its own")]
    fn the_counter_of_another_writer_is_not_written() {
        let others: &'static Two = Box::leak(Box::default());
        Writer::<Two>::default().add(|_| &others.first, 1);
    }
}
