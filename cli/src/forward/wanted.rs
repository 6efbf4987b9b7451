//! What a plan asks of the host.

use super::cores::cores;
use super::plan::{Plan, Source};
use super::port_setup::PortSetup;
use super::set_up::memory_bytes;
use crate::args::{FrameSize, ModeArg};
use netmem::port::memif::Role;
use netmem::port::xdp::{Punt, XdpModePreference};
use netmem_doctor::{Device, Wanted, WantedPort, XdpPlace, beside_the_kernel};
use netmem_ports::{DeviceSpec, PortSpec, QueueCount, XdpSpec};

/// What a run of the plan asks of the host.
pub fn of_plan(plan: &Plan) -> Wanted {
    let setup = plan.port_setup();
    let ports = match &plan.source {
        Source::Ports { ports, .. } => ports.iter().map(|spec| port(spec, &setup)).collect(),
        Source::BuiltIn(_) => Vec::new(),
    };
    Wanted {
        ports,
        forwards: !matches!(plan.mode, ModeArg::Drop | ModeArg::Pass),
        routes: plan.mode == ModeArg::Ip,
        ..of_workers(plan.workers, memory_bytes(plan), plan.frame_size)
    }
}

/// What a router with one worker and these ports asks of the host.
pub fn of_ports(specs: &[PortSpec]) -> Wanted {
    const RING: usize = 2048;
    let frame_size = FrameSize::default();
    let setup = PortSetup {
        workers: 1,
        ring: RING as u32,
        frame_size,
        xdp_mode: XdpModePreference::default(),
        punt: Punt::Control,
        cut_mtu: None,
    };
    Wanted {
        ports: specs.iter().map(|spec| port(spec, &setup)).collect(),
        forwards: true,
        routes: true,
        ..of_workers(1, 4 * specs.len() * RING * frame_size.bytes(), frame_size)
    }
}

fn of_workers(workers: usize, memory: usize, frame_size: FrameSize) -> Wanted {
    let cores = cores(workers).workers.into_iter().flatten();
    Wanted {
        workers,
        cores: cores.filter_map(|core| u32::try_from(core).ok()).collect(),
        memory: memory as u64,
        longest: frame_size.longest(),
        ..Wanted::default()
    }
}

fn port(spec: &PortSpec, setup: &PortSetup) -> WantedPort {
    let device = match &spec.device {
        DeviceSpec::Xdp(spec) => Device::Xdp(place(spec, setup)),
        DeviceSpec::Packet { interface, .. } => Device::Packet(interface.clone()),
        DeviceSpec::Tap { interface, .. } => Device::Tap(interface.clone()),
        DeviceSpec::Memif { path, config } => {
            Device::Memif { path: path.into(), is_server: config.role == Role::Server }
        }
        DeviceSpec::Pcap { config, .. } => {
            Device::Files { input: config.input.clone(), output: config.output.clone() }
        }
    };
    WantedPort { name: spec.to_string(), device }
}

fn place(spec: &XdpSpec, setup: &PortSetup) -> XdpPlace {
    XdpPlace {
        interface: spec.interface.clone(),
        queue: spec.queue,
        queues: match spec.queues {
            QueueCount::EachWorker => Some(setup.workers as u32),
            QueueCount::Number(number) => Some(number),
            QueueCount::All => None,
        },
        mode: setup.xdp_mode,
        is_partial: spec.take.is_some(),
        leaves_control: spec.punt.unwrap_or(setup.punt) == Punt::Control,
    }
}

/// A line for each port whose packets the kernel forwards or drops beside this program, with the remedy.
pub fn warnings(plan: &Plan) -> Vec<String> {
    let line = |finding: netmem_doctor::Finding| {
        let other = match finding.rule {
            "forwarding" => format!(", or take {}", finding.about.replace("packet:", "xdp:")),
            _ => String::new(),
        };
        let for_this_run = if finding.change.is_some() { " (--fix FILE does it for one run)" } else { "" };
        format!("{}: {}: {}{for_this_run}{other}", finding.about, finding.what, finding.remedy)
    };
    beside_the_kernel(&of_plan(plan)).into_iter().map(line).collect()
}
