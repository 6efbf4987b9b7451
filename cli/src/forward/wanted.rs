//! The needs of a plan, for the doctor's rules.

use super::cores::{Cores, assign, cores};
use super::greet::greet;
use super::interfaces::{Interfaces, rings};
use super::plan::{Plan, Source};
use super::port_setup::PortSetup;
use super::set_up::memory_bytes;
use crate::args::{FrameSize, ModeArg, RoutesArg};
use netmem::port::memif::Role;
use netmem::port::xdp::{Punt, XdpModePreference, ZeroCopy};
use netmem_doctor::{Device, Finding, Host, Wanted, WantedPort, XdpPlace};
use netmem_ports::{DeviceSpec, KernelCopies, PacketSpec, PortSpec, XdpSpec};
use std::path::Path;

/// Returns the needs of a run of the plan.
pub fn of_plan(plan: &Plan) -> Wanted {
    let setup = plan.port_setup();
    let specs = plan.ports();
    Wanted {
        ports: specs.iter().map(|spec| port(spec, &setup)).collect(),
        packets_alone: are_alone(specs, &setup),
        forwards: plan.forwards(),
        routes: plan.mode == ModeArg::Ip,
        kernel_routes: matches!(plan.source, Source::Ports { from: RoutesArg::Kernel, .. }),
        ..of_workers(plan.workers, memory_bytes(plan), plan.frame_size)
    }
}

/// Returns the needs of a router with one worker and these ports, on this machine or on a saved host.
pub fn of_ports(specs: &[PortSpec], saved: Option<&Host>) -> Wanted {
    const RING: usize = 2048;
    let interfaces = saved.map_or(Interfaces::Here, Interfaces::Saved);
    // An interface that is not there is a finding of its own.
    let pairs = rings(specs, 1, interfaces).or_else(|_| rings(specs, 1, Interfaces::Awaited));
    let pairs = pairs.unwrap_or(specs.len());
    let frame_size = FrameSize::default();
    let setup = PortSetup {
        workers: 1,
        ring: RING as u32,
        frame_size,
        xdp_mode: XdpModePreference::default(),
        punt: Punt::Control,
        packets_alone: true,
        cut_mtu: None,
        greet,
    };
    Wanted {
        ports: specs.iter().map(|spec| port(spec, &setup)).collect(),
        packets_alone: are_alone(specs, &setup),
        forwards: true,
        routes: true,
        kernel_routes: true,
        ..of_workers(1, 4 * pairs * RING * frame_size.bytes(), frame_size)
    }
}

/// Returns true if each packet port is to hide the packets that it takes from the kernel. A port that
/// leaves no control traffic to the kernel runs beside the kernel, which gets the same packets.
fn are_alone(specs: &[PortSpec], setup: &PortSetup) -> bool {
    let leaves = |spec: &PortSpec| match &spec.device {
        DeviceSpec::Packet(spec) => spec.leaves_control.unwrap_or(setup.punt == Punt::Control),
        _ => true,
    };
    setup.packets_alone && specs.iter().all(leaves)
}

/// Returns the cores of that many workers on a saved host.
pub fn cores_on(host: &Host, workers: usize) -> Vec<u32> {
    let allowed: Vec<usize> = host.cores.allowed.iter().map(|core| *core as usize).collect();
    numbers(assign(&allowed, workers))
}

fn numbers(cores: Cores) -> Vec<u32> {
    cores.workers.into_iter().flatten().filter_map(|core| u32::try_from(core).ok()).collect()
}

fn of_workers(workers: usize, memory: usize, frame_size: FrameSize) -> Wanted {
    Wanted {
        workers,
        cores: numbers(cores(workers)),
        memory: memory as u64,
        longest: frame_size.longest(),
        ..Wanted::default()
    }
}

fn port(spec: &PortSpec, setup: &PortSetup) -> WantedPort {
    let device = match &spec.device {
        DeviceSpec::Xdp(spec) => Device::Xdp(place(spec, setup)),
        DeviceSpec::Packet(PacketSpec { interface, .. }) => Device::Packet(interface.clone()),
        DeviceSpec::Tap { interface, .. } => Device::Tap(interface.clone()),
        DeviceSpec::Memif { path, config, .. } => {
            Device::Memif { path: path.into(), is_server: config.role == Role::Server }
        }
        DeviceSpec::Pcap { config, .. } => {
            // Files that are written in turn are in one folder.
            Device::Files { input: config.input.clone(), output: config.outputs().into_iter().next() }
        }
    };
    let traces = spec.wraps.iter().filter_map(|wrap| wrap.output().map(Path::to_owned)).collect();
    WantedPort { name: spec.to_string(), device, traces }
}

fn place(spec: &XdpSpec, setup: &PortSetup) -> XdpPlace {
    XdpPlace {
        interface: spec.interface.clone(),
        queue: spec.queue,
        queues: spec.queues.number(setup.workers),
        mode: spec.mode.unwrap_or(setup.xdp_mode),
        is_partial: spec.take.is_some() || spec.grant.is_some(),
        is_granted: spec.grant.is_some(),
        takes_none: spec.take.as_ref().is_some_and(|take| take.rules().is_empty()),
        copies: spec.copy == ZeroCopy::Never,
        leaves_control: spec.punt.unwrap_or(setup.punt) == Punt::Control,
    }
}

