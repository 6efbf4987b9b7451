//! A run, from its first packet to its last frame.
//!
//! The end has an order. The generator stops. The forwarders drain while the sink keeps collecting. The sink stops.
//! The ports are dropped. The ledgers are read. The pools are closed and waited for.

use super::cores::pin;
use super::cuts::{Attendant, Cuts};
use super::forwarding::{forward, retire_on_drop};
use super::links::Links;
use super::live::Live;
use super::network::{Ended, Network, Traveled};
use super::own_addresses::Followed;
use super::phases::{LatestStatus, Phases};
use super::plan::Plan;
use super::recorder::RecordFile;
use super::reload::Reload;
use super::report::{IcmpReport, PortReport, Report, SteerReport, WorkerReport, dropped};
use super::retention::{LocalQueueReport, MirrorReport, RetentionThread};
use super::routing::Following;
use super::set_up::{Dataplane, Scraped};
use super::watchdog::Watchdog;
use super::worker_setup::{Owner, WorkerSetup};
use crate::claims::InterfaceClaims;
use crate::failure::Failure;
use crate::listening::Server;
use crate::log::{self, Level};
use crate::sandbox;
use crate::service::Service;
use crate::stop;
use crate::threads;
use netmem::forward::{Meters, SteeringControl};
use netmem::pool::{Ledger, Pool, StillOut};
use netmem::port::PortState;
use netmem::stats::Windows;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// The interval at which the main thread checks whether it is time to stop.
const TICK: Duration = Duration::from_millis(20);
/// The interval at which workers are asked for the states of their ports, and the host for its addresses.
const LOOK: Duration = Duration::from_secs(1);
/// The interval at which it checks whether workers that are to end have ended.
const SHORT: Duration = Duration::from_millis(1);
/// The time for frames to be freed once the ports are closed.
const HOME: Duration = Duration::from_secs(2);

/// The results of the threads.
struct Ran {
    traveled: Option<Traveled>,
    local_queue: Option<LocalQueueReport>,
    mirror: Option<MirrorReport>,
    seconds: f64,
    /// The cores of each worker and the network, if they were pinned.
    cores: Vec<Option<usize>>,
    network_core: Option<usize>,
}

/// The threads and data besides the workers: the network with its core, the local queue, the follower of routes,
/// the cuts, and the states of ports. The network lives until the ports are closed: a mem port without its device is down.
type Beside<'a> = (
    Option<&'a mut (Network, Option<usize>)>,
    Option<RetentionThread>,
    Option<Following>,
    Option<&'a Arc<Cuts>>,
    &'a LatestStatus,
);

/// The parts that are informed during the run, and those that are watched.
type Monitored<'a> =
    (&'a mut Live, &'a mut Followed, &'a mut Links, &'a mut Option<Reload>, &'a mut RecordFile);

/// The end of a run: the flag of a signal, the function to call before the process ends without a stuck worker, and the
/// claims that last until then.
type End<'a> = (&'a AtomicBool, &'a dyn Fn(), &'a InterfaceClaims);

/// Forwards as planned until the time, the packets or a signal end the run.
///
/// # Errors
/// [`Failure::NotNow`] if a thread of the run cannot be started: nothing was forwarded then. [`Failure::Run`] if one
/// died.
pub fn run(dataplane: Dataplane, plan: &Plan, end: End<'_>) -> Result<Report, Failure> {
    let Dataplane {
        memory,
        mut setups,
        mut network,
        mut own,
        mut links,
        retention,
        hooks,
        steering,
        following,
        mut reload,
        control,
        mut record_file,
        latest_status,
        scraped,
        copies: _,
    } = dataplane;
    let meters: Vec<_> = setups.iter().map(|setup| setup.forwarder.meters()).collect();
    let icmp: Vec<_> = setups.iter().map(|setup| Arc::clone(&setup.icmp.counters)).collect();
    let mut live = Live::new(&setups, plan.live);
    let ended = &Gone { meters: &meters, steering: steering.as_ref() };
    let monitored = (&mut live, &mut own, &mut links, &mut reload, &mut record_file);
    let beside = (network.as_mut(), retention, following, scraped.as_ref().map(|s| &s.cuts), &latest_status);
    let ran = threads(&mut setups, ended, beside, monitored, plan, end)?;
    say_no_more(live, (reload, control, scraped));
    let (filter, ready) = hooks.as_ref().map_or((None, None), |hooks| (hooks.report(), hooks.ready_stats()));
    let own_bytes = setups.iter().map(WorkerSetup::own_bytes).sum();
    let (ports, owners, pools) = close_ports(setups, &links);
    drop((hooks, network));
    let (pools, still_out) = close_pools(pools, owners);
    let sum = |count: fn(&Meters) -> u64| meters.iter().map(|meters| count(meters)).sum();
    Ok(Report {
        mode: plan.mode,
        path: plan.path(),
        seconds: ran.seconds,
        network_core: ran.network_core,
        traveled: ran.traveled,
        received: sum(|meters| meters.received.get()),
        icmp: IcmpReport::new(&icmp),
        transmitted: sum(|meters| meters.transmitted.get()),
        held: sum(|meters| meters.held.get()),
        passed: sum(|meters| meters.passed.get()),
        workers: ran.cores.iter().zip(&meters).map(|(&core, of)| WorkerReport::new(core, of)).collect(),
        local_queue: ran.local_queue,
        mirror: ran.mirror,
        completed: sum(|meters| meters.completed.get()),
        filter,
        ready,
        dropped: dropped(&meters, steering.as_ref()),
        steer: steering.as_ref().zip(plan.steer.as_ref()).map(|(of, mesh)| SteerReport::new(of, mesh)),
        windows: Windows::quantiles_of_all(meters.iter().map(|meters| &meters.windows)),
        ports,
        pools,
        still_out,
        bytes: memory.bytes(),
        own_bytes,
        backing: memory.region().backing().to_string(),
    })
}

