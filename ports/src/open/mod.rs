//! Opening the port that a string names. COLD.

mod device;
mod error;
mod grants;
mod own_pool;

pub use error::OpenError;

use crate::{PortSpec, WrapSpec};
use device::Opened;
use error::PORTS_MAX;
use grants::Grants;
use netmem::port::af_packet::{ControlTraffic, FanoutGroup};
use netmem::port::fault::FaultPort;
use netmem::port::memif::Lend;
use netmem::port::trace::TracePort;
use netmem::port::xdp::{Punt, Umem, XdpModePreference};
use netmem::wire::MacAddr;
use netmem::{MemifPort, Memory, Pool, Port, Worker};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The settings for opening ports that are not in their strings.
#[derive(Debug, Clone, Copy)]
pub struct OpenConfig {
    /// Slots of each ring, a power of two. Default 2,048.
    pub ring: u32,
    /// Number of workers, at least 1. Each of them opens every port for itself. Default 1.
    pub workers: usize,
    /// The XDP mode of `xdp` ports without `mode=`. Default in the driver, if that is possible.
    pub xdp_mode: XdpModePreference,
    /// The packets that `xdp` ports leave to the kernel. With [`Punt::Control`], `packet` ports also leave control
    /// traffic. Default none.
    pub punt: Punt,
    /// Whether `packet` ports that leave control traffic keep all other packets from the kernel, if that is possible
    /// ([`AfPacketPort::take_alone`](netmem::AfPacketPort::take_alone)). Default yes.
    pub packets_alone: bool,
    /// As [`XdpConfig::cut_mtu`](netmem::port::xdp::XdpConfig::cut_mtu). Default the interface's own.
    pub cut_mtu: Option<u16>,
    /// The declaration that the peers of memif ports with `lend=yes` may be lent frames, for which the program writes
    /// `unsafe` ([`Lend::to_trusted_peers`]): such a peer can write frames while safe code reads them. It must hold for the
    /// peers of every port that the opener opens, also for ports with `peer=`, which lend frames of a memory of their own. A
    /// program that takes strings from others leaves the promise to them, and says so, as the help of `netmem forward`
    /// does. Default none: a port with `lend=yes` is refused.
    pub lend: Option<Lend>,
    /// Called with each memif port that was opened, for example to wait for its peer ([`MemifPort::wait`]). The default
    /// does nothing.
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
            lend: None,
            greet: |_| (),
        }
    }
}

/// The number of a port in the program, and of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortPlace {
    /// The port's number, from 0 to 254. The MAC address of a link without an interface contains it.
    pub port: usize,
    /// The worker's number, from 0 and less than [`OpenConfig::workers`]. It selects the worker's queues of the port.
    pub worker: u32,
}

/// A port that was opened, and the end of its link.
#[non_exhaustive]
pub struct OpenPort {
    /// The port, with the ports that wrap it.
    pub port: Box<dyn Port>,
    /// The MAC address of this end of the link: that of the interface or of the string, or otherwise a generated one.
    pub mac: MacAddr,
    /// The interface's MTU; None if the link has no interface.
    pub mtu: Option<u16>,
    /// Details about the port beyond its name: `native mode, zero-copy`.
    pub detail: String,
    /// What happens to the kernel's copies of received packets.
    pub copies: KernelCopies,
}

impl fmt::Debug for OpenPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpenPort { port, mac, mtu, detail, copies } = self;
        f.debug_struct("OpenPort")
            .field("port", &port.name())
            .field("mac", mac)
            .field("mtu", mtu)
            .field("detail", detail)
            .field("copies", copies)
            .finish()
    }
}

/// What happens to the kernel's copies of received packets, which the kernel may also forward or answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelCopies {
    /// There are none: the port takes its packets alone.
    None,
    /// The kernel handles them as it would without the port.
    Kept,
    /// As `Kept`, since the kernel does not allow dropping them, for this reason.
    NotDropped(String),
}

/// Opens ports over one memory by their strings. Ports of one kind share resources: `xdp` ports a UMEM, `packet` ports
/// the control traffic that they leave to the kernel.
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
/// frames.extend([frame]);
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
    /// The groups of `packet` ports that share packets, by the port's number and interface.
    fanout: HashMap<(usize, String), FanoutGroup>,
    grants: Grants,
}

