//! `netmem forward`.

use super::config::Places;
use super::frame_size::{FrameSize, frame_size};
use super::number::{patience, power_of_two, seconds, whole};
use super::packets::PacketArgs;
use super::recorder::RecorderArgs;
use super::route::{ByPort, route};
use super::router::RouterArgs;
use super::sandbox::SandboxArgs;
use super::scrape::ScrapeArgs;
use super::switch::Switch;
use super::workers::WorkerArgs;
use super::written::Written;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use netmem::page::Hardening;
use netmem::port::xdp::XdpModePreference;
use netmem_ports::{PortSpec, port_spec};
use netmem_router::route::Route;
use netmem_traffic::{FLOWS_MAX, SIZE_MAX, SIZE_MIN};
use std::path::PathBuf;

/// Packets that can be asked for at most.
const PACKETS_MAX: u64 = 1_000_000_000_000;
/// Frames of a pool: at least one batch, at most 2 GiB of memory where they are small.
const FRAMES: std::ops::RangeInclusive<usize> = 64..=1 << 20;
/// The groups of the options.
const PORTS: &str = "Ports";
const ROUTING: &str = "Routing";
const GENERATOR: &str = "Generator (without --port)";
const RUN: &str = "Run and control";

/// Slots of a ring.
const RING: std::ops::RangeInclusive<u32> = 2..=1 << 16;