/// Returns a line for each port whose packets the kernel also forwards, answers or drops, with the remedy. It
/// combines the findings on the host with the state of each port's copies for the kernel.
pub fn warnings(beside: Vec<Finding>, copies: &[(String, KernelCopies)]) -> Vec<String> {
    let line = |finding: Finding| {
        let other = match finding.rule {
            "forwarding" => format!(", or use {}", finding.about.replace("packet:", "xdp:")),
            _ => String::new(),
        };
        let for_this_run = if finding.change.is_some() { " (--fix FILE does it for one run)" } else { "" };
        format!("{}: {}: {}{for_this_run}{other}", finding.about, finding.what, finding.remedy)
    };
    // The kernel does not forward packets that it does not get.
    let is_so = |finding: &Finding| {
        let alone =
            copies.iter().any(|(port, copies)| *port == finding.about && *copies == KernelCopies::None);
        finding.rule != "forwarding" || !alone
    };
    let found = beside.into_iter().filter(is_so).map(line);
    let answered = copies.iter().filter_map(|(port, copies)| {
        let KernelCopies::NotDropped(why) = copies else { return None };
        let xdp = port.replace("packet:", "xdp:");
        Some(format!(
            "{port}: the kernel has copies of the packets that the port takes, and may forward or answer them too ({why}): use {xdp}, or allow it \
             with --kernel-copies=keep"
        ))
    });
    found.chain(answered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;
    use crate::forward::set_up;
    use crate::stop::Asked;
    use netmem_ports::port_spec;
    use std::path::PathBuf;

    /// Found by reasoning: `netmem doctor --from` refused a configuration with `queues=all` if the machine that reads
    /// the saved host has no such interface. Otherwise it took the number of that machine's queues, and always its
    /// cores.
    #[test]
    fn a_plan_for_a_saved_host_has_the_queues_and_cores_of_that_host() {
        let text =
            "port = [\"xdp:nosuch0,queues=all\", \"xdp:nosuch1\"]\nmode = \"cross-connect\"\nworkers = 2\n";
        let args = args::forward_of(text, &["--config", "FILE"]).expect("arguments");
        let saved = r#"{"cores": {"allowed": [0, 1, 2]}, "interfaces": {"nosuch0": {"queues": {"now": 6}}}}"#;
        let host: Host = serde_json::from_str(saved).expect("a host");
        assert!(Plan::of(&args).is_err(), "there is no such interface here");
        let plan = Plan::on(&args, Interfaces::Saved(&host)).expect("a plan");
        let wanted = of_plan(&plan);
        assert_eq!(wanted.xdp().map(|(_, place)| place.queues).collect::<Vec<_>>(), [None, Some(2)]);
        assert_eq!(cores_on(&host, wanted.workers), [2, 1]);
    }

    /// Seen: the remedy for locked memory named 6208 KiB, and the run locked 8192 KiB.
    #[test]
    fn the_memory_that_a_run_needs_is_all_of_the_memory_that_it_maps() {
        for more in ["", "path = \"full\"\n", "workers = 2\nhardening = \"random\"\npath = \"full\"\n"] {
            let text = format!("frames = 1000\nring = 256\nno-sandbox = true\n{more}");
            let plan = args::forward_of(&text, &[]).and_then(|args| Plan::of(&args)).expect("a plan");
            let dataplane = set_up::open(&plan, Asked::default()).expect("a dataplane");
            assert_eq!(of_plan(&plan).memory, dataplane.memory.bytes() as u64, "{more}");
        }
    }

    /// Found: `netmem doctor xdp:eth0,queues=4` named the memory of a port with one queue.
    #[test]
    fn the_doctor_s_ports_need_the_memory_of_a_run_with_these_ports() {
        for ports in [["xdp:nosuch0,queues=4", "xdp:nosuch1"], ["memif:a,queues=8", "packet:nosuch0"]] {
            let text = format!("port = {ports:?}\nmode = \"cross-connect\"\n");
            let plan = args::forward_of(&text, &[]).and_then(|args| Plan::of(&args)).expect("a plan");
            let specs = ports.map(|port| port_spec(port).expect("a port"));
            assert_eq!(of_ports(&specs, None).memory, of_plan(&plan).memory, "{ports:?}");
        }
    }

    /// Seen: `netmem doctor` found nothing wrong with the file of a trace in a folder that does not exist.
    #[test]
    fn the_files_of_traces_around_a_port_are_needed() {
        let specs = ["trace:file=/t/a.json/fault:/trace:file=/t/b.json/tap:t0", "trace:/tap:t1"]
            .map(|text| port_spec(text).unwrap());
        let wanted = of_ports(&specs, None);
        assert_eq!(wanted.ports[0].traces, ["/t/a.json", "/t/b.json"].map(PathBuf::from));
        assert!(wanted.ports[1].traces.is_empty());
    }
}
