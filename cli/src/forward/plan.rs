//! The plan of a run: the arguments, checked against each other. Errors are reported before anything is set up.

use super::files;
use super::given;
use super::greet::greet;
use super::interfaces::{Interfaces, check_queues, rings};
use super::local_queue::LocalQueueConfig;
use super::offer::Offer;
use super::port_setup::{PortSetup, ring_of};
use super::sandboxed;
use super::unfit::{self, refuse};
use crate::args::{
    ByPort, CopiesArg, ForwardArgs, FrameSize, ModeArg, OfPort, PacketArgs, PathArg, ReadyHeads,
    RecorderPlan, RoutesArg, Switch, WorkerArgs, Written, XdpModeArg, check_interfaces,
};
use crate::failure::Failure;
use crate::metrics::Address;
use crate::sandbox::SandboxPlan;
use netmem::forward::filter::{RULES_MAX, Rule};
use netmem::forward::{Free, Idle};
use netmem::limits::BATCH_MAX;
use netmem::page::Hardening;
use netmem::port::xdp::{Punt, XdpModePreference};
use netmem::steer::{FlowLimitConfig, MeshConfig};
use netmem_ports::{PortSpec, XdpSpec};
use netmem_router::icmp::IcmpLimit;
use netmem_router::route::{OwnAddress, Route};
use netmem_router::{Allow, ReversePath};
use netmem_traffic::{FLOWS_MAX, SIZE_MIN};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of ports that a route can name.
const PORTS_MAX: usize = 255;
/// Default number of frames of an inbox, and the maximum.
const INBOX: u32 = 1024;
const INBOX_MAX: u32 = 1 << 20;

/// The plan of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Number of forwarding threads.
    pub workers: usize,
    /// The idle mode of each.
    pub idle: Idle,
    /// The way in which workers share received packets, or None if each forwards its own.
    pub steer: Option<MeshConfig>,
    /// The source of packets.
    pub source: Source,
    /// The number of queues of each xdp port.
    pub queues: Vec<(XdpSpec, u32)>,
    /// The decision about packets.
    pub mode: ModeArg,
    /// The configuration of the full path, or None on the fast path.
    pub packets: Option<PacketPlan>,
    /// The limits of the local queue for each worker, or None if nothing is ever passed.
    pub local_queue: Option<LocalQueueConfig>,
    /// Number of clones of each worker's frames that the mirror keeps, or None without a mirror.
    pub mirror: Option<usize>,
    /// The rate limits of each worker's ICMP errors.
    pub icmp: IcmpLimit,
    /// Packets that are forwarded only because the operator allows it.
    pub allow: Allow,
    /// The source check of each port.
    pub reverse_path: Vec<ReversePath>,
    /// The way in which sent and dropped frames are freed.
    pub free: Free,
    /// Frames in each worker's pool.
    pub frames: usize,
    /// Bytes of each frame.
    pub frame_size: FrameSize,
    /// The protections against misuse of the memory.
    pub hardening: Hardening,
    /// Slots of each ring.
    pub ring: u32,
    /// The duration, or None until something else ends the run.
    pub time: Option<Duration>,
    /// The time that it waits for interfaces at the start.
    pub wait: Duration,
    /// True if packet ports hide the packets that they take from the kernel.
    pub packets_alone: bool,
    /// True if the run may write to a terminal.
    pub live: bool,
    /// The maximum time for a worker to come round, or None without a watchdog.
    pub watchdog: Option<Duration>,
    /// The path of the control socket.
    pub control: Option<PathBuf>,
    /// The address of the metrics server.
    pub metrics: Option<Address>,
    /// The configuration of the recorder, or None if nothing is recorded.
    pub recorder: Option<RecorderPlan>,
    /// The journal of changes of the host for this run, or None if there are no changes.
    pub fix: Option<PathBuf>,
    /// The file that options were read from, and can be read from again.
    pub config: Option<PathBuf>,
    /// The options of the file and the command line, by which changed options are named.
    pub written: Written,
    /// The privileges that are dropped once the ports are open.
    pub sandbox: SandboxPlan,
}

