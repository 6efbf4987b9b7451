//! A run's claims of the interfaces of its ports. The kernel gives every packet socket of an interface a copy of each
//! packet, so two forwarders with packet ports on one interface would send every packet twice. An xdp port takes packets
//! before any packet socket has them, so a packet port beside it receives nothing. COLD.
//!
//! A claim is a socket that listens at an abstract name with the interface's number. Such a name belongs to the network
//! namespace, and goes with the process. Any user may take it, so a run is refused only if the holder is root or the
//! run's own user. Runs that forward nothing claim nothing for packet ports: they may share an interface with a router. An
//! xdp port that takes a part of the packets (`take=`) leaves the rest to others, and claims nothing. Whether two runs can
//! have xdp ports on one interface is up to the kernel, so each has a claim of its own.

use crate::failure::Failure;
use crate::log::{self, Level};
use netmem::system::errno::Errno;
use netmem::system::netdev::Netdev;
use netmem::system::seqpacket::{Access, Listener, PeerProcess, listener_of};
use netmem_ports::{DeviceSpec, PacketSpec, PortSpec};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Number of tries if the holder's process ends meanwhile, and the pause after each.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of askers that are turned away at a time.
const ASKERS: usize = 64;

/// Number of runs with xdp ports on one interface that can have a claim at a time. The kernel lets one of them attach its
/// program, and the others are about to end or to be refused.
const XDP_RUNS: u32 = 8;

/// The claims of a run. They last until this is dropped or the process ends.
#[derive(Default)]
pub struct InterfaceClaims(Vec<Listener>);

/// What a run does with the packets of its packet ports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It sends them on, so that no other run may.
    Forward,
    /// It counts or discards its copies, or receives none.
    Other,
}

/// The kind of a port that claims its interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Packet,
    Xdp,
}

/// A port, and its claim.
struct Wanted<'a> {
    port: &'a PortSpec,
    /// The number of its interface.
    index: u32,
    kind: Kind,
}

/// What became of a claim.
enum Claimed {
    Own(Listener),
    /// Another process has it; which one may be unknown.
    By(Option<PeerProcess>),
}

impl InterfaceClaims {
    /// Claims the interface of each xdp port, and of each packet port that forwards.
    ///
    /// # Errors
    /// [`Failure::NotNow`] if another run has claimed one.
    pub fn of(ports: &[PortSpec], of_packets: Use) -> Result<InterfaceClaims, Failure> {
        let (mut claims, wanted) = (Vec::new(), wanted(ports, of_packets));
        for one in &wanted {
            match one.claim().map_err(|errno| one.failed(errno))? {
                Claimed::Own(claim) => claims.push(claim),
                Claimed::By(_) if one.kind == Kind::Xdp => one.warn_of_no_claim(),
                Claimed::By(holder) => one.refuse_or_warn(Kind::Packet, holder)?,
            }
        }
        // After its own claims: of two runs that start together, at least one finds the other.
        for one in &wanted {
            for holder in one.rivals(&wanted).map_err(|errno| one.failed(errno))? {
                one.refuse_or_warn(one.kind.other(), holder)?;
            }
        }
        Ok(InterfaceClaims(claims))
    }

    /// Turns away those who have asked for the holder, so that others can ask.
    pub fn turn_away(&self) {
        self.0.iter().for_each(|claim| (0..ASKERS).map_while(|_| claim.accept()).for_each(drop));
    }
}

/// Returns a line for each port whose interface another run has claimed.
pub fn of_others(ports: &[PortSpec], of_packets: Use) -> Vec<String> {
    let wanted = wanted(ports, of_packets);
    let refusal = |one: &Wanted<'_>| {
        let of_kind =
            (one.kind == Kind::Packet).then(|| listener_of(&path(&Kind::Packet.name(one.index, 0))));
        let same = of_kind.and_then(Result::ok).into_iter().map(|holder| (Kind::Packet, holder));
        let rivals = one.rivals(&wanted).unwrap_or_default().into_iter().flatten();
        let mut holders = same.chain(rivals.map(|holder| (one.kind.other(), holder)));
        let (kind, holder) = holders.find(|(_, holder)| holder.is_of_root_or_own())?;
        Some(one.refusal(kind, &holder))
    };
    wanted.iter().filter_map(refusal).collect()
}

/// Returns the ports that claim their interfaces, one of each kind for an interface. An interface that is missing is an error
/// of its port.
fn wanted(ports: &[PortSpec], of_packets: Use) -> Vec<Wanted<'_>> {
    let mut found: Vec<Wanted<'_>> = ports.iter().filter_map(|port| Wanted::of(port, of_packets)).collect();
    found.sort_by_key(|one| (one.index, one.kind));
    found.dedup_by_key(|one| (one.index, one.kind));
    found
}

impl Kind {
    fn other(self) -> Kind {
        match self {
            Kind::Packet => Kind::Xdp,
            Kind::Xdp => Kind::Packet,
        }
    }

    /// Number of runs that can have a claim of this kind on one interface.
    fn runs(self) -> u32 {
        match self {
            Kind::Packet => 1,
            Kind::Xdp => XDP_RUNS,
        }
    }

    fn name(self, index: u32, run: u32) -> String {
        match self {
            Kind::Packet => format!("netmem-forward-packet-{index}"),
            Kind::Xdp => format!("netmem-forward-xdp-{index}-{run}"),
        }
    }
}

