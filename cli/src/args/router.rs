//! `netmem forward`: what a router says and does beside forwarding.

use super::number::whole;
use clap::Args;
use netmem::forward::icmp::IcmpLimit;
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

    /// ICMP errors a second that each worker sends in the long run: 1 to 1000000; 0 sends none at all.
    #[arg(long, value_name = "N", value_parser = whole(0..=RATE_MAX), default_value_t = IcmpLimit::default().rate,
          allow_negative_numbers = true)]
    pub icmp_rate: u32,

    /// ICMP errors that a worker sends at once after a time without: 1 to 1000000.
    #[arg(long, value_name = "N", value_parser = whole(1..=RATE_MAX), default_value_t = IcmpLimit::default().burst,
          allow_negative_numbers = true)]
    pub icmp_burst: u32,
}

impl RouterArgs {
    /// The limit of ICMP errors.
    pub fn icmp_limit(&self) -> IcmpLimit {
        IcmpLimit { rate: self.icmp_rate, burst: self.icmp_burst }
    }
}

fn own_address(text: &str) -> Result<OwnAddress, OwnAddressError> {
    text.parse()
}
