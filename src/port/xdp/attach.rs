//! The redirect program on an interface, shared by the ports of its queues. COLD.

use super::error::{Attempt, XdpError};
use super::installed::Installed;
use super::later::{Attached, Later, attach_for_several};
use super::maps::{Maps, Taken, takes_none};
use super::mode::{is_about_the_mode, mode_refused};
use super::own::{OwnAddresses, OwnAddressesError};
use super::take::TakeControl;
use super::{XdpConfig, XdpModePreference};
use crate::sync::shim::{Mutex, lock};
use crate::sys::bpf::{BpfError, Punted, RedirectLink, RedirectProgram, XdpMode};
use crate::sys::errno::Errno;
use crate::sys::netdev::{Netdev, NetdevId};
use crate::sys::promiscuous::Promiscuous;
use std::collections::BTreeSet;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The redirect program on one interface. The last of its ports detaches it.
#[derive(Debug)]
pub(super) struct Attachment {
    installed: Arc<Installed>,
    /// Its interface.
    on: NetdevId,
    /// The packets that its program takes; None if it takes all.
    taking: Option<Arc<TakeControl>>,
    /// The reason why it is not in native mode, if that was tried.
    native_refused: Option<String>,
    /// The queues whose packets it redirects.
    queues: Mutex<BTreeSet<u32>>,
    /// Has the interface receive frames to all addresses, or the reason why it does not. None if the program takes only
    /// some packets: the others are the kernel's, which has no use for such frames.
    promiscuous: Option<Result<Promiscuous, Errno>>,
    /// Its interface is known to be gone. Relaxed: the thread that sets it releases the socket afterwards. The thread
    /// that reads it then asks for the attachment. Both do so under the lock of the UMEM.
    lost: AtomicBool,
}

impl Attachment {
    /// Attaches the program to the interface. It leaves punted packets to the kernel, and of the rest those that
    /// `taking` does not take. If `taking` takes nothing and the program `may_wait`, it is attached when that changes:
    /// until then, the interface is free for the program of another owner.
    pub(super) fn new(
        netdev: &Netdev,
        preference: XdpModePreference,
        punted: Punted<Arc<OwnAddresses>>,
        taking: Option<Arc<TakeControl>>,
        may_wait: bool,
        attempt: &Attempt<'_>,
    ) -> Result<Attachment, XdpError> {
        let maps = Maps::new(punted, taking.is_some()).map_err(|error| attempt.bpf(&error))?;
        let mut held = taking.as_ref().map(|taking| taking.hold());
        held.iter_mut().for_each(|held| held.mac = station(netdev));
        let take = held.as_ref().map(|held| (&held.take, held.mac));
        let (installed, native_refused) = if may_wait && takes_none(take) {
            let later = Later::new(netdev, preference)
                .map_err(|errno| attempt.netdev("find the interface", errno))?;
            (Installed::later(netdev.index(), later, maps), None)
        } else {
            let (attached, native_refused) = attach(&maps, take, netdev, preference, attempt)?;
            (Installed::new(netdev.index(), attached, maps), native_refused)
        };
        let installed = Arc::new(installed);
        held.iter_mut().for_each(|held| held.installed = Arc::downgrade(&installed));
        drop(held);
        let promiscuous = taking.is_none().then(|| Promiscuous::new(netdev.index()));
        let (on, queues, lost) = (netdev.id(), Mutex::default(), AtomicBool::new(false));
        Ok(Attachment { installed, on, taking, native_refused, queues, promiscuous, lost })
    }

    /// Wraps a program that another process attached to the interface `on`.
    pub(super) fn given(installed: Installed, on: NetdevId) -> Attachment {
        let (installed, queues, lost) = (Arc::new(installed), Mutex::default(), AtomicBool::new(false));
        Attachment { installed, on, taking: None, native_refused: None, queues, promiscuous: None, lost }
    }