impl PortOpener {
    /// Makes an opener for ports over `memory`.
    #[must_use]
    pub fn new(memory: &Memory, config: OpenConfig) -> PortOpener {
        let (memory, fanout, grants) = (memory.clone(), HashMap::new(), Grants::default());
        PortOpener { memory, config, umem: None, control: None, fanout, grants }
    }

    /// Sets the slots of each ring of the ports that are opened from now on: a power of two.
    pub fn set_ring(&mut self, ring: u32) {
        self.config.ring = ring;
    }

    /// Opens the port at `place` that `spec` names, to receive into frames of `pool`. The pool belongs to `worker`. Its
    /// frame size must be the same for all of this memory's `xdp` ports, up to the kernel's largest chunk of 4,096 bytes.
    /// Several workers cannot open a port of one queue ([`PortSpec::has_one_queue`]).
    ///
    /// # Errors
    /// Returns [`OpenError`] with the step and the remedy, in one line; nothing is left behind.
    ///
    /// # Cost
    /// System calls; for a file, those of opening it.
    #[cold]
    pub fn open(
        &mut self,
        spec: &PortSpec,
        place: PortPlace,
        worker: &mut Worker,
        pool: &Pool,
    ) -> Result<OpenPort, OpenError> {
        self.check(spec, place)?;
        let Opened { mut port, end, detail, copies } = self.device(&spec.device, place, worker, pool)?;
        for wrap in spec.wraps.iter().rev() {
            port = match wrap {
                WrapSpec::Fault(config) => Box::new(FaultPort::new(port, pool.clone(), config.clone())),
                WrapSpec::Trace(config) => Box::new(TracePort::new(port, config)?),
            };
        }
        Ok(OpenPort { port, mac: end.mac, mtu: end.mtu, detail, copies })
    }

    fn check(&self, spec: &PortSpec, PortPlace { port, worker }: PortPlace) -> Result<(), OpenError> {
        let workers = self.config.workers;
        if port >= PORTS_MAX || worker as usize >= workers {
            return Err(OpenError::Place { port, worker, workers });
        }
        // Each worker's file would be all of the file.
        if workers > 1 && spec.has_one_queue() {
            return Err(OpenError::OneQueue { port: spec.to_string(), workers });
        }
        if (spec.lends() || spec.lends_its_own()) && self.config.lend.is_none() {
            return Err(OpenError::Lend { port: spec.to_string() });
        }
        Ok(())
    }

    /// The UMEM that all `xdp` ports of this memory share; None before the first.
    #[must_use]
    pub fn umem(&self) -> Option<&Arc<Umem>> {
        self.umem.as_ref()
    }

    /// The control traffic that `packet` ports leave to the kernel; None before the first port that leaves any. Its own
    /// addresses are those of the time when that port was opened, until they are changed ([`ControlTraffic::follow`]).
    #[must_use]
    pub fn control_traffic(&self) -> Option<&Arc<ControlTraffic>> {
        self.control.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceSpec, port_spec};
    use netmem::{MemoryConfig, PoolConfig};
    use std::error::Error;
    use std::io;

