//! `netmem forward`: the address of the metrics, and the hosts that may read them.

use crate::failure::Failure;
use crate::metrics::Address;
use clap::{Args, ValueEnum};

/// Flags about metrics.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run and control")]
pub struct ScrapeArgs {
    /// Serve Prometheus metrics at a loopback IP:PORT or a Unix socket.
    ///
    /// GET /metrics. The address is for example 127.0.0.1:19681, [::1]:19681 or /run/netmem.metrics (mode 0600). The format is
    /// Prometheus' text format, or OpenMetrics if Accept asks for it. Each scrape shows the run at one point: the received
    /// packets are all transmitted, dropped, passed or held, and every frame is counted in some place. A scrape does not wait for a
    /// worker that does not answer: netmem_worker_stale is then 1, and netmem_worker_age_seconds is the age of its values.
    /// There are three histograms. netmem_worker_burst_packets: packets of each round. netmem_worker_latency_seconds: how long packets
    /// were in the worker; each counts with the time of its round, which is an upper bound. The time in a card's rings and in queues
    /// between threads is not included. netmem_port_posted_packets: how full transmit rings are, sampled 50 times a second.
    /// At most 8 scrapers are served at once, 4 from one address; the oldest that has sent no request for 100 ms makes room for the
    /// next, and if there is none, the next gets status 503.
    /// docs/prometheus/netmem.rules.yml has alerts.
    #[arg(long, value_name = "ADDRESS", value_parser = Address::parse, hide_short_help = true)]
    pub metrics: Option<Address>,

    /// Who may connect to --metrics: processes of this machine, or any host that reaches the address; there is no password [default: local]
    #[arg(long, value_name = "WHO", value_enum, hide_short_help = true)]
    pub metrics_from: Option<FromArg>,
}

/// Values of `--metrics-from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FromArg {
    /// Processes of this machine: a loopback address, or a Unix socket.
    Local,
    /// Any host that reaches the address.
    Anywhere,
}

impl ScrapeArgs {
    /// Where metrics are to be had, if anywhere.
    ///
    /// # Errors
    /// [`Failure::Input`] for an address that others reach, where that was not asked for.
    pub fn address(&self) -> Result<Option<Address>, Failure> {
        let here = self.metrics_from != Some(FromArg::Anywhere);
        match &self.metrics {
            None if self.metrics_from.is_some() => {
                Err(Failure::input("--metrics-from: there are no metrics: give --metrics as well"))
            }
            Some(Address::Tcp(address)) if here && Address::Tcp(*address).is_remote() => {
                Err(Failure::Input(format!(
                    "--metrics {address}: others than this machine could read it: give 127.0.0.1:{port} or [::1]:{port}, or \
                     --metrics-from anywhere as well",
                    port = address.port()
                )))
            }
            address => Ok(address.clone()),
        }
    }
}