/// Frames as packets, on the full path.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketPlan {
    /// Rules of the full path, or None on the fast path.
    pub rules: Option<Vec<Rule>>,
    /// Ready heads, or None for the default number.
    pub heads: Option<ReadyHeads>,
    /// Maximum number of ready packets, or None if heads are attached to received frames.
    pub ready: Option<usize>,
}

/// The source and destination of packets.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// The built-in generator and sink, through two mem ports.
    BuiltIn(Offer),
    /// Interfaces, files and other ports.
    Ports {
        /// Two or more, all different.
        ports: Vec<PortSpec>,
        /// The given routes, to existing ports.
        routes: Vec<Route>,
        /// The router's own addresses, if the kernel's are not followed.
        own: Vec<OwnAddress>,
        /// Whether the kernel's routes are used in addition.
        from: RoutesArg,
        /// The mode of the redirect program.
        mode: XdpModePreference,
    },
}

impl Plan {
    /// Makes the plan from the arguments, which come from the command line and a file.
    ///
    /// # Errors
    /// [`Failure::Input`] if arguments conflict.
    pub fn of(args: &ForwardArgs) -> Result<Plan, Failure> {
        Plan::on(args, Interfaces::Here)
    }

    /// Makes the plan from the arguments, for a run on a machine with these interfaces.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn on(args: &ForwardArgs, interfaces: Interfaces<'_>) -> Result<Plan, Failure> {
        let plan = Plan::new(args, interfaces).map_err(|failure| args.placed(failure))?;
        // Last: an error about a key of the file has its line.
        unfit::check_config(args).map(|()| plan)
    }

    fn new(args: &ForwardArgs, interfaces: Interfaces<'_>) -> Result<Plan, Failure> {
        unfit::check_mode(args)?;
        unfit::check_ready_packets(args)?;
        unfit::check_guard(args)?;
        let (source, ports, ring, seconds) = if args.port.is_empty() {
            let seconds = if args.packets.is_some() { None } else { Some(args.seconds.unwrap_or(10.0)) };
            (built_in(args)?, 2, args.ring.unwrap_or(512), seconds)
        } else {
            let source = ports(args, interfaces)?;
            let pairs = rings(&args.port, args.worker_args.workers, interfaces)?;
            (source, pairs, args.ring.unwrap_or(ring_of(args.frames, pairs)), args.seconds)
        };
        let steer = steer(&args.worker_args, &source, ring)?;
        let (packet_args, local_queue) = (&args.packet_args, LocalQueueConfig::of(args)?);
        let port_count = if args.port.is_empty() { 2 } else { args.port.len() };
        check_rules(&packet_args.rule, port_count).map_err(|why| Failure::Input(format!("--rule {why}")))?;
        let (packets, mirror) = (packets(packet_args)?, packet_args.mirror);
        let kept = local_queue.map_or(0, |config| config.frames) + mirror.unwrap_or(0);
        let frame_size = args.frame_size;
        frame_size.check_frames(args.frames).map_err(Failure::Input)?;
        let enough = (4 * ports * ring as usize + kept).clamp(64, frame_size.frames_max());
        let frames = args.frames.unwrap_or(enough);
        if kept >= frames {
            return refuse(format!(
                "--local-queue and --mirror keep {kept} frames of {frames}: none is left for reception, so keep fewer"
            ));
        }
        Ok(Plan {
            workers: args.worker_args.workers,
            idle: args.worker_args.idle.into(),
            steer,
            source,
            queues: interfaces.counts(&args.port, args.worker_args.workers)?,
            mode: args.mode,
            packets,
            local_queue,
            mirror,
            icmp: args.router.icmp_limit(),
            allow: args.router.allow(),
            reverse_path: args.router.reverse_paths(&args.port).map_err(Failure::Input)?,
            free: packet_args.free.into(),
            frames,
            frame_size,
            hardening: args.hardening,
            ring,
            time: seconds.map(Duration::from_secs_f64),
            wait: Duration::from_secs_f64(args.wait),
            packets_alone: args.kernel_copies != Some(CopiesArg::Keep),
            live: !args.json,
            watchdog: args.worker_args.watchdog(),
            control: args.control.clone(),
            metrics: args.scrape.address()?,
            recorder: args.recorder.plan()?,
            fix: args.fix.clone(),
            config: args.config.clone(),
            written: args.written.clone(),
            sandbox: sandboxed::of(args)?,
        })
    }
}

