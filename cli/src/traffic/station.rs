//! A station: ports, and the frames that they need to send or receive packets. COLD but for `free_sent`.

use crate::args::{FrameSize, StationArgs};
use crate::claims::{InterfaceClaims, Use};
use crate::failure::Failure;
use crate::forward::files;
use crate::forward::lending;
use crate::forward::port_setup::PortSetup;
use crate::forward::ports::{Opened, opened};
use crate::forward::report::{PortReport, down};
use crate::forward::worker_setup::Owner;
use crate::log::{self, Level};
use crate::report_file::ReportFile;
use crate::sandbox::{self, SandboxPlan};
use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Batch, DmaMap, Ledger, Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::xdp::Punt;
use netmem::system::broker::BrokerProcess;
use netmem::system::cpu;
use netmem::wire::MacAddr;
use netmem_ports::{DeviceSpec, PortPlace, PortSpec};
use std::path::Path;
use std::time::Duration;

/// The time for frames to be freed once the ports are closed.
const HOME: Duration = Duration::from_secs(2);

/// The time between two looks at those who ask for the holder of a claim, in nanoseconds.
const LOOK: u64 = 1_000_000_000;

/// Ports with one worker and its pool.
pub struct Station {
    pub ports: Vec<Box<dyn Port>>,
    pub owner: Owner,
    /// The MAC address of each port.
    pub macs: Vec<MacAddr>,
    details: Vec<String>,
    /// For each port whether peers connect to it.
    has_peers: Vec<bool>,
    /// The broker, which keeps the privileges, or None without a sandbox.
    broker: Option<BrokerProcess>,
    claims: InterfaceClaims,
    /// When it looks at the claims again, by the monotonic clock.
    look_at: u64,
    /// The file for the report, or None for standard output.
    json: Option<ReportFile>,
}

/// The counters of packets that a port accepted and did not send, and the reasons.
const UNSENT: [(&str, &str); 3] = [
    ("tx_lost", ""),
    ("tx_stranded", ", because the interface went away while it had them"),
    ("tx_invalid", ", because it cannot carry them"),
];

/// The results of a closed station.
pub struct Closed {
    /// The file that also gets the report.
    pub json: Option<ReportFile>,
    pub ports: Vec<PortReport>,
    pub pool: Ledger,
    /// One line for each failed check.
    pub broken: Vec<String>,
}

impl Closed {
    /// Returns the number of packets that the ports accepted and did not send.
    pub fn unsent(&self) -> u64 {
        let each = self.ports.iter().flat_map(|port| UNSENT.map(|(counter, _)| port.counter(counter)));
        each.fold(0, u64::saturating_add)
    }

    /// Returns the number of packets that a peer had not acknowledged when its connection ended. The close of a port ends it
    /// too.
    pub fn left_unread(&self) -> u64 {
        self.ports.iter().map(|port| port.counter("tx_left_unread")).fold(0, u64::saturating_add)
    }
}

/// Returns the error for a core that the thread could not be pinned to, with the cores that it may run on.
fn no_core(core: usize, error: &std::io::Error) -> String {
    let cores = cpu::allowed().unwrap_or_default();
    let runs = cores.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    format!(
        "--core {core}: {error}: give one that this program may run on: {}",
        runs.collect::<Vec<_>>().join(",")
    )
}

