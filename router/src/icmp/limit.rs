//! Rate limits of a worker's ICMP errors, in all and to one source: token buckets (RFC 1812 §4.3.2.8, RFC 4443 §2.4
//! (f)).
//!
//! Messages that a packet is too big have buckets of their own. Senders depend on them to reach the destination at
//! all (RFC 1191, RFC 8201), and packets with a forged source must not use them up by causing other errors. Their limit
//! in all is larger: a few sources with long packets must not use up the messages of all others.

use super::{Message, Suppression};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The size of a token: at a rate of one a second, one token fills in this many nanoseconds.
const TOKEN: u64 = 1_000_000_000;
/// Number of buckets for sources. Sources with the same hash share a bucket. The key of the hash is this worker's
/// secret.
const SOURCES: usize = 1024;
/// Bits of an IPv6 address that name the network of a source. A host may choose any address in its network (RFC
/// 4291 §2.5.4).
const NETWORK: u32 = 64;
/// How many times as many messages that a packet is too big as other errors all sources together may get. Each such message
/// answers a packet that is longer than itself.
const TOO_BIG: u32 = 20;
/// How many hosts of an IPv6 network may get their full share of these messages at once. The network is a link, so one of
/// its hosts must not use up the messages of all others, which depend on them to reach the destination at all.
const HOSTS: u32 = 10;

/// Limits of how many ICMP errors a worker may send. They apply once to the messages that a packet is too big, and once
/// to all other errors together. Of the messages that a packet is too big, 20 times as many as `rate` and `burst` may be
/// sent. Linux does not limit these at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpLimit {
    /// Errors a second in the long run. 0 sends none at all.
    pub rate: u32,
    /// Errors in a burst after a time without errors, from 1.
    pub burst: u32,
    /// Errors a second to one source. A source is an IPv4 address or an IPv6 /64. With this limit, one source that
    /// causes errors without end does not use up the errors of all other sources. For messages that a packet is too big,
    /// each IPv6 address is a source, and all addresses of a /64 together get 10 times as many.
    pub source_rate: u32,
    /// Errors in a burst to one source.
    pub source_burst: u32,
}

impl Default for IcmpLimit {
    /// 1000 errors a second and 50 in a burst, as a Linux host allows itself. Of these, 100 a second and 20 in a burst to one source.
    fn default() -> IcmpLimit {
        IcmpLimit { rate: 1000, burst: 50, source_rate: 100, source_burst: 20 }
    }
}

impl IcmpLimit {
    /// Limits errors to `rate` a second and `burst` in a burst, over all destinations together, and messages that a packet is
    /// too big to so many for each destination.
    pub fn in_all(rate: u32, burst: u32) -> IcmpLimit {
        IcmpLimit { rate, burst, source_rate: rate, source_burst: burst }
    }
}

#[derive(Debug)]
struct Shared {
    rate: AtomicU32,
    burst: AtomicU32,
    source_rate: AtomicU32,
    source_burst: AtomicU32,
}

/// A worker's [`IcmpLimit`]. Any thread may read and change it while the worker runs.
#[derive(Debug, Clone)]
pub struct IcmpControl(Arc<Shared>);

impl IcmpControl {
    fn new(limit: IcmpLimit) -> IcmpControl {
        let [rate, burst, source_rate, source_burst] = [(); 4].map(|()| AtomicU32::new(0));
        let control = IcmpControl(Arc::new(Shared { rate, burst, source_rate, source_burst }));
        control.set(limit);
        control
    }

    /// Returns the limit.
    pub fn get(&self) -> IcmpLimit {
        let Shared { rate, burst, source_rate, source_burst } = &*self.0;
        let [rate, burst, source_rate, source_burst] =
            [rate, burst, source_rate, source_burst].map(|value| value.load(Relaxed));
        IcmpLimit { rate, burst, source_rate, source_burst }
    }

    /// Changes the limit. A burst of 0 counts as 1.
    pub fn set(&self, IcmpLimit { rate, burst, source_rate, source_burst }: IcmpLimit) {
        self.0.rate.store(rate, Relaxed);
        self.0.burst.store(burst.max(1), Relaxed);
        self.0.source_rate.store(source_rate, Relaxed);
        self.0.source_burst.store(source_burst.max(1), Relaxed);
    }
}

