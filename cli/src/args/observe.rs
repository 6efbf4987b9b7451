//! `netmem stat`, `netmem top` and `netmem set`.

use super::number::seconds;
use clap::Args;
use std::path::PathBuf;

/// Show the counters and states of a running `netmem forward --control`.
///
/// Without WHAT: forward, the workers if there are several, ports, pools, and drops. pools shows where every frame is, and counters
/// under the names of the kernel's page_pool. After `netmem set pool.rx.trace on` it also shows holders: which call took the frames
/// that are out, and when. slabs uses SLUB's names. Values of 0 are left out without --all. Colours appear only on a terminal, and
/// not if NO_COLOR is set.
#[derive(Debug, Args)]
pub struct StatArgs {
    /// One of forward, workers, ports, pools, drops, holders, pages, and, if the run has them, icmp, steer, ready, slabs,
    /// rules, local_queue, routes, neighbours, netlink.
    pub what: Option<String>,

    /// Only one value of WHAT: received, or with a record's name if there are several records, as in mem:0.rx.
    #[arg(value_name = "KEY")]
    pub key: Option<String>,

    /// Show values of 0 too.
    #[arg(long)]
    pub all: bool,

    /// Print one JSON object a line, with the time; from the second line on, also with rates.
    #[arg(long)]
    pub json: bool,

    /// Repeat every S seconds until Ctrl-C or the end of the run. Without WHAT, print a line as vmstat does; with WHAT, a block with rates.
    ///
    /// The line has packets and Mbit/s received and transmitted, packets dropped by the forwarder (drop/s) and by devices and ports before it
    /// (lost/s), and packets held. It also has the free share of all pools' frames, frames posted and queued, and the share of the time
    /// in which workers had work (busy%).
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub interval: Option<f64>,

    /// Give up after S seconds without a whole answer, with exit code 3; fractions are allowed.
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, default_value = "60")]
    pub timeout: f64,

    /// The control socket [default: $NETMEM_CONTROL, or the first netmem.sock with a run in $XDG_RUNTIME_DIR, /run or /run/netmem]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

/// Let a running `netmem forward --config` read its configuration again, as SIGHUP does, and report the result.
///
/// Rules, routes, the policy of steering, idle and ICMP rates change while packets pass, each only if it differs from the file before.
/// What netmem set has changed and the file changes too is overridden, and named. If anything else in the file has changed, or the
/// file cannot be read, nothing changes: the exit code is 2, and one line gives the reason. A request that was sent is carried out
/// even if this command is ended, or gives up, before the answer: the run logs the result.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// Give up after S seconds without a whole answer, with exit code 3; fractions are allowed.
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, default_value = "60")]
    pub timeout: f64,

    /// The control socket [default: $NETMEM_CONTROL, or the first netmem.sock with a run in $XDG_RUNTIME_DIR, /run or /run/netmem]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

/// Watch a running `netmem forward --control` on a screen: ports, queues, workers, drops, and where every frame is.
///
/// Rates are those of the last interval. lost/s is the packets that devices and ports dropped. rx ring is the share of slots that have an
/// empty frame to receive into, and tx ring the share that have a frame to send. For each worker: busy is the share of time
/// in which it had work, burst the packets of a round that received some, and ns/pkt its time with work divided by received
/// packets. A screen of 130 columns or more shows more. A pool's bar has a letter for each share of its frames. It can be slightly
/// off while frames move. Holders are shown after `netmem set pool.rx.trace on`. If standard output is not a terminal, use
/// netmem stat --interval.
///
/// Keys: q or Ctrl-C quits. Space or p pauses. s sorts by the next column, and r reverses the order. / filters by name (Enter ends
/// the input, Esc clears it). a also shows idle queues and reasons that dropped nothing. Arrows, PageUp, PageDown, Home and End
/// scroll. ? shows a line of help.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Seconds between two requests to the forwarder.
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, default_value = "1")]
    pub interval: f64,

    /// The control socket [default: $NETMEM_CONTROL, or the first netmem.sock with a run in $XDG_RUNTIME_DIR, /run or /run/netmem]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

/// Tune a running `netmem forward --control`: netmem set KEY VALUE. netmem set KEY prints its value, and netmem set lists all
/// keys with values and ranges.
///
/// A new value takes effect at once. A value that is out of range changes nothing. A request that was sent is carried out even if
/// this command gives up before the answer.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// A key of the list that netmem set prints, for example pool.rx.cache.
    pub key: Option<String>,

    /// The key's new value; without it, the key is printed.
    #[arg(allow_negative_numbers = true)]
    pub value: Option<String>,

    /// Print all keys, or the given key, as JSON.
    #[arg(long)]
    pub json: bool,

    /// Give up after S seconds without a whole answer, with exit code 3; fractions are allowed.
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, default_value = "60")]
    pub timeout: f64,

    /// The control socket [default: $NETMEM_CONTROL, or the first netmem.sock with a run in $XDG_RUNTIME_DIR, /run or /run/netmem]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}