impl<'a> Wanted<'a> {
    /// Returns the claim of a port; None if it claims nothing.
    fn of(port: &'a PortSpec, of_packets: Use) -> Option<Wanted<'a>> {
        let (kind, interface) = match &port.device {
            DeviceSpec::Packet(PacketSpec { interface, .. }) if of_packets == Use::Forward => {
                (Kind::Packet, interface)
            }
            // It takes packets from others, whatever becomes of them.
            DeviceSpec::Xdp(xdp) if xdp.take.is_none() && xdp.grant.is_none() => (Kind::Xdp, &xdp.interface),
            _ => return None,
        };
        Netdev::open(interface).ok().map(|netdev| Wanted { port, index: netdev.index(), kind })
    }

    fn claim(&self) -> Result<Claimed, Errno> {
        match self.kind {
            Kind::Packet => claim_alone(&path(&Kind::Packet.name(self.index, 0))),
            Kind::Xdp => {
                for run in 0..XDP_RUNS {
                    match Listener::open(&path(&Kind::Xdp.name(self.index, run)), Access::default()) {
                        Err(Errno::ADDRINUSE) => {}
                        claim => return claim.map(Claimed::Own),
                    }
                }
                Ok(Claimed::By(None))
            }
        }
    }

    /// Returns the other runs that have claimed the interface for ports of the other kind. A holder may be unknown. A run may have
    /// ports of both kinds on one interface.
    fn rivals(&self, own: &[Wanted<'_>]) -> Result<Vec<Option<PeerProcess>>, Errno> {
        let kind = self.kind.other();
        if own.iter().any(|one| (one.index, one.kind) == (self.index, kind)) {
            return Ok(Vec::new());
        }
        let mut holders = Vec::new();
        for run in 0..kind.runs() {
            match listener_of(&path(&kind.name(self.index, run))) {
                Ok(holder) => holders.push(Some(holder)),
                Err(Errno::AGAIN | Errno::PROTOTYPE) => holders.push(None),
                Err(errno @ (Errno::MFILE | Errno::NFILE)) => return Err(errno),
                Err(_) => {}
            }
        }
        Ok(holders)
    }

    fn failed(&self, errno: Errno) -> Failure {
        Failure::not_now(format!("{}: claim its interface: {errno}", self.port))
    }

    /// Returns what both runs on the interface lead to, where the other one has a port of that kind.
    fn consequence(&self, kind: Kind) -> &'static str {
        match (self.kind, kind) {
            (Kind::Packet, Kind::Packet) => "each packet would be forwarded twice",
            (Kind::Packet, Kind::Xdp) => "it takes all packets before this port gets them",
            (Kind::Xdp, _) => "this port would take all packets before its packet port gets them",
        }
    }

    fn refusal(&self, kind: Kind, holder: &PeerProcess) -> String {
        let process = holder
            .process
            .map_or_else(|| "another process".to_owned(), |process| format!("process {process}"));
        let uses = match kind {
            Kind::Packet => "forwards from",
            Kind::Xdp => "has an xdp port on",
        };
        format!(
            "{}: {process} {uses} this interface already, and {}: end that run first, or give the two runs interfaces of their own",
            self.port,
            self.consequence(kind)
        )
    }

    /// Refuses the run if the holder of a claim of that kind is root or the run's own user. Any other user may have taken the name.
    fn refuse_or_warn(&self, kind: Kind, holder: Option<PeerProcess>) -> Result<(), Failure> {
        if let Some(holder) = holder.filter(PeerProcess::is_of_root_or_own) {
            return Err(Failure::not_now(self.refusal(kind, &holder)));
        }
        let user = holder.map_or_else(String::new, |holder| format!(" of user {}", holder.user));
        let had = match kind {
            Kind::Packet => "forwarded from",
            Kind::Xdp => "had an xdp port on",
        };
        // The first of the names, of which one is taken.
        let name = kind.name(self.index, 0);
        log::say(
            Level::Warning,
            format_args!(
                "netmem: {}: a process{user} has the name @{name}, as if it {had} this interface: if so, {} (ss -xlp names it)",
                self.port,
                self.consequence(kind)
            ),
        );
        Ok(())
    }

    fn warn_of_no_claim(&self) {
        let [first, last] = [0, XDP_RUNS - 1].map(|run| self.kind.name(self.index, run));
        log::say(
            Level::Warning,
            format_args!(
                "netmem: {}: other processes have all names from @{first} to @{last}: a second run with a packet port on this interface is \
                 not refused (ss -xlp names them)",
                self.port
            ),
        );
    }
}

fn path(name: &str) -> PathBuf {
    format!("@{name}").into()
}

/// Claims a name that one run has at a time.
fn claim_alone(path: &Path) -> Result<Claimed, Errno> {
    for _ in 0..TRIES {
        match Listener::open(path, Access::default()) {
            Ok(claim) => return Ok(Claimed::Own(claim)),
            Err(Errno::ADDRINUSE) => {}
            Err(errno) => return Err(errno),
        }
        match listener_of(path) {
            // It has ended since, or does not listen yet.
            Err(Errno::CONNREFUSED) => sleep(PAUSE),
            holder => return Ok(Claimed::By(holder.ok())),
        }
    }
    Ok(Claimed::By(None))
}
