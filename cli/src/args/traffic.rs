//! `netmem gen` and `netmem sink`.

use super::XdpModeArg;
use super::frame_size::{FrameSize, frame_size};
use super::number::{power_of_two, seconds, whole};
use super::port::PortParser;
use super::sandbox::SandboxArgs;
use clap::Args;
use netmem::wire::MacAddr;
use netmem_ports::{PortSpec, port_spec};
use netmem_traffic::{FLOWS_MAX, SIZE_MAX, SIZE_MIN, Span};
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Packets that can be asked for at most.
const COUNT: std::ops::RangeInclusive<u64> = 1..=1_000_000_000_000;
/// Packets per second: more than any link carries.
const RATE: std::ops::RangeInclusive<u64> = 1..=1_000_000_000;

/// Send packets through a port, for netmem sink to measure loss, order, corruption and latency.
///
/// Each packet is an IPv4 or IPv6 packet of UDP with correct checksums. It is stamped with a stream, its flow, its number in the
/// flow, the time, and a check over all of it. Sending begins when the port is up.
#[derive(Debug, Args)]
#[command(after_help = GEN_EXAMPLES, after_long_help = GEN_HELP)]
pub struct GenArgs {
    /// The port to send through, as for netmem forward: xdp:IFNAME[:QUEUE], memif:PATH, packet:IFNAME, tap:IFNAME,
    /// pcap:out=FILE.
    #[arg(long, value_name = "KIND:NAME", value_parser = PortParser(port_spec), required = true)]
    pub port: PortSpec,

    /// Packets per second, as in 50000, 50k or 1M, or max for as many as the port has room for.
    ///
    /// Packets are sent when they are due. After a pause, at most a millisecond's worth of the missed packets is sent late (at least
    /// 64 packets). The rest is left out and reported as missed.
    #[arg(long, value_name = "PPS|max", value_parser = rate, default_value = "1000", allow_negative_numbers = true)]
    pub rate: Rate,

    /// Stop when N packets are sent [default: until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = whole(COUNT), allow_negative_numbers = true)]
    pub count: Option<u64>,

    /// Stop S seconds after the port came up; fractions are allowed [default: until Ctrl-C]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub seconds: Option<f64>,

    /// Seconds to wait until the port is up, at the start and after it went down; a file needs no wait.
    #[arg(long, hide_short_help = true, value_name = "S", value_parser = seconds, default_value = "60", allow_negative_numbers = true)]
    pub wait: f64,

    /// Flows, round robin: 1 to 65534.
    #[arg(long, value_name = "N", value_parser = whole(1..=FLOWS_MAX), default_value = "1", allow_negative_numbers = true)]
    pub flows: usize,

    /// Bytes of a packet's frame, without frame check sequence: 64 (84 over IPv6) to 1514, or up to 29116 with larger frames. Several
    /// sizes with commas between are used in turn, each by every flow; SIZExTIMES repeats a size; imix is 64x7,590x4,1514 [default: 64, 84 over IPv6]
    #[arg(long, value_name = "BYTES", value_parser = sizes, allow_negative_numbers = true)]
    pub size: Option<Sizes>,

    /// The stream's number, if a sink receives several streams: 0 to 65535.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=u16::MAX), default_value = "0", allow_negative_numbers = true)]
    pub stream: u16,

    /// Source addresses of the flows: one IPv4 or IPv6 address, or ADDRESS+N for this address and the N-1 after it, in turn.
    #[arg(long, value_name = "ADDRESS[+N]", value_parser = span::<IpAddr>, default_value = "10.0.0.1")]
    pub src: Span<IpAddr>,

    /// Destination addresses of the flows, in the same form.
    #[arg(long, value_name = "ADDRESS[+N]", value_parser = span::<IpAddr>, default_value = "10.1.0.1")]
    pub dst: Span<IpAddr>,

    /// UDP source ports of the flows, in the same form. tcpdump prints packets from port 49152 as another protocol.
    #[arg(long, hide_short_help = true, value_name = "PORT[+N]", value_parser = span::<u16>, default_value = "49153+16383")]
    pub sport: Span<u16>,

    /// UDP destination ports of the flows, in the same form.
    #[arg(long, hide_short_help = true, value_name = "PORT[+N]", value_parser = span::<u16>, default_value = "9")]
    pub dport: Span<u16>,

    /// MAC address of the sender [default: the interface's, or a made-up address if there is no interface]
    #[arg(long, hide_short_help = true, value_name = "MAC")]
    pub src_mac: Option<MacAddr>,

