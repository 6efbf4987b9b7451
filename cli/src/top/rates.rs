//! The changes between two snapshots, per second.

use super::reading::{Holder, Pool, Queue, STATES, Snapshot, Worker};

/// The growth of a counter in a second. None before there are two snapshots, or if a counter began again.
pub type Rate = Option<f64>;

/// A forwarder's rates and gauges.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Activity {
    /// Each port, all its queues together.
    pub ports: Vec<Traffic>,
    /// Each queue of ports that have several.
    pub queues: Vec<Traffic>,
    /// The sum of all workers if there are several, and each worker.
    pub workers: Vec<Work>,
    /// The sum of all pools if there are several, and each pool.
    pub pools: Vec<Pool>,
    pub drops: Vec<Drops>,
    pub holders: Vec<Holder>,
    /// The whole run.
    pub run: Run,
}

/// The packets of a queue or a port.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    pub name: String,
    /// Number of queues.
    pub queues: usize,
    pub rx: Rate,
    pub rx_bits: Rate,
    pub tx: Rate,
    pub tx_bits: Rate,
    /// Frames dropped by the device.
    pub lost: Rate,
    /// The reason why it carries nothing, of the first queue that does not. Empty if all do.
    pub down: String,
    /// Slots of the rings for reception, of all queues together, and of those for transmission; 0 if not known.
    pub ring: u64,
    pub tx_ring: u64,
    /// Empty frames posted for reception.
    pub posted: u64,
    /// Frames posted for transmission and not completed.
    pub sending: u64,
}

/// The work of a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    pub name: String,
    pub core: String,
    pub rx: Rate,
    pub handed: Rate,
    pub tx: Rate,
    pub dropped: Rate,
    /// Number of workers.
    workers: usize,
    /// Rounds that received something, and the nanoseconds of rounds with work.
    rounds: Rate,
    busy_ns: Rate,
    pub idle_rounds: Rate,
    pub sleeps: Rate,
    pub held: u64,
    pub stalls: u64,
}

/// Drops for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Drops {
    pub reason: String,
    pub packets: u64,
    pub rate: Rate,
}

/// Sums over all ports and reasons.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    pub rx: Rate,
    pub tx: Rate,
    pub dropped: Rate,
    pub lost: Rate,
    pub held: u64,
}

impl Traffic {
    /// Returns the share of the slots for reception that have an empty frame.
    pub fn rx_fill(&self) -> Rate {
        (self.ring > 0).then(|| self.posted as f64 / self.ring as f64)
    }

    /// Returns the share of the slots for transmission that have a frame which is not sent.
    pub fn tx_fill(&self) -> Rate {
        (self.tx_ring > 0).then(|| self.sending as f64 / self.tx_ring as f64)
    }
}

impl Work {
    /// Returns the share of the time that was spent in rounds with work.
    pub fn busy(&self) -> Rate {
        self.busy_ns.map(|ns| ns / 1e9 / self.workers.max(1) as f64)
    }

    /// Returns the packets of a round that received some.
    pub fn burst(&self) -> Rate {
        self.rx.zip(self.rounds.filter(|rounds| *rounds > 0.0)).map(|(rx, rounds)| rx / rounds)
    }

    /// Returns the nanoseconds of work for each received packet.
    pub fn ns(&self) -> Rate {
        self.busy_ns.zip(self.rx.filter(|rx| *rx > 0.0)).map(|(ns, rx)| ns / rx)
    }
}

impl Activity {
    /// Returns the display of `new`, with rates since `old`.
    pub fn new(old: Option<&Snapshot>, new: &Snapshot) -> Activity {
        let queues = queues(old, new);
        let (ports, has_several) = ports(new, &queues);
        let workers = workers(old, new);
        let drops = drops(old, new);
        let run = Run {
            rx: sum(queues.iter().map(|queue| queue.rx)),
            tx: sum(queues.iter().map(|queue| queue.tx)),
            dropped: sum(drops.iter().map(|drops| drops.rate)),
            lost: sum(queues.iter().map(|queue| queue.lost)),
            held: total(new.workers.iter().map(|worker| worker.held)),
        };
        let queues = queues.into_iter().zip(has_several).filter(|(_, several)| *several);
        Activity {
            ports,
            queues: queues.map(|(queue, _)| queue).collect(),
            workers,
            pools: pools(new),
            drops,
            holders: new.holders.clone(),
            run,
        }
    }
}

/// Returns the sum of the known rates.
fn sum(rates: impl Iterator<Item = Rate>) -> Rate {
    rates.flatten().reduce(|sum, rate| sum + rate)
}

