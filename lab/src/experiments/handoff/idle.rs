//! A forwarder without traffic: the share of a core that it uses while it sleeps, and the delay of the packet that
//! wakes it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netmem::forward::{CrossConnect, Forwarder, Idle};
use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};

use crate::bench::{Bench, SetUpError};
use crate::experiments::check_all_freed;
use crate::json::{Params, params};
use crate::method::clock::{Clock, Tsc};
use crate::method::round::{Label, Series};
use crate::method::window::{Window, Windows};
use crate::metric::Metric;

/// Number of packets that each find the forwarder asleep.
const WAKE_UPS: usize = 200;

/// The time for which its share of the core is measured.
const WATCHED: Duration = Duration::from_secs(1);

/// The maximum share of a core, in percent, of a sleeping forwarder.
const SHARE_MAX: f64 = 2.0;

/// A packet that takes longer than this is lost.
const PATIENCE: Duration = Duration::from_secs(10);

const BYTES: usize = 64;

/// The measurements of the network.
struct Seen {
    /// Percent of a core.
    share: f64,
    waits: Vec<Window>,
    lost: usize,
}

/// Measures a forwarder that sleeps on `core`.
pub(super) fn measure(bench: &mut Bench<'_>, core: usize) -> Result<(), SetUpError> {
    let memory = Memory::new(&MemoryConfig::default()).map_err(SetUpError::at("memory"))?;
    let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
    let pool = Pool::new(&memory, &mut worker, &PoolConfig::default()).map_err(SetUpError::at("pool"))?;
    let link = |name| MemPort::pair(name, &MemConfig::default()).map_err(SetUpError::at("wire"));
    let ((port_in, from), (port_out, to)) = (link("0")?, link("1")?);
    let ports: Vec<Box<dyn Port>> = vec![Box::new(port_in), Box::new(port_out)];
    let mut forwarder =
        Forwarder::new(ports, pool.clone(), Box::new(CrossConnect)).map_err(SetUpError::at("forwarder"))?;
    forwarder.set_idle(Idle::Sleep);
    let (stop, cpu_ns, clock) = (AtomicBool::new(false), AtomicU64::new(0), bench.clock);
    let meters = forwarder.meters();
    let mut devices = [from, to];
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            // If it cannot be pinned, it is measured where it runs.
            let _ = netmem::system::cpu::pin(core);
            let before = cpu_time();
            forwarder.run(&mut worker, &stop);
            cpu_ns.store(cpu_time().saturating_sub(before), Ordering::Relaxed);
        });
        thread::sleep(WATCHED);
        stop.store(true, Ordering::Relaxed);
    });
    let share = 100.0 * cpu_ns.load(Ordering::Relaxed) as f64 / begun.elapsed().as_nanos() as f64;
    stop.store(false, Ordering::Relaxed);
    let (waits, lost) = thread::scope(|scope| {
        scope.spawn(|| {
            let _ = netmem::system::cpu::pin(core);
            forwarder.run(&mut worker, &stop);
        });
        let waits = wake_ups(&clock, &mut devices, || meters.sleeps.get());
        stop.store(true, Ordering::Relaxed);
        waits
    });
    report(bench, Seen { share, waits, lost });
    drop((forwarder, devices));
    check_all_freed(bench, "a sleeping forwarder", &pool);
    Ok(())
}

/// Returns the CPU time of the calling thread in nanoseconds, or 0 if the kernel does not report it.
fn cpu_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// Sends a packet each time the forwarder has gone to sleep. Returns the time of each, and the number of lost
/// packets.
fn wake_ups(clock: &Tsc, [from, to]: &mut [MemDevice; 2], sleeps: impl Fn() -> u64) -> (Vec<Window>, usize) {
    let (mut waits, mut lost) = (Vec::new(), 0);
    for _ in 0..WAKE_UPS {
        let (before, begun) = (sleeps(), Instant::now());
        while sleeps() == before && begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
        // It counts a sleep before the sleep begins.
        thread::sleep(Duration::from_micros(100));
        let (sent, begun) = (clock.ticks(), Instant::now());
        from.deliver(1, |_| BYTES);
        while to.collect(1, |_| ()) == 0 && begun.elapsed() < PATIENCE {}
        let ticks = clock.ticks().wrapping_sub(sent);
        // Confirms that it was sent.
        to.collect(1, |_| ());
        lost += usize::from(begun.elapsed() >= PATIENCE);
        waits.push(Window { ticks, ops: 1, steps: 1, longest_step: ticks });
    }
    (waits, lost)
}

fn report(bench: &mut Bench<'_>, seen: Seen) {
    let Seen { share, waits, lost } = seen;
    let sleeping = || Label { variant: "netmem/sleep".to_owned(), params: parameters() };
    bench.figure(sleeping(), Metric::Percent, share, None);
    let Windows { per_op, paused, starved, .. } = Windows::without_pauses(&waits, 0.0);
    bench.row(&Series { per_op, paused, starved, ..Series::new(sleeping()) }, Metric::LatencyNs, None);
    bench.check(
        "a sleeping forwarder takes less than 2 % of a core",
        share > 0.0 && share < SHARE_MAX,
        format!("{share:.3} % over {} s", WATCHED.as_secs()),
    );
    bench.check("every packet wakes it", lost == 0, format!("{lost} of {} lost", waits.len()));
}

fn parameters() -> Params {
    params([
        ("work", "forward".into()),
        ("burst", 1.into()),
        ("cores", "cross".into()),
        ("bytes", BYTES.into()),
        ("touch", false.into()),
        ("idle", "sleep".into()),
    ])
}