    /// MAC address of the next hop [default: 02:00:00:00:00:fe]
    #[arg(long, value_name = "MAC")]
    pub dst_mac: Option<MacAddr>,

    /// TTL or hop limit: 1 to 255.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(1..=u8::MAX), default_value = "64", allow_negative_numbers = true)]
    pub ttl: u8,

    #[command(flatten)]
    pub station: StationArgs,
}

/// Receive the packets of netmem gen, and report loss, order, duplicates, corruption and latency.
#[derive(Debug, Args)]
#[command(after_help = SINK_EXAMPLES, after_long_help = SINK_HELP)]
pub struct SinkArgs {
    /// A port to receive from, as for netmem forward. Repeatable.
    #[arg(long, value_name = "KIND:NAME", value_parser = PortParser(port_spec), required = true)]
    pub port: Vec<PortSpec>,

    /// The number of packets that the generator sends: stop when N have come undamaged; missing packets count as lost.
    #[arg(long, value_name = "N", value_parser = whole(COUNT), allow_negative_numbers = true)]
    pub count: Option<u64>,

    /// Stop after S seconds; fractions are allowed [default: until Ctrl-C, or the end of the files]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub seconds: Option<f64>,

    /// Stop S seconds after the last packet of the stream; the wait for the first packet has no limit.
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub quiet: Option<f64>,

    /// The stream to measure: 0 to 65535; packets of other streams are foreign.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=u16::MAX), default_value = "0", allow_negative_numbers = true)]
    pub stream: u16,

    /// The required source MAC address; packets from another are corrupt [default: any]
    #[arg(long, hide_short_help = true, value_name = "MAC")]
    pub src_mac: Option<MacAddr>,

    /// The required destination MAC address; packets to another are corrupt [default: any]
    #[arg(long, value_name = "MAC")]
    pub dst_mac: Option<MacAddr>,

    /// The required TTL or hop limit on arrival: 1 to 255; packets with another are corrupt [default: any]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(1..=u8::MAX), allow_negative_numbers = true)]
    pub ttl: Option<u8>,

    #[command(flatten)]
    pub limits: LimitArgs,

    #[command(flatten)]
    pub station: StationArgs,
}

/// What may happen to packets.
#[derive(Debug, Clone, Args)]
pub struct LimitArgs {
    /// Fail (exit code 1) if more packets are lost, or if none is received.
    #[arg(long, value_name = "N", value_parser = whole(0..=*COUNT.end()), allow_negative_numbers = true)]
    pub max_lost: Option<u64>,

    /// Fail if more packets are reordered.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=*COUNT.end()), allow_negative_numbers = true)]
    pub max_reordered: Option<u64>,

    /// Fail if more packets are duplicated.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=*COUNT.end()), allow_negative_numbers = true)]
    pub max_duplicates: Option<u64>,

    /// Fail if more packets are corrupted.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=*COUNT.end()), allow_negative_numbers = true)]
    pub max_corrupt: Option<u64>,

    /// Fail if more frames arrive that do not belong to the stream.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=*COUNT.end()), allow_negative_numbers = true)]
    pub max_foreign: Option<u64>,
}

/// Flags of both.
#[derive(Debug, Args)]
pub struct StationArgs {
    /// Frames of the pool: 64 to 1048576, and 2 GiB at most [default: 4 per ring slot; sink: and per queue]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(64..=1_usize << 20), allow_negative_numbers = true)]
    pub frames: Option<usize>,

    /// Bytes of a frame, a power of two: 2048 to 32768, as for netmem forward.
    #[arg(long, hide_short_help = true, value_name = "BYTES", value_parser = frame_size, default_value_t, allow_negative_numbers = true)]
    pub frame_size: FrameSize,

    /// Slots of each of a port's rings, a power of two: 2 to 65536.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = power_of_two(2..=1 << 16), default_value = "2048", allow_negative_numbers = true)]
    pub ring: u32,

    /// Where the redirect program of an xdp port without mode= runs.
    #[arg(long, hide_short_help = true, value_name = "MODE", value_enum, default_value_t = XdpModeArg::Auto)]
    pub xdp_mode: XdpModeArg,

    /// Run only on core N [default: the system chooses]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=1023_usize), allow_negative_numbers = true)]
    pub core: Option<usize>,

    /// Print one JSON object instead of the summary; with FILE, print the summary and write the object to FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,

    #[command(flatten)]
    pub sandbox: SandboxArgs,
}

/// How fast to send; None for as fast as it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub Option<u64>);

fn rate(text: &str) -> Result<Rate, String> {
    match text {
        "max" => Ok(Rate(None)),
        _ => whole(RATE)(text).map(|rate| Rate(Some(rate))).map_err(|error| format!("{error}, or max")),
    }
}

