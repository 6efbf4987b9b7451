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
/// The features that are on, as a set of bits with names.
const FEATURES_ACTIVE: u16 = 4;
const BITSET_BITS: u16 = 3;
const BITSET_BIT_NAME: u16 = 2;
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
    pub fn offloads(&self, index: u32) -> io::Result<BTreeSet<String>> {
        let answer = self.ask(FEATURES_GET, index)?;
        let bits = find(&answer, FEATURES_ACTIVE).and_then(|set| find(set, BITSET_BITS)).unwrap_or_default();
        // In a set without a mask, every listed bit is on.
        Ok(attributes(bits).filter_map(|(_, bit)| find(bit, BITSET_BIT_NAME).map(text)).collect())
    }

    /// Returns the sizes of the device's own rings.
    pub fn rings(&self, index: u32) -> io::Result<RingSizes> {
        let answer = self.ask(RINGS_GET, index)?;
        let of = |kind| of(&answer, kind).unwrap_or(0);
        Ok(RingSizes { rx: of(RINGS_RX), tx: of(RINGS_TX) })
    }

    /// Returns the number of queues that both receive and send.
    pub fn queues(&self, index: u32) -> io::Result<QueueCounts> {
        let answer = self.ask(CHANNELS_GET, index)?;
        let of = |kind| of(&answer, kind).unwrap_or(0);
        let both = |rx, tx, combined| of(rx).min(of(tx)) + of(combined);
        Ok(QueueCounts {
            now: both(CHANNELS_RX, CHANNELS_TX, CHANNELS_COMBINED),
            most: both(CHANNELS_RX_MAX, CHANNELS_TX_MAX, CHANNELS_COMBINED_MAX),
            is_combined: of(CHANNELS_COMBINED_MAX) > 0,
        })
    }

    fn ask(&self, command: u8, index: u32) -> io::Result<Vec<u8>> {
        self.0.ask(command, &nested(HEADER, &attribute(HEADER_DEV_INDEX, &index.to_ne_bytes())))
    }
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
