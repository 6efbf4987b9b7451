//! Opening the port that a string names. COLD.

mod device;
mod error;
mod own_pool;

pub use error::OpenError;

use crate::{PortSpec, WrapSpec};
use device::Opened;
use netmem::port::af_packet::ControlTraffic;
use netmem::port::fault::FaultPort;
use netmem::port::trace::TracePort;
use netmem::port::xdp::{Punt, Umem, XdpModePreference};
use netmem::wire::MacAddr;
use netmem::{MemifPort, Memory, Pool, Port, Worker};
use std::sync::Arc;

/// How ports are opened: what their strings do not say.
#[derive(Debug, Clone, Copy)]
pub struct OpenConfig {
    /// Slots of each ring, a power of two. Default 2,048.
    pub ring: u32,
    /// Workers, each of which opens every port for itself. Default 1.
    pub workers: usize,
    /// Where the program of `xdp` ports runs. Default in the driver, where that can be.
    pub xdp_mode: XdpModePreference,
    /// What `xdp` ports leave to the kernel; with [`Punt::Control`] `packet` ports leave it control traffic too. Default nothing.
    pub punt: Punt,
    /// Whether the kernel is kept from what `packet` ports take that leave it control traffic, where that can be
    /// ([`AfPacketPort::take_alone`](netmem::AfPacketPort::take_alone)). Default yes.
    pub packets_alone: bool,
    /// As [`XdpConfig::cut_mtu`](netmem::port::xdp::XdpConfig::cut_mtu). Default the interface's own.
    pub cut_mtu: Option<u16>,
    /// Is called with each memif port that was opened, for example to wait for its peer ([`MemifPort::wait`]). Default does nothing.
    pub greet: fn(&mut MemifPort),
}

impl Default for OpenConfig {
    fn default() -> Self {
        OpenConfig {
            ring: 2048,
            workers: 1,
            xdp_mode: XdpModePreference::default(),
            punt: Punt::Nothing,
            packets_alone: true,
            cut_mtu: None,
            greet: |_| (),
        }
    }
}

/// Which of a program's ports it is, and which worker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortPlace {
    /// The port's number, from 0. A link without an interface gets its MAC address by it.
    pub port: usize,
    /// The worker's number, from 0. It has the queues that are its own of the port's.
    pub worker: u32,
}

/// A port that was opened, and the end of its link.
#[non_exhaustive]
pub struct OpenPort {
    /// The port, with what is around it.
    pub port: Box<dyn Port>,
    /// The MAC address of this end of the link: the interface's, the one that the string gives, or else one that is made up.
    pub mac: MacAddr,
    /// The interface's MTU; None where the link has no interface.
    pub mtu: Option<u16>,
    /// What there is to say about the port besides its name: `native mode, zero-copy`.
    pub detail: String,
    /// What becomes of the kernel's copies of what the port takes.
    pub copies: KernelCopies,
}

/// What becomes of the kernel's copies of what a port takes, which it may forward or answer as well.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelCopies {
    /// There are none: the port takes its packets alone.
    None,
    /// The kernel handles them as it would without the port.
    Kept,
    /// As `Kept`, since the kernel does not let them be dropped: why.
    NotDropped(String),
}

/// Opens ports over one memory by their strings. What they can share they do: `xdp` ports a UMEM, `packet` ports what they leave to the
/// kernel.
///
/// ```
/// use netmem::{Batch, Memory, MemoryConfig, Pool, PoolConfig};
/// use netmem_ports::{OpenConfig, PortOpener, PortPlace, port_spec};
///
/// # let path = std::env::temp_dir().join(format!("netmem-opener-{}.pcap", std::process::id()));
/// # let text = format!("pcap:out={}", path.display());
/// let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() })?;
/// let mut w = memory.worker()?;
/// let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() })?;
/// let mut opener = PortOpener::new(&memory, OpenConfig::default());
///
/// let spec = port_spec(&text)?; // as it was typed: "xdp:eth0", "packet:eth0", "pcap:out=FILE"
/// let mut opened = opener.open(&spec, PortPlace::default(), &mut w, &pool)?;
/// let mut frames = Batch::new();
/// let mut frame = pool.alloc(&mut w).ok_or("no frame is free")?;
/// frame.put_zeroed(60)?;
/// frames.push_all([frame]);
/// opened.port.tx(&mut w, &mut frames);
/// opened.port.kick();
/// assert_eq!(opened.port.complete(&mut w, &mut frames), 1);
/// frames.free(&mut w);
/// # drop(opened);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PortOpener {
    memory: Memory,
    config: OpenConfig,
    umem: Option<Arc<Umem>>,
    control: Option<Arc<ControlTraffic>>,
}

impl PortOpener {
    /// For ports over `memory`.
    #[must_use]
    pub fn new(memory: &Memory, config: OpenConfig) -> PortOpener {
        PortOpener { memory: memory.clone(), config, umem: None, control: None }
    }

    /// Opens the port at `place` that `spec` names, to receive into frames of `pool`, which is `worker`'s and of the same size for all of
    /// this memory's `xdp` ports.
    ///
    /// # Errors
    /// [`OpenError`] with the step and the remedy, in one line; nothing is left behind.
    ///
    /// # Cost
    /// System calls; for a file that of opening it.
    #[cold]
    pub fn open(
        &mut self,
        spec: &PortSpec,
        place: PortPlace,
        worker: &mut Worker,
        pool: &Pool,
    ) -> Result<OpenPort, OpenError> {
        let Opened { mut port, end, detail, copies } = self.device(&spec.device, place, worker, pool)?;
        for wrap in spec.wraps.iter().rev() {
            port = match wrap {
                WrapSpec::Fault(config) => Box::new(FaultPort::new(port, pool.clone(), config.clone())),
                WrapSpec::Trace(config) => Box::new(TracePort::new(port, config)?),
            };
        }
        Ok(OpenPort { port, mac: end.mac, mtu: end.mtu, detail, copies })
    }

    /// What all `xdp` ports of this memory share; None before the first.
    #[must_use]
    pub fn umem(&self) -> Option<&Arc<Umem>> {
        self.umem.as_ref()
    }

    /// What `packet` ports leave to the kernel; None before the first that leaves anything. Its own addresses are those of the time when that
    /// was opened, until somebody says otherwise ([`ControlTraffic::follow`]).
    #[must_use]
    pub fn control_traffic(&self) -> Option<&Arc<ControlTraffic>> {
        self.control.as_ref()
    }
}
