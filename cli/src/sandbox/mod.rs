//! Drops the program's privileges once its ports are open. A broker keeps the capabilities
//! (`netmem::system::broker`), and filters limit the system calls (ADR 0058). COLD.
//!
//! ```text
//!   start ──► broker: the capabilities that ports and neighbours need, and the system calls of that
//!     │
//!   ports are opened, sockets listen
//!     │
//!   enter ──► no capability, no new privileges, a user without any (--user); the system calls of the control side
//!     │
//!   enter_worker, on each worker's thread ──► its system calls alone: no file, no socket, no bpf(2), no program
//! ```

mod filters;
#[cfg(test)]
mod tests;

use crate::args::{SandboxArgs, User};
use crate::failure::Failure;
use crate::log::{self, Level};
use crate::threads;
use filters::Side;
use netmem::port::memif::Role;
use netmem::system::broker::{self, BrokerError, BrokerProcess, Setup};
use netmem::system::errno::{Errno, descriptor_remedy_of};
use netmem::system::privileges::{self, Kept};
use netmem::system::{close_deferred, defer_closing, one_heap};
use netmem_ports::{DeviceSpec, PacketSpec, PortSpec};
use netmem_rtnetlink::neighbour_requests;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{fs, io, panic, thread};

/// The time in which a thread that has ended disappears from the list of threads.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// True if this process's threads are to drop the privileges that they do not need.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// The privileges that are dropped, and the resources that stay accessible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPlan {
    /// True if privileges are dropped.
    pub on: bool,
    /// The user of all processes but the broker.
    pub user: Option<User>,
    /// Its interfaces.
    pub interfaces: Vec<String>,
    /// Sockets in the file system that the run listens on.
    pub listening: Vec<PathBuf>,
    /// Sockets that the run's ports may create.
    pub made: Vec<PathBuf>,
    /// True if the broker runs programs, which undo changes of the host.
    pub undoes: bool,
    /// Sockets that the run connects to.
    pub peers: Vec<PathBuf>,
    /// True if a port may lock its memory again.
    pub locks_again: bool,
}

impl SandboxPlan {
    /// Returns the plan of a run with these ports that listens on no socket of its own and does not change the
    /// host.
    ///
    /// # Errors
    /// [`Failure::Input`] for a user without a sandbox.
    pub fn of_ports(ports: &[PortSpec], args: &SandboxArgs) -> Result<SandboxPlan, Failure> {
        if args.no_sandbox && args.user.is_some() {
            return Err(Failure::input(
                "--user with --no-sandbox: without the sandbox the user does not change; leave one of them out",
            ));
        }
        let met = |role: Role| {
            let path = move |port: &PortSpec| match &port.device {
                DeviceSpec::Memif { path, config, .. } if config.role == role => Some(path.clone()),
                DeviceSpec::Xdp(xdp) if role == Role::Client => xdp.grant.clone(),
                _ => None,
            };
            ports.iter().filter_map(path).collect()
        };
        let interface = |port: &PortSpec| match &port.device {
            DeviceSpec::Xdp(xdp) => Some(xdp.interface.clone()),
            DeviceSpec::Packet(PacketSpec { interface, .. }) | DeviceSpec::Tap { interface, .. } => {
                Some(interface.clone())
            }
            _ => None,
        };
        Ok(SandboxPlan {
            on: !args.no_sandbox,
            user: args.user,
            interfaces: ports.iter().filter_map(interface).collect(),
            listening: Vec::new(),
            peers: met(Role::Client),
            made: met(Role::Server),
            undoes: false,
            locks_again: ports.iter().any(|port| matches!(port.device, DeviceSpec::Xdp(_))),
        })
    }
}

/// Starts the broker of a run. `undo` undoes changes of the host. Returns None without a sandbox.
///
/// # Errors
/// [`Failure::Input`] with the remedy.
pub fn start(
    plan: &SandboxPlan,
    undo: impl Fn() -> Result<(), String> + Send + Sync + 'static,
) -> Result<Option<BrokerProcess>, Failure> {
    if !plan.on {
        let line = "netmem: --no-sandbox: every thread keeps all capabilities and all system calls";
        log::say(Level::Warning, line);
        return Ok(None);
    }
    one_heap();
    let side = if plan.undoes { Side::UndoingBroker } else { Side::Broker };
    // The broker compiles its own filters, with its own number, and can only print an error.
    filters::compiled(side)?;
    let neighbour = neighbour_requests().map_err(|error| unopened("netlink socket", &error))?;
    let setup = Setup {
        interfaces: plan.interfaces.clone(),
        readable: broker::read_so_far(),
        peers: plan.peers.clone(),
        leaves: plan.listening.iter().chain(&plan.made).cloned().collect(),
        neighbour: Box::new(neighbour),
        undo: Box::new(undo),
    };
    // With all privileges it must not serve. The run then ends, as if the broker had been killed.
    let begin = || become_broker(side).inspect_err(warn).is_ok();
    // Its lines are printed already.
    let end = || drop((setup.undo)());
    let broker = broker::start(&setup, begin, end).map_err(|error| match error {
        BrokerError::Fork(error) => threads::none("the broker", &error),
        BrokerError::System(call, error) => unopened(&format!("the broker: {call}"), &error),
        error => failed("the broker", &error),
    })?;
    // A thread that closes what a peer sent would have all privileges for as long as the peer likes.
    defer_closing();
    Ok(Some(broker))
}