    /// Calls a function with its descriptors in the order of a grant.
    pub(super) fn each_descriptor(
        &self,
        each: &mut dyn FnMut(&str, BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        self.installed.each_descriptor(each)
    }

    /// The number of its interface.
    pub(super) fn interface(&self) -> u32 {
        self.installed.interface
    }

    /// Releases it. If a program is being replaced at the time, it is detached with it: the thread that replaces it
    /// waits.
    pub(super) fn release(self: Arc<Self>) {
        let taking = self.taking.clone();
        let _held = taking.as_ref().map(|taking| taking.hold());
        drop(self);
    }

    /// The packets that its program takes; None if it takes all.
    pub(super) fn taking(&self) -> Option<&Arc<TakeControl>> {
        self.taking.as_ref()
    }

    /// Number of frames of `queue` that its program has left to the kernel. None if it cannot be read now.
    pub(super) fn left(&self, queue: u32) -> Option<u64> {
        self.installed.maps.left(queue)
    }

    /// Checks whether the interface has another MAC address now. If the kernel refuses the change, the next look tries
    /// it again.
    pub(super) fn follow_station(&self, netdev: &Netdev) {
        if let Some(taking) = &self.taking {
            match netdev.mac_at_once() {
                // It is being renamed: the next look tells.
                Err(Errno::AGAIN) => {}
                mac => {
                    taking.follow(mac.unwrap_or_default()).ok();
                }
            }
        }
    }

    /// Returns whether another program has taken the program off the interface.
    pub(super) fn is_detached(&self) -> bool {
        self.installed.is_detached()
    }

    /// Returns whether another program has removed `socket` from the map.
    pub(super) fn lacks(&self, queue: u32, socket: BorrowedFd<'_>) -> bool {
        self.installed.maps.sockets.lacks(queue, socket)
    }

    /// Attaches the program to its interface again, in the same mode, unless it is attached.
    pub(super) fn attach_again(&self) -> Result<(), BpfError> {
        self.installed.attach_again()
    }

    /// Marks its interface as gone, with the program. A later interface that has the same number is not its own.
    pub(super) fn lose(&self) {
        self.lost.store(true, Relaxed);
    }

    /// Returns whether the program is on that interface.
    pub(super) fn is_on(&self, interface: NetdevId) -> bool {
        self.on.is(interface) && !self.lost.load(Relaxed)
    }

    pub(super) fn mode(&self) -> XdpMode {
        self.installed.mode()
    }

    pub(super) fn native_refused(&self) -> Option<&str> {
        self.native_refused.as_deref()
    }

    /// The kernel's error if it does not let frames to other addresses come that should.
    pub(super) fn promiscuous_refused(&self) -> Option<Errno> {
        self.promiscuous.as_ref()?.as_ref().err().copied()
    }

    /// Checks whether another port with this configuration may share it.
    pub(super) fn check(&self, config: &XdpConfig, attempt: &Attempt<'_>) -> Result<(), XdpError> {
        let interface = || attempt.interface.to_owned();
        if !config.mode.allows(self.mode()) {
            let refused = format!("another port attached it in {} mode", self.mode());
            return Err(XdpError::NoMode { interface: interface(), refused });
        }
        let takes_alike = match (&self.taking, &config.take) {
            (Some(taking), Some(take)) => taking.suits(take),
            (taking, take) => taking.is_none() && take.is_none(),
        };
        if !takes_alike || config.punt != self.installed.maps.punt() {
            return Err(XdpError::PuntDiffers { interface: interface() });
        }
        Ok(())
    }

    /// Number of these queues whose packets go to no socket.
    pub(super) fn lacking(&self, queues: Range<u32>) -> usize {
        let ours = lock(&self.queues);
        queues.filter(|queue| !ours.contains(queue)).count()
    }

    /// From now on, packets received on `queue` go to `socket`.
    pub(super) fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.installed.maps.sockets.insert(queue, socket)?;
        lock(&self.queues).insert(queue);
        Ok(())
    }