/// Invariant: `level` is at most the burst, in tokens, that applied when the bucket was last filled.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    level: u64,
    /// The time of `level` by the monotonic clock, or None before the first error.
    seen: Option<u64>,
}

impl Bucket {
    /// Fills the bucket up to the time `now` (nanoseconds of the monotonic clock). Returns true if it has a token.
    fn fill(&mut self, rate: u32, burst: u32, now: u64) -> bool {
        let most = u64::from(burst) * TOKEN;
        self.level = match self.seen {
            None => most,
            Some(seen) => {
                let gained = now.saturating_sub(seen).saturating_mul(rate.into());
                self.level.saturating_add(gained).min(most)
            }
        };
        self.seen = Some(now);
        rate > 0 && self.level >= TOKEN
    }
}

/// The buckets of a source, by their indices: its own, and that of its network where hosts have buckets of their own.
#[derive(Debug, Clone, Copy)]
struct Keys {
    source: usize,
    network: Option<usize>,
}

/// Buckets for some of the errors.
#[derive(Debug)]
struct Buckets {
    all: Bucket,
    sources: Box<[Bucket]>,
    networks: Box<[Bucket]>,
}

impl Buckets {
    /// Makes full buckets.
    fn new() -> Buckets {
        let full = || vec![Bucket::default(); SOURCES].into();
        Buckets { all: Bucket::default(), sources: full(), networks: full() }
    }

    /// Fills the buckets of a source up to the time `now`.
    ///
    /// # Errors
    /// The reason why an error to it has no token.
    fn fill(&mut self, keys: Keys, limit: IcmpLimit, now: u64) -> Result<(), Suppression> {
        let IcmpLimit { rate, burst, source_rate, source_burst } = limit;
        let of_all = self.all.fill(rate, burst, now);
        let of_source = self.sources[keys.source].fill(source_rate, source_burst, now);
        let of_network = keys.network.is_none_or(|network| {
            let (rate, burst) = (source_rate.saturating_mul(HOSTS), source_burst.saturating_mul(HOSTS));
            self.networks[network].fill(rate, burst, now)
        });
        match (of_all, of_source && of_network) {
            (false, _) => Err(Suppression::Limited),
            (true, false) => Err(Suppression::LimitedSource),
            (true, true) => Ok(()),
        }
    }

    /// Takes a token for an error to a source.
    fn take(&mut self, keys: Keys, limit: IcmpLimit, now: u64) -> Result<(), Suppression> {
        self.fill(keys, limit, now)?;
        self.all.level -= TOKEN;
        self.sources[keys.source].level -= TOKEN;
        if let Some(network) = keys.network {
            self.networks[network].level -= TOKEN;
        }
        Ok(())
    }
}

/// The buckets of one worker.
#[derive(Debug)]
pub(crate) struct Limiter {
    control: IcmpControl,
    too_big: Buckets,
    others: Buckets,
    hash: RandomState,
}

impl Limiter {
    /// Makes full buckets.
    pub(crate) fn new(limit: IcmpLimit) -> Limiter {
        Limiter {
            control: IcmpControl::new(limit),
            too_big: Buckets::new(),
            others: Buckets::new(),
            hash: RandomState::new(),
        }
    }

    pub(crate) fn control(&self) -> IcmpControl {
        self.control.clone()
    }

    /// Returns whether there is a token for this error to `source` at the time `now` (nanoseconds of the monotonic
    /// clock). Takes none.
    ///
    /// # Errors
    /// The reason why there is no token.
    pub(crate) fn allows(&mut self, message: Message, source: IpAddr, now: u64) -> Result<(), Suppression> {
        let (buckets, keys, limit) = self.buckets(message, source);
        buckets.fill(keys, limit, now)
    }

    /// Takes a token for this error to `source` at the time `now`.
    ///
    /// # Errors
    /// As [`Limiter::allows`]. No token is taken then.
    pub(crate) fn take(&mut self, message: Message, source: IpAddr, now: u64) -> Result<(), Suppression> {
        let (buckets, keys, limit) = self.buckets(message, source);
        buckets.take(keys, limit, now)
    }

