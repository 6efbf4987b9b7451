//! `netmem forward`: a router's ICMP errors and checks.

use super::number::whole;
use super::route::{ByPort, PortReversePath, own_address, reverse_path};
use clap::{Args, ValueEnum};
use netmem_ports::PortSpec;
use netmem_router::icmp::IcmpLimit;
use netmem_router::route::OwnAddress;
use netmem_router::{Allow, ReversePath};

/// Errors a second that can be asked for at most.
const RATE_MAX: u32 = 1_000_000;

/// Flags about the router itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Routing")]
pub struct RouterArgs {
    /// An address of the router itself on the link of PORT (a number or an interface), for --mode ip with --route. Repeatable.
    ///
    /// For example 10.0.1.254/24,0. ICMP errors (time exceeded, unreachable, too big) come from this address. Without an address of the
    /// packet's family no errors are sent. Packets to the router's addresses are not forwarded, and netmem does not answer them. With
    /// --routes kernel, netmem follows the addresses of the interfaces instead.
    #[arg(long, hide_short_help = true, value_name = "ADDRESS/LENGTH,PORT", value_parser = own_address)]
    pub address: Vec<ByPort<OwnAddress>>,

    /// What to do with IPv4 packets from or to 0/8, 127/8 and 240/4, and with packets from the router's own addresses or the
    /// broadcast address of one of its networks, for --mode ip. Packets from or to other martians (multicast, 169.254/16,
    /// 255.255.255.255; in IPv6 ::, ::1, fe80::/10, ff00::/8) are never forwarded [default: drop]
    #[arg(long, hide_short_help = true, value_name = "WHAT", value_enum)]
    pub martians: Option<DropOrForward>,

    /// What to do with IPv4 packets that have a loose source route, for --mode ip. Packets with a strict source route are always dropped
    /// [default: drop]
    #[arg(long, hide_short_help = true, value_name = "WHAT", value_enum)]
    pub source_routes: Option<DropOrForward>,

    /// Drop packets if no route leads back to their source address, for --mode ip: strict (the route must leave by the receiving
    /// port), loose (by any port) or off. With PORT for one port, otherwise for all. Repeatable; the last one for a port counts
    /// [default: off]
    #[arg(long, hide_short_help = true, value_name = "HOW[,PORT]", value_parser = reverse_path)]
    pub reverse_path: Vec<ByPort<PortReversePath>>,

    /// Sustained rate of ICMP errors per worker and second, for --mode ip: 1 to 1000000; 0 sends none. Messages that a packet is
    /// too big have limits of their own: 20 times this rate and burst in all, and the same to one source [default: 1000]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=RATE_MAX), allow_negative_numbers = true)]
    pub icmp_rate: Option<u32>,

    /// Burst size of ICMP errors per worker, for --mode ip: 1 to 1000000 [default: 50]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(1..=RATE_MAX), allow_negative_numbers = true)]
    pub icmp_burst: Option<u32>,

    /// Sustained rate of ICMP errors to one source per worker and second, for --mode ip: 1 to 1000000; 0 sends none. A source is
    /// an IPv4 address or an IPv6 /64; for messages that a packet is too big, it is an IPv6 address, and its /64 may have 10 times
    /// as many [default: 100]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=RATE_MAX), allow_negative_numbers = true)]
    pub icmp_source_rate: Option<u32>,

    /// Burst size of ICMP errors to one source per worker, for --mode ip: 1 to 1000000 [default: 20]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(1..=RATE_MAX), allow_negative_numbers = true)]
    pub icmp_source_burst: Option<u32>,
}

/// Values of `--martians` and `--source-routes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DropOrForward {
    /// Drop and count the packets.
    Drop,
    /// Forward the packets like all others.
    Forward,
}

impl RouterArgs {
    /// What is forwarded that usually is not.
    pub fn allow(&self) -> Allow {
        Allow {
            martians: self.martians == Some(DropOrForward::Forward),
            source_routes: self.source_routes == Some(DropOrForward::Forward),
        }
    }

    /// What each of these ports, or of the two of the built-in traffic, asks of sources; empty where none asks anything.
    ///
    /// # Errors
    /// One line, where one is about a port that is not there.
    pub fn reverse_paths(&self, specs: &[PortSpec]) -> Result<Vec<ReversePath>, String> {
        let ports = if specs.is_empty() { netmem_traffic::INTERFACES.len() } else { specs.len() };
        let mut all = vec![ReversePath::Off; ports];
        for asked in &self.reverse_path {
            let PortReversePath { how, port } = asked.resolved("--reverse-path", specs)?;
            match port.map(usize::from) {
                None => all.fill(how),
                Some(port) if port < ports => all[port] = how,
                Some(port) => {
                    return Err(format!(
                        "--reverse-path {how},{port}: there are {ports} ports, numbered from 0"
                    ));
                }
            }
        }
        Ok(if all.iter().all(|how| *how == ReversePath::Off) { Vec::new() } else { all })
    }

    /// The limit of ICMP errors.
    pub fn icmp_limit(&self) -> IcmpLimit {
        let usual = IcmpLimit::default();
        IcmpLimit {
            rate: self.icmp_rate.unwrap_or(usual.rate),
            burst: self.icmp_burst.unwrap_or(usual.burst),
            source_rate: self.icmp_source_rate.unwrap_or(usual.source_rate),
            source_burst: self.icmp_source_burst.unwrap_or(usual.source_burst),
        }
    }

    /// The first of these flags that is given, whatever its value.
    pub fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--address", !self.address.is_empty()),
            ("--martians", self.martians.is_some()),
            ("--source-routes", self.source_routes.is_some()),
            ("--reverse-path", !self.reverse_path.is_empty()),
            ("--icmp-rate", self.icmp_rate.is_some()),
            ("--icmp-burst", self.icmp_burst.is_some()),
            ("--icmp-source-rate", self.icmp_source_rate.is_some()),
            ("--icmp-source-burst", self.icmp_source_burst.is_some()),
        ];
        flags.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_in_the_help_are_those_that_count() {
        assert_eq!(
            IcmpLimit::default(),
            IcmpLimit { rate: 1000, burst: 50, source_rate: 100, source_burst: 20 }
        );
    }
}