    /// Found in a review: without workers an xdp port panicked, with a worker that does not exist its line was about queues,
    /// and the MAC address of port 256 was that of port 0.
    #[test]
    fn a_port_or_a_worker_with_a_number_that_does_not_exist_is_refused_before_anything_is_opened() {
        let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() }).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..Default::default() }).unwrap();
        for (port, worker, workers) in [(0, 0, 0), (0, 1, 1), (255, 0, 1), (256, 2, 3)] {
            let mut opener = PortOpener::new(&memory, OpenConfig { workers, ..Default::default() });
            for spec in ["xdp:lo", "xdp:lo,queues=1", "memif:/none.sock", "pcap:in=/none.pcap"] {
                let refused =
                    opener.open(&port_spec(spec).unwrap(), PortPlace { port, worker }, &mut w, &pool);
                let error = refused.map(drop).unwrap_err();
                let is_place = matches!(error, OpenError::Place { .. });
                let line = error.to_string();
                let begin = format!("open port {port} of worker {worker}: ");
                assert!(
                    is_place
                        && line.starts_with(&begin)
                        && line.contains(&format!(" {workers} workers"))
                        && !line.contains("  "),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn a_port_of_one_queue_is_refused_for_two_workers_which_would_each_get_every_packet() {
        let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() }).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..Default::default() }).unwrap();
        let mut opener = PortOpener::new(&memory, OpenConfig { workers: 2, ..Default::default() });
        for worker in [0, 1] {
            for text in ["pcap:in=/none.pcap", "memif:/none/x.sock,role=server", "trace:file=/none/x/tap:t"] {
                let (spec, place) = (port_spec(text).unwrap(), PortPlace { port: 0, worker });
                let error = opener.open(&spec, place, &mut w, &pool).map(drop).unwrap_err();
                assert!(matches!(error, OpenError::OneQueue { workers: 2, .. }), "{error}");
                let line = error.to_string();
                assert!(line.starts_with(&format!("open {text} for 2 workers: ")), "{line}");
                assert!(line.contains("use one worker") && !line.contains("  "), "{line}");
            }
        }
    }

    /// Found in a review: a program without `unsafe` got frames that a process of any user could write, if a string said so.
    #[test]
    fn a_port_that_would_lend_frames_is_refused_unless_the_program_vouches_for_its_peer() {
        let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() }).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..Default::default() }).unwrap();
        let mut opener = PortOpener::new(&memory, OpenConfig::default());
        for text in [
            "memif:@none,lend=yes",
            "memif:@none,peer=any,lend=yes",
            "fault:/memif:@none,lend=yes,secret=sesame",
        ] {
            let spec = port_spec(text).unwrap();
            let error = opener.open(&spec, PortPlace::default(), &mut w, &pool).map(drop).unwrap_err();
            let line = error.to_string();
            assert!(
                matches!(error, OpenError::Lend { .. }) && line.starts_with(&format!("open {spec}: ")),
                "{line}"
            );
            assert!(line.contains("leave lend=yes out") && !line.contains("  "), "{line}");
            if let DeviceSpec::Memif { config, .. } = spec.device {
                assert_eq!(config.lend, None, "it would be enough for MemifPort::open");
            }
        }
    }

    /// Seen: of two xdp ports the second had a pool of smaller frames. It was up, and received nothing.
    #[test]
    fn xdp_ports_of_one_memory_with_frames_of_different_sizes_are_refused() {
        let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() }).unwrap();
        let mut w = memory.worker().unwrap();
        let mut pool = |frame_size| {
            let config = PoolConfig { frames: 64, ..PoolConfig::of_frames(frame_size) };
            Pool::new(&memory, &mut w, &config).unwrap()
        };
        let pools = [4096, 2048, 16384].map(&mut pool);
        let mut opener = PortOpener::new(&memory, OpenConfig::default());
        let spec = port_spec("xdp:nosuch0").unwrap();
        let mut open = |opener: &mut PortOpener, pool| {
            opener.open(&spec, PortPlace::default(), &mut w, pool).map(drop).unwrap_err()
        };
        assert!(matches!(open(&mut opener, &pools[0]), OpenError::Xdp(_)), "there is no such interface");
        let in_use = opener.umem().cloned();
        let error = open(&mut opener, &pools[1]);
        assert!(matches!(error, OpenError::FrameSizes { frame_size: 2048, first: 4096, .. }), "{error}");
        assert!(!error.to_string().contains("  "), "{error}");
        assert!(matches!(open(&mut opener, &pools[2]), OpenError::Xdp(_)), "its chunks are as large");
        drop(in_use);
        assert!(matches!(open(&mut opener, &pools[1]), OpenError::Xdp(_)), "no port has the UMEM");
    }

    /// Found in a review: of these, one line had no remedy, and none had its cause as its source.
    #[test]
    fn errors_about_a_host_name_step_and_remedy_and_have_their_cause() {
        let interface = || "eth0".to_owned();
        let of_addresses = |errno| OpenError::Addresses(io::Error::from_raw_os_error(errno));
        let of_mtu = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            OpenError::Interface { what: "MTU", interface: interface(), error }
        };
        for (open, step, end) in [
            (of_addresses(12), "read the host's addresses: ", "?"),
            (of_mtu(19), "MTU of eth0: ", "?"),
            (of_addresses(24), "read the host's addresses: ", "raise the limit of open files (`ulimit -n`)"),
            (of_mtu(23), "MTU of eth0: ", "raise `sysctl fs.file-max`"),
        ] {
            let line = open.to_string();
            assert!(line.starts_with(step) && line.ends_with(end), "{line}");
            assert!(open.source().is_some_and(|cause| line.contains(&cause.to_string())), "{line}");
        }
    }
}