    /// Returns the buckets of this kind of error, the keys of the source in them, and their limit.
    fn buckets(&mut self, message: Message, source: IpAddr) -> (&mut Buckets, Keys, IcmpLimit) {
        let mut limit = self.control.get();
        let key = |bits: u128| self.hash.hash_one(bits) as usize % SOURCES;
        let network = network(source);
        match message {
            Message::TooBig => {
                limit.rate = limit.rate.saturating_mul(TOO_BIG);
                limit.burst = limit.burst.saturating_mul(TOO_BIG);
                let own = bits(source);
                let network = (own != network).then(|| key(network));
                (&mut self.too_big, Keys { source: key(own), network }, limit)
            }
            _ => (&mut self.others, Keys { source: key(network), network: None }, limit),
        }
    }
}

/// Returns the bits of an address of either family.
fn bits(source: IpAddr) -> u128 {
    match source {
        IpAddr::V4(source) => source.to_ipv6_mapped().to_bits(),
        IpAddr::V6(source) => source.to_bits(),
    }
}

/// Returns what names the network of a source: its IPv4 address, its IPv6 network, or its link-local IPv6 address.
fn network(source: IpAddr) -> u128 {
    match source {
        IpAddr::V6(global) if !global.is_unicast_link_local() => bits(source) >> NETWORK << NETWORK,
        _ => bits(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `wanted` tokens there are at one time, to one source.
    fn taken(limiter: &mut Limiter, wanted: usize, now: u64) -> usize {
        taken_by(limiter, "10.0.0.1", wanted, now)
    }

    fn taken_by(limiter: &mut Limiter, source: &str, wanted: usize, now: u64) -> usize {
        taken_for(limiter, Message::TimeExceeded, source, wanted, now)
    }

    fn taken_for(limiter: &mut Limiter, message: Message, source: &str, wanted: usize, now: u64) -> usize {
        let source = source.parse().unwrap();
        (0..wanted).filter(|_| limiter.take(message, source, now).is_ok()).count()
    }

    #[test]
    fn after_a_burst_errors_are_sent_at_the_rate_and_no_more_tokens_accumulate_than_a_burst() {
        let mut limiter = Limiter::new(IcmpLimit::in_all(10, 5));
        let second = TOKEN;
        assert_eq!(taken(&mut limiter, 9, 7 * second), 5);
        assert_eq!(taken(&mut limiter, 9, 7 * second + second / 10 - 1), 0);
        assert_eq!(taken(&mut limiter, 9, 7 * second + second / 10), 1);
        assert_eq!(taken(&mut limiter, 9, 7 * second + second / 2), 4);
        assert_eq!(taken(&mut limiter, 9, 1_000_000 * second), 5);
    }

    #[test]
    fn a_rate_of_0_sends_no_error_and_a_change_of_the_rate_takes_effect_at_once() {
        let mut limiter = Limiter::new(IcmpLimit::in_all(0, 5));
        let control = limiter.control();
        assert_eq!(taken(&mut limiter, 9, TOKEN), 0);
        control.set(IcmpLimit::in_all(1, 3));
        assert_eq!(taken(&mut limiter, 9, TOKEN), 3, "what was saved is cut to the new burst");
        control.set(IcmpLimit::in_all(u32::MAX, 0));
        assert_eq!(control.get().burst, 1);
        assert_eq!(taken(&mut limiter, 9, u64::MAX), 1, "and nothing overflows");
    }

    #[test]
    fn a_clock_that_steps_back_adds_no_tokens() {
        let mut limiter = Limiter::new(IcmpLimit::in_all(1, 1));
        assert_eq!([9, 8, 7].map(|now| taken(&mut limiter, 1, now * TOKEN)), [1, 0, 0]);
    }

    /// Seen: a dozen sources, each with its hundred messages a second, used up the thousand of all, and no other sender
    /// learned a path MTU.
    #[test]
    fn a_dozen_sources_that_flood_too_long_packets_leave_too_big_messages_to_the_others() {
        let mut limiter = Limiter::new(IcmpLimit::default());
        let mut taken = 0;
        for tick in 0..1000 {
            for host in 1..=12 {
                let source = format!("10.1.0.{host}");
                taken += taken_for(&mut limiter, Message::TooBig, &source, 1, tick * TOKEN / 1000);
            }
        }
        assert!(taken > 900, "{taken}");
        let mut rest =
            |host: u32| taken_for(&mut limiter, Message::TooBig, &format!("10.2.0.{host}"), 20, TOKEN);
        // Each has a bucket of its own, except a few in a thousand.
        assert!((1..=20).filter(|host| rest(*host) == 20).count() >= 15);
    }

    /// Regression: while one source asked for errors in a flood, the other sources got 12 of 20.
    #[test]
    fn one_source_gets_its_share_of_errors_and_leaves_the_others_their_shares() {
        let mut limiter = Limiter::new(IcmpLimit::default());
        assert_eq!(taken_by(&mut limiter, "10.0.0.1", 20_000, 0), 20);
        let again = limiter.take(Message::TimeExceeded, [10, 0, 0, 1].into(), 0);
        assert_eq!(again, Err(Suppression::LimitedSource));
        assert_eq!(taken_by(&mut limiter, "10.0.0.1", 20_000, TOKEN / 10), 10);
        // The flooding source has a bucket of its own, except once in a thousand runs. Then another of these
        // sources has its own.
        let others = ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"];
        assert!(others.iter().any(|other| taken_by(&mut limiter, other, 20, TOKEN / 10) == 20));
    }

    /// Seen: a host that sent too long packets left no message to the other hosts of its link.
    #[test]
    fn an_ipv6_host_that_floods_too_long_packets_leaves_too_big_messages_to_its_neighbours() {
        let mut limiter = Limiter::new(IcmpLimit::default());
        let mut taken =
            |host: u32, n| taken_for(&mut limiter, Message::TooBig, &format!("2001:db8::{host:x}"), n, TOKEN);
        assert_eq!(taken(1, 20_000), 20);
        // Each has a bucket of its own, except a few in a thousand.
        assert!((2..=6).filter(|host| taken(*host, 20) == 20).count() >= 3);
        // A host that makes up sources gets what ten hosts get.
        let all: usize = (7..1000).map(|host| taken(host, 20)).sum();
        assert!(all <= 9 * 20, "{all}");
        assert_eq!(taken_for(&mut limiter, Message::TooBig, "2001:db8:0:1::1", 20, TOKEN), 20);
    }

    #[test]
    fn to_ask_for_a_token_takes_none() {
        let mut limiter = Limiter::new(IcmpLimit::in_all(1, 1));
        let source = "10.0.0.1".parse().unwrap();
        let mut both = |now| {
            let asked = [(); 3].map(|()| limiter.allows(Message::TimeExceeded, source, now).is_ok());
            (asked, limiter.take(Message::TimeExceeded, source, now).is_ok())
        };
        assert_eq!([0, 0, TOKEN].map(&mut both), [([true; 3], true), ([false; 3], false), ([true; 3], true)]);
    }

    /// Seen: packets with TTL 1 and the source of a host used up the errors to it, and it learned no path MTU.
    #[test]
    fn other_errors_use_up_no_too_big_messages_and_these_are_limited_too() {
        let (own, other) = ("10.0.0.1", "10.0.0.2");
        for message in Message::ALL.into_iter().filter(|message| *message != Message::TooBig) {
            let mut limiter = Limiter::new(IcmpLimit { rate: 1, burst: 9, source_rate: 1, source_burst: 5 });
            assert_eq!(taken_for(&mut limiter, message, own, 99, 0), 5, "{message:?}");
            assert!(taken_for(&mut limiter, message, other, 99, 0) <= 4);
            assert_eq!(taken_for(&mut limiter, Message::TooBig, own, 99, 0), 5, "{message:?}");
            let all = |host: u32| taken_for(&mut limiter, Message::TooBig, &format!("10.1.0.{host}"), 9, 0);
            assert!((1..200).map(all).sum::<usize>() <= 9 * TOO_BIG as usize - 5);
            assert_eq!(taken_for(&mut limiter, Message::TooBig, own, 99, TOKEN), 1);
        }
    }

    #[test]
    fn all_addresses_of_a_64_bit_prefix_are_one_source_and_hosts_of_a_link_are_not() {
        let same = |a: &str, b: &str| network(a.parse().unwrap()) == network(b.parse().unwrap());
        assert!(same("2001:db8::1", "2001:db8::ffff:1:2") && !same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(
            !same("fe80::1", "fe80::2") && !same("10.0.0.1", "10.0.0.2") && same("::1.2.3.4", "::5.6.7.8")
        );
    }
}