impl Station {
    /// Opens the ports on the requested core, to receive on them or only to send, then drops the privileges that
    /// were needed.
    ///
    /// # Errors
    /// [`Failure::Input`] with the failed step and the remedy. [`Failure::NotNow`] if a port would take the packets of another run.
    pub fn open(specs: &[PortSpec], args: &StationArgs, receives: bool) -> Result<Station, Failure> {
        check(specs, receives)?;
        let frame_size = args.frame_size;
        frame_size.check_frames(args.frames).map_err(Failure::Input)?;
        let plan = SandboxPlan::of_ports(specs, &args.sandbox)?;
        let broker = sandbox::start(&plan, || Ok(()))?;
        let claims = InterfaceClaims::of(specs, Use::Other)?;
        if let Some(core) = args.core {
            cpu::pin(core).map_err(|error| Failure::input(no_core(core, &error)))?;
        }
        let enough = frames_for(specs, args.ring, receives)?.min(frame_size.frames_max());
        let frames = args.frames.unwrap_or(enough);
        let config =
            MemoryConfig { bytes: frames * frame_size.bytes(), workers: 1, ..MemoryConfig::default() };
        let lends = specs.iter().any(PortSpec::lends);
        let memory = lending::memory(&config, lends)?;
        let mut station = Station {
            ports: Vec::new(),
            owner: owner(&memory, frame_size, frames)?,
            macs: Vec::new(),
            details: Vec::new(),
            has_peers: specs.iter().map(has_peers).collect(),
            broker,
            claims,
            look_at: 0,
            json: None,
        };
        let setup = PortSetup {
            workers: 1,
            ring: args.ring,
            frame_size,
            xdp_mode: args.xdp_mode.into(),
            // A peer that asks for the MAC address of the packets' destination must get an answer, which the kernel
            // sends.
            punt: Punt::Neighbours,
            // A generator or sink that runs in addition to the kernel takes no packets from it.
            packets_alone: false,
            cut_mtu: None,
            // A generator waits for the peer as long as requested, and a sink waits for the first packet.
            greet: |_| (),
        };
        let mut opener = setup.opener(&memory);
        for (port, spec) in specs.iter().enumerate() {
            let place = PortPlace { port, worker: 0 };
            let Opened { port, interface, detail, .. } =
                opened(&setup, &mut opener, &mut station.owner, spec, place)?;
            station.ports.push(port);
            station.macs.push(interface.mac);
            station.details.push(detail);
        }
        // Opened now: without its capabilities, or as another user, the process may have no permission to write
        // there.
        let file = args.json.as_deref().filter(|to| *to != Path::new("-"));
        station.json = file.map(writable).transpose()?;
        sandbox::enter(&plan, memory.bytes())?;
        Ok(station)
    }

    /// Lets others ask for the holder of its claims, if that is due.
    #[inline]
    pub fn look(&mut self, now: u64) {
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.claims.turn_away();
        }
    }

    /// Returns the number of frames that each port may have posted for reception: no port can take frames that
    /// another needs.
    pub fn share(&self) -> usize {
        (self.owner.pool.frames() / self.ports.len()).max(1)
    }

    /// Frees the frames that the ports have sent. Returns their number.
    pub fn free_sent(&mut self) -> usize {
        let Station { ports, owner, .. } = self;
        let (mut batch, mut freed) = (Batch::new(), 0);
        for port in ports {
            while port.complete(&mut owner.worker, &mut batch) > 0 {
                freed += batch.len();
                batch.free(&mut owner.worker);
            }
        }
        freed
    }

    /// Closes the ports and waits for all frames to be freed.
    pub fn close(self) -> Closed {
        let Station { ports, owner, details, has_peers, broker, claims, json, .. } = self;
        let own: Vec<Pool> = ports.iter().filter_map(|port| port.own_pool().cloned()).collect();
        sandbox::look().iter().for_each(|line| log::say(Level::Warning, line));
        let reports = ports.iter().zip(details);
        let mut reports: Vec<_> = reports.map(|(port, detail)| PortReport::new(0, &**port, detail)).collect();
        drop((ports, broker, claims));
        reports.iter_mut().for_each(PortReport::read_counters);
        let pool = owner.pool.ledger();
        let mut broken = Vec::new();
        if !pool.balanced() {
            broken.push(format!(
                "check failed: the places of pool {} add up to its total: {pool:?}",
                pool.name
            ));
        }
        // A memif port is down while it has no peer, and the other end of a measurement may end first.
        let alone = reports.iter().zip(has_peers).filter(|(_, has_peers)| !has_peers);
        broken.extend(alone.filter_map(|(port, _)| down(&port.name, &port.state)));
        let complaints = reports.iter().filter_map(|port| Some((&port.name, port.complaint.as_ref()?)));
        broken.extend(complaints.map(|(name, complaint)| format!("port {name}: {complaint}")));
        broken.extend(reports.iter().flat_map(|port| lost(&port.name, &port.counters)));
        let still_out =
            [&owner.pool].into_iter().chain(&own).filter_map(|pool| pool.close_and_wait(HOME).err());
        broken.extend(still_out.map(|still_out| format!("check failed: {still_out}")));
        Closed { json, ports: reports, pool, broken }
    }
}

