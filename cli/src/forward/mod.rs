//! `netmem forward`, by the stages of a run:
//!
//! ```text
//!   plan ─► late ─► fixes ─► set_up ─► run ─┬─ forwarding   each worker's forwarder, on a core of its own
//!                                           ├─ retention    the local queue and the mirror, if there are any
//!                                           ├─ network      generator and sink, if the ports are mem ports
//!                                           ├─ routing      the kernel's routes, if they are followed
//!                                           ├─ reload       the configuration read again
//!                                           ├─ watchdog     workers that have not come round
//!                                           ├─ cuts         the counts of all workers at the end of a round, for metrics
//!                                           ├─ live         the line on a terminal
//!                                           └─ registry     the sections and keys of the control socket, if there is one
//!                                      └──► report ─► check ─► summary or json
//! ```

mod recorder;
pub mod rule_counts;
mod registry;
mod check;
mod cores;
pub mod cuts;
pub mod files;
mod fixes;
pub mod carriers;
mod forwarding;
#[allow(unsafe_code)]
pub mod lending;
mod local_queue;
mod retention;
mod given;
mod greet;
mod hooks;
mod icmp_registry;
mod interfaces;
pub mod json;
mod late;
mod links;
mod live;
mod network;
mod offer;
pub mod own_addresses;
mod own_sockets;
pub mod outcomes;
mod packet_registry;
mod page_registry;
mod phases;
mod plan;
pub mod port_setup;
pub mod ports;
mod reload;
pub mod report;
mod resyncs;
mod routing;
mod run;
mod sandboxed;
pub mod worker_setup;
mod set_up;
mod steer_registry;
pub mod summary;
mod unfit;
mod take_registry;
pub mod wanted;
mod watchdog;

use crate::args::ForwardArgs;
use crate::claims::{self, InterfaceClaims, Use};
use crate::failure::Failure;
use crate::log::{self, Level};
use crate::{output, sandbox, stop};
use fixes::Fixes;
use interfaces::Interfaces;
use netmem_doctor::{Host, Wanted, beside_the_kernel};
use own_sockets::OwnSockets;
use plan::Plan;
use report::Report;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Forwards as the arguments say, prints the results, and checks their sums. The host is restored at the end.
///
/// # Errors
/// [`Failure::Input`] or [`Failure::NotNow`] before anything was forwarded, [`Failure::Run`] after.
pub fn run(args: &ForwardArgs) -> Result<(), Failure> {
    if args.log_time {
        log::with_times();
    }
    output::leave_to_capture(&args.port);
    // Before the wait, what is wrong without any interface; after it, the rest.
    let awaited = Plan::on(args, Interfaces::Awaited)?;
    // Before other processes can find the run: an early request is handled once the run is set up.
    let asked = stop::Asked::of(awaited.config.is_some())?;
    // Ctrl-C and SIGTERM end the process at once during this wait: nothing is set up yet.
    let is_missing = late::await_interfaces(&awaited);
    // A warning does not delay the start. The reason of a failure may wait for its reader.
    log::never_wait();
    let done = set_up_and_run(args, asked);
    log::may_wait();
    // Who waits for an interface expects it, if not now, then later.
    if is_missing { done.map_err(Failure::for_now) } else { done }
}

/// Makes the plan with the interfaces that are there, sets up what it says, and forwards.
fn set_up_and_run(args: &ForwardArgs, asked: stop::Asked) -> Result<(), Failure> {
    let plan = Plan::of(args)?;
    let stop = stop::on_signal()?;
    if asked.reload.is_none() {
        stop::on_hang_up()?;
    }
    let fixes = plan.fix.as_ref().map(|journal| Fixes::make(&wanted::of_plan(&plan), journal)).transpose()?;
    let fixes = Arc::new(fixes);
    let its = Arc::clone(&fixes);
    let broker = match sandbox::start(&plan.sandbox, move || fixes::take_back(&its)) {
        Ok(broker) => broker,
        Err(failure) => {
            fixes::take_back(&fixes).ok();
            return Err(failure);
        }
    };
    let is_by_broker = broker.is_some();
    let sockets = OwnSockets::default();
    let give_up = || fixes::give_up(is_by_broker, &fixes, &sockets);
    let ran = forward(&plan, (&stop, asked), (&sockets, &give_up));
    let has_broker = sandbox::check();
    // Before anything is printed, because the reader may never read.
    let taken_back = fixes::take_back_by(is_by_broker, &fixes);
    drop(broker);
    ran.and_then(|report| print(&report, args.json)).and(taken_back).and(has_broker)
}

/// Forwards as planned, and returns the results. If a worker never ends, the process ends after `give_up`.
fn forward(
    plan: &Plan,
    (stop, asked): (&AtomicBool, stop::Asked),
    (sockets, give_up): (&OwnSockets, &dyn Fn()),
) -> Result<Report, Failure> {
    // Reads the host before the ports are opened, because they change it.
    let beside = beside_the_kernel(&wanted::of_plan(plan));
    let claims = InterfaceClaims::of(plan.ports(), use_of_packets(plan))?;
    let dataplane = set_up::open(plan, asked)?;
    sockets.record(&plan.sandbox);
    let warnings = wanted::warnings(beside, &dataplane.copies);
    warnings.iter().for_each(|line| log::say(Level::Warning, format_args!("netmem: {line}")));
    run::run(dataplane, plan, (stop, give_up, &claims))
}

/// Prints the results of a run, and checks their sums.
fn print(report: &Report, as_json: bool) -> Result<(), Failure> {
    output::print(&if as_json { json::object(report) } else { summary::text(report) })?;
    let stopped = stop::is_asked();
    for line in check::without_peers(report).iter().filter(|_| stopped) {
        log::say(Level::Warning, format_args!("netmem: {line}"));
    }
    let broken = check::broken(report, stopped);
    if broken.is_empty() { Ok(()) } else { Err(Failure::Run(broken)) }
}

/// Returns the needs of a run with these arguments on this machine, or on a saved host, for the doctor.
///
/// # Errors
/// [`Failure::Input`] if the arguments conflict.
pub fn wanted(args: &ForwardArgs, saved: Option<&Host>) -> Result<Wanted, Failure> {
    let interfaces = saved.map_or(Interfaces::Here, Interfaces::Saved);
    Plan::on(args, interfaces).map(|plan| wanted::of_plan(&plan))
}

/// Returns a line for each port of a run with these arguments whose interface another run forwards from.
///
/// # Errors
/// [`Failure::Input`] if the arguments conflict.
pub fn claimed_by_others(args: &ForwardArgs) -> Result<Vec<String>, Failure> {
    let plan = Plan::on(args, Interfaces::Here)?;
    Ok(claims::of_others(plan.ports(), use_of_packets(&plan)))
}

fn use_of_packets(plan: &Plan) -> Use {
    if plan.forwards() { Use::Forward } else { Use::Other }
}
