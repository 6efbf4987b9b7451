//! One `--port` option: its text and its meaning.

use super::kind::unknown;
use super::memif::{Memif, memif, without_secrets};
use super::options::{Keys, interface, station};
use super::packet::{PacketSpec, packet};
use super::pcap::{Pcap, pcap};
use super::xdp::{XdpSpec, xdp};
use netmem::port::fault::{Chance, FaultConfig};
use netmem::port::memif::{MemifConfig, PeerUser, Role};
use netmem::port::pcap::PcapConfig;
use netmem::port::trace::{TraceConfig, TraceFormat};
use netmem::wire::MacAddr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The keys of a tap port.
const TAP: Keys = Keys {
    kind: "tap",
    names: &["mac"],
    form: "mac=MAC, the address of one station, as in tap:tap0,mac=02:00:00:00:00:01",
};
/// The keys of faults.
const FAULT: Keys = Keys {
    kind: "fault",
    names: &["seed", "drop", "corrupt", "duplicate", "reorder", "delay", "delay-us"],
    form: "seed=N, drop=P, corrupt=P, duplicate=P, reorder=P, delay=P, delay-us=N, with a share of all frames as P, or 1/N \
           for every N-th",
};
/// The keys of a trace.
const TRACE: Keys = Keys {
    kind: "trace",
    names: &["file", "format", "bytes", "limit"],
    form: "file=FILE, format=json or format=pcap, bytes=N, limit=N",
};

/// One `--port` option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    /// The ports that wrap it, the outermost first.
    pub wraps: Vec<WrapSpec>,
    /// The innermost device.
    pub device: DeviceSpec,
    /// Its text, without a secret; an interface's first queue has no number.
    text: String,
}

/// The device that carries the frames.
///
/// It is not `#[non_exhaustive]`: a program states what it needs for each kind (queues, frames, privileges), and has to decide
/// that for a new one. So a new kind is a breaking change, and the compiler names each place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceSpec {
    /// A queue of an interface, by AF_XDP.
    Xdp(XdpSpec),
    /// A peer process, through shared memory.
    Memif {
        /// The socket where both meet.
        path: PathBuf,
        /// The settings, which lend no frames.
        config: MemifConfig,
        /// Whether the string asks for frames to be lent (`lend=yes`). The program decides it:
        /// [`OpenConfig::lend`](crate::OpenConfig::lend).
        lends: bool,
    },
    /// An interface, by a packet socket.
    Packet(PacketSpec),
    /// The far end of a TAP interface.
    Tap {
        /// The interface's name.
        interface: String,
        /// The router's MAC address there; None for a generated one.
        mac: Option<MacAddr>,
    },
    /// Files.
    Pcap {
        /// The files, and how they are read.
        config: PcapConfig,
        /// The router's MAC address on that link; None for a generated one.
        mac: Option<MacAddr>,
        /// Whether packets to any station are received as if sent to that address.
        any_mac: bool,
    },
}

/// A port that wraps another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WrapSpec {
    /// Faults.
    Fault(FaultConfig),
    /// A trace.
    Trace(TraceConfig),
}

impl WrapSpec {
    /// Returns the file that it writes, if it writes one.
    pub fn output(&self) -> Option<&Path> {
        match self {
            WrapSpec::Trace(config) => config.file.as_deref(),
            WrapSpec::Fault(_) => None,
        }
    }
}

impl PortSpec {
    /// Returns the settings of an xdp port, if it is one.
    pub fn xdp(&self) -> Option<&XdpSpec> {
        match &self.device {
            DeviceSpec::Xdp(spec) => Some(spec),
            _ => None,
        }
    }

    /// Returns whether it would lend a peer frames of the memory over which it is opened. Peers of other users are lent
    /// frames of the port's own pool.
    pub fn lends(&self) -> bool {
        matches!(&self.device, DeviceSpec::Memif { config, lends: true, .. } if !has_others(config))
    }