/// Forward packets between ports.
///
/// Without --port, two ports of kind mem (a wire inside this process, behind rings like a network card's) are
/// joined by a built-in generator of IPv4/UDP packets and a sink that verifies every byte, both on another
/// thread: no root and no set-up. With --port given twice or more, real traffic is forwarded: through AF_XDP
/// over one memory that all interfaces share, without a copy in user space; by packet sockets, TAP interfaces and files with
/// one copy.
///
/// While it runs, a terminal shows one line on standard error, once a second. At the end, or at Ctrl-C or
/// SIGTERM, a summary goes to standard output: every packet received was transmitted, dropped for a named
/// reason, passed to the local queue, or is held; and every frame of the pool is accounted for.
#[derive(Debug, Args)]
#[command(after_help = SHORT_EXAMPLES, after_long_help = AFTER_LONG_HELP)]
pub struct ForwardArgs {
    /// A port: xdp:IFNAME[:QUEUE], memif:PATH, packet:IFNAME, tap:IFNAME or pcap:in=FILE,out=FILE. Repeatable; the first is
    /// number 0.
    ///
    /// xdp:IFNAME[:QUEUE][,queues=N|all][,kernel=none|control|neighbours][,take=RULES]  a queue (default 0) of an interface, which must be
    /// up, through AF_XDP. Needs Linux 5.9 or later, and root or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, with CAP_IPC_LOCK
    /// or a sufficient ulimit -l. With queues, that one and those behind it, spread over the workers, each of which
    /// transmits by its first; without, one for each worker. Only those queues are redirected here; what arrives on others
    /// goes on to the kernel. So does, with kernel=control (the default with --mode ip), what the kernel's own addresses and
    /// neighbours need: everything that is not IP (ARP, 802.1X, PPPoE), IPv6 neighbour discovery, answers of DHCP servers to
    /// the client whose MAC address they are sent to, broadcast and multicast, and packets to the addresses of this host, as
    /// they come and go. With --mode cross-connect all of these are then missing at the far end. With kernel=neighbours
    /// (the default of netmem gen and netmem sink) ARP and IPv6 neighbour discovery alone go to the kernel. With take, of the rest only
    /// what RULES match comes here, and the kernel has all else as if no port were there: rules with + between them, each
    /// PROTOCOL[:PORT][@ADDRESS], as in take=udp:53+tcp:53@192.0.2.1+ip@2001:db8::/64, or none. Fragments and frames with VLAN
    /// tags, IPv4 options or IPv6 extension headers go to the kernel. `netmem set xdp.IFNAME.take RULES` changes it.
    ///
    /// memif:PATH[,role=client|server][,id=N][,queues=N][,secret=TEXT|,secret-file=PATH][,mode=OCTAL][,group=GROUP]
    /// [,peer=UID|any][,unsealed=ok][,lend=yes]  a peer process (VPP, DPDK, netmem) through shared memory; they meet at a
    /// Unix socket in the file system, or with memif:@NAME at an abstract one, which is DPDK's default. A client (the default) copies each frame once, and so does a
    /// server. With lend=yes a client lends its frames without a copy, except with --path full or --ready-pairs: such a peer
    /// can read and write all frames of this process at any time, so lend=yes says that it is trusted to write only where it
    /// is its turn. With peer= beside it, it is lent frames of a pool of its own, with any path, and sees no other port's packets;
    /// what is sent to it is copied. A server maps only memory that is sealed against shrinking, unless unsealed=ok allows any (DPDK's with
    /// zero-copy=yes); a client that takes memory away takes the port down. A server's socket has the given mode (default
    /// 0600) and group whatever the umask is, and either end speaks only with peers of the same user, with peer=UID
    /// also with those of the user of that number (no name), with peer=any with all. A secret of up to 23 bytes on the command line can be read by every user of the machine; one
    /// in a file (its first line) only by those who may read that. With several workers a client connects one interface for
    /// each, with ids from N on. The port is down while there is no peer, and up again with the next.
    ///
    /// packet:IFNAME[,kernel=none|control]  an interface, which must be up, through a packet socket: every kernel and driver, one
    /// copy a frame. The kernel gets what is received as well. What an xdp port leaves to it with kernel=control is left to it
    /// alone (the default with --mode ip), and counted as rx_kernel; of the rest it then gets no copy (--kernel-copies). Needs root or
    /// CAP_NET_RAW.
    ///
    /// tap:IFNAME[,mac=MAC]  the far end of a TAP interface, made and set up if there is none of that name. Needs root
    /// or CAP_NET_ADMIN. With --mode ip the router's end of the link has an address of its own, not the interface's: MAC,
    /// or else 02:6e:65:74:00:NN with the port's number; the summary shows it.
    ///
    /// pcap:[in=FILE][,out=FILE][,speed=full|recorded][,timestamps=recorded][,loop=N][,mac=MAC|any]  receives a file N times (default 1,
    /// 0 without end), as fast as it can or as it was recorded, and writes what is transmitted to another file; with timestamps=recorded
    /// each packet is written with the time at which it was recorded. A file is pcap or
    /// pcapng, also compressed by gzip; in=- is standard input, and out=- standard output (what is printed goes to standard error then).
    /// Where only files are received the run ends with them, when all has been transmitted.
    /// With --mode ip MAC is the router's address on that link (made up as for tap if it is not given): of a captured file
    /// the address that its packets were sent to. With mac=any every packet to one station is received as one to the router.
    ///
    /// Before any of them, with a slash between: fault:[seed=N][,drop=P][,corrupt=P][,duplicate=P][,reorder=P]
    /// [,delay=P][,delay-us=N]/ does that to a share P of the received frames, or as 1/N to every N-th;
    /// trace:[file=FILE][,format=json|pcap][,bytes=N][,limit=N]/ writes down what passes.
    #[arg(long, value_name = "KIND:NAME", value_parser = port_spec, help_heading = PORTS)]
    pub port: Vec<PortSpec>,

    /// Where the redirect program of an xdp port runs; needs --port [default: auto]
    #[arg(long, value_name = "MODE", value_enum, help_heading = PORTS, hide_short_help = true)]
    pub xdp_mode: Option<XdpModeArg>,

    /// Whether the kernel has copies of what packet ports take that leave it control traffic (kernel=control) [default: drop]
    ///
    /// A router's packets that the kernel has too it may forward or answer as well, so that they arrive twice, or their senders get two
    /// errors. With drop it gets none, where it can be kept from them: Linux 6.6 or later, CAP_NET_ADMIN and CAP_BPF. Where it
    /// cannot, the port's line in the summary says so.
    #[arg(long, value_name = "WHAT", value_enum, help_heading = PORTS, hide_short_help = true)]
    pub kernel_copies: Option<CopiesArg>,

