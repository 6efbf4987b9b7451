//! COLD: makes the interface, or attaches to it.

use super::{HostDrops, TapLink, TapPort};
use crate::port::copying::CopyingPort;
use crate::port::link::Link;
use crate::port::uncut::Uncut;
use crate::sys::errno::{Errno, descriptor_remedy};
use crate::sys::netdev::Netdev;
use crate::sys::tap::{TapQueue, TapQueueError, TapStep};

/// The settings of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapConfig {
    /// Whether the interface has several queues, one for each port that is opened on it (`IFF_MULTI_QUEUE`). Default:
    /// one queue.
    pub multi_queue: bool,
    /// Maximum number of frames posted in each direction. Default 512: the host queues 1,000 by itself.
    pub ring: usize,
}

impl Default for TapConfig {
    fn default() -> Self {
        TapConfig { multi_queue: false, ring: 512 }
    }
}

/// The reason why a port could not be opened. Nothing is left behind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TapError {
    /// The name is not valid for an interface.
    #[error("tap interface {0:?}: give a name of 1 to 15 bytes without /, % and spaces")]
    Name(String),
    /// The kernel has no TAP interfaces.
    #[error(
        "open /dev/net/tun for {0}: it is not there; load the module tun, or give the container the device"
    )]
    NoDriver(String),
    /// This process has no permission.
    #[error("tap interface {0}: not permitted; run as root, or grant CAP_NET_ADMIN with setcap(8)")]
    NotPermitted(String),
    /// Another program has it.
    #[error("tap interface {0} is held by another program: stop it, or choose another name")]
    Busy(String),
    /// An interface of that name exists, but the port cannot attach to it.
    #[error("interface {0} is not a TAP interface with as many queues as asked for: choose another name")]
    NotTap(String),
    /// Another error of the kernel.
    #[error("{step} for {interface}: {errno}{}", descriptor_remedy(*.errno))]
    Refused {
        /// The interface.
        interface: String,
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
}

impl TapPort {
    /// Opens a port at the far end of the TAP interface `name`. Makes the interface and sets it up if it does not exist.
    ///
    /// # Errors
    /// Returns [`TapError`] with the step and the remedy.
    #[cold]
    pub fn open(name: &str, config: &TapConfig) -> Result<TapPort, TapError> {
        let bytes = 1..=15;
        if !bytes.contains(&name.len())
            || name.contains(|c: char| c == '/' || c == '%' || c.is_whitespace() || c == '\0')
        {
            return Err(TapError::Name(name.to_owned()));
        }
        let was_there = Netdev::open(name).is_ok();
        let queue = TapQueue::open(name, config.multi_queue).map_err(|error| refused(name, error))?;
        let failed = |step| move |errno| TapError::Refused { interface: name.to_owned(), step, errno };
        let netdev = Netdev::open(name).map_err(failed("find the interface"))?;
        let host_drops = HostDrops::of(&netdev);
        if !was_there {
            netdev.set_up().map_err(failed("set the interface up"))?;
        }
        let (several, link, uncut) = (config.multi_queue, Link::new(netdev), Uncut::new(1));
        let device = TapLink { queue, several, link, uncut, keeps_offloads: false, host_drops };
        Ok(CopyingPort::new(format!("tap:{name}"), device, config.ring))
    }
}

fn refused(name: &str, TapQueueError { step, errno }: TapQueueError) -> TapError {
    let interface = name.to_owned();
    match (step, errno) {
        (TapStep::Open, Errno::NOENT | Errno::NXIO | Errno::NODEV) => TapError::NoDriver(interface),
        (_, Errno::PERM | Errno::ACCESS) => TapError::NotPermitted(interface),
        (TapStep::Attach, Errno::BUSY) => TapError::Busy(interface),
        (TapStep::Attach, Errno::INVAL) => TapError::NotTap(interface),
        (TapStep::Open, _) => TapError::Refused { interface, step: "open /dev/net/tun", errno },
        (TapStep::Attach, _) => TapError::Refused { interface, step: "make the interface", errno },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_names_the_interface_and_the_remedy_in_one_line() {
        for (step, errno, needles) in [
            (TapStep::Open, Errno::NOENT, ["/dev/net/tun for t9", "module tun"]),
            (TapStep::Open, Errno::ACCESS, ["t9: not permitted", "CAP_NET_ADMIN"]),
            (TapStep::Attach, Errno::PERM, ["t9: not permitted", "CAP_NET_ADMIN"]),
            (TapStep::Attach, Errno::BUSY, ["t9 is held by another program", "choose another name"]),
            (TapStep::Attach, Errno::INVAL, ["t9 is not a TAP interface", "choose another name"]),
            (TapStep::Attach, Errno::NOMEM, ["make the interface for t9", ""]),
        ] {
            let line = refused("t9", TapQueueError { step, errno }).to_string();
            assert!(needles.iter().all(|needle| line.contains(needle)) && !line.contains('\n'), "{line}");
        }
    }
}
