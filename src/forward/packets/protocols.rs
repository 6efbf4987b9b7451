//! The statistics hook: counts packets by protocol.

use crate::forward::filter::Fields;
use crate::stats::Count;
use crate::wire::ethernet;

/// Packets that took the full path, each counted under one protocol, and the bytes of all.
#[derive(Debug, Default)]
pub struct Protocols {
    /// TCP over IPv4.
    pub tcp: Count,
    /// UDP over IPv4.
    pub udp: Count,
    /// ICMP over IPv4.
    pub icmp: Count,
    /// Anything else over IPv4, and invalid packets with the IPv4 ethertype.
    pub other_ipv4: Count,
    /// IPv6.
    pub ipv6: Count,
    /// ARP.
    pub arp: Count,
    /// Anything else.
    pub other: Count,
    /// Bytes of all.
    pub bytes: Count,
}

impl Protocols {
    /// Counts a packet. Only the forwarder may call it.
    #[inline]
    pub(super) fn count(&self, fields: &Fields, bytes: usize) {
        let count = match (fields.ethertype, fields.ipv4.map(|ip| ip.protocol)) {
            (ethernet::IPV4, Some(17)) => &self.udp,
            (ethernet::IPV4, Some(6)) => &self.tcp,
            (ethernet::IPV4, Some(1)) => &self.icmp,
            (ethernet::IPV4, _) => &self.other_ipv4,
            (ethernet::IPV6, _) => &self.ipv6,
            (ethernet::ARP, _) => &self.arp,
            _ => &self.other,
        };
        count.add(1);
        self.bytes.add(bytes as u64);
    }

    /// The counters with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        [
            ("tcp", &self.tcp),
            ("udp", &self.udp),
            ("icmp", &self.icmp),
            ("other_ipv4", &self.other_ipv4),
            ("ipv6", &self.ipv6),
            ("arp", &self.arp),
            ("other", &self.other),
        ]
        .into_iter()
        .map(|(name, count)| (name, count.get()))
    }
}
