//! `forward-offload`: what a byte of a TCP stream between two hosts costs through netmem, where packets of many segments cross as they
//! are, where they are cut, and over AF_XDP, beside the kernel's own forwarding.

mod stream;

use std::cell::RefCell;
use std::process::Command;

use netmem::wire::MacAddr;

use super::Experiment;
use super::peers::middle;
use super::peers::{Borrowed, Middle};
use super::scratch::Folder;
use super::veths::{Veths, host_mac};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::params;
use crate::method::round::{Label, Variant};
use crate::metric::Metric;
use crate::sources;
use stream::Stream;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "forward-offload",
    source: sources::NONE.key,
    question: "What does a TCP stream between hosts with offloads cost through netmem, whole or cut, or through the kernel?",
    seconds: 90,
    keys: &[],
    run,
};

/// Who is between the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Device {
    /// Packet sockets, and frames with room for many segments.
    Whole,
    /// Packet sockets, and frames with room for one.
    Cut,
    /// AF_XDP, where a veth has its peer cut and leaves checksums open.
    Xdp,
    Kernel,
}

const DEVICES: [Device; 4] = [Device::Whole, Device::Cut, Device::Xdp, Device::Kernel];

impl Device {
    fn name(self) -> &'static str {
        match self {
            Device::Whole => "netmem",
            Device::Cut => "netmem/cut",
            Device::Xdp => "netmem/xdp",
            Device::Kernel => "kernel",
        }
    }

    /// Words for `netmem forward`; None where it is the kernel.
    fn words(self) -> Option<&'static [&'static str]> {
        match self {
            Device::Whole => {
                Some(&["--frame-size=32768", "--frames=2048", "--port=packet:one", "--port=packet:two"])
            }
            Device::Cut => Some(&["--port=packet:one", "--port=packet:two"]),
            Device::Xdp => Some(&["--port=xdp:one", "--port=xdp:two"]),
            Device::Kernel => None,
        }
    }
}

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&core) = bench.cores.get(1) else {
        bench.check("two cores", false, "the device needs one and the sender another".to_owned());
        return Ok(());
    };
    if let Err(why) = Veths::lay().and_then(|veths| veths.ports(64).map(drop)) {
        bench.note(format!("nothing is measured: it needs root and network namespaces: {why}"));
        return Ok(());
    }
    let folder = Folder::new().map_err(SetUpError::at("a folder"))?;
    let mut streams: Vec<(RefCell<Stream>, Veths)> = Vec::new();
    for device in DEVICES {
        let (stream, veths) = stream(&folder, device, core)?;
        streams.push((RefCell::new(stream), veths));
    }
    measure(bench, &streams);
    for (stream, veths) in streams {
        stream.into_inner().settle(bench);
        drop(veths);
    }
    bench.note(
        "core-ns per KiB received, over all cores: the time that the hosts' program, netmem and the kernel's ksoftirqd have had a core, in \
         windows of 8 MiB at the receiver; one stream, MTU 1,500, hosts' offloads as they come",
    );
    bench.note(
        "netmem: packet sockets with frames of 32 KiB, packets of up to 64 KiB in two or three; netmem/cut: with frames of 2 KiB, each \
         segment a frame; netmem/xdp: AF_XDP in native mode. Two copies of each byte are the hosts' and are in all, the kernel's two \
         between socket and frame in all but kernel; netmem makes none for whole packets and one for what it cuts",
    );
    Ok(())
}

fn measure(bench: &mut Bench<'_>, streams: &[(RefCell<Stream>, Veths)]) {
    let metric = Metric::NsPerOp;
    let comparisons = [(0, 1), (0, 3), (1, 3), (2, 3)].map(|(a, b)| Comparison { a, b, metric });
    let mut variants: Vec<Box<dyn Variant + '_>> =
        streams.iter().map(|(one, _)| -> Box<dyn Variant + '_> { Box::new(Borrowed::new(one)) }).collect();
    let series = bench.measure(&mut variants, &comparisons, Cores::Cross);
    drop(variants);
    for one in &series {
        bench.row(one, metric, None);
    }
}

/// A stream through `device`, with the interfaces that it goes over.
fn stream(folder: &Folder, device: Device, core: usize) -> Result<(Stream, Veths), SetUpError> {
    let veths = Veths::lay().map_err(SetUpError::at("veths"))?;
    veths.address().map_err(SetUpError::at("addresses of the hosts"))?;
    let middle = match device.words() {
        Some(words) => {
            let command = command(&veths, words).map_err(SetUpError::at("the device"))?;
            let said = folder.path(&device.name().replace('/', "-"));
            Some(Middle::start(command, core, &said).map_err(SetUpError::at("start the device"))?)
        }
        None => {
            veths.route().map_err(SetUpError::at("routes of the kernel"))?;
            None
        }
    };
    let ends = veths.connect().map_err(SetUpError::at("a connection through the device"))?;
    let params = params([
        ("work", "tcp".into()),
        ("op", "KiB".into()),
        ("mtu", 1500.into()),
        ("streams", 1.into()),
        ("cores", "all".into()),
    ]);
    let label = Label { variant: device.name().to_owned(), params };
    let stream = Stream::new(label, ends, middle).map_err(SetUpError::at("clocks"))?;
    Ok((stream, veths))
}

fn command(veths: &Veths, words: &[&str]) -> Result<Command, String> {
    let netmem = middle::netmem()?;
    let mut command = veths.command(std::path::Path::new(netmem.get_program()));
    command.args(["forward", "--json", "--idle=sleep"]).args(words);
    for (host, port) in [(1, 0), (2, 1)] {
        command.arg(format!("--route=10.77.{host}.0/24,{port},{}", MacAddr::new(host_mac(host))));
    }
    Ok(command)
}