/// Returns the station's worker and pool.
fn owner(memory: &Memory, frame_size: FrameSize, frames: usize) -> Result<Owner, Failure> {
    let mut worker = memory.worker().map_err(Failure::input)?;
    let usual = PoolConfig::of_frames(frame_size.bytes());
    let config = PoolConfig { name: "frames".into(), frames, dma: DmaMap::Umem, ..usual };
    let pool = Pool::new(memory, &mut worker, &config).map_err(lending::pool_refused)?;
    Ok(Owner { worker, pool })
}

/// Checks the ports that a station receives on, or only sends to, before any of them is opened.
///
/// # Errors
/// [`Failure::Input`] with the port or the file.
fn check(specs: &[PortSpec], receives: bool) -> Result<(), Failure> {
    if let Some((_, twice)) = specs.iter().enumerate().find(|(i, spec)| specs[..*i].contains(spec)) {
        return Err(Failure::input(format!("--port {twice} is given twice: name another one")));
    }
    for spec in specs {
        let DeviceSpec::Pcap { config, .. } = &spec.device else { continue };
        let missing = match (receives, &config.input, &config.output) {
            (true, None, _) => "it has no packets to receive: give pcap:in=FILE",
            (false, _, None) => "it has no file to send to: give pcap:out=FILE",
            _ => continue,
        };
        return Err(Failure::input(format!("--port {spec}: {missing}")));
    }
    files::check(specs)
}

/// Returns true if peers connect to the port, or to the port that it wraps.
fn has_peers(spec: &PortSpec) -> bool {
    matches!(spec.device, DeviceSpec::Memif { .. })
}

fn writable(to: &Path) -> Result<ReportFile, Failure> {
    let failed = |error| Failure::input(format!("--json: cannot write {}: {error}", to.display()));
    ReportFile::open(to).map_err(failed)
}

/// Returns a line for each count of packets that a port accepted and did not send. The port need not have been down
/// before the close.
fn lost(name: &str, counters: &[(&str, u64)]) -> Vec<String> {
    let lines = UNSENT.into_iter().filter_map(|(counter, how)| {
        let (_, lost) = counters.iter().find(|(name, lost)| *name == counter && *lost > 0)?;
        Some(format!("port {name} lost {lost} of the packets that it had taken{how}"))
    });
    lines.collect()
}

/// Returns the frames for rings with this many slots: of every queue if packets are received, of one if they are
/// only sent.
///
/// # Errors
/// As [`queues_of`].
fn frames_for(specs: &[PortSpec], ring: u32, receives: bool) -> Result<usize, Failure> {
    let queues = if receives { specs.iter().map(queues_of).sum::<Result<usize, _>>()? } else { 1 };
    Ok((4 * queues * ring as usize).clamp(64, 1 << 20))
}