/// Drops the privileges that the set-up needed, for this thread and all threads that it starts. `memory_bytes` is
/// the size of its packet memory.
///
/// # Errors
/// [`Failure::Input`] with the remedy; also if another thread has been started, which would keep everything.
pub fn enter(plan: &SandboxPlan, memory_bytes: usize) -> Result<(), Failure> {
    if !plan.on {
        return Ok(());
    }
    if broker::is_gone() {
        return Err(ended_early("before its first packet"));
    }
    check_alone()?;
    let (filter, user) = (filters::compiled(Side::Control)?, plan.user);
    let is_short = privileges::raise_lock_limit().is_some_and(|limit| limit < memory_bytes as u64);
    let kept = if plan.locks_again && is_short { Kept::ToLock } else { Kept::Nothing };
    privileges::give_up(kept, user.map(|User { user, group }| (user, group))).map_err(
        |errno| match errno {
            Errno::PERM if user.is_some() => Failure::input(
                "--user: only root with CAP_SETUID and CAP_SETGID can change to another user: start netmem as root",
            ),
            errno => failed("give up capabilities", &errno),
        },
    )?;
    panic::set_hook(Box::new(|died| log::say(Level::Error, format_args!("error: {died}"))));
    filters::apply(&filter)?;
    ENTERED.store(true, Relaxed);
    close_deferred();
    Ok(())
}

/// Checks that this process has no other thread. Waits for threads that have ended: one that was joined is listed until
/// the kernel has removed it.
///
/// In a root without /proc no thread can be counted, and none is assumed, as when the broker is forked. This finds a
/// fault of the program, which starts its threads later; an intruder cannot hide /proc while the run is set up.
///
/// # Errors
/// [`Failure::Input`].
fn check_alone() -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let count = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if count <= 1 {
            return Ok(());
        }
        if begun.elapsed() > END_TIMEOUT {
            let why = format!("the process has {count} threads, and all but this one would keep them");
            return Err(failed("give up capabilities", &why));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Drops all privileges but a broker's, for a process that opens sockets and programs for others.
///
/// # Errors
/// [`Failure::Input`] if others are left.
pub fn enter_as_broker() -> Result<(), Failure> {
    become_broker(Side::Broker)
}

/// Keeps the capabilities and system calls of a broker.
///
/// # Errors
/// [`Failure::Input`] if others are left.
fn become_broker(side: Side) -> Result<(), Failure> {
    // Before Linux 5.11 maps count as locked memory.
    let _ = privileges::raise_lock_limit();
    let kept = privileges::give_up(Kept::OfBroker, None);
    let kept = kept.map_err(|errno| failed("give up capabilities", &errno));
    kept.and_then(|()| filters::compiled(side)).and_then(|filter| filters::apply(&filter))
}

fn warn(failure: &Failure) {
    log::say(Level::Warning, format_args!("netmem: {}", failure.lines().join("; ")));
}

/// Drops the privileges that a worker does not need, on its thread, if the process is in a sandbox.
pub fn enter_worker() {
    if ENTERED.load(Relaxed) {
        let entered = filters::compiled(Side::Worker).and_then(|filter| filters::apply(&filter));
        // The same was done for the whole process shortly before, so it works.
        entered.expect("a filter for a worker");
    }
}

/// The line about a broker that has ended, with what the run lacks from then on.
const ENDED: &str = "the broker (netmem-broker) has ended: restart netmem; until then ports go on, but a port whose interface goes away stays down, no \
     neighbour is resolved any more (known hosts are lost when the kernel's entries expire), and the configuration is not read again";

/// Returns a line if the broker has ended and that was not reported yet.
pub fn look() -> Option<&'static str> {
    static SAID: AtomicBool = AtomicBool::new(false);
    (broker::is_gone() && !SAID.swap(true, Relaxed)).then_some(ENDED)
}

/// Checks that the broker has not ended before its time, so that the run had it for what it needs it for.
///
/// # Errors
/// [`Failure::Run`] with the remedy, after a run whose broker ended by itself.
pub fn check() -> Result<(), Failure> {
    if !broker::is_gone() {
        return Ok(());
    }
    Err(Failure::run(
        "the broker (netmem-broker) ended during the run: from then on no neighbour was resolved and no interface that came back \
         was used; find out what ended it (a lack of memory is in journalctl -k)",
    ))
}

/// Checks that files can be read again.
///
/// # Errors
/// [`Failure::NotNow`] with the remedy, if the broker has ended, which would read them.
pub fn check_reads() -> Result<(), Failure> {
    if broker::is_gone() { Err(Failure::not_now(ENDED)) } else { Ok(()) }
}

/// Returns the cause of a failed set-up: the broker has ended, or else the given failure.
pub fn cause(failure: Failure) -> Failure {
    let by_signal = matches!(failure, Failure::Interrupted | Failure::Ended(_));
    if !has_privileges() || !broker::is_gone() || by_signal {
        return failure;
    }
    // A request to the broker without an answer may have other reasons too.
    ended_early(&failure.lines().join("; "))
}

/// Returns true if this process has not dropped its initial privileges yet.
pub fn has_privileges() -> bool {
    !ENTERED.load(Relaxed)
}

/// Returns the failure that the broker ended before the run began, at that step.
fn ended_early(step: &str) -> Failure {
    Failure::not_now(format!(
        "sandbox: the broker (netmem-broker) has ended while the run was set up ({step}): find out what ended it (a lack of \
         memory is in journalctl -k) and start netmem again, or run without (--no-sandbox)"
    ))
}

/// Returns the failure of a call that makes descriptors, which the process may lack now.
fn unopened(step: &str, error: &io::Error) -> Failure {
    match descriptor_remedy_of(error) {
        "" => failed(step, error),
        remedy => Failure::not_now(format!("sandbox: {step}: {error}{remedy}")),
    }
}

/// Returns the failure that a step was refused, with the remedy.
fn failed(step: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::input(format!("sandbox: {step}: {why}: fix this, or run with --no-sandbox"))
}
