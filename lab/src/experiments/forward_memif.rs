//! `forward-memif`: the cost of a packet for netmem and for DPDK's testpmd, which forward it from one memif
//! interface to another, on one core, between the same two peers.

use std::cell::RefCell;
use std::path::{self, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use netmem::limits::CHUNK_SIZE;
use netmem::page::MemoryConfig;
use netmem::port::memif::{MemifConfig, MemifPort, Role, Sealing};
use netmem::port::{Port, PortState};
use netmem_traffic::StreamConfig;

use super::Experiment;
use super::peers::{Backlog, Borrowed, Ends, Middle, PACKET_BYTES, Path, Tools};
use super::peers::{lending, middle};
use super::scratch::Folder;
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::params;
use crate::method::round::{Label, Variant};
use crate::metric::Metric;
use crate::settings::Key;
use crate::sources;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "forward-memif",
    source: sources::NONE.key,
    question: "What does a packet cost that netmem, or DPDK's testpmd, passes on between the same memif peers?",
    seconds: 60,
    keys: KEYS,
    run,
};

const KEYS: &[Key] = &[Key {
    name: "ring",
    what: "slots of each memif ring, a power of two, of which a backlog takes three in four",
    min: 1_024,
    max: 16_384,
    full: 2_048,
    quick: 2_048,
}];

/// How long a peer may take to listen, or to connect.
const GREETING: Duration = Duration::from_secs(30);

/// The packets that the peers exchange.
fn stream(stream: u16) -> StreamConfig {
    StreamConfig { stream, sizes: vec![PACKET_BYTES], ..StreamConfig::default() }
}

/// The device between the peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Device {
    Netmem,
    Testpmd,
    /// The same with bursts as long as netmem's.
    TestpmdLongBursts,
    /// Lends its packets, as netmem does; only as a client.
    TestpmdZeroCopy,
}

impl Device {
    fn name(self) -> &'static str {
        match self {
            Device::Netmem => "netmem",
            Device::Testpmd => "dpdk",
            Device::TestpmdLongBursts => "dpdk/burst-64",
            Device::TestpmdZeroCopy => "dpdk/zero-copy",
        }
    }

    /// Returns the packets that testpmd takes at a time: its default, or as many as netmem takes.
    fn burst(self) -> usize {
        if self == Device::TestpmdLongBursts { middle::BURSTS[1] } else { middle::BURSTS[0] }
    }
}

/// The device's end of the protocol. A server copies from one peer's memory into the other's. A client brings the
/// memory itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Server,
    Client,
}

impl Side {
    /// Returns the devices that are measured on this side.
    fn devices(self, has_testpmd: bool) -> &'static [Device] {
        match self {
            _ if !has_testpmd => &[Device::Netmem],
            Side::Server => &[Device::Netmem, Device::Testpmd, Device::TestpmdLongBursts],
            Side::Client => {
                &[Device::Netmem, Device::Testpmd, Device::TestpmdLongBursts, Device::TestpmdZeroCopy]
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Side::Server => "server",
            Side::Client => "client",
        }
    }

    /// Returns the peers' end of the protocol.
    fn of_peers(self) -> Role {
        match self {
            Side::Server => Role::Client,
            Side::Client => Role::Server,
        }
    }
}

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&core) = bench.cores.get(1) else {
        bench.check("two cores", false, "the device needs one and its peers another".to_owned());
        return Ok(());
    };
    let testpmd = middle::find("dpdk-testpmd");
    if testpmd.is_none() {
        bench.note("rival dpdk: there is no dpdk-testpmd: apt-get install dpdk");
    }
    // Read before netmem and the peers take some.
    let devices = middle::Devices { testpmd: Side::Client.devices(true).len() - 1, netmem: 1, others: 0 };
    let ring = (bench.setting("ring") as usize).next_power_of_two();
    let memory = middle::memory_of_dpdk(devices, ring);
    let mut backing = None;
    let effort = bench.effort();
    for side in [Side::Server, Side::Client] {
        if bench.stopped() {
            break;
        }
        let folder = Folder::new().map_err(SetUpError::at("a folder for sockets"))?;
        let mut paths = Vec::new();
        for &device in side.devices(testpmd.is_some()) {
            let testpmd = testpmd.as_deref().map(|program| (program, memory));
            let path = path(bench, &folder, (device, side), testpmd, core);
            let path = middle::unless_rival(bench, (device.name(), device == Device::Netmem), path)?;
            paths.extend(path.map(RefCell::new));
        }
        let against_netmem = |b| Comparison { a: 0, b, metric: Metric::NsPerPacket };
        let comparisons: Vec<_> = (1..paths.len()).map(against_netmem).collect();
        let mut variants: Vec<Box<dyn Variant + '_>> =
            paths.iter().map(|path| -> Box<dyn Variant + '_> { Box::new(Borrowed::new(path)) }).collect();
        let series = bench.measure_with(&mut variants, &comparisons, Cores::Cross, effort);
        drop(variants);
        for one in &series {
            bench.row(one, Metric::NsPerPacket, None);
            bench.row(one, Metric::Pps, None);
        }
        bench.check_generator(&series);
        paths.into_iter().for_each(|path| path.into_inner().settle(bench));
        backing = middle::backing(&folder.path(Device::Netmem.name())).or(backing);
    }
    findings(bench, memory, backing.as_deref());
    Ok(())
}

