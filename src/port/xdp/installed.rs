//! The redirect program that is attached to one interface, with its maps. Another program can take its place. COLD.

use super::own::OwnAddresses;
use crate::sync::shim::{Mutex, lock};
use crate::sys::bpf::{
    BpfError, KernelCounts, Punt, Punted, QUEUES_MAX, RedirectLink, RedirectProgram, Selection, SocketMap,
    Take, XdpMode,
};
use crate::sys::errno::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// The packets that are taken: the rules, and the MAC address of the station that they must be sent to.
pub(super) type Taken<'a> = Option<(&'a Take, [u8; 6])>;

/// The maps that redirect programs share when one replaces another.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) sockets: SocketMap,
    punted: Punted<Arc<OwnAddresses>>,
    /// Counts of packets left to the kernel, if a program leaves any.
    counts: Option<KernelCounts>,
    /// Whether the driver may give programs packets that lie in several buffers.
    several: bool,
}

impl Maps {
    /// Makes maps for programs that leave punted packets to the kernel, and of the rest those that they do not take.
    pub(super) fn new(punted: Punted<Arc<OwnAddresses>>, takes: bool) -> Result<Maps, BpfError> {
        let leaves = punted.punt() != Punt::Nothing || takes;
        let counts = leaves.then(|| KernelCounts::new(QUEUES_MAX)).transpose()?;
        Ok(Maps { sockets: SocketMap::new(QUEUES_MAX)?, punted, counts, several: false })
    }

    /// Wraps the maps of a program that takes some packets, which another process made.
    pub(super) fn given(sockets: SocketMap, counts: KernelCounts) -> Maps {
        Maps { sockets, punted: Punted::Nothing, counts: Some(counts), several: false }
    }

    /// Sets whether the driver may give packets that lie in several buffers to programs that are loaded from now on.
    pub(super) fn set_several(&mut self, several: bool) {
        self.several = several;
    }

    /// The packets that are punted.
    pub(super) fn punt(&self) -> Punt {
        self.punted.punt()
    }

    /// Loads a program over the maps.
    pub(super) fn load(&self, take: Taken<'_>) -> Result<RedirectProgram, BpfError> {
        let punted = self.punted.as_ref().map(|own| own.maps());
        let selection = self.counts.as_ref().map(|counts| Selection { punted, take, counts });
        RedirectProgram::load(&self.sockets, selection.as_ref(), self.several)
    }

    /// Number of frames of `queue` that were left to the kernel. None if it cannot be read now.
    pub(super) fn left(&self, queue: u32) -> Option<u64> {
        self.counts.as_ref().map_or(Some(0), |counts| counts.get(queue).ok())
    }
}

/// The program on its interface, until this is dropped.
#[derive(Debug)]
pub(super) struct Installed {
    pub(super) interface: u32,
    pub(super) mode: XdpMode,
    /// The link is dropped first, and then the program that it held.
    held: Mutex<(RedirectLink, RedirectProgram)>,
    pub(super) maps: Maps,
}

impl Installed {
    pub(super) fn new(interface: u32, link: RedirectLink, program: RedirectProgram, maps: Maps) -> Installed {
        Installed { interface, mode: link.mode(), held: Mutex::new((link, program)), maps }
    }

    /// Calls a function with its descriptors in the order of a grant.
    pub(super) fn each_descriptor(
        &self,
        each: &mut dyn FnMut(&str, BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let held = lock(&self.held);
        each("link", held.0.as_fd())?;
        each("program", held.1.as_fd())?;
        each("sockets", self.maps.sockets.as_fd())?;
        self.maps.counts.iter().try_for_each(|counts| each("counts", counts.as_fd()))
    }

    /// Returns whether another program has taken the program off the interface.
    pub(super) fn is_detached(&self) -> bool {
        lock(&self.held).0.is_detached()
    }

    /// Attaches the program to its interface again, in the same mode, unless it is attached.
    pub(super) fn attach_again(&self) -> Result<(), BpfError> {
        let mut held = lock(&self.held);
        let (link, program) = &mut *held;
        if link.is_detached() {
            *link = program.attach(self.interface, self.mode)?;
        }
        Ok(())
    }

    /// Takes these packets from now on, and leaves the others. If another program has taken the program off the
    /// interface, this holds from the time when it is attached again.
    ///
    /// # Errors
    /// Returns [`BpfError`]; nothing has changed then.
    pub(super) fn take(&self, take: Taken<'_>) -> Result<(), BpfError> {
        let new = self.maps.load(take)?;
        let mut held = lock(&self.held);
        let (link, program) = &mut *held;
        match link.replace(&new) {
            Err(error) if error.errno != Errno::NOLINK => return Err(error),
            Ok(()) | Err(_) => *program = new,
        }
        Ok(())
    }
}