/// Ends the parts that inform others, in this order, before the pools are closed: the registry has handles of the
/// pools. Clients of the registry may wait for the reload, so the reload ends first.
fn say_no_more(mut live: Live, others: (Option<Reload>, Option<Server>, Option<Scraped>)) {
    live.clear();
    drop(others);
}

/// Drops the forwarders and their ports. Frames completed by the close count as well. Returns the ports' reports,
/// the owners, and all pools.
fn close_ports(setups: Vec<WorkerSetup>, links: &Links) -> (Vec<PortReport>, Vec<Owner>, Vec<Pool>) {
    let pools = setups.iter().flat_map(WorkerSetup::pools).cloned().collect();
    let (mut reports, mut owners) = (Vec::new(), Vec::new());
    for (number, WorkerSetup { owner, forwarder, details, .. }) in setups.into_iter().enumerate() {
        let ports = forwarder.ports().zip(details).enumerate();
        reports.extend(
            ports.map(|(at, (port, detail))| PortReport::new(number, port, links.detail(at, detail))),
        );
        drop(forwarder);
        owners.push(owner);
    }
    reports.iter_mut().for_each(PortReport::read_counters);
    (reports, owners, pools)
}

/// Reads the ledgers, then closes the pools. Also returns the holders of the first pool whose frames are not all
/// freed.
fn close_pools(pools: Vec<Pool>, owners: Vec<Owner>) -> (Vec<Ledger>, Option<StillOut>) {
    let ledgers = pools.iter().map(Pool::ledger).collect();
    let still_out = pools.iter().filter_map(|pool| pool.close_and_wait(HOME).err()).next();
    drop((pools, owners));
    (ledgers, still_out)
}

/// The threads of a run. A thread that was called off before it began returns None.
struct Threads<'scope> {
    network: Option<Running<'scope, (Option<usize>, Traveled)>>,
    retention: Option<Running<'scope, (Option<LocalQueueReport>, Option<MirrorReport>)>>,
    following: Option<Running<'scope, Result<(), String>>>,
    /// Each with the core that it was pinned to.
    workers: Vec<Running<'scope, Option<usize>>>,
}

type Running<'scope, T> = ScopedJoinHandle<'scope, Option<T>>;

/// Starts the threads. Each waits for [`Phases::begin`].
///
/// # Errors
/// [`Failure::NotNow`] if one cannot be started. Those before it wait.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    setups: &'scope mut [WorkerSetup],
    ended: &'scope Gone<'_>,
    (network, retention, following, cuts, _): Beside<'scope>,
    phases: &'scope Phases,
) -> Result<Threads<'scope>, Failure> {
    let network = network.map(|(network, core)| {
        let run = move || {
            let core = pin(*core);
            phases.await_receiving();
            (core, network.run(phases, ended))
        };
        let body = move || phases.has_begun().then(run);
        threads::start(scope, "the generator", body)
    });
    let retention = retention.map(|retention| {
        threads::start(scope, "the local queue", move || phases.has_begun().then(|| retention.run(phases)))
    });
    let following = following.map(|following| {
        let body = move || phases.has_begun().then(|| following.run(phases));
        threads::start(scope, "the follower of routes", body)
    });
    let (network, retention) = (network.transpose()?, retention.transpose()?);
    let following = following.transpose()?;
    let workers = setups.iter_mut().enumerate().map(|(number, setup)| {
        let attendant = cuts.map(|cuts| Attendant::new(Arc::clone(cuts), number, setup.details.len()));
        let body = move || phases.has_begun().then(|| work(number, setup, phases, attendant));
        threads::start(scope, &format!("worker {number}"), body)
    });
    Ok(Threads { network, retention, following, workers: workers.collect::<Result<_, _>>()? })
}

