//! A run from its first packet to the last frame that is home.
//!
//! The end has an order: the generator stops; the forwarder drains while the sink keeps collecting; the sink
//! stops; the ports are dropped; the ledger is read; the pool is closed and waited for.

use super::forwarding::{cores, forward, pin};
use super::live::Live;
use super::network::{Network, Traveled};
use super::plan::Plan;
use super::report::{PortReport, Report};
use super::set_up::Dataplane;
use crate::failure::Failure;
use netmem::forward::Forwarder;
use netmem::port::PortState;
use netmem::sync::Worker;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// How often the main thread looks whether it is time to stop.
const TICK: Duration = Duration::from_millis(20);
/// How long frames may take home once the ports are closed.
const HOME: Duration = Duration::from_secs(2);

/// How the threads of a run hear of its end, in this order.
#[derive(Debug, Default)]
pub struct Phases {
    /// The generator is to stop.
    pub stop_sending: AtomicBool,
    /// The generator has stopped.
    pub sending_over: AtomicBool,
    /// The forwarder is to stop.
    pub stop_forwarding: AtomicBool,
    /// The forwarder has stopped and sends nothing more.
    pub drained: AtomicBool,
    /// The forwarder is to look up from its packets.
    pub look_up: AtomicBool,
    /// What it saw of its ports when it last looked up.
    pub states: Mutex<Vec<PortState>>,
}

impl Phases {
    fn sending_is_over(&self) -> bool {
        // Acquire: pairs with the Release in `network`.
        self.sending_over.load(Acquire)
    }

    fn look_up(&self) {
        // Release: pairs with the AcqRel in `forwarding`, for the reason stored before.
        self.look_up.store(true, Release);
    }

    fn stop(&self) {
        // Release: pairs with the Acquire in `forwarding`.
        self.stop_forwarding.store(true, Release);
        self.look_up();
    }
}

/// What the threads came back with.
struct Ran {
    traveled: Option<Traveled>,
    time: Duration,
    cores: [Option<usize>; 2],
}

/// Forwards as planned until the time, the packets or `stop` end it.
///
/// # Errors
/// [`Failure::Run`] if a thread of the run died.
pub fn run(dataplane: Dataplane, plan: &Plan, stop: &AtomicBool) -> Result<Report, Failure> {
    let Dataplane { memory, pool, mut worker, mut forwarder, network, details } = dataplane;
    let meters = forwarder.meters();
    let counters = forwarder.ports().map(|port| port.counters()).collect::<Vec<_>>();
    let mut live = Live::new(&forwarder, &pool, plan.live);
    let ran = threads(&mut forwarder, &mut worker, network, &mut live, plan, stop)?;
    live.clear();

    let port = |(port, detail): (&dyn netmem::port::Port, String)| PortReport::new(port, detail);
    let mut ports = forwarder.ports().zip(details).map(port).collect::<Vec<_>>();
    drop(forwarder);
    ports.iter_mut().zip(&counters).for_each(|(port, counters)| port.read(counters));
    let ledger = pool.ledger();
    let still_out = pool.wait(HOME).err().map(|still_out| still_out.to_string());
    drop(worker);
    Ok(Report {
        mode: plan.mode,
        backing: memory.region().backing().to_string(),
        bytes: memory.region().len(),
        seconds: ran.time.as_secs_f64(),
        cores: ran.cores,
        traveled: ran.traveled,
        ports,
        pools: vec![ledger],
        still_out,
        ..Report::of(&meters)
    })
}

/// Runs the forwarder and the network, each on its own thread, and watches them from this one.
fn threads(
    forwarder: &mut Forwarder,
    worker: &mut Worker,
    network: Option<Network>,
    live: &mut Live,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<Ran, Failure> {
    let phases = &Phases::default();
    let (core, far_core) = cores();
    thread::scope(|scope| {
        let begun = Instant::now();
        let network = network.map(|network| {
            scope.spawn(move || {
                let core = pin(far_core);
                (network.run(phases), core)
            })
        });
        let gone = network.as_ref().map(|thread| {
            let over = thread.thread().clone();
            drop(over);
            || false
        });
        let forwarding = scope.spawn(move || {
            let core = pin(core);
            forward(forwarder, worker, phases, gone.as_ref().map(|gone| gone as &dyn Fn() -> bool));
            core
        });
        watch(phases, plan, stop, live, &forwarding);
        todo!()
    })
}