/// Sizes of frames, in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(pub Vec<usize>);

/// Frames of one round of `--size` at most.
const ROUND: usize = 1024;

fn sizes(text: &str) -> Result<Sizes, String> {
    let text = if text == "imix" { "64x7,590x4,1514" } else { text };
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let (size, times) = part.split_once('x').unwrap_or((part, "1"));
        let size = whole(SIZE_MIN..=SIZE_MAX)(size)
            .map_err(|error| format!("{error}, several with commas between, or imix"))?;
        let times = whole(1..=ROUND)(times).map_err(|error| format!("{part}: {error} behind the x"))?;
        sizes.resize(sizes.len() + times, size);
    }
    if sizes.len() > ROUND {
        return Err(format!("{} frames to a round: give at most {ROUND}", sizes.len()));
    }
    Ok(Sizes(sizes))
}

/// Addresses or ports, which a span counts up.
trait Countable: FromStr {
    /// Returns the number of values after it.
    fn after(&self) -> u128;
}

impl Countable for u16 {
    fn after(&self) -> u128 {
        (u16::MAX - self).into()
    }
}

impl Countable for IpAddr {
    fn after(&self) -> u128 {
        match *self {
            IpAddr::V4(address) => (u32::MAX - u32::from(address)).into(),
            IpAddr::V6(address) => u128::MAX - u128::from(address),
        }
    }
}

fn span<T: Countable>(text: &str) -> Result<Span<T>, String> {
    let (first, n) = text.split_once('+').unwrap_or((text, "1"));
    let form =
        || format!("{first:?} is not an address or port: give one, or with +N that one and the N-1 after it");
    let n = whole(1..=FLOWS_MAX as u32)(n).map_err(|error| format!("{error} behind the +"))?;
    let value: T = first.parse().map_err(|_| form())?;
    match value.after() {
        after if u128::from(n - 1) > after => {
            Err(format!("{text} goes beyond the last address or port: give at most {first}+{}", after + 1))
        }
        _ => Ok(Span { first: value, n }),
    }
}

const GEN_EXAMPLES: &str = "\
Examples:
  netmem gen --port packet:eth0 --dst-mac 02:00:00:00:01:fe --count 10k
  netmem gen --port memif:/run/a.sock --rate max --seconds 10 --size imix

netmem gen --help shows all options and the object of --json.";

const SINK_EXAMPLES: &str = "\
Examples:
  netmem sink --port packet:eth1 --count 10k --quiet 2 --max-lost 0
  netmem sink --port memif:/run/b.sock,role=server --seconds 10 --json

netmem sink --help shows all options, the counters and the object of --json.";

const GEN_HELP: &str = "\
Examples:
  netmem gen --port packet:eth0 --dst-mac 02:00:00:00:01:fe --dst 192.0.2.1 \\
      --count 10k
  netmem gen --port memif:/run/a.sock --rate max --seconds 10 --flows 1000 \\
      --size imix
  netmem gen --port xdp:eth0 --src fd00::1+100 --dst fd01::1 --flows 100 \\
      --rate 1M

The object of --json:
  seconds, sent, unsent (packets that the port took and did not send),
  left_unread (packets of sent that a memif peer had not acknowledged when its
  connection ended: it may have read the last of them), bytes (of sent and
  unsent), pps_mean ((sent - 1) / seconds, since the first is sent at once),
  missed_no_room (packets that were due and for which the port had no room),
  missed_behind (packets that were due and that netmem did not send in time),
  missed_port_down (packets that were due while the port was down), flows,
  stream, ports [as of netmem forward], pools [likewise].

Exit codes:
  0  success, also if Ctrl-C or SIGTERM ended the run
  1  the port went down and stayed down, it did not send packets that it had
     taken, its memif peer had not read packets when the run ended, or a check
     failed
  2  bad input, or the set-up failed
  3  as 2, but the host lacks something now that it may have later: a queue
     that another program has, memory, threads, the broker";

const SINK_HELP: &str = "\
Examples:
  netmem sink --port packet:eth1 --count 10k --quiet 2 --max-lost 0
  netmem sink --port memif:/run/b.sock,role=server --seconds 10 --json

