//! The packets that the ports of an interface take. They can be changed while packets come. COLD.

use super::installed::Installed;
use crate::sync::shim::{AtomicU32, Mutex, MutexGuard, lock};
use crate::sys::bpf::{BpfError, BpfStep, Take};
use crate::sys::errno::Errno;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, TryLockError, Weak};

/// The rules for the packets that the ports of one interface receive ([`XdpConfig::take`](super::XdpConfig::take)). Any
/// thread can read and change them.
///
/// The rules stay valid while the interface is gone. When an interface of its name is there again, its ports use them.
///
/// ```no_run
/// # use netmem::{Memory, MemoryConfig, Pool, PoolConfig, Umem, XdpPort, port::xdp::XdpConfig};
/// # let memory = Memory::new(&MemoryConfig::default())?;
/// # let mut w = memory.worker()?;
/// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
/// let umem = Umem::new(&memory);
/// let config = XdpConfig { take: Some("udp:53".parse()?), ..XdpConfig::default() };
/// let port = XdpPort::open(&umem, &mut w, &pool, "eth0", 0, &config)?;
/// let control = port.take_control().ok_or("the port takes all")?;
/// control.set(&"udp:53+udp:853".parse()?)?; // DNS over QUIC comes here as well, from now on
/// control.set(&"none".parse()?)?; // and now all goes to the kernel again; the port stays open
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TakeControl {
    interface: String,
    /// The initial rules, by which further ports of the interface identify it.
    first: Take,
    taking: Mutex<Taking>,
    /// Number of ports with these rules that are not closed. It has no lock: a thread that a child process does not have
    /// could hold one.
    ports: AtomicU32,
}

/// Locked while a program is attached or detached, so that the attached program has these rules.
#[derive(Debug)]
pub(super) struct Taking {
    pub(super) take: Take,
    /// The MAC address of the station whose frames are taken.
    pub(super) mac: [u8; 6],
    /// None while the interface is gone.
    pub(super) installed: Weak<Installed>,
}

impl TakeControl {
    pub(super) fn new(interface: &str, take: &Take) -> TakeControl {
        let taking = Taking { take: take.clone(), mac: [0; 6], installed: Weak::new() };
        TakeControl {
            interface: interface.to_owned(),
            first: take.clone(),
            taking: Mutex::new(taking),
            ports: AtomicU32::new(0),
        }
    }

    /// The name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The current rules.
    pub fn get(&self) -> Take {
        lock(&self.taking).take.clone()
    }

    /// Takes these packets from now on, and leaves the others to the kernel. Each packet is judged completely by either
    /// the old or the new rules. No packet is lost, and no socket is touched. Packets that come after the return are
    /// judged by `take`. Packets that the ports had received before are still received.
    ///
    /// # Errors
    /// Returns [`BpfError`] if the kernel does not take the new program; the old one stays then. For the first rules after
    /// none, also if the interface has the program of another owner. Also if all ports with these rules were closed.
    ///
    /// # Cost
    /// Two system calls: the verifier's work, and the exchange, for which the kernel waits for its cores: some 20 ms on
    /// a busy machine. The first rules after none attach the program: a driver may set up its rings anew for that.
    #[cold]
    pub fn set(&self, take: &Take) -> Result<(), BpfError> {
        self.change(|taking| taking.take = take.clone())
    }

    /// Sets the MAC address that the interface has now. While another thread changes the rules, nothing is done, since a worker
    /// calls this at each look.
    #[cold]
    pub(super) fn follow(&self, mac: [u8; 6]) -> Result<(), BpfError> {
        let is_known = match self.taking.try_lock() {
            Ok(taking) => taking.mac == mac,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().mac == mac,
            Err(TryLockError::WouldBlock) => true,
        };
        if is_known { Ok(()) } else { self.change(|taking| taking.mac = mac) }
    }

    fn change(&self, change: impl FnOnce(&mut Taking)) -> Result<(), BpfError> {
        let mut taking = lock(&self.taking);
        let Taking { take, mac, installed } = &*taking;
        let mut changed = Taking { take: take.clone(), mac: *mac, installed: installed.clone() };
        change(&mut changed);
        match installed.upgrade() {
            Some(installed) => installed.take(Some((&changed.take, changed.mac)))?,
            None if self.ports.load(Relaxed) == 0 => {
                return Err(BpfError { step: BpfStep::FindPort, errno: Errno::NODEV, log: String::new() });
            }
            // The interface is gone for now.
            None => {}
        }
        *taking = changed;
        Ok(())
    }

    /// Locks the rules: no thread changes them until the guard is dropped.
    pub(super) fn hold(&self) -> MutexGuard<'_, Taking> {
        lock(&self.taking)
    }

    /// Returns whether a port that asks for `take` may share it: `take` equals the initial or the current rules.
    pub(super) fn suits(&self, take: &Take) -> bool {
        self.first == *take || lock(&self.taking).take == *take
    }
}

/// The rules of a port that is not closed.
#[derive(Debug)]
pub(super) struct HeldRules {
    control: Arc<TakeControl>,
    is_counted: bool,
}

impl HeldRules {
    pub(super) fn by_port(control: &Arc<TakeControl>) -> HeldRules {
        control.ports.fetch_add(1, Relaxed);
        HeldRules { control: Arc::clone(control), is_counted: true }
    }

    pub(super) fn control(&self) -> Arc<TakeControl> {
        Arc::clone(&self.control)
    }

    /// The port is closed.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.is_counted) {
            self.control.ports.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for HeldRules {
    fn drop(&mut self) {
        self.end();
    }
}
