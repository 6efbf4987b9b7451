//! `netmem forward`.

use super::config::KeyLines;
use super::frame_size::{FrameSize, frame_size};
use super::number::{patience, power_of_two, seconds, whole};
use super::packets::PacketArgs;
use super::port::PortParser;
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
/// Without --port, netmem joins two ports of kind mem. A mem port is a wire inside this process, behind rings like those of a
/// network card. A built-in generator sends IPv4/UDP packets, and a sink verifies every byte of them. Both run on another
/// thread. This needs no root and no set-up. With two or more --port options, netmem forwards real traffic. xdp ports use
/// AF_XDP over one memory that all interfaces share, without a copy in user space. Packet sockets, TAP interfaces and files
/// need one copy.
///
/// While netmem runs, it shows one line a second on standard error if that is a terminal. At the end, or at Ctrl-C or SIGTERM,
/// it prints a summary to standard output. Every received packet was transmitted, dropped for a named reason, passed to the
/// local queue, or is held. Every frame of the pool is accounted for.
#[derive(Debug, Args)]
#[command(after_help = SHORT_EXAMPLES, after_long_help = AFTER_LONG_HELP)]
pub struct ForwardArgs {
    /// A port: xdp:IFNAME[:QUEUE], memif:PATH, packet:IFNAME, tap:IFNAME or pcap:in=FILE,out=FILE. Repeatable; the first is
    /// number 0.
    ///
    /// xdp:IFNAME[:QUEUE][,queues=N|all][,kernel=none|control|neighbours][,take=RULES][,mode=auto|native|generic]
    /// [,copy=auto|yes|no]
    /// xdp:IFNAME[:QUEUE][,queues=N|all],grant=PATH[,copy=auto|yes|no]  A queue (default 0) of an interface through AF_XDP. The interface must be up. The port needs Linux 5.9 or
    /// later, and root or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, with CAP_IPC_LOCK or a sufficient ulimit -l. With queues, the port
    /// takes that queue and those behind it, and spreads them over the workers. Each worker transmits on its first queue. Without
    /// queues, each worker has one queue. Only these queues are redirected to netmem. Packets that arrive on other queues go to the
    /// kernel.
    /// With kernel=control (the default with --mode ip), control traffic goes to the kernel, not to netmem: everything that is not IP (ARP,
    /// 802.1X, PPPoE), IPv6 neighbour discovery, DHCP answers sent to their client's MAC address, broadcast, multicast, and packets
    /// to the addresses of this host. netmem follows these addresses as they change. With --mode cross-connect, control traffic
    /// that goes to the kernel is missing at the far end. With kernel=neighbours (the default of netmem gen and netmem sink), only
    /// ARP and IPv6 neighbour discovery go to the kernel.
    /// With take, netmem takes only the packets that match RULES and are not left to the kernel already. The kernel gets all other
    /// packets as if the port did not exist. RULES are rules with + between them, or none. A rule is PROTOCOL[:PORT][@ADDRESS], as
    /// in take=udp:53+tcp:53@192.0.2.1+ip@2001:db8::/64. With take, fragments and frames with VLAN tags, IPv4 options or IPv6
    /// extension headers go to the kernel. `netmem set xdp.IFNAME.take RULES` changes the rules. With take=none the port only
    /// transmits. In copy mode it then has no XDP program until there are rules, and the interface may have that of another owner.
    /// mode is as --xdp-mode, for this port. With copy=yes the kernel copies the frames, and with copy=no the port is refused
    /// unless the driver does zero-copy. With grant, netmem needs no privileges: netmem grant at PATH opens the queues, and decides
    /// about the packets and the mode.
    ///
    /// memif:PATH[,role=client|server][,id=N][,queues=N][,secret=TEXT|,secret-file=PATH][,mode=OCTAL][,group=GROUP]
    /// [,peer=UID|any][,unsealed=ok|,holes=MIB|no|ok][,lend=yes]  A peer process (VPP, DPDK or netmem) through shared memory. The two processes
    /// connect over a Unix socket in the file system. With memif:@NAME they use an abstract socket, which is DPDK's default. The
    /// port is down while it has no peer, and comes up with the next peer. With several workers, a client connects one interface
    /// for each, with ids from N on.
    /// A client (the default) copies each frame once, and so does a server. With lend=yes a client lends its frames without a copy,
    /// except with --path full or --ready-packets. The peer can then read and write all frames of this process at any time. Use
    /// lend=yes only if you trust the peer to write only when it is its turn. With peer= and lend=yes, the port lends frames of a
    /// pool of its own, on any path. The peer then sees no packets of other ports, and packets sent to the peer are copied.
    /// A server maps only memory that is sealed against shrinking, and then seals it against holes: a client that took pages away would
    /// make the server wait. The server allocates pages that its clients have not written (DPDK's and VPP's clients), at most 128 MiB for
    /// all clients whose memory still exists, or the number of MiB in holes=. With holes=no it allocates none. With holes=ok a server
    /// also maps memory that cannot be sealed against holes (of netmem's clients with lend=yes). With unsealed=ok a server maps any
    /// memory (of DPDK's clients with zero-copy=yes); if the client then takes memory away, the port goes down. A client that copies has
    /// its own memory sealed against holes too. Give it holes=ok if its server has a secondary process of DPDK, which maps the memory
    /// later.
    /// The server's socket has the given mode (default 0600) and group, independent of the umask. Either end connects only to peers of
    /// the same user. With peer=UID it also connects to peers of the user with that number (not a name), and with peer=any to all peers.
    /// A secret has up to 23 bytes. Every user of the machine can read a secret on the command line. A secret in a file (its first line)
    /// can be read only by users who may read the file.
    ///
    /// packet:IFNAME[,kernel=none|control][,fanout=yes|no][,timestamps=kernel]  An interface through a packet socket. The
    /// interface must be up. The port works with every kernel and driver, and copies each frame once. With several workers, each has
    /// a socket of its own, and the kernel spreads the flows over them, as always with fanout=yes. The kernel receives the same
    /// packets too. With kernel=control (the default with --mode ip), control traffic (see xdp) goes only to the kernel, and is
    /// counted as rx_kernel. The kernel then gets no copy of the other packets (see --kernel-copies). With timestamps=kernel,
    /// packets have the time at which the kernel received them, and every pcap port that writes them writes that time. The port
    /// needs root or CAP_NET_RAW.
    ///
    /// tap:IFNAME[,mac=MAC]  The far end of a TAP interface. netmem makes the interface and sets it up if there is none of that
    /// name. The port needs root or CAP_NET_ADMIN. With --mode ip the router's end of the link has a MAC address of its own, which
    /// is not the interface's. It is MAC, or 02:6e:65:74:00:NN with the port's number if MAC is not given. The summary shows it.
    ///
    /// pcap:[in=FILE][,out=FILE][,speed=full|recorded][,timestamps=recorded][,loop=N][,mac=MAC|any][,files=N,size=MIB][,snap=N]
    /// Files of packets. The port receives the packets of in=FILE N times (default 1; 0 without end), as fast as it can or at the
    /// recorded times. It writes transmitted packets to out=FILE, or discards them without it. With timestamps=recorded beside in=FILE,
    /// packets read from FILE keep their recorded time, and every pcap port that writes them writes that time. A file is pcap or pcapng,
    /// and may be compressed by gzip. in=- is standard input, and out=- is standard output (netmem then prints to standard error). If netmem
    /// receives only from files, the run ends when all their packets are transmitted. With --mode ip, MAC is the router's address on
    /// that link (by default made up as for tap). For a captured file, give the MAC address to which its packets were sent. With
    /// mac=any the router receives every packet to a single station as its own. With files=N,size=MIB, the port writes N files in
    /// turn: FILE.0, FILE.1 and so on, of at most MIB MiB each. When one is full, the port empties the next one, which has the oldest
    /// packets, and writes it. The port empties all N files at the start. With snap=N, the port writes only the first N bytes of
    /// each packet.
    ///
    /// You can put a wrapper and a slash before any of these ports. fault:[seed=N][,drop=P][,corrupt=P][,duplicate=P][,reorder=P]
    /// [,delay=P][,delay-us=N]/ injects these faults into a share P of the received frames, or into every N-th frame if P is 1/N.
    /// trace:[file=FILE][,format=json|pcap][,bytes=N][,limit=N]/ records the packets that pass: without
    /// FILE to standard error, in json the first N bytes of each (default 64), and at most N packets (default 1000000; 0 for all).
    #[arg(long, value_name = "KIND:NAME", value_parser = PortParser(port_spec), help_heading = PORTS)]
    pub port: Vec<PortSpec>,