/// Forwards as worker `number`. Returns the core that it was pinned to.
fn work(
    number: usize,
    setup: &mut WorkerSetup,
    phases: &Phases,
    mut attendant: Option<Attendant>,
) -> Option<usize> {
    let retires = retire_on_drop(number, phases);
    let WorkerSetup { owner, forwarder, core, .. } = setup;
    let core = pin(*core);
    sandbox::enter_worker();
    forwarder.poll(&mut owner.worker);
    phases.polled();
    forward(forwarder, &mut owner.worker, number, (phases, attendant.as_mut()), retires);
    core
}

/// Runs the workers, the network and the local queue, each on its own thread, and watches them from this one.
fn threads(
    setups: &mut [WorkerSetup],
    ended: &Gone<'_>,
    beside: Beside<'_>,
    monitored: Monitored<'_>,
    plan: &Plan,
    (stop, give_up, claims): End<'_>,
) -> Result<Ran, Failure> {
    let phases = &Phases::new(setups.len(), beside.0.is_none());
    let mut watchdog = Watchdog::new(setups, plan.watchdog);
    beside.3.into_iter().for_each(|cuts| cuts.begin(phases.status_request()));
    beside.4.begin(phases.status_request());
    thread::scope(|scope| {
        let _ending = phases.end_on_drop();
        let threads = start(scope, setups, ended, beside, phases);
        log::never_wait();
        phases.begin(threads.is_ok());
        let Threads { network, retention, following, workers } = threads?;
        let alive = || are_alive(&workers, following.as_ref(), retention.as_ref());
        let watched =
            unless_it_panics(|| watch(phases, plan, (stop, claims), (&mut watchdog, monitored), alive));
        // Again, if the watch panicked before it.
        phases.stop_sending();
        phases.stop_forwarding();
        await_end(&mut watchdog, &workers, give_up);
        let workers: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        log::may_wait();
        phases.drained();
        let seconds = watched?;
        let followed = following.map(|following| following.join()).transpose();
        let followed = followed.map_err(|why| died("the follower of routes", &*why))?.flatten();
        followed.transpose().map_err(Failure::run)?;
        let traveled = network.map(|network| network.join()).transpose();
        let local_queue = retention.map(|retention| retention.join()).transpose();
        let cores = workers.into_iter().enumerate().map(|(number, core)| {
            Ok(core.map_err(|why| died(&format!("worker {number}"), &*why))?.flatten())
        });
        let cores = cores.collect::<Result<_, _>>()?;
        let (local_queue, mirror) =
            local_queue.map_err(|why| died("the local queue", &*why))?.flatten().unwrap_or_default();
        let traveled = traveled.map_err(|why| died("the generator", &*why))?.flatten();
        let (network_core, traveled) = traveled.unzip();
        Ok(Ran { traveled, local_queue, mirror, seconds, cores, network_core: network_core.flatten() })
    })
}

/// Returns true while no worker, and neither the follower of routes nor the thread of the local queue, has ended by
/// itself.
fn are_alive<W, F, R>(
    workers: &[Running<'_, W>],
    following: Option<&Running<'_, F>>,
    retention: Option<&Running<'_, R>>,
) -> bool {
    !workers.iter().any(|worker| worker.is_finished())
        && !following.is_some_and(|of| of.is_finished())
        && !retention.is_some_and(|of| of.is_finished())
}

/// Waits for workers that are to end. If one never does, the process ends without it, with a line and the exit code
/// of a failed run: a thread cannot be taken out of a system call. Before that `give_up` restores the host.
fn await_end<T>(watchdog: &mut Watchdog, workers: &[ScopedJoinHandle<'_, T>], give_up: &dyn Fn()) {
    while !workers.iter().all(|worker| worker.is_finished()) {
        let stuck = watchdog.stuck(|worker| workers[worker].is_finished());
        if !stuck.is_empty() {
            log::may_wait();
            // The exit code of all failed runs is 1; the report is the line.
            let _ = Failure::Run(stuck).report();
            give_up();
            log::finish();
            process::exit(1);
        }
        thread::park_timeout(SHORT);
    }
}

/// Reads the number of packets that never come back to the generator.
struct Gone<'a> {
    meters: &'a [Arc<Meters>],
    steering: Option<&'a SteeringControl>,
}

impl Ended for Gone<'_> {
    fn of(&self, worker: usize) -> u64 {
        self.meters[worker].drops.total() + self.meters[worker].passed.get()
    }

    fn of_all(&self) -> u64 {
        let by_workers: u64 = (0..self.meters.len()).map(|worker| self.of(worker)).sum();
        by_workers + self.steering.map_or(0, |steering| steering.drops().total())
    }
}