impl Plan {
    /// Returns true if a local queue or a mirror keeps frames.
    pub fn retains(&self) -> bool {
        self.local_queue.is_some() || self.mirror.is_some()
    }

    /// Returns its interfaces, files and other ports.
    pub fn ports(&self) -> &[PortSpec] {
        match &self.source {
            Source::Ports { ports, .. } => ports,
            Source::BuiltIn(_) => &[],
        }
    }

    /// Returns true if it sends received packets on.
    pub fn forwards(&self) -> bool {
        !matches!(self.mode, ModeArg::Drop | ModeArg::Pass)
    }

    /// Returns true if peers are to be able to map the memory: a port would lend its frames, and nothing else is in
    /// it.
    pub fn lends(&self) -> bool {
        self.ports().iter().any(PortSpec::lends) && self.packets.is_none()
    }

    /// Returns true if the input ends at some time: all received packets come from files.
    pub fn ends_by_itself(&self) -> bool {
        match &self.source {
            Source::Ports { ports, .. } => ports.iter().all(PortSpec::ends),
            Source::BuiltIn(_) => false,
        }
    }

    /// Returns the common set-up of the ports.
    pub fn port_setup(&self) -> PortSetup {
        let xdp_mode = match self.source {
            Source::Ports { mode, .. } => mode,
            Source::BuiltIn(_) => XdpModePreference::default(),
        };
        // A router's interfaces have addresses and neighbours of their own. A repeater repeats all frames.
        let punt = if self.mode == ModeArg::Ip { Punt::Control } else { Punt::Nothing };
        let &Plan { workers, ring, frame_size, packets_alone, .. } = self;
        PortSetup { workers, ring, frame_size, xdp_mode, punt, packets_alone, cut_mtu: None, greet }
    }

    /// Returns whether packets take the fast or the full path.
    pub fn path(&self) -> PathArg {
        match &self.packets {
            Some(PacketPlan { rules: Some(_), .. }) => PathArg::Full,
            _ => PathArg::Fast,
        }
    }
}

fn packets(args: &PacketArgs) -> Result<Option<PacketPlan>, Failure> {
    if args.path == PathArg::Fast && !args.rule.is_empty() {
        return refuse("--rule needs --path full: the fast path has no filter");
    }
    let rules = (args.path == PathArg::Full).then(|| args.rule.clone());
    let wanted = rules.is_some() || args.ready_heads.is_some() || args.ready_packets.is_some();
    Ok(wanted.then_some(PacketPlan { rules, heads: args.ready_heads, ready: args.ready_packets }))
}

/// Checks that the rules are not too many, and name ports that exist.
///
/// # Errors
/// One line about their number, or about the first rule that does not.
pub fn check_rules(rules: &[Rule], ports: usize) -> Result<(), String> {
    if rules.len() > RULES_MAX {
        return Err(format!("list of {} rules: give at most {RULES_MAX}", rules.len()));
    }
    let missing = rules.iter().find(|rule| rule.ingress.is_some_and(|port| usize::from(port) >= ports));
    let last = ports - 1;
    missing.map_or(Ok(()), |rule| {
        Err(format!("{rule}: there is no such port: {ports} ports are numbered from 0 to {last}"))
    })
}

