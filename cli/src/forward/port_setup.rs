//! What the ports of one run have in common.

use crate::args::FrameSize;
use crate::failure::Failure;
use netmem::limits::PAGE_SIZE;
use netmem::page::Memory;
use netmem::port::xdp::{Punt, Umem, XdpModePreference};
use netmem::wire::MacAddr;
use netmem_router::Interface;
use std::sync::Arc;

/// What the ports of one run have in common.
#[derive(Debug, Clone, Copy)]
pub struct PortSetup {
    /// Threads, each with a queue of every port.
    pub workers: usize,
    /// Places in each ring.
    pub ring: u32,
    /// Bytes of the frames that are received into.
    pub frame_size: FrameSize,
    /// Where the redirect program of interfaces runs.
    pub xdp_mode: XdpModePreference,
    /// What interfaces leave to the kernel, unless one says otherwise.
    pub punt: Punt,
    /// The MTU of the narrowest interface, where TCP is cut that nothing says how to cut.
    pub cut_mtu: Option<u16>,
}

impl PortSetup {
    /// What AF_XDP ports share: chunks as large as the frames, as far as the kernel takes them.
    ///
    /// # Errors
    /// None that is known: both sizes are ones that the kernel takes.
    pub fn umem(&self, memory: &Memory) -> Result<Arc<Umem>, Failure> {
        Umem::with_chunks(memory, self.frame_size.bytes().min(PAGE_SIZE)).map_err(Failure::input)
    }

    /// The router's end of a link that has no interface: a locally administered address with the port's number.
    pub(super) fn made_up(&self, place: usize) -> Interface {
        let mac = MacAddr::new([0x02, b'n', b'e', b't', 0, place as u8]);
        Interface { mac, mtu: self.frame_size.mtu() }
    }
}