    /// Where the redirect program of an xdp port without mode= runs; needs --port [default: auto]
    #[arg(long, value_name = "MODE", value_enum, help_heading = PORTS, hide_short_help = true)]
    pub xdp_mode: Option<XdpModeArg>,

    /// Whether the kernel gets copies of the packets that a packet port with kernel=control takes [default: drop]
    ///
    /// If the kernel has a copy of a router's packet, it may forward or answer it too. The packet then arrives twice, or its sender
    /// gets two errors. With drop the kernel gets no copies. This needs Linux 6.6 or later, CAP_NET_ADMIN and CAP_BPF. Otherwise the
    /// kernel gets copies, and the port's line in the summary says so.
    #[arg(long, value_name = "WHAT", value_enum, help_heading = PORTS, hide_short_help = true)]
    pub kernel_copies: Option<CopiesArg>,

    /// Slots of each of a port's four rings, a power of two: 2 to 65536 [default: 512 for built-in ports, otherwise 2048]
    ///
    /// If --frames gives each port fewer than 4096 frames, the default is half of the port's frames. A port then cannot keep more
    /// than its share of frames in its rings when its far end stands still.
    #[arg(long, value_name = "N", value_parser = power_of_two(RING), allow_negative_numbers = true,
          help_heading = PORTS, hide_short_help = true)]
    pub ring: Option<u32>,

    /// Bytes of a frame, a power of two: 2048 to 32768. A packet that does not fit is dropped and counted (rx_too_long).
    ///
    /// A frame of 2048 bytes holds a packet of 1518 bytes: Ethernet's usual MTU of 1500 with a VLAN tag. A frame of 4096 bytes holds
    /// 3584, 8192 holds 7232, 16384 holds 14528 (jumbo frames), and 32768 holds 29120. An xdp port sends packets of more than 4096
    /// bytes in several pieces, and copies received packets of more than 3840 bytes. On a card in native mode, or before Linux 6.6,
    /// it does not receive such packets (rx_dropped). A link without an interface (memif, pcap, mem)
    /// has the MTU that fits, less 18. With 32768, large packets whose segmentation a host left to its card pass whole between
    /// packet and tap ports.
    #[arg(long, value_name = "BYTES", value_parser = frame_size, default_value_t, allow_negative_numbers = true,
          help_heading = PORTS, hide_short_help = true)]
    pub frame_size: FrameSize,

    /// Frames in each worker's pool, which its ports share: 64 to 1048576, and 2 GiB at most [default: 4 times --ring for each
    /// queue that the worker has, plus --local-queue and --mirror]
    #[arg(long, value_name = "N", value_parser = whole(FRAMES), allow_negative_numbers = true,
          help_heading = PORTS, hide_short_help = true)]
    pub frames: Option<usize>,

    /// Protection against misuse of the memory: guard, random, clear and canary with commas between, or all.
    ///
    /// guard: inaccessible pages around the memory and behind the slabs of packet heads and copies. It does not work with xdp
    /// ports, because the kernel pins all memory of an xdp port. random: fresh frames and heads come in a random order. clear: frames
    /// and pages are cleared when they are freed, and heads when they leave the worker's array. canary: a secret word behind each
    /// head, checked when the head leaves that array. A misuse that is found ends the run with a report. With clear, each packet
    /// takes the pool's lock; with canary it does not. `netmem stat pages` shows the chosen parts.
    #[arg(long, value_name = "PARTS", value_parser = hardening, default_value = "off", help_heading = PORTS, hide_short_help = true)]
    pub hardening: Hardening,

    /// Forwarding mode.
    #[arg(long, value_name = "MODE", value_enum, default_value_t = ModeArg::Ip, help_heading = ROUTING)]
    pub mode: ModeArg,

    /// A route for --mode ip: destinations (or default), egress port (number or interface), MAC address of the next hop.
    /// Repeatable.
    ///
    /// For example 10.0.2.0/24,1,02:00:00:00:00:02, default,eth1,02:00:00:00:00:02 or fd00:2::/64,1,02:00:00:00:00:02. The longest
    /// prefix wins. default is 0.0.0.0/0; write ::/0 for IPv6. Needs --port: the routes of the two mem ports are built in.
    #[arg(long, value_name = "PREFIX,PORT,MAC", value_parser = route, help_heading = ROUTING)]
    pub route: Vec<ByPort<Route>>,

    /// Where routes come from, for --mode ip; needs --port [default: static]
    ///
    /// static: only the --route options. kernel: the kernel's main and local tables. netmem follows their changes, so ip route or a
    /// routing daemon configures it. netmem also uses the kernel's neighbours. It asks the kernel for a missing neighbour, and up to
    /// 64 packets wait for each. A --route has priority over a kernel route for the same prefix. The kernel's interfaces are the
    /// ports of the same name. To ask for neighbours, netmem needs root or CAP_NET_ADMIN. The kernel's packet filter and NAT (nftables,
    /// iptables) do not apply to what netmem forwards: use --rule.
    #[arg(long, value_name = "FROM", value_enum, help_heading = ROUTING)]
    pub routes: Option<RoutesArg>,

    #[command(flatten)]
    pub router: RouterArgs,

    #[command(flatten)]
    pub worker_args: WorkerArgs,

    #[command(flatten)]
    pub packet_args: PacketArgs,

    /// Stop when the generators have sent N packets together; not with --port.
    #[arg(long, value_name = "N", value_parser = whole(1..=PACKETS_MAX), allow_negative_numbers = true,
          conflicts_with = "seconds", help_heading = GENERATOR, hide_short_help = true)]
    pub packets: Option<u64>,

    /// Flows that each worker's generator sends, round robin: 1 to 65534; not with --port [default: 1]
    #[arg(long, value_name = "N", value_parser = whole(1..=FLOWS_MAX), allow_negative_numbers = true,
          help_heading = GENERATOR, hide_short_help = true)]
    pub flows: Option<usize>,

    /// Bytes of a generated frame, without frame check sequence: 64 to 1514, or up to 29116 with larger frames; not with --port
    /// [default: 64]
    #[arg(long, value_name = "BYTES", value_parser = whole(SIZE_MIN..=SIZE_MAX), allow_negative_numbers = true,
          help_heading = GENERATOR, hide_short_help = true)]
    pub size: Option<usize>,

    /// Flow control when a receive ring is full: on, the generator waits until it has room; off, the device drops the packet and
    /// counts it; not with --port [default: on]
    #[arg(long, value_name = "WHEN", value_enum, help_heading = GENERATOR, hide_short_help = true)]
    pub pause: Option<Switch>,

    /// Stop after S seconds, fractions allowed [default: 10 without --port; otherwise until Ctrl-C, or the end of the files if
    /// nothing else is received]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = RUN)]
    pub seconds: Option<f64>,

    /// Read options from a TOML file: each long option is a key, except config, check, json and log-time; command-line options
    /// override the file.
    ///
    /// The file is UTF-8 and has at most 1 MiB. For example mode = "ip" or workers = 2. An option without a value is true or
    /// false: no-sandbox = true. A repeatable option is a list: port = ["packet:eth0", "packet:eth1"]. An option on the command
    /// line replaces the whole list. If neither has a port, an option of the generator such as --flows 1 must be given. At SIGHUP
    /// netmem reads the file again; without a file it prints a line, or ends if its input is a terminal. These keys can change while
    /// packets pass: rule, route, the policy of steer, idle and icmp-*. If the file is wrong or changes any other key, nothing
    /// changes and one line reports the reason.
    #[arg(long, value_name = "FILE", help_heading = RUN)]
    pub config: Option<PathBuf>,

    /// Where the keys of that file stand that count.
    #[arg(skip)]
    pub key_lines: KeyLines,

    /// What the file and the command line together say of each option.
    #[arg(skip)]
    pub written: Written,

    /// Listen on a Unix socket at PATH, for netmem stat and netmem set; usable by the owner only (mode 0600).
    ///
    /// Without this option nothing listens. $NETMEM_CONTROL is used only by the commands that connect to the socket.
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

    /// Forward nothing: report what on this host will fail, lose packets or be slow.
    ///
    /// The rules are those of netmem doctor. Nothing is opened or changed. The exit code is 1 if something will not work or loses
    /// packets.
    #[arg(long, help_heading = RUN)]
    pub check: bool,

    /// Wait up to S seconds at the start for interfaces of xdp and packet ports that do not exist yet or are down.
    ///
    /// A line names the interfaces. If an interface is still missing after S seconds, the run ends with an error, as without --wait,
    /// and with exit code 3 instead of 2.
    /// With --fix, netmem does not wait for an interface that is down: it sets the interface up.
    #[arg(long, value_name = "S", value_parser = patience, default_value = "0", allow_negative_numbers = true,
          hide_short_help = true, help_heading = RUN)]
    pub wait: f64,

    /// Make the changes of netmem doctor --fix for this run, and undo them at the end.
    ///
    /// If netmem is killed, the broker undoes the changes. Each change is written to the journal FILE before it is made. If the
    /// broker is killed too, netmem doctor --undo --journal FILE undoes them. A FILE that already has changes, or belongs to another
    /// run, is refused, and so is one in a folder that does not exist, except /run/netmem. If one change cannot be made, all are undone
    /// and nothing is forwarded.
    #[arg(long, value_name = "FILE", conflicts_with = "check", hide_short_help = true, help_heading = RUN)]
    pub fix: Option<PathBuf>,

    /// Begin each line on standard error with its time (UTC) and level; the journal has both without this option.
    ///
    /// When the run is ready, a line names the version, with this option and in the journal.
    #[arg(long, hide_short_help = true, help_heading = RUN)]
    pub log_time: bool,
}