    /// Returns whether it would lend peers of other users frames of a pool of its own, in a memory of its own.
    pub fn lends_its_own(&self) -> bool {
        matches!(&self.device, DeviceSpec::Memif { config, lends: true, .. } if has_others(config))
    }

    /// Returns whether it receives nothing, or a file a given number of times.
    pub fn ends(&self) -> bool {
        matches!(&self.device, DeviceSpec::Pcap { config, .. } if config.input.is_none() || config.times.is_some())
    }

    /// Returns whether only one worker can use it.
    pub fn has_one_queue(&self) -> bool {
        let single = match &self.device {
            DeviceSpec::Pcap { .. } => true,
            // One listens at the path. Clients connect as many interfaces.
            DeviceSpec::Memif { config, .. } => config.role == Role::Server,
            DeviceSpec::Xdp(_) | DeviceSpec::Packet(_) | DeviceSpec::Tap { .. } => false,
        };
        single || self.files().next().is_some()
    }

    /// The file that the port reads.
    pub fn input(&self) -> Option<&PathBuf> {
        match &self.device {
            DeviceSpec::Pcap { config, .. } => config.input.as_ref(),
            DeviceSpec::Xdp(_)
            | DeviceSpec::Memif { .. }
            | DeviceSpec::Packet(_)
            | DeviceSpec::Tap { .. } => None,
        }
    }

    /// Returns whether the port writes to standard output.
    pub fn writes_standard_output(&self) -> bool {
        matches!(&self.device, DeviceSpec::Pcap { config, .. } if config.output.as_deref() == Some(Path::new("-")))
    }

    /// The files that the port creates or truncates, and `-` for standard output.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let traces = self.wraps.iter().filter_map(|wrap| match wrap {
            WrapSpec::Trace(config) => config.file.clone(),
            WrapSpec::Fault(_) => None,
        });
        let outputs = match &self.device {
            DeviceSpec::Pcap { config, .. } => config.outputs(),
            DeviceSpec::Xdp(_)
            | DeviceSpec::Memif { .. }
            | DeviceSpec::Packet(_)
            | DeviceSpec::Tap { .. } => Vec::new(),
        };
        traces.chain(outputs)
    }
}

