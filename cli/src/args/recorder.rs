//! `netmem forward`: the number of recorded packets, and the file and time for writing them; `netmem record`.

use super::number::whole;
use crate::failure::Failure;
use clap::Args;
use netmem::forward::Reason;
use netmem_ports::nearest;
use std::path::PathBuf;
use std::str::FromStr;

/// Packets of each port and worker that can be recorded.
const PACKETS: std::ops::RangeInclusive<usize> = 64..=1 << 20;

/// The reasons for drops between workers.
pub const LOST_BETWEEN: [&str; 3] = ["inbox_full", "flow_limit", "inbox_gone"];

/// Flags about the flight recorder.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run and control")]
pub struct RecorderArgs {
    /// Keep the last N packets of each port at each worker, with their verdicts, for netmem record: 64 to 1048576.
    ///
    /// The recorder keeps the first 144 bytes of each packet as received, in 192 bytes of memory. N is rounded up to a power of two.
    /// Without this option there is no recorder, and it costs a packet nothing.
    #[arg(long, value_name = "N", value_parser = whole(PACKETS), allow_negative_numbers = true, hide_short_help = true)]
    pub record: Option<usize>,

    /// Write the recording to FILE at SIGUSR1, as pcapng with each packet's verdict and a comment.
    ///
    /// The next recording replaces FILE as a whole, or the file that a link leads to. It is written to FILE.part first; an existing
    /// FILE.part is removed. A new FILE is readable for its owner alone; one of the same user and group keeps its permissions. In a
    /// folder where every user can make links, such as /tmp, a link of another user is refused.
    /// Without this option SIGUSR1 only prints a line.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub record_to: Option<PathBuf>,

    /// Also write it when packets are dropped faster than a rate: drop.REASON>N/s, or drops>N/s for all reasons. Repeatable.
    ///
    /// For example --record-when 'drop.ttl_expired>100/s'; netmem stat drops --all lists the reasons. At most once a minute.
    #[arg(long, value_name = "WHEN", value_parser = When::from_str, hide_short_help = true)]
    pub record_when: Vec<When>,
}

/// So many drops a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct When {
    /// For the reason of this name; None for all together.
    pub reason: Option<&'static str>,
    /// More than so many a second.
    pub rate: u64,
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        let form = || format!("{text:?} is not of the form drop.ttl_expired>100/s, or drops>100/s");
        let (counter, rate) = text.split_once('>').ok_or_else(form)?;
        let rate = rate.strip_suffix("/s").and_then(|rate| rate.parse().ok()).ok_or_else(form)?;
        let reason = match counter.strip_prefix("drop.") {
            None if counter == "drops" => None,
            None => return Err(form()),
            Some(name) => Some(reasons().find(|known| *known == name).ok_or_else(|| unknown(name))?),
        };
        Ok(When { reason, rate })
    }
}

/// Returns the name of every reason that a run can have.
fn reasons() -> impl Iterator<Item = &'static str> {
    Reason::ALL.iter().map(|reason| reason.name()).chain(LOST_BETWEEN)
}

fn unknown(name: &str) -> String {
    match nearest(reasons(), name) {
        Some(near) => format!("no packet is dropped as {name:?}: did you mean {near}?"),
        None => format!("no packet is dropped as {name:?}: netmem stat drops --all lists the reasons"),
    }
}

impl std::fmt::Display for When {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reason {
            Some(reason) => write!(f, "drop.{reason}>{}/s", self.rate),
            None => write!(f, "drops>{}/s", self.rate),
        }
    }
}

impl When {
    /// Returns the drops that are watched, of the drops by reason.
    pub fn of(self, dropped: &[(&'static str, u64)]) -> u64 {
        let is_watched = |name: &str| self.reason.is_none_or(|reason| reason == name);
        dropped.iter().filter(|(name, _)| is_watched(name)).map(|(_, packets)| packets).sum()
    }
}

/// What is recorded of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecorderPlan {
    /// Packets of each port and worker.
    pub packets: usize,
    /// The file, where one is written.
    pub to: Option<PathBuf>,
    /// When it is written beside SIGUSR1.
    pub when: Vec<When>,
}

impl RecorderArgs {
    /// What is recorded, if anything.
    ///
    /// # Errors
    /// [`Failure::Input`] where there is nothing to write, or nowhere to.
    pub fn plan(&self) -> Result<Option<RecorderPlan>, Failure> {
        let Some(packets) = self.record else {
            return match (&self.record_to, &self.record_when[..]) {
                (Some(_), _) => {
                    Err(Failure::input("--record-to: nothing is recorded: give --record 1024 as well"))
                }
                (None, [_, ..]) => {
                    Err(Failure::input("--record-when: nothing is recorded: give --record 1024 as well"))
                }
                (None, []) => Ok(None),
            };
        };
        if self.record_to.is_none() && !self.record_when.is_empty() {
            return Err(Failure::input("--record-when: there is no file: give --record-to FILE as well"));
        }
        Ok(Some(RecorderPlan { packets, to: self.record_to.clone(), when: self.record_when.clone() }))
    }
}

/// Read the last packets of a running `netmem forward --record`, each with its verdict, as pcapng.
///
/// Each packet is written as received (its first 144 bytes) under the port that received it, with its queue, its verdict as of an
/// XDP program, and a comment. The comment has the egress port, the drop reason or that it was passed. It also says how long the
/// packet waited, was in a lane between workers (--steer) and in the local queue (--local-queue). If packets are missing between two
/// packets, the later one has their number (frame.drop_count). To watch packets live: netmem record --follow | wireshark -k -i -
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The file to write; by default, and with -, the recording goes to standard output.
    ///
    /// An earlier FILE is replaced as a whole at the end, with --follow with the first packets. As for --record-to of netmem forward,
    /// it is written to FILE.part first, a new one is readable for its owner alone, and a link of another user is refused in /tmp.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Continue with new packets until Ctrl-C or the end of the run.
    #[arg(long)]
    pub follow: bool,

    /// The control socket [default: $NETMEM_CONTROL, or the first netmem.sock with a run in $XDG_RUNTIME_DIR, /run or /run/netmem]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_to_write_is_a_counter_and_a_rate() {
        for text in ["drop.ttl_expired>100/s", "drops>0/s", "drop.tx_full>1000000/s"] {
            assert_eq!(text.parse::<When>().unwrap().to_string(), text);
        }
        for text in ["", "drops", "drops>1", "drops>x/s", "drop>1/s", "ttl_expired>1/s", "drops>-1/s"] {
            assert!(text.parse::<When>().unwrap_err().contains("form"), "{text}");
        }
        let near = "drop.ttl_expire>1/s".parse::<When>().unwrap_err();
        assert!(near.ends_with("did you mean ttl_expired?"), "{near}");
    }

    /// Seen: `drop.inbox_full>100/s` was refused as unknown, and `drops>N/s` did not see drops between workers.
    #[test]
    fn drops_between_workers_are_watched_by_name_and_among_all() {
        let dropped = [("ttl_expired", 1), ("inbox_full", 20), ("flow_limit", 300)];
        for (text, watched) in
            [("drop.inbox_full>100/s", 20), ("drop.inbox_gone>100/s", 0), ("drops>100/s", 321)]
        {
            let when = text.parse::<When>().unwrap();
            assert_eq!((when.to_string().as_str(), when.of(&dropped)), (text, watched));
        }
    }
}