fn hardening(text: &str) -> Result<Hardening, &'static str> {
    text.parse().map_err(|_| "give guard, random, clear and canary with commas between, or all, or off")
}

/// Values of `--mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Route IPv4 and IPv6: validation, longest-prefix match, TTL, checksum, MAC addresses, ICMP errors. Ethernet padding and
    /// priority tags (802.1Q, VID 0) are removed.
    Ip,
    /// Frames from port 0 leave by port 1 and the reverse, unchanged and with Ethernet padding. Ports 2 and 3 are joined likewise.
    CrossConnect,
    /// Every frame leaves by the port that received it, at its length and with its MAC addresses swapped.
    Reflect,
    /// Every frame is dropped unread.
    Drop,
    /// Every frame goes to the local queue, which reads and keeps it (--local-queue).
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
    /// Only the --route options.
    #[default]
    Static,
    /// The kernel's routes as they change. A --route has priority.
    Kernel,
}

/// Values of `--kernel-copies`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CopiesArg {
    /// Only netmem gets the packets, for this run.
    Drop,
    /// The kernel handles its copies as it would without netmem.
    Keep,
}

/// Values of `--xdp-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum XdpModeArg {
    /// In the driver if it supports native mode, otherwise in the kernel's generic path.
    Auto,
    /// In the driver. The set-up fails if the driver does not support it.
    Native,
    /// In the kernel's generic path. It works with every driver. On cards it is slower than native mode. On a veth with one queue
    /// it costs a little less.
    Generic,
}

