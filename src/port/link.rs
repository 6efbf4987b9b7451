//! Whether the interface behind a port is there and up, looked at every so many rounds and whenever a call says that it is
//! not; and whether there is one of its name again.

use super::PortState;
use crate::sys::errno::Errno;
use crate::sys::netdev::Netdev;

/// Rounds between two looks.
const LOOK_ROUNDS: u32 = 4096;

/// The interface of a port.
#[derive(Debug)]
pub(super) struct Link {
    netdev: Netdev,
    /// Poll rounds, wrapping.
    rounds: u32,
    /// Set down, and may come up again.
    is_down: bool,
    /// Removed. Another may be made that has its name.
    is_gone: bool,
    /// What keeps the port from going on with the one that has its name now, or with it elsewhere: what is said behind its name.
    refused: Option<String>,
    /// Why it is down for good.
    failed: Option<String>,
}

impl Link {
    pub(super) fn new(netdev: Netdev) -> Link {
        let mut link =
            Link { netdev, rounds: 0, is_down: false, is_gone: false, refused: None, failed: None };
        link.look();
        link
    }

    pub(super) fn netdev(&self) -> &Netdev {
        &self.netdev
    }

    /// Whether frames can be carried.
    #[inline]
    pub(super) fn is_up(&self) -> bool {
        !self.is_down && !self.is_gone && self.failed.is_none()
    }

    /// A round ends; true where it is time to look, which has been done then.
    #[inline]
    pub(super) fn end_round(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        let time = self.rounds.is_multiple_of(LOOK_ROUNDS);
        if time {
            self.look();
        }
        time
    }

    /// Looks whether the interface is there and up.
    #[cold]
    pub(super) fn look(&mut self) {
        if self.is_gone || self.failed.is_some() {
            return;
        }
        match self.netdev.is_up() {
            Ok(is_up) => self.is_down = !is_up,
            Err(Errno::NODEV) => self.is_gone = true,
            Err(errno) => self.fail(errno),
        }
    }

    /// Whether the interface was removed, or moved to where it cannot be looked at.
    #[cfg(feature = "tap")]
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone && self.failed.is_none()
    }

    /// Where the interface was removed: the one that has its name now and is up, for the port to go on with.
    #[cold]
    pub(super) fn successor(&mut self) -> Option<Netdev> {
        self.refused = None;
        if !self.is_gone || self.failed.is_some() {
            return None;
        }
        self.netdev.again().ok().filter(|netdev| netdev.is_up() == Ok(true))
    }

    /// The port's socket has no interface any more, though one of its number is there: another one, or this one after it was
    /// away.
    #[cold]
    pub(super) fn lose(&mut self) {
        self.is_gone = true;
    }

    /// The successor cannot be gone on with now; what is said behind its name is the port's reason until it can.
    #[cold]
    pub(super) fn refuse(&mut self, why: String) {
        self.refused = Some(why);
    }

    /// A call failed in a way that says nothing of the frame: the interface is looked at, and if it seems well the port is
    /// down for good; not by what says that it was down, or that the socket has lost it, which is looked at with it.
    #[cold]
    pub(super) fn heed(&mut self, errno: Errno) {
        self.look();
        let passes = matches!(errno, Errno::NETDOWN | Errno::IO | Errno::NXIO | Errno::BADFD);
        if self.is_up() && !passes {
            self.fail(errno);
        }
    }

    fn fail(&mut self, errno: Errno) {
        self.failed.get_or_insert_with(|| format!("interface {}: {errno}", self.netdev.name()));
    }

    pub(super) fn state(&self) -> PortState {
        let name = self.netdev.name();
        match (&self.failed, &self.refused) {
            (Some(reason), _) => PortState::Down(reason.clone()),
            (None, Some(why)) if self.is_gone => PortState::Down(format!("interface {name} {why}")),
            _ if self.is_gone => PortState::Down(format!("interface {name} is gone")),
            _ if self.is_down => PortState::Down(format!("interface {name} is down")),
            _ => PortState::Up,
        }
    }
}
