//! `forward-offload`: the cost of a byte of a TCP stream between two hosts through netmem. Packets of many segments
//! cross unsegmented by packet sockets and by TAP interfaces, or are segmented, or cross over AF_XDP. All are
//! compared with the kernel's own forwarding. Also measures the rate of eight streams.

mod stream;

use std::cell::RefCell;
use std::process::Command;
use std::time::Duration;

use netmem::wire::MacAddr;

use super::Experiment;
use super::peers::middle;
use super::peers::{Borrowed, Middle};
use super::scratch::Folder;
use super::veths::{Veths, host_mac, port_mac};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::params;
use crate::method::round::{Label, Variant};
use crate::metric::Metric;
use crate::sources;
use stream::{Stream, Time};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "forward-offload",
    source: sources::NONE.key,
    question: "What does a TCP stream between hosts with offloads cost through netmem, whole or cut, or through the kernel?",
    seconds: 160,
    keys: &[],
    run,
};

/// How long a device may take to start.
const START: Duration = Duration::from_secs(30);

/// The device between the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Device {
    /// Packet sockets, with frames that have room for many segments.
    Whole,
    /// TAP interfaces, which belong to the hosts, with such frames.
    Tap,
    /// Packet sockets, with frames that have room for one segment.
    Cut,
    /// AF_XDP. Here a veth lets its peer segment packets and leaves checksums incomplete.
    Xdp,
    Kernel,
}

/// The devices for one stream. The time of all cores counts.
const ONE: [Device; 5] = [Device::Whole, Device::Cut, Device::Xdp, Device::Kernel, Device::Tap];

/// The devices for eight streams at a time. The elapsed time counts.
const EIGHT: [Device; 4] = [Device::Whole, Device::Xdp, Device::Kernel, Device::Tap];

impl Device {
    fn name(self) -> &'static str {
        match self {
            Device::Whole => "netmem",
            Device::Tap => "netmem/tap",
            Device::Cut => "netmem/cut",
            Device::Xdp => "netmem/xdp",
            Device::Kernel => "kernel",
        }
    }

    /// Returns the arguments for `netmem forward`; None for the kernel.
    fn words(self) -> Option<Vec<String>> {
        let words = match self {
            Device::Whole => "--frame-size=32768 --frames=2048 --port=packet:one --port=packet:two",
            Device::Tap => {
                let [one, two] = [1, 2].map(|host| MacAddr::new(port_mac(host)));
                let taps = format!("--port=tap:one,mac={one} --port=tap:two,mac={two}");
                let sizes = ["--frame-size=32768", "--frames=2048"].map(str::to_owned);
                return Some(sizes.into_iter().chain(taps.split(' ').map(str::to_owned)).collect());
            }
            Device::Cut => "--port=packet:one --port=packet:two",
            Device::Xdp => "--port=xdp:one --port=xdp:two",
            Device::Kernel => return None,
        };
        Some(words.split(' ').map(str::to_owned).collect())
    }
}

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&core) = bench.cores.get(1) else {
        bench.check("two cores", false, "the device needs one and the sender another".to_owned());
        return Ok(());
    };
    if let Err(why) = Veths::lay().and_then(|veths| veths.ports(64).map(drop)) {
        bench.note_nothing_measured(why);
        return Ok(());
    }
    let folder = Folder::new().map_err(SetUpError::at("a folder"))?;
    set(bench, (&folder, core), &ONE, (1, Time::OfCores), &[(0, 1), (0, 3), (1, 3), (2, 3), (4, 3)])?;
    set(bench, (&folder, core), &EIGHT, (8, Time::Passed), &[(0, 2), (1, 2), (3, 2)])?;
    bench.note(
        "work tcp, core-ns per KiB received, over all cores: the time for which the hosts' program, netmem and the \
         kernel's ksoftirqd had a core, in windows of 8 MiB at the receiver; one stream, MTU 1,500, default \
         offloads of the hosts",
    );
    bench.note(
        "work tcp-rate: the elapsed nanoseconds for a KiB received of eight streams at a time, in such windows. \
         Eight threads that send, eight that receive and the device share the cores; the kernel's forwarding has no \
         thread of its own",
    );
    bench.note(
        "netmem: packet sockets with frames of 32 KiB, packets of up to 64 KiB in two or three; netmem/tap: the \
         same with TAP interfaces in the hosts; netmem/cut: with frames of 2 KiB, each segment a frame; netmem/xdp: \
         AF_XDP in native mode. All rows include the hosts' two copies of each byte, and all except kernel include \
         the kernel's two copies between socket (or TAP file) and frame. netmem makes no copy of whole packets, and \
         one of those that it segments",
    );
    Ok(())
}

