//! `netmem forward`: what a router says and does beside forwarding.

use super::number::whole;
use clap::{Args, ValueEnum};
use netmem::forward::icmp::IcmpLimit;
use netmem::forward::ip::Allow;
use netmem::forward::route::{OwnAddress, OwnAddressError};

/// Errors a second that can be asked for at most.
const RATE_MAX: u32 = 1_000_000;

/// Flags about the router itself.
#[derive(Debug, Args)]
pub struct RouterArgs {
    /// An address of the router's own on the link of port number PORT, for --mode ip with --route. Repeatable.
    ///
    /// For example 10.0.1.254/24,0. ICMP errors (time exceeded, unreachable, too big) come from it; without one of the packet's
    /// family none are sent. Packets to it are the router's own and not forwarded; nobody here answers them. With --routes
    /// kernel the interfaces' own addresses are followed instead.
    #[arg(long, value_name = "ADDRESS/LENGTH,PORT", value_parser = own_address)]
    pub address: Vec<OwnAddress>,

    /// What becomes of IPv4 packets from or to 0/8, 127/8 and 240/4, for --mode ip. From and to other martians (multicast,
    /// 169.254/16, 255.255.255.255; over IPv6 ::, ::1, fe80::/10, ff00::/8) none is ever forwarded.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OddArg::Drop)]
    pub martians: OddArg,

    /// What becomes of IPv4 packets with a loose source route, for --mode ip. Those with a strict one are always dropped.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OddArg::Drop)]
    pub source_routes: OddArg,

    /// ICMP errors a second that each worker sends in the long run: 1 to 1000000; 0 sends none at all.
    #[arg(long, value_name = "N", value_parser = whole(0..=RATE_MAX), default_value_t = IcmpLimit::default().rate,
          allow_negative_numbers = true)]
    pub icmp_rate: u32,

    /// ICMP errors that a worker sends at once after a time without: 1 to 1000000.
    #[arg(long, value_name = "N", value_parser = whole(1..=RATE_MAX), default_value_t = IcmpLimit::default().burst,
          allow_negative_numbers = true)]
    pub icmp_burst: u32,
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
            martians: self.martians == OddArg::Forward,
            source_routes: self.source_routes == OddArg::Forward,
        }
    }

    /// The limit of ICMP errors.
    pub fn icmp_limit(&self) -> IcmpLimit {
        IcmpLimit { rate: self.icmp_rate, burst: self.icmp_burst }
    }
}

fn own_address(text: &str) -> Result<OwnAddress, OwnAddressError> {
    text.parse()
}
