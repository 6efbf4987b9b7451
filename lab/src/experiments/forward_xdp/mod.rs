//! `forward-xdp`: the cost of a packet from one veth to another, through netmem and DPDK's testpmd over AF_XDP, and
//! through the kernel's own forwarding, between the same two hosts.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::path;
use std::process::Command;

use netmem::limits::CHUNK_SIZE;
use netmem::page::{Memory, MemoryConfig};
use netmem::wire::MacAddr;
use netmem_traffic::{Addresses, Span, StreamConfig};

use super::Experiment;
use super::peers::middle;
use super::peers::{Borrowed, Ends, Flow, Middle, PACKET_BYTES, Path, Tools};
use super::scratch::Folder;
use super::veths::{Veths, host_mac, port_mac};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::params;
use crate::method::round::{Label, Variant};
use crate::metric::Metric;
use crate::settings::Key;
use crate::sources;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "forward-xdp",
    source: sources::NONE.key,
    question: "What does a packet cost from veth to veth through netmem or DPDK's testpmd over AF_XDP, or through the kernel?",
    seconds: 60,
    keys: KEYS,
    run,
};

const KEYS: &[Key] = &[Key {
    name: "backlog",
    what: "packets under way at most, and before the device goes on",
    min: 1_024,
    max: 1_536,
    full: 1_536,
    quick: 1_536,
}];

/// Slots of each ring.
const RING: usize = 2_048;

/// The device between the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Device {
    /// Passes frames on unchanged.
    Netmem,
    /// The same, with its programs in generic mode, behind the driver.
    NetmemGeneric,
    /// Routes them.
    NetmemIp,
    /// Passes frames on unchanged.
    Testpmd,
    /// The same with bursts as long as netmem's.
    TestpmdLongBursts,
    /// Routes them.
    Kernel,
}

impl Device {
    fn name(self) -> &'static str {
        match self {
            Device::Netmem => "netmem",
            Device::NetmemGeneric => "netmem/generic",
            Device::NetmemIp => "netmem/ip",
            Device::Testpmd => "dpdk",
            Device::TestpmdLongBursts => "dpdk/burst-64",
            Device::Kernel => "kernel",
        }
    }

    fn routes(self) -> bool {
        matches!(self, Device::NetmemIp | Device::Kernel)
    }

    /// Returns the packets that testpmd takes at a time, its default or as many as netmem, or None for other devices.
    fn testpmd_burst(self) -> Option<usize> {
        match self {
            Device::Testpmd => Some(middle::BURSTS[0]),
            Device::TestpmdLongBursts => Some(middle::BURSTS[1]),
            _ => None,
        }
    }
}

/// All devices, those of testpmd last.
const DEVICES: [Device; 6] = [
    Device::Netmem,
    Device::NetmemGeneric,
    Device::NetmemIp,
    Device::Kernel,
    Device::Testpmd,
    Device::TestpmdLongBursts,
];

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&core) = bench.cores.get(1) else {
        bench.check("two cores", false, "the device needs one and its peers another".to_owned());
        return Ok(());
    };
    // Read before netmem and the hosts take some.
    let testpmd = DEVICES.iter().filter(|device| device.testpmd_burst().is_some()).count();
    let devices = middle::Devices { testpmd, netmem: DEVICES.len() - testpmd - 1, others: 1 };
    let memory = middle::memory_of_dpdk(devices, RING);
    // What is missing is also found before anything is measured.
    if let Err(why) = Veths::lay().and_then(|veths| veths.ports(RING).map(drop)) {
        bench.note_nothing_measured(why);
        return Ok(());
    }
    let testpmd = middle::find("dpdk-testpmd");
    if testpmd.is_none() {
        bench.note("rival dpdk: there is no dpdk-testpmd: apt-get install dpdk");
    }
    let folder = Folder::new().map_err(SetUpError::at("a folder"))?;
    let mut paths: Vec<(RefCell<Flow>, Veths)> = Vec::new();
    for device in DEVICES {
        let is_needed = device.testpmd_burst().is_none();
        if is_needed || testpmd.is_some() {
            let testpmd = testpmd.as_deref().map(|program| (program, memory));
            let path = path(bench, &folder, device, testpmd, core);
            let path = middle::unless_rival(bench, (device.name(), is_needed), path)?;
            paths.extend(path.map(|(path, veths)| (RefCell::new(path), veths)));
        }
    }
    measure(bench, &paths);
    for (path, veths) in paths {
        path.into_inner().settle(bench);
        drop(veths);
    }
    findings(bench, memory, middle::backing(&folder.path(Device::Netmem.name())).as_deref());
    Ok(())
}

