//! `netmem forward --steer`: the sharing of received packets between workers.

use super::number::{power_of_two, whole};
use super::switch::Switch;
use clap::Args;
use netmem::limits::BATCH_MAX;
use netmem::steer::{DEFAULT_KEY, KEY_LEN, Policy, RecordedQueue, SYMMETRIC_KEY, random_key};
use std::sync::OnceLock;

/// Frames of an inbox.
const INBOX: std::ops::RangeInclusive<u32> = 64..=1 << 20;

/// Microseconds that a short batch may wait.
const LINGER: std::ops::RangeInclusive<u64> = 0..=1_000_000;

/// The keys that may follow a policy.
const KEYS: &str = "inbox=N, batch=N, linger=US, flow-limit=on|off, flow-table=N, tx-queue=rx-worker|fwd-worker, \
                    hash-key=random|rss|symmetric";

/// Flags about what goes from worker to worker.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workers and steering")]
pub struct SteerArgs {
    /// Which worker forwards a packet: POLICY[,KEY=VALUE...], POLICY none, map=rx0:1,rx1:2,3, round-robin, hash or flow;
    /// needs --workers 2 or more.
    ///
    /// Without --steer, and with none, the worker that received a packet forwards it. In a map, rx0 is what worker 0 receives, rx1 what
    /// worker 1 receives, and so on. A queue that is not in the map stays with its worker. The flows of a queue with several workers
    /// are spread over them. round-robin, hash and flow can name the workers to choose from, as in hash=1,2. hash chooses by
    /// addresses and ports. So does flow, but it moves a flow to an idler worker when all packets of the flow so far are done. All
    /// policies except round-robin keep the order within a flow.
    ///
    /// Keys behind the policy, as in hash=1,2,inbox=4096,linger=50:
    ///
    /// inbox=N: size of the inbox for each pair of workers, 64 to 1048576 frames. A frame is dropped if the inbox is full
    /// (inbox_full). The default is more than twice the slots of a ring (--ring), so that a burst which fits into a ring fits into
    /// the inbox too.
    ///
    /// flow-limit=on|off: the last eighth of an inbox is for the flows that do not fill it: frames of a flow that makes up most of
    /// the last frames are dropped there (flow_limit), so that this flow cannot keep the others out. In the last sixteenth this holds
    /// for a port too, so that a flood of many flows by one port cannot keep the other ports out. The default is on.
    ///
    /// batch=N: hand-off batch size, 1 to 64 (default 1). A shorter batch is held back for up to linger=US microseconds, at most a
    /// second (default 0: every batch is sent at the end of a poll round).
    ///
    /// tx-queue=rx-worker|fwd-worker: the worker on whose queue a steered packet is transmitted. rx-worker (the default) is the
    /// worker that received the packet, so a flow keeps its queue. fwd-worker is the worker that forwarded it: one hand-off less,
    /// but a flow that moves changes its queue.
    ///
    /// flow-table=N: entries of each worker's table for the policy flow, a power of two up to 1048576 (default 4096).
    /// hash-key=random|rss|symmetric: the key of the hash. random (the default) is drawn at start, so no sender can choose its
    /// worker. rss is the published key that most network cards begin with. symmetric is a published key that sends both directions
    /// of a connection to the same worker.
    #[arg(long, value_name = "POLICY[,KEY=VALUE]", value_parser = steer)]
    pub steer: Option<Steer>,

    /// A key of --steer now, as the six options below. The refusal names the new form.
    #[arg(long, hide = true, value_name = "N", value_parser = moved("inbox"))]
    inbox: Option<Moved>,
    #[arg(long, hide = true, value_name = "N", value_parser = moved("batch"))]
    list: Option<Moved>,
    #[arg(long, hide = true, value_name = "US", value_parser = moved("linger"))]
    linger: Option<Moved>,
    #[arg(long, hide = true, value_name = "SWITCH", value_parser = moved("flow-limit"))]
    flow_limit: Option<Moved>,
    #[arg(long, hide = true, value_name = "N", value_parser = moved("flow-table"))]
    flow_table: Option<Moved>,
    #[arg(long, hide = true, value_name = "KEY", value_parser = moved("hash-key"))]
    hash_key: Option<Moved>,
    #[arg(long, hide = true, value_name = "WHICH", value_parser = moved("tx-queue"))]
    tx_queue: Option<Moved>,
}

/// The value of `--steer`; None where the default counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Steer {
    /// Which worker a packet is for.
    pub policy: Policy,
    /// Frames of an inbox.
    pub inbox: Option<u32>,
    /// Frames of a batch that is sent at once.
    pub batch: Option<usize>,
    /// Microseconds that a shorter one waits.
    pub linger: Option<u64>,
    /// Whether a flow that makes most of an inbox is held to half of it.
    pub flow_limit: Option<Switch>,
    /// Entries of a table of flows.
    pub flow_table: Option<u32>,
    /// The key of the hash, where it was given.
    hash_key: Option<[u8; KEY_LEN]>,
    /// By which worker's queue a steered packet is transmitted.
    pub tx_queue: Option<RecordedQueue>,
}