    /// From now on, packets received on `queue` stay with the kernel. This fails only for a queue that was never
    /// inserted. A socket that closes leaves the map by itself.
    pub(super) fn remove(&self, queue: u32) {
        lock(&self.queues).remove(&queue);
        self.installed.maps.sockets.remove(queue).ok();
    }
}

/// Returns the MAC address of frames for the interface, or zeros if it has none, as frames of a loopback interface
/// have.
fn station(netdev: &Netdev) -> [u8; 6] {
    netdev.mac().unwrap_or_default()
}

/// Returns the own addresses of this thread's network namespace, for a program to use.
pub(super) fn own_addresses(attempt: &Attempt<'_>) -> Result<Arc<OwnAddresses>, XdpError> {
    let own = OwnAddresses::new().map_err(|error| attempt.bpf(&error))?;
    own.follow().map_err(|error| match error {
        OwnAddressesError::List(errno) => attempt.netdev("read the host's addresses", errno),
        OwnAddressesError::Update(error) => attempt.bpf(&error),
    })?;
    Ok(Arc::new(own))
}

/// Loads and attaches the program. Also returns the reason why it is not native, if that was tried.
fn attach(
    maps: &Maps,
    take: Taken<'_>,
    netdev: &Netdev,
    preference: XdpModePreference,
    attempt: &Attempt<'_>,
) -> Result<(Attached, Option<String>), XdpError> {
    let is_bond = netdev.is_bond() == Ok(true);
    let several = if is_bond { None } else { attach_for_several(maps, take, netdev, preference) };
    if let Some(attached) = several {
        return Ok((attached, None));
    }
    let program = maps.load(take, false).map_err(|error| attempt.bpf(&error))?;
    let on = (netdev.index(), is_bond);
    let (link, native_refused) = attach_as_preferred(&program, on, preference, attempt)?;
    Ok((Attached { link, program, several: false }, native_refused))
}

/// Why no program is attached natively to a bond, although its driver would take it.
const ON_MEMBERS: &str = "native: a bond runs the program on its members, whose packets reach no socket of the bond (open ports on them)";

/// Attaches in the best mode that is allowed and possible. Also returns the reason why it is not native, if that was
/// tried.
fn attach_as_preferred(
    program: &RedirectProgram,
    (interface, is_bond): (u32, bool),
    preference: XdpModePreference,
    attempt: &Attempt<'_>,
) -> Result<(RedirectLink, Option<String>), XdpError> {
    let in_mode = |mode| program.attach(interface, mode);
    let refused = match preference {
        XdpModePreference::Generic => None,
        XdpModePreference::Native if is_bond => {
            let (interface, refused) = (attempt.interface.into(), ON_MEMBERS.into());
            return Err(XdpError::NoMode { interface, refused });
        }
        XdpModePreference::NativeThenGeneric if is_bond => Some(ON_MEMBERS.into()),
        XdpModePreference::Native | XdpModePreference::NativeThenGeneric => match in_mode(XdpMode::Native) {
            Ok(link) => return Ok((link, None)),
            Err(error) if preference == XdpModePreference::NativeThenGeneric && is_about_the_mode(&error) => {
                Some(mode_refused(&error))
            }
            Err(error) => return Err(attempt.bpf(&error)),
        },
    };
    match (in_mode(XdpMode::Generic), refused) {
        (Ok(link), refused) => Ok((link, refused)),
        (Err(error), Some(native)) if is_about_the_mode(&error) => {
            let refused = format!("{native}; {}", mode_refused(&error));
            Err(XdpError::NoMode { interface: attempt.interface.into(), refused })
        }
        (Err(error), _) => Err(attempt.bpf(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forced_mode_allows_only_itself() {
        assert!(XdpModePreference::NativeThenGeneric.allows(XdpMode::Native));
        assert!(XdpModePreference::NativeThenGeneric.allows(XdpMode::Generic));
        assert!(!XdpModePreference::Native.allows(XdpMode::Generic));
        assert!(!XdpModePreference::Generic.allows(XdpMode::Native));
    }
}
