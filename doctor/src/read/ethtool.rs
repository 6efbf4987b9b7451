//! Offloads, rings, queues and XDP features of interfaces, as drivers report them. Source:
//! `linux/ethtool_netlink.h`, `linux/netdev.h`.

use super::netlink::{Family, attribute, attributes, find, nested, number, text};
use crate::host::{OfferedModes, QueueCounts, RingSizes};
use std::collections::BTreeSet;
use std::io;

/// Commands of the family `ethtool`. The first attribute of each request and answer names the interface.
const FEATURES_GET: u8 = 11;
const RINGS_GET: u8 = 15;
const CHANNELS_GET: u8 = 17;
const HEADER: u16 = 1;
const HEADER_DEV_INDEX: u16 = 1;
/// Features as sets of bits with names: those that the driver lets others change, those that are on, and those that the
/// kernel never lets anyone change.
const FEATURES_HW: u16 = 2;
const FEATURES_ACTIVE: u16 = 4;
const FEATURES_NOCHANGE: u16 = 5;
const BITSET_NOMASK: u16 = 1;
const BITSET_BITS: u16 = 3;
const BITSET_BIT_NAME: u16 = 2;
const BITSET_BIT_VALUE: u16 = 3;
const RINGS_RX: u16 = 6;
const RINGS_TX: u16 = 9;
const CHANNELS_RX_MAX: u16 = 2;
const CHANNELS_TX_MAX: u16 = 3;
const CHANNELS_COMBINED_MAX: u16 = 5;
const CHANNELS_RX: u16 = 6;
const CHANNELS_TX: u16 = 7;
const CHANNELS_COMBINED: u16 = 9;
/// The family `netdev`: an interface by its index, and its XDP features as bits.
const DEV_GET: u8 = 1;
const DEV_IFINDEX: u16 = 1;
const DEV_XDP_FEATURES: u16 = 3;
const XDP_BASIC: u64 = 1;
const XDP_REDIRECT: u64 = 2;
const XDP_ZERO_COPY: u64 = 8;
const XDP_SEVERAL_BUFFERS: u64 = 32;

/// Queries the family `ethtool`.
pub struct Ethtool(Family);

impl Ethtool {
    /// # Errors
    /// `ENOENT` if the kernel has no ethtool netlink (before Linux 5.6).
    pub fn new() -> io::Result<Ethtool> {
        Family::find("ethtool").map(Ethtool)
    }

    /// Returns the offloads that are on.
    pub fn offloads(&self, index: u32) -> io::Result<Offloads> {
        self.ask(FEATURES_GET, index).map(|answer| offloads_of(&answer))
    }

    /// Returns the sizes of the device's own rings.
    pub fn rings(&self, index: u32) -> io::Result<RingSizes> {
        let answer = self.ask(RINGS_GET, index)?;
        let of = |kind| of(&answer, kind).unwrap_or(0);
        Ok(RingSizes { rx: of(RINGS_RX), tx: of(RINGS_TX) })
    }

    /// Returns the number of queues that both receive and send.
    pub fn queues(&self, index: u32) -> io::Result<QueueCounts> {
        self.ask(CHANNELS_GET, index).map(|answer| queues_of(&answer))
    }

    fn ask(&self, command: u8, index: u32) -> io::Result<Vec<u8>> {
        self.0.ask(command, &nested(HEADER, &attribute(HEADER_DEV_INDEX, &index.to_ne_bytes())))
    }
}

/// Offloads that are on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// All of them.
    pub on: BTreeSet<String>,
    /// Those that cannot be turned off.
    pub fixed: BTreeSet<String>,
}

fn offloads_of(answer: &[u8]) -> Offloads {
    let set = |kind| find(answer, kind).map(bits_on);
    let on = set(FEATURES_ACTIVE).unwrap_or_default();
    let never = set(FEATURES_NOCHANGE).unwrap_or_default();
    let fixed = match set(FEATURES_HW) {
        None => never.intersection(&on).cloned().collect(),
        Some(free) => {
            on.iter().filter(|name| !free.contains(*name) || never.contains(*name)).cloned().collect()
        }
    };
    Offloads { on, fixed }
}

/// Returns the names of the bits that are on. In a set without a mask, these are the listed bits. In a set with one, all
/// bits of the mask are listed, and those that are on have a value.
fn bits_on(set: &[u8]) -> BTreeSet<String> {
    let has_mask = find(set, BITSET_NOMASK).is_none();
    let is_on = |bit: &[u8]| !has_mask || find(bit, BITSET_BIT_VALUE).is_some();
    let bits = find(set, BITSET_BITS).unwrap_or_default();
    let on = attributes(bits).filter(|(_, bit)| is_on(bit));
    on.filter_map(|(_, bit)| find(bit, BITSET_BIT_NAME).map(text)).collect()
}