/// The policy, which may have commas of its own, then its keys: the next piece with a `=` ends the policy.
fn steer(text: &str) -> Result<Steer, String> {
    let mut pieces = text.split(',').peekable();
    let mut policy: Vec<&str> = pieces.next().into_iter().collect();
    while let Some(piece) = pieces.next_if(|piece| !piece.contains('=')) {
        policy.push(piece);
    }
    let policy = policy.join(",").parse::<Policy>().map_err(|error| error.to_string())?;
    let mut steer = Steer { policy, ..Steer::default() };
    for piece in pieces {
        let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
        steer.set(key, value).map_err(|why| format!("{piece}: {why}"))?;
    }
    Ok(steer)
}

impl Steer {
    /// The key of the hash: this run's secret unless another one was given.
    pub fn key(&self) -> [u8; KEY_LEN] {
        self.hash_key.unwrap_or_else(secret_key)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let one_of = |choices: &str| format!("give {key}={choices}");
        match key {
            "inbox" => self.inbox = Some(whole(INBOX)(value)?),
            "batch" => self.batch = Some(whole(1..=BATCH_MAX)(value)?),
            "linger" => self.linger = Some(whole(LINGER)(value)?),
            "flow-table" => self.flow_table = Some(power_of_two(1..=1 << 20)(value)?),
            "flow-limit" => {
                let switch = [("on", Switch::On), ("off", Switch::Off)];
                self.flow_limit = Some(choice(value, switch).ok_or_else(|| one_of("on|off"))?);
            }
            "tx-queue" => {
                let queues = [("rx-worker", RecordedQueue::Received), ("fwd-worker", RecordedQueue::Worker)];
                self.tx_queue = Some(choice(value, queues).ok_or_else(|| one_of("rx-worker|fwd-worker"))?);
            }
            "hash-key" => {
                let keys = [("random", secret_key()), ("rss", DEFAULT_KEY), ("symmetric", SYMMETRIC_KEY)];
                self.hash_key = Some(choice(value, keys).ok_or_else(|| one_of("random|rss|symmetric"))?);
            }
            _ => return Err(format!("not a key: give {KEYS}")),
        }
        Ok(())
    }
}

/// The key of this run: the same when the configuration is read again.
fn secret_key() -> [u8; KEY_LEN] {
    static KEY: OnceLock<[u8; KEY_LEN]> = OnceLock::new();
    *KEY.get_or_init(random_key)
}

fn choice<T, const N: usize>(value: &str, choices: [(&str, T); N]) -> Option<T> {
    choices.into_iter().find_map(|(name, choice)| (name == value).then_some(choice))
}

/// An option that became a key of `--steer`. It has no value.
#[derive(Debug, Clone)]
enum Moved {}

/// Refuses the value of an option that became a key of `--steer`.
fn moved(key: &'static str) -> impl Fn(&str) -> Result<Moved, String> + Clone {
    move |value| {
        let value = match value {
            "first" => "rx-worker",
            "second" => "fwd-worker",
            _ => value,
        };
        Err(format!("this is a key of --steer: write --steer POLICY,{key}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_may_have_commas_of_its_own_before_the_keys() {
        let read = |text| steer(text).unwrap();
        let policy = |text: &str| text.parse::<Policy>().unwrap();
        assert_eq!(read("hash"), Steer { policy: policy("hash"), ..Steer::default() });
        let full = read("map=rx0:1,rx1:2,3,inbox=4k,batch=32,linger=50,flow-limit=off");
        assert_eq!(full.policy, policy("map=rx0:1,rx1:2,3"));
        assert_eq!((full.inbox, full.batch, full.linger), (Some(4000), Some(32), Some(50)));
        assert_eq!(full.flow_limit, Some(Switch::Off));
        let rest = read("flow=1,2,flow-table=8k,tx-queue=fwd-worker,hash-key=symmetric");
        assert_eq!((rest.policy, rest.flow_table), (policy("flow=1,2"), Some(8192)));
        assert_eq!((rest.tx_queue, rest.hash_key), (Some(RecordedQueue::Worker), Some(SYMMETRIC_KEY)));
    }

    #[test]
    fn a_wrong_key_or_value_is_refused_with_the_right_ones() {
        for (bad, remedy) in [
            ("hsh", "unknown policy \"hsh\""),
            ("hash,inbx=64", "inbx=64: not a key: give inbox=N"),
            ("hash,inbox=64,2", "2: not a key"),
            ("hash,inbox=63", "inbox=63: give a whole number from 64 to 1048576"),
            ("hash,flow-limit=yes", "give flow-limit=on|off"),
            ("hash,tx-queue=first", "give tx-queue=rx-worker|fwd-worker"),
            ("hash,hash-key=", "give hash-key=random|rss|symmetric"),
            ("inbox=64", "unknown policy \"inbox=64\""),
        ] {
            let error = steer(bad).unwrap_err();
            assert!(error.contains(remedy), "{bad}: {error}");
        }
    }
}
