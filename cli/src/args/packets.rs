//! `netmem forward`: the full path of packets, and the local queue for passed ones.

use super::number::{seconds, whole};
use super::switch::Switch;
use clap::{Args, ValueEnum};
use netmem::forward::Free;
use netmem::forward::filter::{Rule, RuleError};

/// Frames that a local queue or a mirror may keep at most.
const RETENTION_MAX: usize = 1 << 20;
/// Bytes of memory that kept frames may take up at most: a TiB.
pub const LOCAL_QUEUE_BYTES_MAX: usize = 1 << 40;
/// The most ready packets of each worker.
pub const READY_PACKETS_MAX: usize = 1 << 16;

/// Flags about packets, rules and the local queue.
#[derive(Debug, Args)]
#[command(next_help_heading = "Packet path")]
pub struct PacketArgs {
    /// Packet path: fast (raw frames) or full (packet objects, rules, statistics).
    #[arg(long, value_name = "PATH", value_enum, default_value_t = PathArg::Fast)]
    pub path: PathArg,

    /// A filter rule, ACTION[,KEY=VALUE...]; needs --path full. Repeatable, at most 1,024 times; the first rule that matches decides.
    ///
    /// ACTION is accept (go on as --mode says), drop, or pass (to the local queue). The keys are in (number of the receiving port),
    /// ethertype (a number, ipv4, ipv6 or arp), src and dst (IPv4 prefixes), proto (a number, icmp, icmpv6, tcp or udp), and sport and
    /// dport (a port of TCP or UDP, or a range). With sport or dport, proto can only be tcp or udp. For example
    /// drop,in=0,proto=udp,dport=53.
    /// A rule with an address matches only IPv4. A rule with a protocol or ports and no address matches both families; in IPv6 it looks
    /// behind extension headers. ethertype=ipv4 or ethertype=ipv6 limits it to one family. icmp is only IPv4's, and icmpv6 only IPv6's;
    /// icmpv6 includes neighbour discovery.
    /// Addresses, protocol and ports are looked for behind all VLAN tags (802.1Q and 802.1ad). ethertype is the outer one, 0x8100 or
    /// 0x88a8 in a tagged frame; a priority tag (802.1Q, VID 0) is skipped first.
    #[arg(long, value_name = "RULE", value_parser = rule)]
    pub rule: Vec<Rule>,

    /// Packet heads that each worker keeps ready: how many at most, how many are taken and freed at once; 0 for none. Frames then
    /// become packets on the fast path too [default: 128/32/32 if there are packets]
    #[arg(long, hide_short_help = true, value_name = "SIZE/REFILL/FREE", value_parser = ready_heads)]
    pub ready_heads: Option<ReadyHeads>,

    /// Packets that each worker keeps ready at most, 0 to 65536. Heads are attached when fill rings are refilled, and head and frame
    /// stay together from completion to the next fill. Frames then become packets on the fast path too. Not with --steer: frames
    /// leave their heads when they go to another worker.
    #[arg(long, hide_short_help = true, value_name = "MAX", value_parser = whole(0..=READY_PACKETS_MAX), allow_negative_numbers = true)]
    pub ready_packets: Option<usize>,

    /// How sent and dropped frames are freed.
    #[arg(long, hide_short_help = true, value_name = "HOW", value_enum, default_value_t = FreeArg::Bulk)]
    pub free: FreeArg,

    /// Keep the newest N passed frames per worker in the local queue: 0 to 1048576; with 0, frames are freed as soon as they are
    /// read. For --mode pass or a --rule that passes. Also for --path full if --config or --control may add such a rule later.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=RETENTION_MAX), default_value = "0",
          allow_negative_numbers = true)]
    pub local_queue: usize,

    /// Bytes of memory per worker for the frames that the local queue keeps: 0 to 2^40. A frame counts whole, even if its packet is
    /// short. --local-queue limits the number of frames [default: no limit]
    #[arg(long, hide_short_help = true, value_name = "BYTES", value_parser = whole(0..=LOCAL_QUEUE_BYTES_MAX),
          allow_negative_numbers = true)]
    pub local_queue_bytes: Option<usize>,

    /// Whether the local queue copies short packets (up to 255 bytes of a frame of 2 KiB) out of their frames: on, it copies them, their
    /// frames go back to their pool, and many kept packets need little memory; off, it keeps each packet in its frame [default: off]
    #[arg(long, hide_short_help = true, value_name = "SWITCH", value_enum)]
    pub local_queue_copybreak: Option<Switch>,

    /// Seconds that the local queue keeps a frame at most; fractions are allowed [default: until newer frames come]
    #[arg(long, hide_short_help = true, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub local_queue_seconds: Option<f64>,

    /// Mirror sent frames: keep read-only clones of the newest N per worker, 1 to 1048576. A frame returns to its pool when its
    /// clone is freed too.
    ///
    /// It is for tests and measurements of frames that are shared: nothing shows the clones, and only the summary at the end counts
    /// them. To look at packets during a run, use trace: in --port, or --record.
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(1..=RETENTION_MAX), allow_negative_numbers = true)]
    pub mirror: Option<usize>,
}

/// Values of `--path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PathArg {
    /// Raw frames. With --ready-heads or --ready-packets: packets, without rules and statistics.
    Fast,
    /// Packets, with rules and statistics.
    Full,
}

/// Values of `--free`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FreeArg {
    /// A batch at once.
    Bulk,
    /// One by one.
    Single,
}

impl From<FreeArg> for Free {
    fn from(free: FreeArg) -> Free {
        match free {
            FreeArg::Bulk => Free::Bulk,
            FreeArg::Single => Free::Single,
        }
    }
}

/// The value of `--ready-heads`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadyHeads {
    /// All heads straight from the cache.
    None,
    /// An array for each worker.
    Array {
        /// Heads at most.
        size: usize,
        /// Heads taken at once.
        refill: usize,
        /// Heads freed at once.
        free: usize,
    },
}

fn rule(text: &str) -> Result<Rule, RuleError> {
    text.parse()
}

fn ready_heads(text: &str) -> Result<ReadyHeads, String> {
    if text == "0" {
        return Ok(ReadyHeads::None);
    }
    let numbers = text.split('/').map(str::parse).collect::<Result<Vec<usize>, _>>().unwrap_or_default();
    match numbers[..] {
        [size, refill, free]
            if (1..=4096).contains(&size) && (1..=size).contains(&refill) && (1..=size).contains(&free) =>
        {
            Ok(ReadyHeads::Array { size, refill, free })
        }
        _ => {
            Err("write SIZE/REFILL/FREE, as in 128/32/32, SIZE up to 4096 and the others up to SIZE, or 0"
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_heads_are_three_numbers_of_which_the_first_is_the_largest() {
        let array = |size, refill, free| Ok(ReadyHeads::Array { size, refill, free });
        assert_eq!(ready_heads("64/16/32"), array(64, 16, 32));
        assert_eq!(ready_heads("4096/1/4096"), array(4096, 1, 4096));
        assert_eq!(ready_heads("0"), Ok(ReadyHeads::None));
        for bad in
            ["", "64", "64/16", "64/16/32/8", "16/32/8", "16/8/32", "4097/1/1", "8/0/1", "8/1/0", "a/b/c"]
        {
            assert!(ready_heads(bad).unwrap_err().contains("128/32/32"), "{bad}");
        }
    }
}