/// Some drivers have a maximum of `combined`, and of `rx` and `tx`, for the same queues. Then the numbers that are in use
/// decide how they are counted.
fn queues_of(answer: &[u8]) -> QueueCounts {
    let of = |kind| of(answer, kind).unwrap_or(0);
    let (rx, tx, combined) = (of(CHANNELS_RX), of(CHANNELS_TX), of(CHANNELS_COMBINED));
    let pairs = rx.min(tx);
    let is_combined = combined > 0 || of(CHANNELS_COMBINED_MAX) > 0 && pairs == 0;
    let most =
        if is_combined { of(CHANNELS_COMBINED_MAX) } else { of(CHANNELS_RX_MAX).min(of(CHANNELS_TX_MAX)) };
    QueueCounts { now: pairs.saturating_add(combined), most, is_combined, rx, tx, combined }
}

fn of(answer: &[u8], kind: u16) -> Option<u32> {
    find(answer, kind).and_then(number).and_then(|number| u32::try_from(number).ok())
}

/// Queries the family `netdev`.
pub struct NetdevFamily(Family);

impl NetdevFamily {
    /// # Errors
    /// `ENOENT` if the kernel does not have the family (before Linux 6.3).
    pub fn new() -> io::Result<NetdevFamily> {
        Family::find("netdev").map(NetdevFamily)
    }

    /// Returns the modes that the interface's driver offers.
    pub fn modes(&self, index: u32) -> io::Result<OfferedModes> {
        let answer = self.0.ask(DEV_GET, &attribute(DEV_IFINDEX, &index.to_ne_bytes()))?;
        let bits = find(&answer, DEV_XDP_FEATURES).and_then(number).unwrap_or(0);
        let has = |wanted| bits & wanted == wanted;
        Ok(OfferedModes {
            native: has(XDP_BASIC | XDP_REDIRECT),
            zero_copy: has(XDP_ZERO_COPY),
            several_buffers: has(XDP_SEVERAL_BUFFERS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a set of bits as the kernel writes it: each name with whether it is on.
    fn set(kind: u16, has_mask: bool, bits: &[(&str, bool)]) -> Vec<u8> {
        let bit = |(name, is_on): &(&str, bool)| {
            let value = if *is_on { attribute(BITSET_BIT_VALUE, &[]) } else { Vec::new() };
            let name = attribute(BITSET_BIT_NAME, format!("{name}\0").as_bytes());
            nested(1, &[name, value].concat())
        };
        let bits: Vec<u8> = bits.iter().flat_map(bit).collect();
        let mask = if has_mask { Vec::new() } else { attribute(BITSET_NOMASK, &[]) };
        nested(kind, &[mask, nested(BITSET_BITS, &bits)].concat())
    }

    /// Seen: an offload that the driver keeps on was turned off, which failed, so a run with `--fix` did not start.
    #[test]
    fn an_offload_that_is_on_and_not_among_those_that_may_be_changed_is_fixed() {
        let answer = [
            set(FEATURES_HW, true, &[("rx-lro", false), ("rx-gro-hw", true), ("rx-never", true)]),
            set(FEATURES_ACTIVE, false, &[("rx-lro", false), ("rx-gro-hw", false), ("rx-never", false)]),
            set(FEATURES_NOCHANGE, false, &[("rx-never", false), ("rx-off", false)]),
        ]
        .concat();
        let Offloads { on, fixed } = offloads_of(&answer);
        assert_eq!(on, ["rx-lro", "rx-gro-hw", "rx-never"].map(str::to_owned).into());
        assert_eq!(fixed, ["rx-lro", "rx-never"].map(str::to_owned).into());
        let answer = set(FEATURES_ACTIVE, false, &[("rx-lro", false)]);
        assert!(offloads_of(&answer).fixed.is_empty(), "nothing is said about changes");
    }

    /// Returns the counts of an answer with these numbers and maximums of rx, tx and combined.
    fn counts(now: [u32; 3], most: [u32; 3]) -> QueueCounts {
        let kinds = [CHANNELS_RX, CHANNELS_TX, CHANNELS_COMBINED];
        let maximums = [CHANNELS_RX_MAX, CHANNELS_TX_MAX, CHANNELS_COMBINED_MAX];
        let all = kinds.iter().zip(now).chain(maximums.iter().zip(most));
        let answer: Vec<u8> = all.flat_map(|(kind, count)| attribute(*kind, &count.to_ne_bytes())).collect();
        queues_of(&answer)
    }

    /// Seen: the maximums of both ways to count the same queues were added up.
    #[test]
    fn queues_have_one_maximum_by_the_way_in_which_they_are_counted() {
        let said = |now, most| {
            let counts = counts(now, most);
            (counts.now, counts.most, counts.is_combined)
        };
        assert_eq!(said([0, 0, 4], [0, 0, 8]), (4, 8, true));
        assert_eq!(said([4, 2, 0], [8, 6, 0]), (2, 6, false));
        assert_eq!(said([0, 0, 4], [8, 8, 16]), (4, 16, true));
        assert_eq!(said([4, 4, 0], [8, 8, 16]), (4, 8, false));
        assert_eq!(said([2, 0, 4], [8, 8, 8]), (4, 8, true));
        assert_eq!(counts([5, 3, 0], [8, 8, 0]).rx, 5);
    }
}
