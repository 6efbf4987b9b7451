//! The arguments, checked against each other: what is wrong is said before anything is set up.

use crate::args::{ForwardArgs, ModeArg, PortSpec, Switch, XdpModeArg};
use crate::failure::Failure;
use netmem::forward::route::Route;
use netmem::port::xdp::XdpModeWish;
use std::path::PathBuf;
use std::time::Duration;

/// Ports that a route can number.
const PORTS_MAX: usize = 255;

/// What is to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Where packets come from.
    pub source: Source,
    /// How they find their way.
    pub mode: ModeArg,
    /// Frames in the pool.
    pub frames: usize,
    /// Places in each ring.
    pub ring: u32,
    /// How long; None until something else ends it.
    pub time: Option<Duration>,
    /// Whether a terminal may be written to meanwhile.
    pub live: bool,
    /// Where the control socket is to be.
    pub control: Option<PathBuf>,
}

/// Where packets come from and go to.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// The built-in generator and sink, through two mem ports.
    BuiltIn(Offer),
    /// Interfaces.
    Xdp {
        /// Two or more, no two the same.
        ports: Vec<PortSpec>,
        /// Of ports that are there.
        routes: Vec<Route>,
        /// Where the redirect program runs.
        mode: XdpModeWish,
    },
}

/// What the generator sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Flows, round robin.
    pub flows: usize,
    /// Bytes of a frame.
    pub size: usize,
    /// How many packets; None as many as there is time for.
    pub packets: Option<u64>,
    /// Whether a packet that finds no place is tried again.
    pub pause: bool,
}

impl Plan {
    /// The plan that the arguments make.
    ///
    /// # Errors
    /// [`Failure::Input`] for what fits together in no way.
    pub fn new(args: &ForwardArgs) -> Result<Plan, Failure> {
        let (source, ports, ring, seconds) = if args.port.is_empty() {
            let seconds = if args.packets.is_some() { None } else { Some(args.seconds.unwrap_or(10.0)) };
            (built_in(args)?, 2, args.ring.unwrap_or(512), seconds)
        } else {
            (xdp(args)?, args.port.len(), args.ring.unwrap_or(2048), args.seconds)
        };
        Ok(Plan {
            source,
            mode: args.mode,
            frames: args.frames.unwrap_or((4 * ports * ring as usize).clamp(64, 1 << 20)),
            ring,
            time: seconds.map(Duration::from_secs_f64),
            live: !args.json,
            control: args.control.clone(),
        })
    }
}

fn built_in(args: &ForwardArgs) -> Result<Source, Failure> {
    if !args.route.is_empty() {
        return refuse("--route needs --port: the routes of the two mem ports are built in");
    }
    if args.xdp_mode.is_some() {
        return refuse("--xdp-mode needs --port xdp:IFNAME: the built-in mem ports have no such mode");
    }
    Ok(Source::BuiltIn(Offer {
        flows: args.flows.unwrap_or(1),
        size: args.size.unwrap_or(64),
        packets: args.packets,
        pause: args.pause != Some(Switch::Off),
    }))
}

fn xdp(args: &ForwardArgs) -> Result<Source, Failure> {
    let generators = [
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
    check_ports(&args.port, args.mode)?;
    check_routes(&args.route, args.port.len(), args.mode)?;
    let mode = args.xdp_mode.unwrap_or(XdpModeArg::Auto).into();
    Ok(Source::Xdp { ports: args.port.clone(), routes: args.route.clone(), mode })
}

fn check_ports(ports: &[PortSpec], mode: ModeArg) -> Result<(), Failure> {
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
    match ports.iter().enumerate().find(|(i, port)| ports[..*i].contains(port)) {
        Some((_, twice)) => refuse(format!("--port {twice} is given twice: name another interface or queue")),
        None => Ok(()),
    }
}

fn check_routes(routes: &[Route], ports: usize, mode: ModeArg) -> Result<(), Failure> {
    match (mode, routes.is_empty()) {
        (ModeArg::CrossConnect, false) => {
            return refuse("--route is for --mode ip: leave it out, or leave --mode cross-connect out");
        }
        (ModeArg::Ip, true) => {
            return refuse(
                "--mode ip without a --route would drop every packet: give --route PREFIX,PORT,MAC, \
                 or --mode cross-connect",
            );
        }
        _ => {}
    }
    for (i, route) in routes.iter().enumerate() {
        route.check_port(ports).map_err(Failure::input)?;
        if routes[..i].iter().any(|other| other.prefix == route.prefix) {
            return refuse(format!("--route for {} is given twice: leave one out", route.prefix));
        }
    }
    Ok(())
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Input(reason.into()))
}