/// Returns the sum of counts that a run reports. It is at most `u64::MAX`.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Returns the growth of a value in a second. `read` reads the value from the old and the new.
fn rate<T>(old: Option<(&T, f64)>, new: &T, read: impl Fn(&T) -> u64) -> Rate {
    let (old, seconds) = old.filter(|(_, seconds)| *seconds > 0.0)?;
    Some(read(new).checked_sub(read(old))? as f64 / seconds)
}

/// Returns the item of the same position and name, because ports of several workers may share a name. Also returns
/// the seconds since it was read.
fn same<T>(old: Option<(&[T], f64)>, at: usize, is_same: impl Fn(&T) -> bool) -> Option<(&T, f64)> {
    let (old, seconds) = old?;
    old.get(at).filter(|known| is_same(known)).map(|known| (known, seconds))
}

fn queues(old: Option<&Snapshot>, new: &Snapshot) -> Vec<Traffic> {
    let old = old.map(|old| (&old.queues[..], new.at - old.at));
    let each = new.queues.iter().enumerate().map(|(at, queue)| {
        let old = same(old, at, |known| known.name == queue.name);
        Traffic {
            name: format!("{}:{}", queue.port, queue.number),
            queues: 1,
            rx: rate(old, queue, |of| of.rx),
            rx_bits: rate(old, queue, |of| of.rx_bytes.saturating_mul(8)),
            tx: rate(old, queue, |of| of.tx),
            tx_bits: rate(old, queue, |of| of.tx_bytes.saturating_mul(8)),
            lost: rate(old, queue, |of| of.lost),
            down: queue.down.clone(),
            ring: queue.ring,
            tx_ring: queue.tx_ring,
            posted: queue.posted,
            sending: queue.sending,
        }
    });
    each.collect()
}

/// Returns the ports in the order of their first queue, and for each queue whether its port has several.
fn ports(new: &Snapshot, queues: &[Traffic]) -> (Vec<Traffic>, Vec<bool>) {
    let mut ports: Vec<Traffic> = Vec::new();
    for (Queue { port, .. }, queue) in new.queues.iter().zip(queues) {
        match ports.iter_mut().find(|known| known.name == *port) {
            Some(known) => known.add(queue),
            None => ports.push(Traffic { name: port.clone(), ..queue.clone() }),
        }
    }
    let several = |queue: &Queue| ports.iter().any(|port| port.name == queue.port && port.queues > 1);
    let several = new.queues.iter().map(several).collect();
    (ports, several)
}

impl Traffic {
    fn add(&mut self, other: &Traffic) {
        self.queues += other.queues;
        for (sum, rate) in [
            (&mut self.rx, other.rx),
            (&mut self.rx_bits, other.rx_bits),
            (&mut self.tx, other.tx),
            (&mut self.tx_bits, other.tx_bits),
            (&mut self.lost, other.lost),
        ] {
            *sum = self::sum([*sum, rate].into_iter());
        }
        if self.down.is_empty() {
            self.down.clone_from(&other.down);
        }
        for (sum, frames) in [
            (&mut self.ring, other.ring),
            (&mut self.tx_ring, other.tx_ring),
            (&mut self.posted, other.posted),
            (&mut self.sending, other.sending),
        ] {
            *sum = sum.saturating_add(frames);
        }
    }
}

fn workers(old: Option<&Snapshot>, new: &Snapshot) -> Vec<Work> {
    let old = old.map(|old| (&old.workers[..], new.at - old.at));
    let each = new.workers.iter().enumerate().map(|(at, worker)| {
        let old = same(old, at, |known| known.name == worker.name);
        let of = |read: fn(&Worker) -> u64| rate(old, worker, read);
        Work {
            name: worker.name.clone(),
            core: worker.core.clone(),
            rx: of(|of| of.received),
            handed: of(|of| of.handed),
            tx: of(|of| of.transmitted),
            dropped: of(|of| of.dropped),
            workers: 1,
            rounds: of(|of| of.rounds),
            busy_ns: of(|of| of.busy_ns),
            idle_rounds: of(|of| of.idle_rounds),
            sleeps: of(|of| of.sleeps),
            held: worker.held,
            stalls: worker.stalls,
        }
    });
    let each: Vec<Work> = each.collect();
    if each.len() < 2 {
        return each;
    }
    let of = |read: fn(&Work) -> Rate| sum(each.iter().map(read));
    let all = Work {
        name: "all".to_owned(),
        core: String::new(),
        rx: of(|of| of.rx),
        handed: of(|of| of.handed),
        tx: of(|of| of.tx),
        dropped: of(|of| of.dropped),
        workers: each.len(),
        rounds: of(|of| of.rounds),
        busy_ns: of(|of| of.busy_ns),
        idle_rounds: of(|of| of.idle_rounds),
        sleeps: of(|of| of.sleeps),
        held: total(each.iter().map(|of| of.held)),
        stalls: total(each.iter().map(|of| of.stalls)),
    };
    [all].into_iter().chain(each).collect()
}