/// Measures this number of streams through each of these devices.
fn set(
    bench: &mut Bench<'_>,
    place: (&Folder, usize),
    devices: &[Device],
    (streams, time): (usize, Time),
    ratios: &[(usize, usize)],
) -> Result<(), SetUpError> {
    let mut laid: Vec<(RefCell<Stream>, Veths)> = Vec::new();
    for &device in devices {
        let (stream, veths) = stream(place, device, (streams, time))?;
        laid.push((RefCell::new(stream), veths));
    }
    measure(bench, &laid, ratios);
    for (stream, veths) in laid {
        stream.into_inner().settle(bench);
        drop(veths);
    }
    Ok(())
}

fn measure(bench: &mut Bench<'_>, streams: &[(RefCell<Stream>, Veths)], ratios: &[(usize, usize)]) {
    let metric = Metric::NsPerOp;
    let comparisons: Vec<_> = ratios.iter().map(|&(a, b)| Comparison { a, b, metric }).collect();
    let mut variants: Vec<Box<dyn Variant + '_>> =
        streams.iter().map(|(one, _)| -> Box<dyn Variant + '_> { Box::new(Borrowed::new(one)) }).collect();
    let series = bench.measure(&mut variants, &comparisons, Cores::Cross);
    drop(variants);
    for one in &series {
        bench.row(one, metric, None);
    }
}

/// Makes this number of streams through `device`, with the interfaces that they cross.
fn stream(
    (folder, core): (&Folder, usize),
    device: Device,
    (streams, time): (usize, Time),
) -> Result<(Stream, Veths), SetUpError> {
    let laid = if device == Device::Tap { Veths::unjoined() } else { Veths::lay() };
    let veths = laid.map_err(SetUpError::at("veths"))?;
    let start = |words: Vec<String>| {
        let name = format!("{}-{streams}", device.name().replace('/', "-"));
        let (said, socket) = (folder.path(&name), folder.path(&format!("{name}.sock")));
        let mut command = command(&veths, &words).map_err(SetUpError::at("the device"))?;
        command.arg("--control").arg(&socket);
        let mut middle = Middle::start(command, core, &said).map_err(SetUpError::at("start the device"))?;
        // Once the socket is there, its interfaces are set up, and may be moved.
        middle.wait_for(&[socket], START).map_err(SetUpError::at("start the device"))?;
        Ok(middle)
    };
    let middle = device.words().map(start).transpose()?;
    match device {
        Device::Tap => veths.give_taps().map_err(SetUpError::at("TAP interfaces for the hosts"))?,
        Device::Kernel => veths.route().map_err(SetUpError::at("routes of the kernel"))?,
        _ => (),
    }
    veths.address().map_err(SetUpError::at("addresses of the hosts"))?;
    let ends = (0..streams).map(|_| veths.connect()).collect::<Result<Vec<_>, _>>();
    let ends = ends.map_err(SetUpError::at("connections through the device"))?;
    let (work, cores) = match time {
        Time::OfCores => ("tcp", "all"),
        Time::Passed => ("tcp-rate", "shared"),
    };
    let params = params([
        ("work", work.into()),
        ("op", "KiB".into()),
        ("mtu", 1500.into()),
        ("streams", streams.into()),
        ("cores", cores.into()),
    ]);
    let label = Label { variant: device.name().to_owned(), params };
    let stream = Stream::new(label, time, ends, middle).map_err(SetUpError::at("clocks"))?;
    Ok((stream, veths))
}

fn command(veths: &Veths, words: &[String]) -> Result<Command, String> {
    let netmem = middle::netmem()?;
    let mut command = veths.command(std::path::Path::new(netmem.get_program()));
    command.args(["forward", "--json", "--idle=sleep"]).args(words);
    for (host, port) in [(1, 0), (2, 1)] {
        command.arg(format!("--route=10.77.{host}.0/24,{port},{}", MacAddr::new(host_mac(host))));
    }
    Ok(command)
}