    /// Slots of each of a port's four rings, a power of two: 2 to 65536 [default: 512 of the built-in ports, else 2048]
    ///
    /// Where --frames gives each port fewer frames than 4096, the default is half of what it gives, so that no port can have more
    /// than its share in its rings, and keep it where its far side stands still.
    #[arg(long, value_name = "N", value_parser = power_of_two(RING), allow_negative_numbers = true,
          help_heading = PORTS, hide_short_help = true)]
    pub ring: Option<u32>,

    /// Bytes of a frame, a power of two: 2048 to 32768. A packet that does not fit is dropped and counted (rx_too_long).
    ///
    /// 2048 have room for packets of 1518 bytes, which is Ethernet's usual MTU of 1500 with a VLAN tag; 4096 for 3584, 8192
    /// for 7232, 16384 for 14528, and so for jumbo frames, 32768 for 29120. An xdp port sends packets of more
    /// than 4096 bytes in several pieces, and copies those that it receives. The MTU of a link without an interface (memif,
    /// pcap, mem) is what fits, less 18. With 32768 the large packets of hosts, which leave it to a card to cut them, cross
    /// whole between packet and tap ports.
    #[arg(long, value_name = "BYTES", value_parser = frame_size, default_value_t, allow_negative_numbers = true,
          help_heading = PORTS, hide_short_help = true)]
    pub frame_size: FrameSize,

    /// Frames in each worker's pool, which its ports share: 64 to 1048576, and 2 GiB at most [default: 4 for each port
    /// and slot of its ring]
    #[arg(long, value_name = "N", value_parser = whole(FRAMES), allow_negative_numbers = true,
          help_heading = PORTS, hide_short_help = true)]
    pub frames: Option<usize>,

    /// What is done against misuse of the memory: guard, random, clear and canary with commas between, or all.
    ///
    /// guard: pages without access around the memory and behind the slabs of packet heads and copies; not with xdp ports, for which
    /// the kernel pins all of it. random: fresh frames and heads come in a random order. clear: frames and pages are cleared when they
    /// are freed, heads when they leave the worker's array. canary: a secret word behind each head, looked at when it leaves that array. What
    /// they find ends the run with a report. clear costs each packet the pool's lock; canary does not. `netmem stat pages` has what was chosen.
    #[arg(long, value_name = "PARTS", value_parser = hardening, default_value = "off", help_heading = PORTS, hide_short_help = true)]
    pub hardening: Hardening,

    /// Forwarding mode.
    #[arg(long, value_name = "MODE", value_enum, default_value_t = ModeArg::Ip, help_heading = ROUTING)]
    pub mode: ModeArg,

    /// A route for --mode ip: destinations (or default), egress port (number or interface), MAC address of the next hop.
    /// Repeatable.
    ///
    /// For example 10.0.2.0/24,1,02:00:00:00:00:02, default,eth1,02:00:00:00:00:02 or fd00:2::/64,1,02:00:00:00:00:02. The
    /// longest prefix wins; default is 0.0.0.0/0, and that of IPv6 is ::/0. Needs --port; the routes of the two mem ports are built in.
    #[arg(long, value_name = "PREFIX,PORT,MAC", value_parser = route, help_heading = ROUTING)]
    pub route: Vec<ByPort<Route>>,

    /// Where routes come from, for --mode ip; needs --port [default: given]
    ///
    /// given: each --route, and no other. kernel: the kernel's main and local table, as they change, so that ip route or a
    /// routing daemon drives netmem; neighbours too, which the kernel is asked for while packets wait, up to 64 for each.
    /// A --route counts before the kernel's for the same prefix. Ports are the interfaces of the same name. Needs root or
    /// CAP_NET_ADMIN to ask for neighbours.
    #[arg(long, value_name = "FROM", value_enum, help_heading = ROUTING)]
    pub routes: Option<RoutesArg>,

    #[command(flatten)]
    pub router: RouterArgs,

    #[command(flatten)]
    pub team: WorkerArgs,

    #[command(flatten)]
    pub way: PacketArgs,

    /// Stop when the generators have sent N packets together; not with --port.
    #[arg(long, value_name = "N", value_parser = whole(1..=PACKETS_MAX), allow_negative_numbers = true,
          conflicts_with = "seconds", help_heading = GENERATOR, hide_short_help = true)]
    pub packets: Option<u64>,

    /// Flows that each worker's generator sends, round robin: 1 to 65534; not with --port [default: 1]
    #[arg(long, value_name = "N", value_parser = whole(1..=FLOWS_MAX), allow_negative_numbers = true,
          help_heading = GENERATOR, hide_short_help = true)]
    pub flows: Option<usize>,

    /// Bytes of a generated frame, without frame check sequence: 64 to 1514, with larger frames up to 29116; not with --port
    /// [default: 64]
    #[arg(long, value_name = "BYTES", value_parser = whole(SIZE_MIN..=SIZE_MAX), allow_negative_numbers = true,
          help_heading = GENERATOR, hide_short_help = true)]
    pub size: Option<usize>,

    /// Flow control: whether the generator waits, or the device drops, when a receive ring is full; not with --port
    /// [default: on]
    #[arg(long, value_name = "WHEN", value_enum, help_heading = GENERATOR, hide_short_help = true)]
    pub pause: Option<Switch>,

    /// Stop after S seconds; fractions are fine [default: 10 without --port, else until Ctrl-C, or the end of the files
    /// where nothing else is received]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = RUN)]
    pub seconds: Option<f64>,

    /// Read options from a TOML file: each long option is a key; command-line options override the file.
    ///
    /// mode = "ip", workers = 2, no-sandbox = true (or false) for an option without a value, and lists for what is repeatable:
    /// port = ["packet:eth0", "packet:eth1"]. A typed option replaces the whole list. SIGHUP reads the file again: rule, route, steer's policy, idle and icmp-* change while packets
    /// pass; a file that is wrong, or changes anything else, changes nothing and is complained about in one line.
    #[arg(long, value_name = "FILE", help_heading = RUN)]
    pub config: Option<PathBuf>,

    /// Where the keys of that file stand that count.
    #[arg(skip)]
    pub places: Places,

    /// What the file and the command line together say of each option.
    #[arg(skip)]
    pub written: Written,

    /// Listen on a Unix socket at PATH, for netmem stat and netmem set; usable by the owner only (mode 0600).
    ///
    /// Without it nothing listens: $NETMEM_CONTROL is for those that ask.
    #[arg(long, value_name = "PATH", help_heading = RUN)]
    pub control: Option<PathBuf>,

    #[command(flatten)]
    pub scrape: ScrapeArgs,

    #[command(flatten)]
    pub recorder: RecorderArgs,

    #[command(flatten)]
    pub sandbox: SandboxArgs,

    /// Print one JSON object instead of the summary, and no line while running.
    #[arg(long, help_heading = RUN)]
    pub json: bool,

    /// Forward nothing: say what of this host stands in the way.
    ///
    /// By the rules of netmem doctor. Nothing is opened or changed. Exit code 1 where something will not work or loses packets.
    #[arg(long, help_heading = RUN)]
    pub check: bool,

    /// Wait up to S seconds at the start for interfaces of xdp and packet ports that are not there yet, or are down.
    ///
    /// A line says which. Those that are missing when the time is over are an error, as without it. With --fix what is down is not waited for: it is set up.
    #[arg(long, value_name = "S", value_parser = patience, default_value = "0", allow_negative_numbers = true,
          hide_short_help = true, help_heading = RUN)]
    pub wait: f64,

    /// Change what netmem doctor --fix would, for this run: it is taken back at the end.
    ///
    /// After a kill the broker takes it back. Each change is written to the journal FILE before it is made, so that netmem doctor --undo --journal FILE takes
    /// it back where the broker was killed too; a FILE that has changes already is refused. Where a change cannot be made, all are taken back, and nothing is forwarded.
    #[arg(long, value_name = "FILE", conflicts_with = "check", hide_short_help = true, help_heading = RUN)]
    pub fix: Option<PathBuf>,

    /// Begin each line on standard error with its time (UTC) and level; the journal has both without it.
    #[arg(long, hide_short_help = true, help_heading = RUN)]
    pub log_time: bool,
}