/// Makes a path through `device`, which has this end of both connections.
fn path(
    bench: &Bench<'_>,
    folder: &Folder,
    (device, side): (Device, Side),
    testpmd: Option<(&path::Path, &str)>,
    core: usize,
) -> Result<Backlog, SetUpError> {
    let ring = (bench.setting("ring") as u32).next_power_of_two();
    let file = device.name().replace('/', "-");
    let sockets = ["in", "out"].map(|end| folder.path(&format!("{file}-{end}")));
    let command = match testpmd {
        Some(testpmd) if device != Device::Netmem => {
            testpmd_command(testpmd, core, &sockets, (device, side), ring)
        }
        _ => netmem_command(&sockets, side, ring).map_err(SetUpError::at("the device"))?,
    };
    let frames = 4 * ring as usize;
    let config = MemoryConfig { bytes: frames * CHUNK_SIZE, workers: 1, ..MemoryConfig::default() };
    let memory = lending::memory(&config).map_err(SetUpError::at("memory"))?;
    let tools = Tools::new(memory, frames)?;
    // DPDK does not seal the memory that it lends. netmem's cannot be sealed against holes.
    let sealing = if device == Device::TestpmdZeroCopy { Sealing::Trusted } else { Sealing::HolesAllowed };
    let (role, lend) = (side.of_peers(), Some(lending::to_peers_of_ours()));
    let config = MemifConfig { role, ring, sealing, lend, ..MemifConfig::default() };
    let open = |socket: &PathBuf| {
        MemifPort::open(socket, &tools.memory, &config).map_err(SetUpError::at("memif")).map(|mut port| {
            port.wait(GREETING);
            Box::new(port) as Box<dyn Port>
        })
    };
    let start =
        || Middle::start(command, core, &folder.path(&file)).map_err(SetUpError::at("start the device"));
    // The side that listens starts first.
    let (mut ports, middle) = match side {
        Side::Server => {
            let mut middle = start()?;
            middle.wait_for(&sockets, GREETING).map_err(SetUpError::at("the device's sockets"))?;
            ([open(&sockets[0])?, open(&sockets[1])?], middle)
        }
        Side::Client => ([open(&sockets[0])?, open(&sockets[1])?], start()?),
    };
    greet(&mut ports);
    let ends = Ends::new(tools, ports, stream(1))?;
    let label = Label {
        variant: device.name().to_owned(),
        params: params([
            ("work", "forward".into()),
            ("port", "memif".into()),
            ("role", side.name().into()),
            ("bytes", PACKET_BYTES.into()),
            ("cores", "cross".into()),
            ("touch", false.into()),
            ("ring", ring.into()),
        ]),
    };
    // Some slots stay free, because not every device can use all of them.
    let backlog = ring as usize * 3 / 4;
    let path = Path::new(label, (ends, Some(middle)), &stream(2))?;
    Ok(Backlog::new(path, backlog))
}

/// Exchanges messages with both peers until they are connected or the time is over. If they are not connected, the path
/// reports why. Both must be served in turn: testpmd closes the memory that it lends as soon as one of its ports is
/// connected, and the other port could not offer it any more (DPDK 22.11).
fn greet(ports: &mut [Box<dyn Port>; 2]) {
    let begun = Instant::now();
    while begun.elapsed() < GREETING && ports.iter().any(|port| port.state() != PortState::Up) {
        ports.iter_mut().for_each(|port| port.kick());
    }
}

fn netmem_command(sockets: &[PathBuf; 2], side: Side, ring: u32) -> Result<Command, String> {
    let mut command = middle::netmem()?;
    command.args(["forward", "--mode", "cross-connect", "--json", "--ring", &ring.to_string()]);
    let lends = if side == Side::Client { ",lend=yes" } else { ",holes=ok" };
    for socket in sockets {
        command.args(["--port", &format!("memif:{},role={}{lends}", socket.display(), side.name())]);
    }
    Ok(command)
}

fn testpmd_command(
    (program, memory): (&path::Path, &str),
    core: usize,
    sockets: &[PathBuf; 2],
    (device, side): (Device, Side),
    ring: u32,
) -> Command {
    let lends = device == Device::TestpmdZeroCopy;
    let zero_copy = if lends { ",zero-copy=yes" } else { "" };
    // testpmd offers lent memory by its files, and needs one file for each segment.
    let memory = if lends { format!("{memory} --single-file-segments") } else { memory.to_owned() };
    let vdev = |i: usize| {
        format!(
            "net_memif{i},role={},socket={},socket-abstract=no,rsize={}{zero_copy}",
            side.name(),
            sockets[i].display(),
            ring.ilog2()
        )
    };
    middle::testpmd(program, core, [vdev(0), vdev(1)], (&memory, device.burst()))
}

fn findings(bench: &mut Bench<'_>, memory: &str, backing: Option<&str>) {
    bench.note(
        "the device is stopped while its ring is filled, and then processes a backlog alone, so it always finds a \
         full burst. The cost of the sender and the receiver, which are the same netmem ports for all devices, is \
         not included",
    );
    bench.note(
        "core-ns per packet over all cores, in windows at the sink, is the cost of the device alone: only memory \
         and rings are between the three processes, and the peers' core only checks whether packets have come",
    );
    bench.note(format!(
        "dpdk: testpmd in io mode, bursts of 32, its default, and as dpdk/burst-64 bursts of 64, {memory}; netmem: forward in cross-connect mode, bursts of 64, memory \
         on {}",
        backing.unwrap_or("pages that it did not tell of")
    ));
    bench.note(
        "as servers both copy each packet twice. As a client netmem lends its frames and copies nothing, and so \
         does dpdk/zero-copy (zero-copy=yes, --single-file-segments), while dpdk, testpmd with its defaults, copies \
         twice",
    );
}