fn pools(new: &Snapshot) -> Vec<Pool> {
    if new.pools.len() < 2 {
        return new.pools.clone();
    }
    let mut all = Pool { name: "all".to_owned(), total: 0, states: [0; STATES.len()] };
    for pool in &new.pools {
        all.total = all.total.saturating_add(pool.total);
        for (sum, frames) in all.states.iter_mut().zip(pool.states) {
            // A count below 0 wraps: the sum must not overflow.
            *sum = sum.saturating_add(frames);
        }
    }
    [all].into_iter().chain(new.pools.iter().cloned()).collect()
}

fn drops(old: Option<&Snapshot>, new: &Snapshot) -> Vec<Drops> {
    let old = old.map(|old| (&old.drops[..], new.at - old.at));
    let each = new.drops.iter().enumerate().map(|(at, drops)| {
        let old = same(old, at, |(known, _)| *known == drops.0);
        Drops { reason: drops.0.clone(), packets: drops.1, rate: rate(old, drops, |(_, packets)| *packets) }
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::recorded;
    use super::*;
    use crate::control::Record;

    #[test]
    fn rates_are_what_grew_over_the_time_and_none_without_two_snapshots() {
        let (old, new) = recorded("two-workers");
        let seconds = new.at - old.at;
        let grown = Activity::new(Some(&old), &new);
        let rx = (new.queues[0].rx - old.queues[0].rx) as f64 / seconds;
        assert_eq!((grown.ports[0].rx, grown.ports[0].queues), (Some(rx), 1));
        let dropped = |of: &Snapshot| of.drops.iter().find(|(reason, _)| reason == "filter_drop").unwrap().1;
        assert_eq!(grown.run.dropped, Some((dropped(&new) - dropped(&old)) as f64 / seconds));
        let first = Activity::new(None, &new);
        assert_eq!((first.ports[0].rx, first.workers[0].rx, &first.run.rx), (None, None, &None));
        assert_eq!(first.pools, grown.pools);
        let at_once = Activity::new(Some(&Snapshot { at: new.at, ..old.clone() }), &new);
        assert_eq!(at_once.run.rx, None, "no time has passed");
    }

    #[test]
    fn another_run_at_the_same_socket_has_no_rates_at_first() {
        let (old, new) = recorded("two-workers");
        let fresh = Snapshot { at: new.at + 1.0, ..old.clone() };
        let begun_again = Activity::new(Some(&new), &fresh);
        assert_eq!(begun_again.ports[0].rx, None);
        let mut other = old.clone();
        other.queues.remove(0);
        let moved = Activity::new(Some(&other), &new);
        assert_eq!(moved.ports[0].rx, None, "another port was at its place");
    }

    #[test]
    fn queues_of_a_port_add_up_and_stand_by_themselves_where_there_are_several() {
        let (old, new) = recorded("64-queues");
        let grown = Activity::new(Some(&old), &new);
        let names: Vec<_> = grown.ports.iter().map(|port| (port.name.as_str(), port.queues)).collect();
        assert_eq!(names, [("xdp:nt0", 32), ("xdp:nt1", 32)]);
        assert_eq!(grown.queues.len(), 64);
        let rx = |of: &[Traffic]| of.iter().filter_map(|one| one.rx).sum::<f64>();
        assert!(rx(&grown.ports) > 0.0 && (rx(&grown.ports) - rx(&grown.queues)).abs() < 1e-6);
        assert!(Activity::new(None, &recorded("two-workers").1).queues.is_empty());
    }

    #[test]
    fn several_workers_and_pools_have_a_row_of_all() {
        let (old, new) = recorded("two-workers");
        let grown = Activity::new(Some(&old), &new);
        let names: Vec<_> = grown.workers.iter().map(|worker| worker.name.as_str()).collect();
        assert_eq!(names, ["all", "0", "1"]);
        let totals: Vec<_> = grown.pools.iter().map(|pool| (pool.name.as_str(), pool.total)).collect();
        assert_eq!(totals, [("all", 3200), ("rx0", 1600), ("rx1", 1600)]);
        let one = recorded("64-queues");
        assert_eq!(Activity::new(None, &one.1).workers.len(), 1);
    }

    /// Seen: `netmem top` panicked, because a count below 0 wraps.
    #[test]
    fn a_count_below_0_of_one_pool_does_not_overflow_the_row_of_all() {
        let pool =
            |owned, free| Pool { name: "rx".into(), total: 10, states: [free, 0, 0, owned, 0, 0, 0, 0] };
        let pools = vec![pool(u64::MAX - 3, 14), pool(9, 1)];
        let shown = Activity::new(None, &Snapshot { pools, ..Snapshot::default() }).pools;
        assert_eq!((shown.len(), shown[0].total, shown[0].states[0]), (3, 20, 15));
        assert_eq!(shown[0].states[3], u64::MAX);
    }

    /// Found by reasoning: `netmem top` panicked if the program at the control socket reported counts whose sum is too
    /// large.
    #[test]
    fn counts_that_are_more_than_a_number_holds_do_not_overflow_the_rows_of_all() {
        let most = u64::MAX;
        let counts = ["rx_bytes", "tx_bytes", "rx_no_frame", "rx_dropped", "ring", "rx_posted", "tx"];
        let queue = || Record::default().with("name", "xdp:eth0").with_all(counts.map(|name| (name, most)));
        let counts = ["received", "taken", "held", "stalls"];
        let worker = || Record::default().with("name", "0").with_all(counts.map(|name| (name, most)));
        let sections =
            vec![("ports".into(), vec![queue(), queue()]), ("workers".into(), vec![worker(), worker()])];
        let new = Snapshot::new(1.0, &sections);
        let shown = Activity::new(Some(&Snapshot { at: 0.0, ..new.clone() }), &new);
        let all = (shown.ports[0].ring, shown.ports[0].posted, shown.workers[0].stalls, shown.run.held);
        assert_eq!(all, (most, most, most, most));
    }

    #[test]
    fn a_workers_time_is_shared_among_its_packets_and_rounds_and_that_of_all_is_the_mean() {
        let (old, new) = recorded("two-workers");
        let grown = Activity::new(Some(&old), &new);
        let seconds = new.at - old.at;
        let of = |read: fn(&Worker) -> u64| (read(&new.workers[1]) - read(&old.workers[1])) as f64;
        let (busy, rx, rounds) = (of(|of| of.busy_ns), of(|of| of.received), of(|of| of.rounds));
        let one = &grown.workers[2];
        for (shown, is) in
            [(one.busy(), busy / 1e9 / seconds), (one.burst(), rx / rounds), (one.ns(), busy / rx)]
        {
            assert!((shown.unwrap() - is).abs() < is / 1e6, "{shown:?} {is}");
        }
        let mean = (grown.workers[1].busy().unwrap() + one.busy().unwrap()) / 2.0;
        assert!((grown.workers[0].busy().unwrap() - mean).abs() < 1e-9);
        let none = Activity::new(Some(&Snapshot { at: new.at - 1.0, ..new.clone() }), &new).workers.remove(0);
        assert_eq!((none.busy(), none.burst(), none.ns()), (Some(0.0), None, None), "nothing came");
    }

    #[test]
    fn a_port_has_the_slots_of_all_its_queues_and_is_down_with_any_of_them() {
        let (old, mut new) = recorded("64-queues");
        new.queues[6].down = "interface nt0 is down".into();
        let grown = Activity::new(Some(&old), &new);
        let of = |at: usize| (grown.ports[at].down.as_str(), grown.ports[at].ring);
        let ring: u64 =
            new.queues.iter().filter(|queue| queue.port == "xdp:nt0").map(|queue| queue.ring).sum();
        assert_eq!((of(0), of(1).0), (("interface nt0 is down", ring), ""));
        let fill = grown.ports[1].rx_fill().unwrap();
        assert!(fill > 0.0 && fill <= 1.0, "{fill}");
        let unknown = Traffic { ring: 0, tx_ring: 0, ..grown.ports[1].clone() };
        assert_eq!((unknown.rx_fill(), unknown.tx_fill()), (None, None));
    }

    /// Seen: `netmem top` showed two memif ports of one socket as one port with two queues.
    #[test]
    fn ports_that_share_a_name_are_rows_of_their_own_and_workers_of_one_port_are_not() {
        let port = |number: u64, worker: u64| {
            Record::default().with("name", "memif:/a.sock").with("number", number).with("worker", worker)
        };
        let records = vec![port(0, 0), port(1, 0), port(0, 1), port(1, 1)];
        let grown = Activity::new(None, &Snapshot::new(1.0, &vec![("ports".into(), records)]));
        let names: Vec<_> = grown.ports.iter().map(|port| (port.name.as_str(), port.queues)).collect();
        assert_eq!(names, [("memif:/a.sock#0", 2), ("memif:/a.sock#1", 2)]);
    }
}
