//! Which worker consumes what a flow's packets carry: receive flow steering goes by it.

use super::toeplitz::Toeplitz;
use crate::limits::WORKERS_MAX;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// No worker: none is known.
pub(super) const NOBODY: u8 = u8::MAX;

/// The workers that consume flows, as the consumers registered them: with [`Policy::Flow`](super::Policy::Flow) a flow
/// goes to its worker.
///
/// What the kernel's receive flow steering has in its table of sockets. Whoever consumes a flow, a server's socket for example, notes
/// the worker that it runs on, as often as it likes: a flow moves when its old worker is done with all its frames. Packets that
/// are handed on to the consumer by hand before that may be overtaken by those that come straight: note a consumer when its
/// connection begins. Flows that share an entry of the table, which has [`MeshConfig::flows`](super::MeshConfig::flows), share
/// a consumer: the one noted last.
///
/// ```
/// use netmem::steer::{Mesh, MeshConfig};
///
/// # fn main() -> Result<(), netmem::steer::MeshError> {
/// let (mesh, _ends) = Mesh::new(&MeshConfig { policy: "flow".parse()?, ..Default::default() })?;
/// let consumers = mesh.consumers();
/// let request = [0; 64]; // a received frame, from its Ethernet header on
/// let flow = consumers.flow(&request, 0); // once for each connection
/// consumers.note(flow, 1); // and whenever worker 1 reads from it
/// assert_eq!(consumers.of(flow), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FlowConsumers {
    hash: Toeplitz,
    /// By the lower bits of the flow's hash. Hints, which no order hangs on: so they are not among what loom interleaves.
    entries: Box<[AtomicU8]>,
}

impl FlowConsumers {
    /// None yet, in a table of `entries`, a power of two.
    pub(super) fn new(hash: Toeplitz, entries: usize) -> FlowConsumers {
        FlowConsumers { hash, entries: (0..entries).map(|_| AtomicU8::new(NOBODY)).collect() }
    }

    /// The number of a frame's flow, from its Ethernet header on, received in `queue`: what the policies hash it to.
    ///
    /// # Cost
    /// As [`Toeplitz::flow`].
    #[inline]
    pub fn flow(&self, frame: &[u8], queue: u16) -> u32 {
        self.hash.flow(frame, queue)
    }

    /// Says that `worker` consumes a flow. One that the policy does not choose from counts as none.
    ///
    /// # Cost
    /// A load; a store as well where it is another worker than before.
    #[inline]
    pub fn note(&self, flow: u32, worker: usize) {
        self.set(flow, u8::try_from(worker).ok().filter(|_| worker < WORKERS_MAX).unwrap_or(NOBODY));
    }

    /// Says that nobody consumes a flow any more: it goes where there is the least to do.
    pub fn forget(&self, flow: u32) {
        self.set(flow, NOBODY);
    }

    /// The worker that consumes a flow, where one was noted.
    #[inline]
    pub fn of(&self, flow: u32) -> Option<usize> {
        // Relaxed: a hint; order within a flow is kept by when it moves, not by where to.
        let worker = self.entry(flow).load(Relaxed);
        (worker != NOBODY).then_some(usize::from(worker))
    }

    #[inline]
    fn set(&self, flow: u32, worker: u8) {
        let entry = self.entry(flow);
        // Looked at before it is written, so that the line stays in the caches of all that steer by it.
        if entry.load(Relaxed) != worker {
            entry.store(worker, Relaxed);
        }
    }

    #[inline]
    fn entry(&self, flow: u32) -> &AtomicU8 {
        &self.entries[flow as usize & (self.entries.len() - 1)]
    }
}
