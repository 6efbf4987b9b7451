//! Routes that change while a worker looks others up.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use ipnet::IpNet;
use netmem::system::cpu;
use netmem_router::route::{FibControl, FibEntry, FibReader, Rib, RibRoute, fib};

use super::label;
use super::routes::{Family, Way};
use super::tables::{Loaded, hop, route};
use crate::bench::{Bench, Comparison, Cores};
use crate::method::round::Variant;
use crate::method::window::OpLoop;
use crate::metric::Metric;

/// Routes that are taken out and put back, over and over.
const CHANGED: usize = 4_096;

/// Routes that change together, as in a burst of the kernel's messages.
const BURST: usize = 64;

/// Lookups between two checks for a new table: a worker's burst.
const LOOKUPS: usize = 32;

/// The thread that changes the table.
struct Writer {
    rib: Rib,
    control: FibControl,
    changed: Vec<RibRoute>,
    /// Changes so far.
    done: usize,
    /// Whether the last check found a copy that was still in use, and how often that began: each time the whole table
    /// was copied.
    held: bool,
    copies: usize,
}

impl Writer {
    /// Removes the next burst of routes, or adds it again.
    fn change_burst(&mut self) {
        let at = self.done % CHANGED;
        let takes_out = self.takes_out();
        for route in &self.changed[at..at + BURST] {
            if takes_out {
                self.rib.remove(route)
            } else {
                self.rib.insert(route)
            };
        }
        self.control.apply(self.rib.take_changes());
        self.done += BURST;
        let held = self.control.held_back() > 0;
        self.copies += usize::from(held && !self.held);
        self.held = held;
    }

    /// Whether the next change removes routes.
    fn takes_out(&self) -> bool {
        (self.done / CHANGED).is_multiple_of(2)
    }

    /// Returns the number of removed routes.
    fn out(&self) -> usize {
        if self.takes_out() { self.done % CHANGED } else { CHANGED - self.done % CHANGED }
    }
}

/// The state of the worker that looks up, and its counts.
#[derive(Default)]
struct Worker {
    looks_up: AtomicBool,
    over: AtomicBool,
    lookups: AtomicU64,
    wrong: AtomicU64,
    tables: AtomicU64,
}

impl Worker {
    /// Waits until it has looked up something in another table than the first one, or until `is_gone`. It may not have
    /// had a core yet.
    fn wait_for_a_look(&self, is_gone: impl Fn() -> bool) {
        self.looks_up.store(true, Ordering::Relaxed);
        let is_blind = || [&self.lookups, &self.tables].iter().any(|seen| seen.load(Ordering::Relaxed) == 0);
        while is_blind() && !is_gone() {
            thread::yield_now();
        }
    }

    /// Looks up routes that do not change, and takes every new table. Relaxed throughout: counters and requests carry
    /// no data.
    fn run(&self, mut reader: FibReader, expected: &[(IpAddr, FibEntry)]) {
        let mut turn = expected.iter().cycle();
        while !self.over.load(Ordering::Relaxed) {
            if self.looks_up.load(Ordering::Relaxed) {
                let is_wrong = |(to, is): &&(IpAddr, FibEntry)| hop(reader.fib(), *to) != Some(is);
                let wrong = turn.by_ref().take(LOOKUPS).filter(is_wrong).count();
                self.wrong.fetch_add(wrong as u64, Ordering::Relaxed);
                self.lookups.fetch_add(LOOKUPS as u64, Ordering::Relaxed);
            }
            self.tables.fetch_add(reader.refresh().into(), Ordering::Relaxed);
        }
    }
}

/// Measures the cost of a change, while a worker on another core only takes the new tables, and while it also looks up.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    family: Family,
    routes: &[(IpNet, Way)],
    loaded: Loaded,
    to: &[IpAddr],
) {
    let name = family.name();
    let Some(&core) = bench.cores.get(1) else {
        bench.note(format!("{name}: no row of changes: the worker that looks up needs a second core"));
        return;
    };
    let changed: Vec<_> = routes.iter().take(CHANGED).map(|each| route(family, *each)).collect();
    if changed.len() < CHANGED {
        bench.note(format!("{name}: no row of changes: there are fewer than {CHANGED} routes to change"));
        return;
    }
    let stays = |to: &IpAddr| changed.iter().all(|route| !route.prefix.contains(to));
    let expected = to.iter().copied().take(CHANGED).filter(stays);
    let expected: Vec<_> = expected.filter_map(|to| Some((to, *hop(&loaded.fib, to)?))).collect();
    let (control, reader) = fib(loaded.fib);
    let writer = Writer { rib: loaded.rib, control, changed, done: 0, held: false, copies: 0 };
    let (writer, worker) = (RefCell::new(writer), Worker::default());
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Without the pin it would share the caller's core, which is slower and equally correct.
            let _ = cpu::pin(core);
            worker.run(reader, &expected);
        });
        measure_beside(bench, (family, routes.len()), &writer, &worker);
        if writer.borrow().done > 0 {
            worker.wait_for_a_look(|| thread.is_finished() || bench.stopped());
        }
        worker.over.store(true, Ordering::Relaxed);
    });
    let writer = writer.into_inner();
    let [lookups, wrong, tables] =
        [&worker.lookups, &worker.wrong, &worker.tables].map(|counter| counter.load(Ordering::Relaxed));
    let there = writer.rib.len() + writer.out();
    bench.check_done(
        &format!("{name}: no lookup goes wrong while routes change"),
        lookups > 0 && tables > 0 || writer.done == 0,
        wrong == 0 && there == routes.len(),
        format!(
            "{wrong} of {lookups} lookups in {tables} tables; {} changes, {} copies of the whole table for a worker that \
             was away",
            writer.done, writer.copies
        ),
    );
}

/// Measures the rows.
fn measure_beside(
    bench: &mut Bench<'_>,
    (family, count): (Family, usize),
    writer: &RefCell<Writer>,
    worker: &Worker,
) {
    let clock = bench.clock;
    let variant = |looks_up: bool| -> Box<dyn Variant + '_> {
        let mut label = label("netmem", family, count, "change, per route");
        let does = if looks_up { "looks up" } else { "takes new tables" };
        label.params.extend([("burst".to_owned(), BURST.into()), ("worker".to_owned(), does.into())]);
        let body = move |ops: u32| {
            worker.looks_up.store(looks_up, Ordering::Relaxed);
            (0..ops as usize / BURST).for_each(|_| writer.borrow_mut().change_burst());
        };
        let bursts = OpLoop::of(BURST as u32, label, &clock, Box::new(body));
        Box::new(bursts)
    };
    let mut variants = vec![variant(true), variant(false)];
    let effort = bench.effort().shared_by(4);
    let comparison = Comparison { a: 0, b: 1, metric: Metric::NsPerOp };
    let series = bench.measure_with(&mut variants, &[comparison], Cores::Cross, effort);
    series.iter().for_each(|series| bench.row(series, Metric::NsPerOp, None));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_no_more_is_not_waited_for() {
        let worker = Worker::default();
        worker.wait_for_a_look(|| true);
        assert!(worker.looks_up.load(Ordering::Relaxed));
        // A worker that looks up is waited for until it has seen both.
        thread::scope(|scope| {
            let looks = scope.spawn(|| {
                worker.lookups.store(1, Ordering::Relaxed);
                worker.tables.store(1, Ordering::Relaxed);
            });
            worker.wait_for_a_look(|| false);
            looks.join().unwrap();
        });
        assert_eq!(worker.tables.load(Ordering::Relaxed), 1);
    }
}
