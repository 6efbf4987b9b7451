//! The redirect program as it is attached to one interface, with its maps; another one can take its place. COLD.

use super::own::OwnAddresses;
use crate::sync::shim::{Mutex, lock};
use crate::sys::bpf::{
    BpfError, KernelCounts, Punt, Punted, QUEUES_MAX, RedirectLink, RedirectProgram, Selection, SocketMap,
    Take, XdpMode,
};
use crate::sys::errno::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// What is taken of the packets for a station: the rules, and its MAC address.
pub(super) type Taken<'a> = Option<(&'a Take, [u8; 6])>;

/// The maps of redirect programs that take each other's place.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) sockets: SocketMap,
    punted: Punted<Arc<OwnAddresses>>,
    /// Of what is left to the kernel, where a program leaves anything.
    counts: Option<KernelCounts>,
    /// Whether the driver may give programs packets that lie in several buffers.
    several: bool,
}

impl Maps {
    /// For programs that leave to the kernel what is punted, and of the rest what they do not take.
    pub(super) fn new(punted: Punted<Arc<OwnAddresses>>, takes: bool) -> Result<Maps, BpfError> {
        let leaves = punted.punt() != Punt::Nothing || takes;
        let counts = leaves.then(|| KernelCounts::new(QUEUES_MAX)).transpose()?;
        Ok(Maps { sockets: SocketMap::new(QUEUES_MAX)?, punted, counts, several: false })
    }

    /// Those of a program that takes some packets, which another process made.
    pub(super) fn given(sockets: SocketMap, counts: KernelCounts) -> Maps {
        Maps { sockets, punted: Punted::Nothing, counts: Some(counts), several: false }
    }

    /// Whether the driver may give programs that are loaded from now on packets that lie in several buffers.
    pub(super) fn set_several(&mut self, several: bool) {
        self.several = several;
    }

    /// What is punted.
    pub(super) fn punt(&self) -> Punt {
        self.punted.punt()
    }

    /// A program over them.
    pub(super) fn load(&self, take: Taken<'_>) -> Result<RedirectProgram, BpfError> {
        let punted = self.punted.as_ref().map(|own| own.maps());
        let selection = self.counts.as_ref().map(|counts| Selection { punted, take, counts });
        RedirectProgram::load(&self.sockets, selection.as_ref(), self.several)
    }

    /// Frames of `queue` that were left to the kernel.
    pub(super) fn left(&self, queue: u32) -> u64 {
        self.counts.as_ref().map_or(0, |counts| counts.get(queue))
    }
}

/// The program on its interface, until this is dropped.
#[derive(Debug)]
pub(super) struct Installed {
    pub(super) interface: u32,
    pub(super) mode: XdpMode,
    /// The link goes first, and then what it held.
    held: Mutex<(RedirectLink, RedirectProgram)>,
    pub(super) maps: Maps,
}

impl Installed {
    pub(super) fn new(interface: u32, link: RedirectLink, program: RedirectProgram, maps: Maps) -> Installed {
        Installed { interface, mode: link.mode(), held: Mutex::new((link, program)), maps }
    }

    /// Shows its descriptors in the order in which a grant has them.
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

    /// Whether another program has taken the program off the interface.
    pub(super) fn is_detached(&self) -> bool {
        lock(&self.held).0.is_detached()
    }

    /// Puts the program on its interface again, in the mode it had, unless it is there.
    pub(super) fn attach_again(&self) -> Result<(), BpfError> {
        let mut held = lock(&self.held);
        let (link, program) = &mut *held;
        if link.is_detached() {
            *link = program.attach(self.interface, self.mode)?;
        }
        Ok(())
    }

    /// Takes these packets from now on, and leaves the others; where another program has taken ours off the interface, from when
    /// it is attached again.
    ///
    /// # Errors
    /// [`BpfError`]; nothing has changed then.
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