/// Returns the failure of a thread that panicked with this message.
fn died(who: &str, why: &(dyn Any + Send)) -> Failure {
    let said = why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied());
    Failure::run(format!("{who} died: {}", said.unwrap_or("it said nothing")))
}

/// Watches by `watch`. If that panics, the run ends with this failure, and otherwise as any run: workers that nothing
/// watches would forward for good, since only this thread reads signals.
fn unless_it_panics(watch: impl FnOnce() -> f64) -> Result<f64, Failure> {
    // What it may have left half changed is only dropped afterwards, apart from the watchdog, which keeps only times.
    catch_unwind(AssertUnwindSafe(watch)).map_err(|why| died("the main thread", &*why))
}

/// Waits for the end of the run, whatever its cause, and for the generator to stop. Returns the seconds until then.
fn watch(
    phases: &Phases,
    plan: &Plan,
    (stop, claims): (&AtomicBool, &InterfaceClaims),
    (watchdog, (live, own, links, reload, record_file)): (&mut Watchdog, Monitored<'_>),
    alive: impl Fn() -> bool,
) -> f64 {
    let (begun, mut service) = (Instant::now(), Service::of_environment());
    let mut looked = begun;
    let look_if_ready = |service: &mut Service| {
        if phases.is_receiving() {
            service.ready();
        }
    };
    let look = if plan.ends_by_itself() { TICK } else { LOOK };
    let look = look.min(plan.watchdog.unwrap_or(LOOK)).min(service.patience().unwrap_or(LOOK));
    while !stop.load(Relaxed) && alive() && !phases.is_sending_over() && !phases.is_over() {
        look_if_ready(&mut service);
        let elapsed = begun.elapsed();
        let left = plan.time.map_or(TICK, |time| time.saturating_sub(elapsed));
        if left.is_zero() {
            break;
        }
        thread::park_timeout(left.min(TICK));
        live.tick(&phases.states());
        live.complain(&phases.complaints());
        watchdog.look(phases).iter().for_each(|line| live.say(Level::Warning, line));
        if !service.patience().is_some_and(|patience| watchdog.has_stalled(patience)) {
            service.alive();
        }
        reload_if_asked(reload.as_mut(), &service, live);
        record_file.look().iter().for_each(|(level, line)| live.say(*level, line));
        stop::look().iter().for_each(|line| live.say(Level::Warning, line));
        if looked.elapsed() >= look {
            looked = Instant::now();
            phases.request_status();
            own.look().iter().for_each(|line| live.say(Level::Info, line));
            look_at_links(links, phases, live);
            claims.turn_away();
            sandbox::look().iter().for_each(|line| live.say(Level::Warning, line));
        }
    }
    look_if_ready(&mut service);
    service.stopping();
    record_file.finish().iter().for_each(|(level, line)| live.say(*level, line));
    // The final check, which a short run would not have made otherwise.
    look_at_links(links, phases, live);
    phases.stop_sending();
    while !phases.is_alone() && !phases.is_sending_over() {
        thread::yield_now();
    }
    begun.elapsed().as_secs_f64()
}

/// Looks at the ports' interfaces, and logs their changes.
fn look_at_links(links: &mut Links, phases: &Phases, live: &mut Live) {
    let states = phases.states();
    let is_down =
        |port: usize| states.iter().filter_map(|of| of.get(port)).any(|state| *state != PortState::Up);
    links.look(|port| !is_down(port)).iter().for_each(|(level, line)| live.say(*level, line));
}

/// Reads the configuration again if that was asked for, and logs the result.
fn reload_if_asked(reload: Option<&mut Reload>, service: &Service, live: &mut Live) {
    let Some((reload, callers)) = reload.and_then(|reload| reload.asked().map(|callers| (reload, callers)))
    else {
        return;
    };
    service.reloading();
    let (level, line) = reload.reload(&callers);
    live.say(level, &line);
    // The current state, reloaded or not.
    service.reloaded();
}

#[cfg(test)]
mod tests;
