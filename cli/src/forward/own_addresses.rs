//! Following the host's own addresses, whose packets xdp ports leave to the kernel.

use netmem::port::xdp::{OwnAddresses, OwnAddressesError};
use std::sync::Arc;

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