impl ForwardArgs {
    /// A failure of arguments that do not fit together, with its place where a configuration file says so.
    pub fn placed(&self, failure: Failure) -> Failure {
        match &self.config {
            Some(file) => self.key_lines.locate(file, failure),
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

netmem forward --help shows all options, the counters and the checks.";

const AFTER_LONG_HELP: &str = "\
Examples:
  netmem forward --flows 1000 --seconds 3
  netmem forward --packets 1M --size 1514 --json
  netmem forward --path full --rule drop,proto=udp,sport=7 --ready-packets 50
  netmem forward --mode pass --local-queue 1000
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
                 received packets. Idle time does not count. A window with a
                 pause of the machine or of the thread is thrown away
                 (windows.dropped).
  pps            capacity, not throughput: 1 / ns_per_packet, summed over the
                 workers. It is the rate at which they handle packets while
                 they have work. With --steer a packet counts with each worker
                 that has it.
  pps_mean       packets received / seconds of the run, idle time and pauses
                 included.

The object of --json:
  seconds, pps, ns_per_packet, pps_mean, mode (as in --mode), path (as in
  --path),
  backing (of the memory: the size of its pages, and why they are not larger),
  windows {counted, dropped, p10, p90} or null,
  generator {sent, refused} or null,
  received, originated (ICMP errors, made of dropped frames), fragmented
  (packets that were fragmented, or segmented for a port without offloads),
  fragments (the pieces of both),
  transmitted, held, passed, dropped {reason: n} (with --steer also
  inbox_full, flow_limit, inbox_gone: dropped between workers),
  icmp {sent {message: n}, suppressed {why: n}} (suppressed: dropped packets
  about which an error could have been sent and was not),
  local_queue {taken, freed, kept} or null (passed frames; kept: when the
  run ended),
  mirror {taken, missed, kept} or null (sent frames; kept: when the run ended),
  filter {unmatched, rules [{rule, packets, bytes}], protocols {name:
  packets}} or null (--path full),
  ready_packets {now, max, taken, kept, missed, passed, released} or null,
  sink {received, corrupt, reordered, duplicates, late, lost} or null,
  steer {policy, tx_queue, workers [{kept, enqueued, dequeued, and every other
  counter of its inbox}]} or null,
  workers [{core (or null), received, taken (from others), handed (to
  others), originated, fragmented, fragments, transmitted, dropped, held,
  passed, idle_rounds (idle polls, counted after 64 in a row), sleeps, stalls
  (see --watchdog), ns_per_packet or null}],
  ports [{worker (its number), name, kind, detail, rx, tx, and every other
  counter, with those of its fault: and trace: wrappers: fault_dropped,
  trace_lost and so on}],
  pools [{name, total, free, cached, ready, owned, posted, queued, returning,
  miscounted, balanced}].
  generator and sink are null with --port. pps, ns_per_packet and windows
  are null if no window was filled. A refused packet was tried again until it
  was sent. It counts once.

Checks at the end. If one fails, the exit code is 1 and a line names it:
  sent = received + rx_no_frame + rx_ring_full + rx_dropped    (generator)
  received + originated + fragments
      = transmitted + dropped + held + passed + fragmented   (all workers)
  received + taken + originated + fragments
      = transmitted + dropped + held + passed + handed + fragmented
                                                             (each worker)
  passed = taken = freed + kept                              (local_queue)
  completed by the forwarder = taken + missed                     (mirror)
  transmitted = completed = received by the sink, none corrupt, none
  duplicated
  every pool is balanced, and every frame is back in its pool after the ports
  are closed
  no port is down. If a signal ends the run, memif ports that wait for a peer
  are only reported
  every trace is written
  if a pcap port receives: not every frame was dropped as not_for_us (for
  another MAC address)

Exit codes:
  0  success, also if Ctrl-C or SIGTERM ended the run (a further Ctrl-C ends
     it at once)
  1  a check failed, or something went wrong while running, for example the
     broker (netmem-broker) ended; also if a worker does not end: after ten
     seconds one line names it, and the process ends without a summary
  2  bad input, or the set-up failed: one line names the remedy, and nothing
     is left behind
  3  as 2, but the host lacks something now that it may have later: a queue
     that another program has, an interface whose packets another run forwards
     (packet ports), memory, threads, descriptors, the broker, the kernel's
     routes, or an interface that --wait has waited for; try again
A signal during --wait, or while much memory is prepared, ends netmem at once:
shells show 130 for Ctrl-C and 143 for SIGTERM.";