fn steer(args: &WorkerArgs, source: &Source, ring: u32) -> Result<Option<MeshConfig>, Failure> {
    let Some(steer) = args.share.steer.clone() else { return Ok(None) };
    let workers = args.workers;
    if workers < 2 {
        return refuse("--steer needs --workers 2 or more: one worker has no other to share with");
    }
    let under_way = match source {
        Source::BuiltIn(offer) => ring.saturating_mul(offer.generators as u32),
        // A worker may take up a whole ring before the next one polls.
        Source::Ports { .. } => ring,
    };
    let usual = MeshConfig::default();
    Ok(Some(MeshConfig {
        workers,
        inbox: steer.inbox.unwrap_or_else(|| inbox(under_way)),
        batch: steer.batch.unwrap_or(usual.batch),
        linger: steer.linger.map_or(usual.linger, Duration::from_micros),
        // The program's choice, not the library's: a router is to serve all of its flows.
        flow_limit: (steer.flow_limit != Some(Switch::Off)).then(FlowLimitConfig::default),
        flows: steer.flow_table.map_or(usual.flows, |entries| entries as usize),
        key: steer.key(),
        recorded_queue: steer.tx_queue.unwrap_or(usual.recorded_queue),
        policy: steer.policy,
    }))
}

/// Returns the frames of an inbox in which no flow is limited to its share while at most `under_way` packets are in
/// flight. The limit applies to the last eighth of the inbox.
///
/// A packet that has arrived still counts until its forwarder comes back for more. That is a batch, and the packets
/// between batches when a policy changes, which are at most as many again.
fn inbox(under_way: u32) -> u32 {
    let most = under_way.saturating_add(2 * BATCH_MAX as u32);
    most.saturating_mul(2).clamp(INBOX, INBOX_MAX)
}

fn built_in(args: &ForwardArgs) -> Result<Source, Failure> {
    if !args.route.is_empty() {
        return refuse("--route needs --port: the routes of the two mem ports are built in");
    }
    if !args.router.address.is_empty() {
        return refuse(
            "--address needs --port: the hosts on the two mem ports send only packets that can be forwarded",
        );
    }
    if args.routes.is_some() {
        return refuse("--routes needs --port: the routes of the two mem ports are built in");
    }
    if args.xdp_mode.is_some() {
        return refuse("--xdp-mode needs --port xdp:IFNAME: the built-in mem ports have no such mode");
    }
    let (generators, workers) =
        (args.worker_args.generators.unwrap_or(args.worker_args.workers), args.worker_args.workers);
    if generators > workers {
        return refuse(format!("--generators {generators} with --workers {workers}: give at most {workers}"));
    }
    let flows = args.flows.unwrap_or(1);
    if generators * flows > FLOWS_MAX {
        return refuse(format!(
            "--flows {flows} of {generators} generators are more than {FLOWS_MAX}: give fewer, or fewer --generators"
        ));
    }
    let size = args.size.unwrap_or(SIZE_MIN);
    args.frame_size.check_packets(&[size]).map_err(Failure::Input)?;
    Ok(Source::BuiltIn(Offer {
        generators,
        flows,
        size,
        packets: args.packets,
        pause: args.pause != Some(Switch::Off),
    }))
}