/// Returns whether a port's peers may belong to other users, who must see no other port's packets: such a port lends
/// frames of its own pool.
pub(crate) fn has_others(config: &MemifConfig) -> bool {
    config.peer != PeerUser::Own
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses one `--port`: any number of wrapping ports, each followed by a `/`, and the device.
///
/// # Errors
/// Returns one line, with the form or with the text that was probably meant.
pub fn port_spec(full: &str) -> Result<PortSpec, String> {
    let (mut wraps, mut rest) = (Vec::new(), full);
    loop {
        let (kind, options) = rest.split_once(':').unwrap_or((rest, ""));
        let (device, text) = match kind {
            "fault" | "trace" => {
                let (options, within) = split_wrap(options).ok_or_else(|| {
                    format!("{kind} wraps a port: write {kind}:OPTIONS/KIND:..., as in {kind}:/xdp:eth0")
                })?;
                wraps.push(if kind == "fault" { fault(options) } else { trace(options) }?);
                rest = within;
                continue;
            }
            "xdp" => {
                let spec = xdp(options)?;
                let text = spec.to_string();
                (DeviceSpec::Xdp(spec), text)
            }
            "memif" => {
                let Memif { path, config, lends } = memif(options)?;
                (DeviceSpec::Memif { path, config, lends }, without_secrets(rest))
            }
            "packet" => (DeviceSpec::Packet(packet(options)?), rest.to_owned()),
            "tap" => (tap(options)?, rest.to_owned()),
            "pcap" => {
                let Pcap { config, mac, any_mac } = pcap(options)?;
                (DeviceSpec::Pcap { config, mac, any_mac }, rest.to_owned())
            }
            "mem" => {
                let line = "mem ports have no string: netmem forward has two if it is given no port, and other programs \
                            make theirs (MemPort::pair)";
                return Err(line.into());
            }
            _ => return Err(unknown(rest)),
        };
        let around = full.strip_suffix(rest).unwrap_or_default();
        return Ok(PortSpec { wraps, device, text: format!("{around}{text}") });
    }
}

/// Splits the options of a wrapping port from the inner port. A `/` is part of a file's name unless a kind of port
/// follows.
fn split_wrap(text: &str) -> Option<(&str, &str)> {
    let kinds = ["xdp:", "memif:", "packet:", "tap:", "pcap:", "mem:", "fault:", "trace:"];
    text.match_indices('/')
        .map(|(at, _)| (&text[..at], &text[at + 1..]))
        .find(|(_, within)| kinds.iter().any(|kind| within.starts_with(kind)))
}

fn tap(text: &str) -> Result<DeviceSpec, String> {
    let (name, rest) = text.split_once(',').unwrap_or((text, ""));
    let (interface, mut mac) = (interface("tap", name)?, None);
    for option in TAP.options(rest)? {
        match (option.0, station(option.1)) {
            ("mac", Some(address)) => mac = Some(address),
            _ => return Err(TAP.refuse(option)),
        }
    }
    Ok(DeviceSpec::Tap { interface, mac })
}

fn fault(text: &str) -> Result<WrapSpec, String> {
    let mut config = FaultConfig::default();
    let options = FAULT.options(text)?;
    for &(key, value) in &options {
        let chance = || value.parse::<Chance>().map_err(|error| format!("fault: {key}={value}: {error}"));
        let number =
            || value.parse::<u32>().map_err(|_| format!("fault: {key}={value}: give a whole number"));
        match key {
            "seed" => config.seed = number()?.into(),
            "drop" => config.drop = chance()?,
            "corrupt" => config.corrupt = chance()?,
            "duplicate" => config.duplicate = chance()?,
            "reorder" => config.reorder = chance()?,
            "delay" => config.delay = chance()?,
            "delay-us" => config.delay_by = Duration::from_micros(number()?.into()),
            _ => return Err(FAULT.refuse((key, value))),
        }
    }
    let has = |name| options.iter().any(|&(key, _)| key == name);
    if has("delay-us") && !has("delay") {
        return Err("fault: delay-us=N is how long delay=P delays a frame: give delay=P too".into());
    }
    Ok(WrapSpec::Fault(config))
}

fn trace(text: &str) -> Result<WrapSpec, String> {
    let mut config = TraceConfig::default();
    for (key, value) in TRACE.options(text)? {
        match (key, value) {
            ("file", file) if !file.is_empty() => config.file = Some(file.into()),
            ("format", "json") => config.format = TraceFormat::Json,
            ("format", "pcap") => config.format = TraceFormat::Pcap,
            ("bytes" | "limit", number) => {
                let number: u32 =
                    number.parse().map_err(|_| format!("trace: {key}={value}: give a whole number"))?;
                match key {
                    "bytes" => config.bytes = number.min(1 << 15) as usize,
                    // 0: without an end.
                    _ => config.limit = if number == 0 { u64::MAX } else { number.into() },
                }
            }
            other => return Err(TRACE.refuse(other)),
        }
    }
    Ok(WrapSpec::Trace(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::port::pcap::{Rotation, Speed};

    #[test]
    fn an_xdp_port_is_an_interface_and_perhaps_a_queue() {
        let xdp = |text| port_spec(text).unwrap().xdp().map(|xdp| (xdp.interface.clone(), xdp.queue));
        assert_eq!(xdp("xdp:eth0"), Some(("eth0".into(), 0)));
        assert_eq!(xdp("xdp:eth0.7:3"), Some(("eth0.7".into(), 3)));
        assert_eq!(port_spec("xdp:eth0:3").unwrap().to_string(), "xdp:eth0:3");
        assert_eq!(port_spec("xdp:eth0:0"), port_spec("xdp:eth0"));
        assert_eq!(port_spec("fault:drop=1/2/xdp:eth0:0").unwrap().to_string(), "fault:drop=1/2/xdp:eth0");
    }

    #[test]
    fn packet_and_tap_ports_are_interfaces() {
        let device = |text| port_spec(text).unwrap().device;
        let packet = |leaves_control, shares, kernel_timestamps| {
            let interface = "eth0".into();
            DeviceSpec::Packet(PacketSpec { interface, leaves_control, shares, kernel_timestamps })
        };
        assert_eq!(device("packet:eth0"), packet(None, false, false));
        assert_eq!(device("packet:eth0,kernel=control"), packet(Some(true), false, false));
        assert_eq!(device("packet:eth0,kernel=none"), packet(Some(false), false, false));
        assert_eq!(device("packet:eth0,fanout=yes"), packet(None, true, false));
        assert_eq!(device("packet:eth0,fanout=no"), packet(None, false, false));
        assert_eq!(device("packet:eth0,timestamps=kernel"), packet(None, false, true));
        let tap = |mac| DeviceSpec::Tap { interface: "tap0".into(), mac };
        assert_eq!(device("trace:/tap:tap0"), tap(None));
        assert_eq!(device("tap:tap0,mac=02:00:00:00:0a:01"), tap(Some(MacAddr::new([2, 0, 0, 0, 10, 1]))));
        for several in ["packet:eth0", "tap:tap0"] {
            assert!(!port_spec(several).unwrap().has_one_queue());
        }
    }

    #[test]
    fn a_pcap_port_is_files_and_how_they_are_read() {
        let spec = port_spec(
            "pcap:in=/tmp/a.pcap,out=b.pcap,speed=recorded,timestamps=recorded,loop=3,mac=02:00:00:00:0a:01",
        )
        .unwrap();
        let config = PcapConfig {
            input: Some("/tmp/a.pcap".into()),
            output: Some("b.pcap".into()),
            speed: Speed::Recorded,
            times: Some(3),
            recorded_timestamps: true,
            ..PcapConfig::default()
        };
        let mac = Some(MacAddr::new([2, 0, 0, 0, 10, 1]));
        assert_eq!(spec.device, DeviceSpec::Pcap { config, mac, any_mac: false });
        assert_eq!(spec.files().collect::<Vec<_>>(), [PathBuf::from("b.pcap")]);
        let rolling = port_spec("pcap:out=b.pcap,files=3,size=64,snap=96").unwrap();
        let rotation = Some(Rotation { files: 3, bytes: 64 << 20 });
        let config =
            PcapConfig { output: Some("b.pcap".into()), rotation, snap: Some(96), ..PcapConfig::default() };
        assert_eq!(rolling.device, DeviceSpec::Pcap { config, mac: None, any_mac: false });
        assert!(rolling.files().eq(["b.pcap.0", "b.pcap.1", "b.pcap.2"].map(PathBuf::from)));
        let forever = port_spec("pcap:in=a,loop=0").unwrap();
        assert!(matches!(
            forever.device,
            DeviceSpec::Pcap { config: PcapConfig { times: None, .. }, mac: None, any_mac: false }
        ));
        let any = port_spec("pcap:in=a,mac=any").unwrap();
        assert!(matches!(any.device, DeviceSpec::Pcap { mac: None, any_mac: true, .. }));
        assert!(spec.ends() && port_spec("fault:/pcap:out=a").unwrap().ends());
        assert!(!forever.ends() && !port_spec("tap:tap0").unwrap().ends());
    }

    #[test]
    fn ports_are_wrapped_by_those_before_them_and_files_may_have_folders() {
        let spec = port_spec("trace:file=/tmp/t.pcap,format=pcap/fault:drop=1/100,seed=7/xdp:eth0").unwrap();
        let [WrapSpec::Trace(trace), WrapSpec::Fault(fault)] = &spec.wraps[..] else { panic!("{spec:?}") };
        assert_eq!((trace.file.as_deref(), trace.format), (Some("/tmp/t.pcap".as_ref()), TraceFormat::Pcap));
        assert_eq!((fault.seed, fault.drop), (7, Chance::Every(100)));
        assert_eq!(spec.xdp().map(|xdp| xdp.interface.as_str()), Some("eth0"));
        assert!(port_spec("fault:/xdp:eth0").unwrap().wraps == [WrapSpec::Fault(FaultConfig::default())]);
    }

    #[test]
    fn a_malformed_port_is_refused_with_the_form() {
        for (bad, remedy) in [
            ("veth:0", "xdp:IFNAME"),
            ("eth0", "did you mean packet:eth0 or xdp:eth0?"),
            ("XDP:eth0", "did you mean xdp:...?"),
            ("paket:eth0", "did you mean packet:...?"),
            ("xpd:u1f", "unknown kind of port in \"xpd:u1f\": did you mean xdp:...?"),
            ("", "xdp:IFNAME"),
            ("mem:0", "mem ports have no string"),
            ("xdp", "xdp:eth0:1"),
            ("xdp::1", "xdp:eth0:1"),
            ("xdp:eth0:1:2", "xdp:eth0:1"),
            ("xdp:eth0:", "a number from 0"),
            ("xdp:eth0:-1", "a number from 0"),
            ("xdp:eth0,kernel=all", "kernel=control"),
            ("memif:", "path of a socket"),
            ("memif:a,role=master", "role=server"),
            ("memif:a,id=-1", "number from 0"),
            ("memif:a,queues=x", "number from 1"),
            ("memif:a,secret=", "secret=TEXT"),
            ("packet:", "name of an interface"),
            ("packet:eth0,kernel=all", "kernel=none or kernel=control"),
            ("packet:eth0,mac=any", "kernel=none or kernel=control"),
            ("packet:eth0,timestamps=recorded", "timestamps=kernel"),
            ("tap:tap0:1", "write tap:IFNAME"),
            ("tap:tap0,mac=01:00:5e:00:00:01", "the address of one station"),
            ("tap:tap0,mac=00:00:00:00:00:00", "the address of one station"),
            ("tap:tap0,addr=02:00:00:00:00:01", "mac=MAC"),
            ("pcap:", "in=FILE"),
            ("pcap:in=", "name of a file"),
            ("pcap:in=a,speed=fast", "speed=recorded"),
            ("pcap:in=a,timestamps=keep", "timestamps=recorded"),
            ("pcap:in=a,loop=x", "0 without end"),
            ("pcap:in=a,mac=01:00:5e:00:00:01", "the address of one station"),
            ("pcap:out=a,loop=3", "loop=3 is for the file of in=FILE"),
            ("pcap:speed=recorded,out=a", "speed=recorded is for the file of in=FILE"),
            ("pcap:out=a,timestamps=recorded", "timestamps=recorded is for the file of in=FILE"),
            ("pcap:loop=3", "give in=FILE, out=FILE, or both"),
            ("pcap:out=a,files=3", "files=N and size=MIB belong together"),
            ("pcap:out=a,size=3", "files=N and size=MIB belong together"),
            ("pcap:out=a,files=1,size=3", "files=1: give a whole number from 2 to 1000"),
            ("pcap:out=a,files=2,size=0", "size=0: give a whole number from 1 to"),
            ("pcap:in=a,files=2,size=1", "files=2 is for the file of out=FILE"),
            ("pcap:in=a,snap=96", "snap=96 is for the file of out=FILE"),
            ("pcap:out=a,snap=0", "snap=0: give a whole number from 1"),
            ("fault:drop=0.1", "fault:OPTIONS/KIND"),
            ("fault:delay-us=3/xdp:eth0", "give delay=P too"),
            ("fault:drop=2/xdp:eth0", "share from 0 to 1"),
            ("fault:lose=1/xdp:eth0", "duplicate=P"),
            ("trace:bytes=-1/xdp:eth0", "whole number"),
            ("trace:format=text/xdp:eth0", "format=pcap"),
        ] {
            let error = port_spec(bad).unwrap_err();
            assert!(error.contains(remedy), "{bad}: {error}");
        }
    }
}
