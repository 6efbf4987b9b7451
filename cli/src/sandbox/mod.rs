//! What the program gives up once its ports are open, and who keeps it: capabilities by a broker (`netmem::system::broker`), system calls by
//! filters (ADR 0058). COLD.
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
use filters::{Compiled, Side};
use netmem::port::memif::Role;
use netmem::system::broker::{self, BrokerError, BrokerProcess, Setup};
use netmem::system::errno::Errno;
use netmem::system::one_heap;
use netmem::system::privileges::{self, Kept};
use netmem_ports::{DeviceSpec, PortSpec};
use netmem_rtnetlink::neighbour_requests;
use std::os::unix::fs::lchown;
use std::panic;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether this process's threads are to give up what they do not need.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// What is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPlan {
    /// Whether anything is.
    pub on: bool,
    /// As whom all but the broker go on.
    pub user: Option<User>,
    /// Its interfaces.
    pub interfaces: Vec<String>,
    /// Sockets of the file system that the run listens at.
    pub listening: Vec<PathBuf>,
    /// Those that its ports may make.
    pub made: Vec<PathBuf>,
    /// Whether the broker runs programs, which undo what was changed of the host.
    pub undoes: bool,
    /// Those that it connects to.
    pub peers: Vec<PathBuf>,
    /// Whether a port may have its memory locked again.
    pub locks_again: bool,
}

impl SandboxPlan {
    /// What a run with these ports gives up that listens at no socket of its own and changes nothing of the host.
    pub fn of_ports(ports: &[PortSpec], args: &SandboxArgs) -> SandboxPlan {
        let met = |role: Role| {
            let path = move |port: &PortSpec| match &port.device {
                DeviceSpec::Memif { path, config } if config.role == role => Some(path.clone()),
                _ => None,
            };
            ports.iter().filter_map(path).collect()
        };
        let interface = |port: &PortSpec| match &port.device {
            DeviceSpec::Xdp(xdp) => Some(xdp.interface.clone()),
            DeviceSpec::Packet { interface, .. } | DeviceSpec::Tap { interface, .. } => {
                Some(interface.clone())
            }
            _ => None,
        };
        SandboxPlan {
            on: !args.no_sandbox,
            user: args.user,
            interfaces: ports.iter().filter_map(interface).collect(),
            listening: Vec::new(),
            peers: met(Role::Client),
            made: met(Role::Server),
            undoes: false,
            locks_again: ports.iter().any(|port| matches!(port.device, DeviceSpec::Xdp(_))),
        }
    }
}

/// Starts the broker of a run, which has changes of the host undone by `undo`. None without a sandbox.
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
    let filter = filters::compiled(side)?;
    let neighbour = neighbour_requests().map_err(|error| failed("netlink socket", &error))?;
    let setup = Setup {
        interfaces: plan.interfaces.clone(),
        readable: broker::read_so_far(),
        peers: plan.peers.clone(),
        leaves: plan.listening.iter().chain(&plan.made).cloned().collect(),
        neighbour: Box::new(neighbour),
        undo: Box::new(undo),
    };
    let begin = || become_broker(&filter);
    // What it says is said.
    let end = || drop((setup.undo)());
    broker::start(&setup, begin, end).map(Some).map_err(|error| match error {
        BrokerError::Fork(error) => threads::none("the broker", &error),
        error => failed("the broker", &error),
    })
}

/// Gives up what the set-up has needed, for this thread and all that it starts. Its packet memory has so many bytes.
///
/// # Errors
/// [`Failure::Input`] with the remedy.
pub fn enter(plan: &SandboxPlan, memory_bytes: usize) -> Result<(), Failure> {
    if !plan.on {
        return Ok(());
    }
    if broker::is_gone() {
        return Err(ended_early("before its first packet"));
    }
    let (filter, user) = (filters::compiled(Side::Control)?, plan.user);
    let is_short = privileges::raise_lock_limit().is_some_and(|limit| limit < memory_bytes as u64);
    let kept = if plan.locks_again && is_short { Kept::ToLock } else { Kept::Nothing };
    if let Some(User { user, group }) = user {
        for path in &plan.listening {
            if let Err(error) = lchown(path, Some(user), Some(group)) {
                let path = path.display();
                log::say(Level::Warning, format_args!("netmem: {path} stays root's: {error}"));
            }
        }
    }
    privileges::give_up(kept, user.map(|User { user, group }| (user, group))).map_err(
        |errno| match errno {
            Errno::PERM if user.is_some() => Failure::input(
                "--user: only root can become another user, with CAP_SETUID and CAP_SETGID: start it so",
            ),
            errno => failed("give up capabilities", &errno),
        },
    )?;
    panic::set_hook(Box::new(|died| log::say(Level::Error, format_args!("error: {died}"))));
    filters::apply(&filter)?;
    ENTERED.store(true, Relaxed);
    Ok(())
}

/// Leaves a process that opens sockets and programs for others with what a broker has; a line where that cannot be.
pub fn enter_as_broker() {
    match filters::compiled(Side::Broker) {
        Ok(filter) => become_broker(&filter),
        Err(failure) => warn(&failure),
    }
}

/// Keeps the capabilities and system calls of a broker; a line where others are left.
fn become_broker(filter: &Compiled) {
    // Before Linux 5.11 maps count as locked memory.
    let _ = privileges::raise_lock_limit();
    let kept = privileges::give_up(Kept::OfBroker, None);
    let kept = kept.map_err(|errno| failed("give up capabilities", &errno));
    if let Err(failure) = kept.and_then(|()| filters::apply(filter)) {
        warn(&failure);
    }
}

fn warn(failure: &Failure) {
    log::say(Level::Warning, format_args!("netmem: {}", failure.lines().join("; ")));
}

/// Gives up what a worker does not need, on its thread, where the process is in a sandbox.
pub fn enter_worker() {
    if ENTERED.load(Relaxed) {
        let entered = filters::compiled(Side::Worker).and_then(|filter| filters::apply(&filter));
        // The same was done for the whole process a moment ago, so that it can be done.
        entered.expect("a filter for a worker");
    }
}

/// That the broker has ended, where it has and that was not said yet.
pub fn look() -> Option<&'static str> {
    static SAID: AtomicBool = AtomicBool::new(false);
    (broker::is_gone() && !SAID.swap(true, Relaxed)).then_some(
        "the broker (netmem-broker) has ended: ports go on, and those whose interface goes away stay down, new neighbours are not asked for, and \
         the configuration is not read again, until netmem is restarted",
    )
}

/// Why the set-up of a run has failed: that its broker has ended, where it has; otherwise as it is said.
pub fn cause(failure: Failure) -> Failure {
    if !has_privileges() || !broker::is_gone() || failure == Failure::Interrupted {
        return failure;
    }
    // What was asked of it and not answered may have many reasons besides.
    ended_early(&failure.lines().join("; "))
}

/// Whether this process has not given up yet what it began with.
pub fn has_privileges() -> bool {
    !ENTERED.load(Relaxed)
}

/// That the broker has ended before the run began, at that step.
fn ended_early(step: &str) -> Failure {
    Failure::input(format!(
        "sandbox: the broker (netmem-broker) has ended while the run was set up ({step}): find out what ended it (a lack of \
         memory is in journalctl -k) and start netmem again, or run without (--no-sandbox)"
    ))
}

/// That a step was refused, with the remedy.
fn failed(step: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::input(format!("sandbox: {step}: {why}: change that, or run without (--no-sandbox)"))
}
