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
    /// An address of the router's own on the link of PORT (a number or an interface), for --mode ip with --route. Repeatable.
    ///
    /// For example 10.0.1.254/24,0. ICMP errors (time exceeded, unreachable, too big) come from it; without one of the packet's
    /// family none are sent. Packets to it are the router's own: they are not forwarded, and netmem does not answer them. With
    /// --routes kernel the interfaces' own addresses are followed instead.
    #[arg(long, hide_short_help = true, value_name = "ADDRESS/LENGTH,PORT", value_parser = own_address)]
    pub address: Vec<ByPort<OwnAddress>>,

    /// What becomes of IPv4 packets from or to 0/8, 127/8 and 240/4, and of packets from the router's own addresses or the
    /// broadcast address of one of its networks, for --mode ip. Packets from and to other martians (multicast, 169.254/16,
    /// 255.255.255.255; over IPv6 ::, ::1, fe80::/10, ff00::/8) are never forwarded [default: drop]
    #[arg(long, hide_short_help = true, value_name = "WHAT", value_enum)]
    pub martians: Option<OddArg>,

    /// What becomes of IPv4 packets with a loose source route, for --mode ip. Those with a strict one are always dropped
    /// [default: drop]
    #[arg(long, hide_short_help = true, value_name = "WHAT", value_enum)]
    pub source_routes: Option<OddArg>,

    /// Whether packets are dropped that come from addresses to which no route leads back, for --mode ip: strict (out of the port that
    /// they came in by), loose (anywhere) or off; of one port or, without PORT, of all. Repeatable; the last that is about a port counts
    /// [default: off]
    #[arg(long, hide_short_help = true, value_name = "HOW[,PORT]", value_parser = reverse_path)]
    pub reverse_path: Vec<ByPort<PortReversePath>>,

    /// Sustained ICMP error rate per worker, a second, for --mode ip: 1 to 1000000; 0 sends none at all [default: 1000]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=RATE_MAX), allow_negative_numbers = true)]
    pub icmp_rate: Option<u32>,

    /// Burst size of ICMP errors per worker, for --mode ip: 1 to 1000000 [default: 50]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(1..=RATE_MAX), allow_negative_numbers = true)]
    pub icmp_burst: Option<u32>,

    /// Sustained rate of ICMP errors to one source (an IPv4 address, a /64 of IPv6) per worker, a second, for --mode ip: 0 to 1000000; 0
    /// sends none at all [default: 100]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(0..=RATE_MAX), allow_negative_numbers = true)]
    pub icmp_source_rate: Option<u32>,

    /// Burst size of ICMP errors to one source per worker, for --mode ip: 1 to 1000000 [default: 20]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = whole(1..=RATE_MAX), allow_negative_numbers = true)]
    pub icmp_source_burst: Option<u32>,
}

/// Values of `--martians` and `--source-routes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OddArg {
    /// They are dropped and counted.
    Drop,
    /// They are forwarded as others are.
    Forward,
}

impl RouterArgs {
    /// What is forwarded that usually is not.
    pub fn allow(&self) -> Allow {
        Allow {
            martians: self.martians == Some(OddArg::Forward),
            source_routes: self.source_routes == Some(OddArg::Forward),
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
