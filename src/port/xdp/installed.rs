//! The redirect program that is attached to one interface, with its maps. Another program can take its place. COLD.

use super::later::{Attached, Later};
use super::maps::{Maps, Taken, takes_none};
use crate::sync::shim::{Mutex, lock};
use crate::sys::bpf::{BpfError, RedirectProgram, XdpMode};
use crate::sys::errno::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// The program on its interface, until this is dropped.
#[derive(Debug)]
pub(super) struct Installed {
    pub(super) interface: u32,
    /// None while nothing was ever taken.
    held: Mutex<Option<Attached>>,
    /// What attaches it then, and the mode that it will probably have; None if it was attached from the beginning.
    later: Option<(Later, XdpMode)>,
    pub(super) maps: Maps,
}

impl Installed {
    pub(super) fn new(interface: u32, attached: Attached, maps: Maps) -> Installed {
        Installed { interface, held: Mutex::new(Some(attached)), later: None, maps }
    }

    /// Without a program, until packets are to be taken.
    pub(super) fn later(interface: u32, later: Later, maps: Maps) -> Installed {
        let mode = later.expected();
        Installed { interface, held: Mutex::new(None), later: Some((later, mode)), maps }
    }

    /// The mode of the program, or before it is attached the mode that it will probably have.
    pub(super) fn mode(&self) -> XdpMode {
        let attached = lock(&self.held).as_ref().map(|held| held.link.mode());
        let expected = || self.later.as_ref().map_or(XdpMode::Generic, |later| later.1);
        attached.unwrap_or_else(expected)
    }

    /// Calls a function with its descriptors in the order of a grant.
    pub(super) fn each_descriptor(
        &self,
        each: &mut dyn FnMut(&str, BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let held = lock(&self.held);
        // A grant has its program from the beginning.
        let held = held.as_ref().ok_or(Errno::NOLINK)?;
        each("link", held.link.as_fd())?;
        each("program", held.program.as_fd())?;
        each("sockets", self.maps.sockets.as_fd())?;
        self.maps.counts.iter().try_for_each(|counts| each("counts", counts.as_fd()))
    }

    /// Returns whether another program has taken the program off the interface.
    pub(super) fn is_detached(&self) -> bool {
        lock(&self.held).as_ref().is_some_and(|held| held.link.is_detached())
    }

    /// Attaches the program to its interface again, in the same mode, unless it is attached.
    pub(super) fn attach_again(&self) -> Result<(), BpfError> {
        match &mut *lock(&self.held) {
            Some(held) if held.link.is_detached() => {
                held.link = held.program.attach(self.interface, held.link.mode())?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes these packets from now on, and leaves the others. If another program has taken the program off the
    /// interface, this holds from the time when it is attached again.
    ///
    /// # Errors
    /// Returns [`BpfError`]; nothing has changed then.
    pub(super) fn take(&self, take: Taken<'_>) -> Result<(), BpfError> {
        // The caller holds the rules: no other thread changes them meanwhile. The lock is not held while the verifier works.
        let several = lock(&self.held).as_ref().map(|held| held.several);
        match (several, &self.later) {
            (Some(several), _) => self.replace(self.maps.load(take, several)?),
            (None, Some((later, _))) if !takes_none(take) => {
                let attached = later.attach(&self.maps, take)?;
                *lock(&self.held) = Some(attached);
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    fn replace(&self, new: RedirectProgram) -> Result<(), BpfError> {
        if let Some(held) = &mut *lock(&self.held) {
            match held.link.replace(&new) {
                Err(error) if error.errno != Errno::NOLINK => return Err(error),
                Ok(()) | Err(_) => held.program = new,
            }
        }
        Ok(())
    }
}