fn hardening(text: &str) -> Result<Hardening, &'static str> {
    text.parse().map_err(|_| "give guard, random, clear and canary with commas between, or all, or off")
}

/// Values of `--mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// As a router of IPv4 and IPv6: validation, longest-prefix match, TTL, checksum, MAC addresses, ICMP errors; Ethernet
    /// padding is cut off, and priority tags (802.1Q, VID 0) are taken off.
    Ip,
    /// Frames from port 0 leave by port 1 and the other way round, 2 and 3 likewise, unchanged, with Ethernet padding.
    CrossConnect,
    /// Every frame leaves by the port it came from, as long as it came, its MAC addresses swapped.
    Reflect,
    /// Every frame is dropped unread.
    Drop,
    /// Every frame goes to the local queue, which reads and keeps it (--hold).
    Pass,
}

impl ModeArg {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            ModeArg::Ip => "ip",
            ModeArg::CrossConnect => "cross-connect",
            ModeArg::Reflect => "reflect",
            ModeArg::Drop => "drop",
            ModeArg::Pass => "pass",
        }
    }
}

/// Values of `--routes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum RoutesArg {
    /// Each --route, and no other.
    #[default]
    Given,
    /// The kernel's, as they change, and each --route before them.
    Kernel,
}

/// Values of `--kernel-copies`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CopiesArg {
    /// They go no further than to netmem, for this run.
    Drop,
    /// The kernel handles them as it would without netmem.
    Keep,
}