The counters, for each flow by itself:
  received    packets of the stream in any state
  flows       flows of which a packet came whole
  lost        gaps in the sequence numbers, from number 0 on, so packets that
              were sent before the sink started are lost too. With --count: N
              less the packets that came whole. Without it, losses at the end
              of a flow are not seen, nor a flow of which no packet came:
              compare flows with those of the generator. A corrupted packet
              counts as lost too (RFC 2680)
  reordered   packets that came after a later one (RFC 4737,
              Type-P-Reordered), and not for the second time
  duplicates  packets that had come before
  late        packets more than 4,096 numbers of their flow late, while one at
              least as old is missing: whether they had come before is not
              known. They are not taken off lost. --max-reordered and
              --max-duplicates fail if they cannot be checked because of them
  corrupt     packets with a wrong byte, by the first wrong field. Every bit
              error is detected, except in fields that no checksum covers and
              routers change: the IPv6 traffic class, and MAC addresses and
              IPv6 hop limit unless they are given
  foreign     frames without the stream's stamp, or cut off within it; they
              count in no other counter
  latency     from the time in the packet, when it was written, to the
              reception of its burst, by CLOCK_MONOTONIC to 1/32. It is valid
              only if both ends share that clock, so on one machine. Packets
              from the future, or older than a day, are unusable, and those of
              a file have none. Packets that were due while the generator's
              port had no room are written when it has, or never: if the
              generator missed any, latencies are too small for its rate
  per second  packets in each second from the first packet on, up to 3600
              seconds

The object of --json:
  seconds (from the first packet to the last), received, distinct, lost,
  reordered, duplicates, late, corrupt, corrupt_by {what: n}, foreign, flows,
  bytes, pps_mean (of the packets after the first burst), per_second [n],
  latency_ns {counted, unusable, least, p50, p90, p99, p999, most} or null,
  ports [as of netmem forward], pools [likewise].

Exit codes:
  0  success, also if Ctrl-C or SIGTERM ended the run
  1  a --max- limit was exceeded, a port is down at the end (other than a memif
     port without a peer), or a check failed
  2  bad input, or the set-up failed
  3  as 2, but the host lacks something now that it may have later: a queue
     that another program has, memory, threads, the broker";

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn sizes_are_one_several_or_a_mix() {
        let read = |text| sizes(text).map(|sizes| sizes.0);
        assert_eq!(read("64"), Ok(vec![64]));
        assert_eq!(read("100x2,64,1514"), Ok(vec![100, 100, 64, 1514]));
        let imix = read("imix").unwrap();
        assert_eq!((imix.len(), imix.iter().sum::<usize>()), (12, 7 * 64 + 4 * 590 + 1514));
        for bad in ["", "63", "64,", "29117", "64x0", "64x", "x", "64x2000", "64x1024,64"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_span_is_one_or_several_neighbours() {
        let one = Span::one(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(span("127.0.0.1"), Ok(one));
        assert_eq!(span("127.0.0.1+9"), Ok(Span { n: 9, ..one }));
        assert_eq!(span::<IpAddr>("fd00::1+2").unwrap().n, 2);
        assert_eq!(span("7+2"), Ok(Span { first: 7_u16, n: 2 }));
        for bad in ["", "+2", "10.0.0", "10.0.0.1+0", "10.0.0.1+", "10.0.0.1+70000"] {
            assert!(span::<IpAddr>(bad).is_err(), "{bad}");
        }
        assert!(span::<u16>("65536").is_err());
    }

    /// Seen: 65535+3 sent from port 0, and 255.255.255.255+3 to 0.0.0.0.
    #[test]
    fn a_span_that_goes_beyond_the_last_address_or_port_is_refused() {
        let last = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe";
        let beyond = |text: &str, most: &str| {
            format!("{text} goes beyond the last address or port: give at most {most}")
        };
        for (text, most) in [("65535+3", "65535+1"), ("65530+7", "65530+6"), ("3+65534", "3+65533")] {
            assert_eq!(span::<u16>(text).unwrap_err(), beyond(text, most));
        }
        for (first, n, most) in [("255.255.255.255", 3, 1), ("255.255.255.0", 300, 256), (last, 3, 2)] {
            let text = format!("{first}+{n}");
            let error = span::<IpAddr>(&text).unwrap_err();
            assert_eq!(error, beyond(&text, &format!("{first}+{most}")));
        }
        for fits in ["255.255.255.255", "255.255.255.250+6", "::+65534", &format!("{last}+2")] {
            assert!(span::<IpAddr>(fits).is_ok(), "{fits}");
        }
        assert!(span::<u16>("65530+6").is_ok() && span::<u16>("2+65534").is_ok());
    }

    #[test]
    fn a_rate_is_a_number_or_none() {
        assert_eq!((rate("max"), rate("7")), (Ok(Rate(None)), Ok(Rate(Some(7)))));
        assert!(rate("0").unwrap_err().ends_with("1000000000, or max"));
    }
}