/// Compares netmem as a router with the kernel, and with testpmd and itself where each passes frames on unchanged.
fn measure(bench: &mut Bench<'_>, paths: &[(RefCell<Flow>, Veths)]) {
    let metric = Metric::NsPerPacket;
    let mut comparisons = vec![Comparison { a: 2, b: 3, metric }, Comparison { a: 1, b: 0, metric }];
    comparisons.extend((4..paths.len()).map(|b| Comparison { a: 0, b, metric }));
    let mut variants: Vec<Box<dyn Variant + '_>> =
        paths.iter().map(|(path, _)| -> Box<dyn Variant + '_> { Box::new(Borrowed::new(path)) }).collect();
    let series = bench.measure(&mut variants, &comparisons, Cores::Cross);
    drop(variants);
    for one in &series {
        bench.row(one, Metric::NsPerPacket, None);
        bench.row(one, Metric::Pps, None);
    }
    bench.check_generator(&series);
}

/// Makes a path through `device`, with the interfaces that it crosses.
fn path(
    bench: &Bench<'_>,
    folder: &Folder,
    device: Device,
    testpmd: Option<(&path::Path, &str)>,
    core: usize,
) -> Result<(Flow, Veths), SetUpError> {
    let veths = Veths::lay().map_err(SetUpError::at("veths"))?;
    let command = match (device, device.testpmd_burst().zip(testpmd)) {
        (Device::Kernel, _) => {
            veths.route().map_err(SetUpError::at("routes of the kernel"))?;
            None
        }
        (_, Some((burst, testpmd))) => Some(testpmd_command(&veths, testpmd, core, burst)),
        _ => Some(netmem_command(&veths, device).map_err(SetUpError::at("the device"))?),
    };
    let start = |command| Middle::start(command, core, &folder.path(&device.name().replace('/', "-")));
    let middle = command.map(start).transpose().map_err(SetUpError::at("start the device"))?;
    let frames = 4 * RING;
    let config = MemoryConfig { bytes: frames * CHUNK_SIZE, workers: 1, ..MemoryConfig::default() };
    let tools = Tools::new(Memory::new(&config).map_err(SetUpError::at("memory"))?, frames)?;
    let ports = veths.ports(RING).map_err(SetUpError::at("packet ports"))?;
    let ends = Ends::new(tools, ports, stream(device, 1))?;
    let path = Path::new(label(device), (ends, middle), &stream(device, 2))?;
    let flow = Flow::new(path, bench.setting("backlog") as usize, bench.cores[0]);
    Ok((flow, veths))
}

/// Returns the packets that the hosts exchange: to the router, or to the other host.
fn stream(device: Device, stream: u16) -> StreamConfig {
    let host = |host| Span::one(Ipv4Addr::new(10, 77, host, 1));
    StreamConfig {
        stream,
        sizes: vec![PACKET_BYTES],
        src_mac: MacAddr::new(host_mac(1)),
        dst_mac: MacAddr::new(if device.routes() { port_mac(1) } else { host_mac(2) }),
        addresses: Addresses::V4(host(1), host(2)),
        ..StreamConfig::default()
    }
}

fn label(device: Device) -> Label {
    let params = params([
        ("work", "forward".into()),
        ("port", "xdp".into()),
        ("routes", device.routes().into()),
        ("bytes", PACKET_BYTES.into()),
        ("cores", "cross".into()),
        ("ring", RING.into()),
    ]);
    Label { variant: device.name().to_owned(), params }
}

fn netmem_command(veths: &Veths, device: Device) -> Result<Command, String> {
    let netmem = middle::netmem()?;
    let mut command = veths.command(path::Path::new(netmem.get_program()));
    command.args([
        "forward",
        "--json",
        "--ring",
        &RING.to_string(),
        "--port",
        "xdp:one",
        "--port",
        "xdp:two",
    ]);
    if device.routes() {
        for (host, port) in [(1, 0), (2, 1)] {
            command.args(["--route", &format!("10.77.{host}.0/24,{port},{}", MacAddr::new(host_mac(host)))]);
        }
    } else {
        command.args(["--mode", "cross-connect"]);
    }
    if device == Device::NetmemGeneric {
        command.args(["--xdp-mode", "generic"]);
    }
    Ok(command)
}

fn testpmd_command(
    veths: &Veths,
    (program, memory): (&path::Path, &str),
    core: usize,
    burst: usize,
) -> Command {
    let vdev = |i: usize, interface: &str| format!("net_af_xdp{i},iface={interface}");
    let vdevs = [vdev(0, "one"), vdev(1, "two")];
    let testpmd = middle::testpmd(program, core, vdevs, (memory, burst));
    let mut command = veths.command(program);
    command.args(testpmd.get_args()).args([format!("--rxd={RING}"), format!("--txd={RING}")]);
    command
}

fn findings(bench: &mut Bench<'_>, memory: &str, backing: Option<&str>) {
    bench.note(
        "core-ns per packet over all cores, in windows of 384 packets at the sink while packets flow: the time of \
         the device's core, which always has a full burst waiting, and the time of the sender's core within send \
         for the same number of packets, including the work that the kernel deferred there to ksoftirqd. The kernel \
         carries packets to the device on the sender's core, and does all of its own forwarding there: its windows \
         count only if each burst had come out when send returned. Writing and receiving packets costs the same for \
         all devices, and is not included",
    );
    bench.note(format!(
        "netmem: AF_XDP as --xdp-mode auto chooses, in cross-connect mode, with --xdp-mode generic as \
         netmem/generic, and in ip mode as netmem/ip, bursts of 64, memory on \
         {}; dpdk: testpmd in io mode over net_af_xdp with its defaults, bursts of 32, and as dpdk/burst-64 bursts of 64, {memory}; kernel: IPv4 \
         forwarding, static neighbours",
        backing.unwrap_or("pages that it did not tell of")
    ));
    bench.note("over veths AF_XDP copies in the kernel, once in and once out, for netmem and for dpdk");
}
