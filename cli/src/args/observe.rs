//! `netmem stat`, `netmem top` and `netmem set`.

use super::number::seconds;
use clap::Args;
use std::path::PathBuf;

/// Look at a running `netmem forward --control`.
///
/// Without WHAT: forward, the workers where there are several, ports, pools, and what was dropped. Pools show where every frame is, and counters under the names of the
/// kernel's page_pool; after netmem set pool.rx.trace on also holders: who took the frames that are out, and when.
/// Slabs go by SLUB's names. What is 0 is left out without --all. Colours only on a terminal, and not where NO_COLOR is set.
#[derive(Debug, Args)]
pub struct StatArgs {
    /// One of forward, workers, ports, pools, drops, holders, pages, and where there are such icmp, steer, ready, slabs,
    /// rules, local_queue, routes, neighbours, netlink.
    pub what: Option<String>,

    /// One value of WHAT alone: received, or with a record's name where there are several, as in mem:0.rx.
    #[arg(value_name = "KEY")]
    pub key: Option<String>,

    /// Show what is 0 too.
    #[arg(long)]
    pub all: bool,

    /// Print one JSON object a line, with the time; from the second line on also with rates.
    #[arg(long)]
    pub json: bool,

    /// Again every S seconds until Ctrl-C or the run's end: a line without WHAT, as vmstat does, else blocks with rates.
    ///
    /// The line: packets and Mbit/s received and transmitted, packets dropped by the forwarder (drop/s) and by devices before it
    /// (lost/s), packets held; the share of all pools' frames that are free, frames posted and queued; which share of the time workers had work (busy%).
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub interval: Option<f64>,

    /// The control socket [default: $NETMEM_CONTROL, else the first netmem.sock in $XDG_RUNTIME_DIR, /run or /run/netmem]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

/// Have a running `netmem forward --config` read its configuration again, as SIGHUP does, and say what came of it.
///
/// Rules, routes, the policy of steering, idle and ICMP rates change while packets pass. Exit code 2 and one line where something else has changed in
/// the file, or it cannot be read: then nothing has changed.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// The control socket [default: $NETMEM_CONTROL, else the first netmem.sock in $XDG_RUNTIME_DIR, /run or /run/netmem]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

/// Watch a running `netmem forward --control` on a screen: ports, queues, workers, drops, and where every frame is.
///
/// Rates are those of the last interval, lost/s what devices dropped; rx ring and tx ring are the shares of their slots that have an empty
/// frame to receive into, and one that a device has to send. Of workers: which share of the time they had work (busy), packets of a
/// round that received some (burst), time with work by packets received (ns/pkt). From 130 columns on there is more. A pool's bar has a letter for each share of its frames, and is off by some while frames move. Holders are
/// shown after netmem set pool.rx.trace on. Where standard output is no terminal there is netmem stat --interval.
///
/// Keys: q or Ctrl-C quits, space or p pauses, s sorts by the next column and r the other way round, / filters by name (Enter ends it,
/// Esc clears it), a shows idle queues and reasons that dropped nothing too, arrows, PageUp, PageDown, Home and End scroll, ? is a line of help.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// How often the forwarder is asked, in seconds.
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, default_value = "1")]
    pub interval: f64,

    /// The control socket [default: $NETMEM_CONTROL, else the first netmem.sock in $XDG_RUNTIME_DIR, /run or /run/netmem]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

/// Tune a running `netmem forward --control`: netmem set KEY VALUE; netmem set KEY prints its value, netmem set lists all
/// keys with values and ranges.
///
/// It takes effect at once. A value that is out of range changes nothing.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// A key as netmem set lists them, for example pool.rx.cache.
    pub key: Option<String>,

    /// Its new value; without one, the key is printed.
    #[arg(allow_negative_numbers = true)]
    pub value: Option<String>,

    /// Print the keys, or the one key, as JSON.
    #[arg(long)]
    pub json: bool,

    /// The control socket [default: $NETMEM_CONTROL, else the first netmem.sock in $XDG_RUNTIME_DIR, /run or /run/netmem]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}