/// Returns the number of queues of a port. The ring of each needs frames.
///
/// # Errors
/// [`Failure::Input`] if the number cannot be found out.
fn queues_of(spec: &PortSpec) -> Result<usize, Failure> {
    Ok(match &spec.device {
        DeviceSpec::Xdp(xdp) => xdp.count(1).map_err(Failure::Input)? as usize,
        DeviceSpec::Memif { config, .. } => config.queues.into(),
        DeviceSpec::Packet(_) | DeviceSpec::Tap { .. } | DeviceSpec::Pcap { .. } => 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::port::PortState;
    use netmem_ports::port_spec;

    #[test]
    fn a_port_tells_of_what_it_lost_and_of_what_went_with_its_interface() {
        let lines = |late: u64, stranded: u64| {
            lost("xdp:a0", &[("tx", 9), ("tx_lost", late), ("tx_stranded", stranded)])
        };
        assert_eq!(lines(0, 0), [""; 0]);
        assert_eq!(lines(2, 0), ["port xdp:a0 lost 2 of the packets that it had taken"]);
        let stranded = "port xdp:a0 lost 3 of the packets that it had taken, because the interface went away while it had them";
        assert_eq!(lines(2, 3)[1..], [stranded]);
        let refused = lost("packet:a0", &[("tx", 10), ("tx_invalid", 10)]);
        assert_eq!(
            refused,
            ["port packet:a0 lost 10 of the packets that it had taken, because it cannot carry them"]
        );
    }

    #[test]
    fn packets_that_a_peer_left_unread_are_sent_and_counted() {
        let mut ports = crate::forward::report::sample().ports;
        ports[0].counters = vec![("tx", 9), ("tx_left_unread", 4)];
        ports[1].counters = vec![("tx", 9), ("tx_lost", 1)];
        let pool = crate::forward::report::sample().pools.remove(0);
        let closed = Closed { json: None, ports, pool, broken: Vec::new() };
        assert_eq!((closed.unsent(), closed.left_unread()), (1, 4));
    }

    #[test]
    fn only_a_memif_port_may_be_down_at_the_end() {
        let has_peers = |text: &str| has_peers(&port_spec(text).unwrap());
        assert!(has_peers("memif:/m.sock") && has_peers("trace:file=a/memif:/m.sock,role=server"));
        assert!(!has_peers("packet:eth0") && !has_peers("pcap:in=memif:a"));
        let gone = PortState::Down("interface d0 is gone".into());
        assert_eq!(down("packet:d0", &gone).unwrap(), "port packet:d0 is down: interface d0 is gone");
        assert_eq!(down("packet:d0", &PortState::Up), None);
    }

    #[test]
    fn a_file_is_read_by_a_receiver_and_written_by_a_sender() {
        let said = |text: &str, receives| {
            check(&[port_spec(text).unwrap()], receives).err().map(|failure| format!("{failure:?}"))
        };
        for (text, receives, remedy) in [
            ("pcap:out=/nonexistent/a", true, "give pcap:in=FILE"),
            ("trace:file=/nonexistent/t/pcap:out=/nonexistent/a", true, "give pcap:in=FILE"),
            ("pcap:in=/nonexistent/a", false, "give pcap:out=FILE"),
        ] {
            let refusal = said(text, receives).unwrap_or_default();
            assert!(refusal.contains(text) && refusal.contains(remedy), "{text}: {refusal}");
            assert_eq!(said(text, !receives), None, "{text}");
        }
        assert_eq!(said("pcap:in=/nonexistent/a,out=/nonexistent/b", true), None);
        assert_eq!(said("packet:eth0", false), None);
    }

    #[test]
    fn a_sender_takes_frames_for_one_queue_and_a_receiver_for_all() {
        let specs = [port_spec("memif:/m.sock,queues=16").unwrap()];
        assert_eq!(frames_for(&specs, 16_384, false).unwrap(), 4 * 16_384);
        assert_eq!(frames_for(&specs, 1024, true).unwrap(), 4 * 16 * 1024);
    }

    #[test]
    fn every_queue_of_a_port_counts_and_not_only_every_port() {
        for (text, queues) in
            [("xdp:eth0,queues=8", 8), ("xdp:eth0", 1), ("memif:/m.sock,queues=3", 3), ("packet:eth0", 1)]
        {
            assert_eq!(queues_of(&port_spec(text).unwrap()).unwrap(), queues, "{text}");
        }
    }
}