/// Values of `--xdp-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum XdpModeArg {
    /// In the driver where it can, else in the kernel's generic path.
    Auto,
    /// In the driver, or not at all.
    Native,
    /// In the kernel's generic path: works with every driver; slower than native on cards, and a little less work than it on a
    /// veth with one queue.
    Generic,
}

impl ForwardArgs {
    /// A failure of arguments that do not fit together, with its place where a configuration file says so.
    pub fn placed(&self, failure: Failure) -> Failure {
        match &self.config {
            Some(file) => self.places.place(file, failure),
            None => failure,
        }
    }
}

impl From<XdpModeArg> for XdpModePreference {
    fn from(mode: XdpModeArg) -> Self {
        match mode {
            XdpModeArg::Auto => XdpModePreference::NativeThenGeneric,
            XdpModeArg::Native => XdpModePreference::Native,
            XdpModeArg::Generic => XdpModePreference::Generic,
        }
    }
}

/// The examples of -h.
const SHORT_EXAMPLES: &str = "\
Examples:
  netmem forward --seconds 3
  netmem forward --port packet:eth0 --port packet:eth1 --routes kernel
  netmem forward --port xdp:eth0 --port xdp:eth1 --mode cross-connect

netmem forward --help shows all options, what is counted and what is checked.";

const AFTER_LONG_HELP: &str = "\
Examples:
  netmem forward --flows 1000 --seconds 3
  netmem forward --packets 1M --size 1514 --json
  netmem forward --path full --rule drop,proto=udp,sport=49152 --ready-pairs 50
  netmem forward --mode pass --hold 1000
  netmem forward --workers 2 --flows 100
  netmem forward --workers 3 --generators 1 --steer hash=1,2 --flows 100
  netmem forward --port xdp:eth0 --port xdp:eth1 --mode cross-connect
  netmem forward --port xdp:eth0 --port memif:/run/vpp/memif.sock,id=1 \\
      --mode cross-connect
  netmem forward --port pcap:in=a.pcap --port pcap:out=b.pcap \\
      --mode cross-connect
  netmem forward --port fault:drop=0.01,delay=1/50/xdp:eth0 --port xdp:eth1 \\
      --mode cross-connect
  netmem forward --port xdp:eth0 --port xdp:eth1 \\
      --route 10.0.1.0/24,eth0,02:00:00:00:00:01 \\
      --route default,eth1,02:00:00:00:00:02
  netmem forward --port packet:eth0 --port packet:eth1 --routes kernel

