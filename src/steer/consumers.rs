//! The worker that consumes each flow's packets, for receive flow steering.

use super::toeplitz::Toeplitz;
use crate::limits::WORKERS_MAX;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// No worker is known.
pub(super) const NOBODY: u8 = u8::MAX;

/// The workers that consume flows, as the consumers set them. With [`Policy::Flow`](super::Policy::Flow), a flow
/// goes to its worker.
///
/// The table corresponds to the socket table of the kernel's receive flow steering. The consumer of a flow, for example
/// a server's socket, sets the worker that it runs on, as often as it likes. The flow moves when its old worker is
/// done with all its frames. If packets are handed to the consumer by hand before that, packets that come directly may
/// overtake them. So set a consumer when its connection begins. The table has
/// [`MeshConfig::flows`](super::MeshConfig::flows) entries. Flows that share an entry share a consumer: the one set
/// last.
///
/// ```
/// use netmem::steer::{Mesh, MeshConfig};
///
/// # fn main() -> Result<(), netmem::steer::MeshError> {
/// let (mesh, _ends) = Mesh::new(&MeshConfig { policy: "flow".parse()?, ..Default::default() })?;
/// let consumers = mesh.consumers();
/// let request = [0; 64]; // a received frame, from its Ethernet header on
/// let flow = consumers.flow(&request, 0); // once for each connection
/// consumers.set(flow, 1); // and whenever worker 1 reads from it
/// assert_eq!(consumers.get(flow), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FlowConsumers {
    hash: Toeplitz,
    /// Indexed by the lower bits of the flow's hash. The entries are hints on which no order depends, so loom does not
    /// interleave them.
    entries: Box<[AtomicU8]>,
}

impl FlowConsumers {
    /// Makes an empty table of `entries`, a power of two.
    pub(super) fn new(hash: Toeplitz, entries: usize) -> FlowConsumers {
        FlowConsumers { hash, entries: (0..entries).map(|_| AtomicU8::new(NOBODY)).collect() }
    }

    /// The number of a frame's flow, from its Ethernet header on, received in `queue`: the hash that the policies use.
    ///
    /// # Cost
    /// The cost of [`Toeplitz::flow`].
    #[inline]
    pub fn flow(&self, frame: &[u8], queue: u16) -> u32 {
        self.hash.flow(frame, queue)
    }

    /// Records that `worker` consumes a flow. A worker that the policy does not choose from counts as none, and so does
    /// one whose inbox no worker reads ([`Outbox::has_reader`](super::Outbox::has_reader)).
    ///
    /// # Cost
    /// One load, and one store if the worker has changed.
    #[inline]
    pub fn set(&self, flow: u32, worker: usize) {
        self.store(flow, u8::try_from(worker).ok().filter(|_| worker < WORKERS_MAX).unwrap_or(NOBODY));
    }

    /// Records that no worker consumes a flow any more: it goes to the worker with the least to do.
    pub fn clear(&self, flow: u32) {
        self.store(flow, NOBODY);
    }

    /// The worker that consumes a flow, if one is set.
    #[inline]
    pub fn get(&self, flow: u32) -> Option<usize> {
        // Relaxed: a hint; order within a flow depends on when it moves, not on where it moves.
        let worker = self.entry(flow).load(Relaxed);
        (worker != NOBODY).then_some(usize::from(worker))
    }

    #[inline]
    fn store(&self, flow: u32, worker: u8) {
        let entry = self.entry(flow);
        // Read before it is written, so that the line stays in the caches of all workers that steer by it.
        if entry.load(Relaxed) != worker {
            entry.store(worker, Relaxed);
        }
    }

    #[inline]
    fn entry(&self, flow: u32) -> &AtomicU8 {
        &self.entries[flow as usize & (self.entries.len() - 1)]
    }
}
