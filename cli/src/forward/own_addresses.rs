//! Following the host's own addresses, whose packets xdp ports leave to the kernel.

use ipnet::IpNet;
use netmem::port::xdp::{OwnAddresses, OwnAddressesError};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long addresses that could not be told wait.
const AGAIN: Duration = Duration::from_secs(1);

/// The own addresses of a run's xdp ports, if any port leaves them to the kernel.
pub struct Followed {
    own: Option<Arc<OwnAddresses>>,
    /// What was said last of what went wrong.
    said: Option<OwnAddressesError>,
}

impl Followed {
    /// Of these ports.
    pub fn new(own: Option<Arc<OwnAddresses>>) -> Followed {
        Followed { own, said: None }
    }

    /// Looks which addresses the host has now; what is wrong with that, where it was not said before.
    pub fn look(&mut self) -> Option<String> {
        let error = self.own.as_ref()?.follow().err();
        let news = error.clone().filter(|_| error != self.said);
        self.said = error;
        Some(format!("own addresses are as they were: {}", news?))
    }
}

/// The same of who is told the addresses when they change.
pub struct Told {
    own: Option<Arc<OwnAddresses>>,
    untold: Option<Vec<IpNet>>,
    /// When they may be told again, after that failed.
    again: Instant,
    /// That it failed was said.
    said: bool,
}

impl Told {
    /// Of these ports.
    pub fn new(own: Option<Arc<OwnAddresses>>) -> Told {
        Told { own, untold: None, again: Instant::now(), said: false }
    }

    /// Tells the ports the own prefixes, if those have changed; where that fails, once a second until it does not. What is wrong
    /// with that, where it was not said before.
    pub fn tell(&mut self, changed: Option<Vec<IpNet>>) -> Option<String> {
        self.untold = changed.or(self.untold.take());
        let (own, now) = (self.own.as_ref()?, Instant::now());
        let untold = self.untold.as_ref().filter(|_| now >= self.again)?;
        let error = own.set(untold).err();
        self.untold = self.untold.take().filter(|_| error.is_some());
        self.again = now + AGAIN;
        let news = error.as_ref().filter(|_| !self.said).map(ToString::to_string);
        self.said = error.is_some();
        Some(format!("own addresses are as they were: {}", news?))
    }
}