fn ports(args: &ForwardArgs, interfaces: Interfaces<'_>) -> Result<Source, Failure> {
    let generators = [
        ("--generators", args.worker_args.generators.is_some(), "leave it out, or leave --port out"),
        ("--packets", args.packets.is_some(), "use --seconds S, or end it with Ctrl-C"),
        ("--flows", args.flows.is_some(), "leave it out, or leave --port out"),
        ("--size", args.size.is_some(), "leave it out, or leave --port out"),
        ("--pause", args.pause.is_some(), "leave it out, or leave --port out"),
    ];
    for (option, given, remedy) in generators {
        if given {
            return refuse(format!("{option} is for the built-in generator, and --port is given: {remedy}"));
        }
    }
    check_ports(&args.port, args.mode, args.worker_args.workers, interfaces)?;
    let from = args.routes.unwrap_or_default();
    let routes: Vec<Route> = by_number("--route", &args.route, &args.port)?;
    given::check_routes(&routes, from, args.port.len(), args.mode)?;
    given::check_destinations(&routes, args.router.allow())?;
    let own = by_number("--address", &args.router.address, &args.port)?;
    given::check_own_addresses(&own, from, args.port.len())?;
    given::check_own_routes(&routes, &own)?;
    let mode = args.xdp_mode.unwrap_or(XdpModeArg::Auto).into();
    Ok(Source::Ports { ports: args.port.clone(), routes, own, from, mode })
}

/// Returns the values with the numbers of their ports.
fn by_number<T: OfPort>(option: &str, values: &[ByPort<T>], ports: &[PortSpec]) -> Result<Vec<T>, Failure> {
    values.iter().map(|value| value.resolved(option, ports).map_err(Failure::Input)).collect()
}

fn check_ports(
    ports: &[PortSpec],
    mode: ModeArg,
    workers: usize,
    interfaces: Interfaces<'_>,
) -> Result<(), Failure> {
    match ports.len() {
        1 => {
            return refuse(format!(
                "only one --port, {}: give two or more, or none for two mem ports",
                ports[0]
            ));
        }
        n if n > PORTS_MAX => return refuse(format!("{n} times --port: give at most {PORTS_MAX}")),
        n if mode == ModeArg::CrossConnect && !n.is_multiple_of(2) => {
            return refuse(format!(
                "{n} times --port: --mode cross-connect joins pairs, give an even number"
            ));
        }
        _ => {}
    }
    if let Some((_, twice)) = ports.iter().enumerate().find(|(i, port)| ports[..*i].contains(port)) {
        return refuse(format!("--port {twice} is given twice: name another interface or queue"));
    }
    if mode == ModeArg::Ip {
        check_interfaces(ports, |name| interfaces.number(name)).map_err(Failure::Input)?;
    }
    check_queues(ports, workers, interfaces)?;
    check_files(ports, workers)
}

/// Checks files: a file has one queue, and only one port writes it.
fn check_files(ports: &[PortSpec], workers: usize) -> Result<(), Failure> {
    files::check(ports)?;
    let single = ports.iter().find(|port| port.has_one_queue());
    match single {
        Some(port) if workers > 1 => {
            refuse(format!("--workers {workers}: --port {port} has one queue: leave --workers out"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::forward_of;

    /// Seen: it named the line of `port`, since the error began with a port.
    #[test]
    fn an_error_of_workers_names_the_line_where_workers_stands() {
        for port in ["pcap:in=a", "memif:a,role=server", "xdp:lo,queues=2"] {
            let text = format!("port = ['{port}', 'packet:b']\nmode = 'cross-connect'\n\nworkers = 3\n");
            let plan = forward_of(&text, &["--config", "FILE"]).and_then(|args| Plan::of(&args));
            let Err(Failure::Input(line)) = plan else { panic!("three workers of {port}") };
            assert!(line.starts_with("FILE:4: --workers 3: "), "{line}");
        }
    }

    /// Seen on a loaded machine with 1,536 packets in flight: a worker was stopped between its transmission and its
    /// next look at the inbox. One packet more than half of an inbox for 3,072 then waited, and the flow limit
    /// dropped packets within the window.
    #[test]
    fn packets_that_arrived_and_are_not_finished_let_no_flow_exceed_its_share() {
        for under_way in [0, 2, 512, 3 * 512, 16 * 4096] {
            assert!(inbox(under_way) / 2 >= under_way + BATCH_MAX as u32, "{under_way}");
        }
        assert_eq!((inbox(0), inbox(u32::MAX)), (INBOX, INBOX_MAX));
    }
}