Numbers may end in k, M or G (thousands; of powers of two 1024).

Figures:
  ns_per_packet  a worker's time per packet: the median over windows of 256
                 received packets. Idle time does not count; windows with a
                 pause of the machine or of the thread in them are thrown
                 away (windows.dropped).
  pps            capacity, not throughput: 1 / ns_per_packet, summed over the
                 workers, which is what they handle while they have work.
                 With --steer a packet counts with each worker that has it.
  pps_mean       packets received / seconds of the run, idle time and pauses
                 included.

The object of --json:
  seconds, pps, ns_per_packet, pps_mean, mode (as in --mode), path (as in
  --path),
  backing (of the memory: which pages, and why not larger ones),
  windows {counted, dropped, p10, p90} or null,
  generator {sent, refused} or null,
  received, originated (ICMP errors, made of dropped frames), fragmented
  (packets that were cut), fragments (made of those), transmitted, held,
  passed, dropped {reason: n} (with --steer also inbox_full, flow_limit,
  inbox_gone: dropped between workers),
  icmp {sent {message: n}, silent {why: n}} (silent: dropped packets about
  which an error could have been sent and was not),
  local_queue {taken, freed, kept} or null (of what was passed; kept when
  the run ended),
  tap {taken, missed, kept} or null (of what was sent; kept when the run
  ended),
  filter {unmatched, rules [{rule, packets, bytes}], protocols {name:
  packets}} or null (--path full),
  ready_pairs {now, max, taken, kept, missed, passed, released} or null,
  sink {received, corrupt, reordered, duplicates, missing} or null,
  steer {policy, tx_queue, workers [{kept, sent, received, and every other
  counter of its inbox}]} or null,
  workers [{core (or null), received, taken (from others), handed (to
  others), originated, fragmented, fragments, transmitted, dropped, held,
  passed, idle_rounds (idle polls, counted after 64 in a row), sleeps, stalls
  (see --watchdog), ns_per_packet or null}],
  ports [{worker (its number), name, kind, detail, rx, tx, and every other
  counter, with those of the ports around it: fault_dropped, trace_lost and
  so on}],
  pools [{name, total, free, cached, ready, owned, posted, queued, returning,
  astray, balanced}].
  generator and sink are null with --port; pps, ns_per_packet and windows
  when not one window was filled. A refused packet was tried again until it
  was sent; it counts once.

What is checked at the end, or the exit code is 1 and a line says which:
  sent = received + rx_no_frame + rx_ring_full + rx_dropped    (generator)
  received + originated + fragments
      = transmitted + dropped + held + passed + fragmented   (all workers)
  received + taken + originated + fragments
      = transmitted + dropped + held + passed + handed + fragmented
                                                             (each worker)
  passed = taken = freed + kept                              (local_queue)
  completed by the forwarder = taken + missed                        (tap)
  transmitted = completed = received by the sink, none corrupt, none
  duplicated
  every pool balanced, and every frame home after the ports are closed; no
  port down, but for memif ports that wait for a peer when a signal ends the
  run, which are told; every trace written; not every frame of a router's
  captures was for another MAC address (not_for_us)

Exit codes:
  0  all went well, also when Ctrl-C or SIGTERM ended it (Ctrl-C behind
     that ends it at once)
  1  a check failed, or something went wrong while running; also a worker
     that never ends: ten seconds after it was to, it is named and the
     process ends without a summary
  2  bad input, or the set-up failed: one line with the remedy, and nothing
     is left behind";
