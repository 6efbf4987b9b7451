//! Whether the interface behind a port is there and up, looked at every so many rounds and whenever a call says that it is
//! not.

use super::PortState;
use crate::sys::netdev::Netdev;
use crate::sys::xdp::Errno;

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
    /// Why it is down for good.
    gone: Option<String>,
}

impl Link {
    pub(super) fn new(netdev: Netdev) -> Link {
        let mut link = Link { netdev, rounds: 0, is_down: false, gone: None };
        link.look();
        link
    }

    pub(super) fn netdev(&self) -> &Netdev {
        &self.netdev
    }

    /// Whether frames can be carried.
    #[inline]
    pub(super) fn is_up(&self) -> bool {
        !self.is_down && self.gone.is_none()
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

    /// Looks whether the interface is there and up. One that is gone never comes back, whatever has its name.
    #[cold]
    pub(super) fn look(&mut self) {
        match self.netdev.is_up() {
            _ if self.gone.is_some() => {}
            Ok(is_up) => self.is_down = !is_up,
            Err(Errno::NODEV) => self.gone = Some(format!("interface {} is gone", self.netdev.name())),
            Err(errno) => self.fail(errno),
        }
    }

    /// A call failed in a way that says nothing of the frame: the interface is looked at, and if it seems well the port is
    /// down for good.
    #[cold]
    pub(super) fn heed(&mut self, errno: Errno) {
        self.look();
        let down = matches!(errno, Errno::NETDOWN | Errno::IO);
        if self.is_up() && !down {
            self.fail(errno);
        }
    }

    fn fail(&mut self, errno: Errno) {
        self.gone.get_or_insert_with(|| format!("interface {}: {errno}", self.netdev.name()));
    }

    pub(super) fn state(&self) -> PortState {
        match &self.gone {
            Some(reason) => PortState::Down(reason.clone()),
            None if self.is_down => PortState::Down(format!("interface {} is down", self.netdev.name())),
            None => PortState::Up,
        }
    }
}
