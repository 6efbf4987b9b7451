//! A run, from its first packet to its last frame.
//!
//! The end has an order: the generator stops; the forwarder drains while the sink keeps collecting; the sink
//! stops; the ports are dropped; the ledger is read; the pool is closed and waited for.

use super::forwarding::{cores, forward, pin};
use super::holding::{HolderReport, Holding, TapReport};
use super::hooks::Hooks;
use super::live::Live;
use super::network::{Network, Traveled};
use super::phases::Phases;
use super::plan::Plan;
use super::report::{PortReport, Report};
use super::set_up::Dataplane;
use crate::failure::Failure;
use netmem::forward::Forwarder;
use netmem::packet::Pairs;
use netmem::sync::Worker;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// How often the main thread looks whether it is time to stop.
const TICK: Duration = Duration::from_millis(20);
/// How often the forwarder is asked how its ports are.
const LOOK: Duration = Duration::from_secs(1);
/// How long frames may take home once the ports are closed.
const HOME: Duration = Duration::from_secs(2);

/// What the threads came back with.
struct Ran {
    traveled: Option<Traveled>,
    holder: Option<HolderReport>,
    tap: Option<TapReport>,
    seconds: f64,
    /// The forwarder's core and the network's, where they were pinned.
    cores: [Option<usize>; 2],
}

/// Forwards as planned until the time, the packets or `stop` end it.
///
/// # Errors
/// [`Failure::Run`] if a thread of the run died.
pub fn run(dataplane: Dataplane, plan: &Plan, stop: &AtomicBool) -> Result<Report, Failure> {
    let Dataplane { memory, pool, mut worker, mut forwarder, network, holding, hooks, details, control } =
        dataplane;
    let meters = forwarder.meters();
    let mut live = Live::new(&forwarder, &pool, plan.live);
    // The first round fills the rings of ports that came empty, so that the first packet finds a frame.
    forwarder.poll(&mut worker);
    let ran = threads((&mut forwarder, &mut worker), (network, holding), &mut live, plan, stop)?;
    live.clear();
    // Before the pool is closed: the board holds handles of it.
    drop(control);

    let ports = forwarder.ports().zip(details);
    let mut ports = ports.map(|(port, detail)| PortReport::new(port, detail)).collect::<Vec<_>>();
    drop(forwarder);
    let filter = hooks.as_ref().and_then(Hooks::report);
    let pairs = hooks.as_ref().and_then(|hooks| hooks.pairs.as_ref()).map(Pairs::stats);
    drop(hooks);
    // What closing the ports completed counts as well.
    ports.iter_mut().for_each(PortReport::read_counters);
    let pools = vec![pool.ledger()];
    let still_out = pool.wait(HOME).err();
    drop(worker);
    Ok(Report {
        mode: plan.mode,
        path: plan.path(),
        seconds: ran.seconds,
        cores: ran.cores,
        traveled: ran.traveled,
        received: meters.received.get(),
        transmitted: meters.transmitted.get(),
        held: meters.held.get(),
        passed: meters.passed.get(),
        holder: ran.holder,
        tap: ran.tap,
        completed: meters.completed.get(),
        filter,
        pairs,
        dropped: meters.drops.iter().map(|(reason, frames)| (reason.name(), frames)).collect(),
        windows: meters.windows.quantiles(),
        ports,
        pools,
        still_out,
        bytes: memory.bytes(),
        backing: memory.region().backing().to_string(),
    })
}

/// Runs the forwarder, the network and the holder, each on its own thread, and watches them from this one.
fn threads(
    (forwarder, worker): (&mut Forwarder, &mut Worker),
    (network, holding): (Option<Network>, Option<Holding>),
    live: &mut Live,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<Ran, Failure> {
    let phases = &Phases::new(network.is_none());
    let meters = forwarder.meters();
    let meters = &*meters;
    let (core, far_core) = cores();
    thread::scope(|scope| {
        let network =
            network.map(|network| scope.spawn(move || (pin(far_core), network.run(phases, meters))));
        let holding = holding.map(|holding| scope.spawn(move || holding.run(phases)));
        let forwarding = scope.spawn(move || {
            let core = pin(core);
            forward(forwarder, worker, phases);
            core
        });
        let seconds = watch(phases, plan, stop, live, || !forwarding.is_finished());
        phases.stop_forwarding();
        let forwarded = forwarding.join();
        phases.drained();
        let traveled = network.map(|network| network.join()).transpose();
        let holder = holding.map(|holding| holding.join()).transpose();
        let (holder, tap) = holder.map_err(|_| Failure::run("the holder's thread died"))?.unwrap_or_default();
        let core = forwarded.map_err(|_| Failure::run("the forwarder's thread died"))?;
        let traveled = traveled.map_err(|_| Failure::run("the generator's thread died"))?;
        let far_core = traveled.as_ref().and_then(|(core, _)| *core);
        let traveled = traveled.map(|(_, traveled)| traveled);
        Ok(Ran { traveled, holder, tap, seconds, cores: [core, far_core] })
    })
}

/// Waits for the end, whatever brings it, and for the generator to stop; gives the seconds until then.
fn watch(phases: &Phases, plan: &Plan, stop: &AtomicBool, live: &mut Live, alive: impl Fn() -> bool) -> f64 {
    let begun = Instant::now();
    let mut looked = begun;
    while !stop.load(Relaxed) && alive() && !phases.is_sending_over() {
        let elapsed = begun.elapsed();
        let left = plan.time.map_or(TICK, |time| time.saturating_sub(elapsed));
        if left.is_zero() {
            break;
        }
        thread::park_timeout(left.min(TICK));
        live.tick(&phases.states());
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            phases.ask_to_look_up();
        }
    }
    phases.stop_sending();
    while !phases.is_alone() && !phases.is_sending_over() {
        thread::yield_now();
    }
    begun.elapsed().as_secs_f64()
}
