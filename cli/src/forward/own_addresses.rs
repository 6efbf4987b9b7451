//! Follows the host's own addresses. xdp and packet ports leave packets to these addresses to the kernel.

use ipnet::IpNet;
use netmem::port::af_packet::ControlTraffic;
use netmem::port::xdp::OwnAddresses;
use netmem_ports::PortOpener;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time until ports are given addresses again after that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// The own addresses as a run's ports know them, for each kind of port that leaves them to the kernel.
#[derive(Clone, Default)]
pub struct Own {
    /// Of xdp ports.
    xdp: Option<Arc<OwnAddresses>>,
    /// Of packet ports.
    packet: Option<Arc<ControlTraffic>>,
}

impl Own {
    /// Returns those of the opened ports.
    pub fn of(opener: &PortOpener) -> Own {
        let xdp = opener.umem().and_then(|umem| umem.own_addresses());
        Own { xdp, packet: opener.control_traffic().cloned() }
    }

    /// Reads the host's current addresses.
    fn follow(&self) -> Result<(), String> {
        let xdp = self.xdp.as_ref().map_or(Ok(()), |own| own.follow().map_err(|error| error.to_string()));
        let read = |control: &Arc<ControlTraffic>| control.follow();
        let packet = self.packet.as_ref().map_or(Ok(()), read);
        xdp.and(packet.map_err(|error| format!("read the host's addresses: {error}")))
    }

    /// Gives the ports the own addresses.
    fn set(&self, prefixes: &[IpNet]) -> Result<(), String> {
        let packet = self.packet.as_ref().map_or(Ok(()), |control| control.set(prefixes));
        let xdp =
            self.xdp.as_ref().map_or(Ok(()), |own| own.set(prefixes)).map_err(|error| error.to_string());
        xdp.and(packet.map_err(|error| format!("put own addresses into the map of packet ports: {error}")))
    }
}

/// The own addresses of a run's ports, if any port leaves them to the kernel.
pub struct Followed {
    own: Own,
    /// The last error that was reported.
    said: Option<String>,
}

impl Followed {
    /// Of these ports.
    pub fn new(own: Own) -> Followed {
        Followed { own, said: None }
    }

    /// Reads the host's current addresses. Returns the error, unless it was reported before.
    pub fn look(&mut self) -> Option<String> {
        let error = self.own.follow().err();
        let news = error.clone().filter(|_| error != self.said);
        self.said = error;
        Some(format!("own addresses are not updated: {}", news?))
    }
}

/// The same, for a run that gets the addresses from the kernel as they change.
pub struct AddressUpdates {
    own: Own,
    pending: Option<Vec<IpNet>>,
    /// The time at which to try again after a failure.
    retry_at: Instant,
    /// True if the failure was reported.
    said: bool,
}

impl AddressUpdates {
    /// Of these ports.
    pub fn new(own: Own) -> AddressUpdates {
        AddressUpdates { own, pending: None, retry_at: Instant::now(), said: false }
    }

    /// Gives the ports the own prefixes if they have changed. After a failure, tries again once a second. Returns
    /// the error, unless it was reported before.
    pub fn update(&mut self, changed: Option<Vec<IpNet>>) -> Option<String> {
        let own = self.own.clone();
        self.update_at(Instant::now(), changed, |prefixes| own.set(prefixes))
    }

    /// The same at this time. `set` gives the ports the prefixes.
    fn update_at(
        &mut self,
        now: Instant,
        changed: Option<Vec<IpNet>>,
        set: impl FnOnce(&[IpNet]) -> Result<(), String>,
    ) -> Option<String> {
        self.pending = changed.or(self.pending.take());
        let pending = self.pending.as_ref().filter(|_| now >= self.retry_at)?;
        let error = set(pending).err();
        match error {
            Some(_) => self.retry_at = now + AGAIN,
            None => self.pending = None,
        }
        let news = error.clone().filter(|_| !self.said);
        self.said = error.is_some();
        Some(format!("own addresses are not updated: {}", news?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(last: u8) -> Option<Vec<IpNet>> {
        Some(vec![IpNet::from(std::net::IpAddr::from([192, 0, 2, last]))])
    }

    /// Seen: of two addresses that a host got at once, the ports knew the second up to a second later.
    #[test]
    fn an_address_behind_one_that_the_ports_were_given_is_given_to_them_at_once() {
        let (mut updates, now) = (AddressUpdates::new(Own::default()), Instant::now());
        for last in 1..4 {
            let mut given = None;
            let said = updates.update_at(now, prefixes(last), |prefixes| {
                given = Some(prefixes.to_vec());
                Ok(())
            });
            assert_eq!((said, given), (None, prefixes(last)));
        }
        assert_eq!(updates.update_at(now, None, |_| panic!("nothing has changed")), None);
    }

    #[test]
    fn after_a_failure_the_latest_addresses_are_given_again_a_second_later_and_the_error_is_said_once() {
        let (mut updates, start) = (AddressUpdates::new(Own::default()), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let full = |_: &[IpNet]| Err("full".to_owned());
        let line = "own addresses are not updated: full";
        assert_eq!(updates.update_at(at(0), prefixes(1), full).as_deref(), Some(line));
        assert_eq!(updates.update_at(at(999), prefixes(2), |_| panic!("a second has not passed")), None);
        assert_eq!(updates.update_at(at(1_000), None, full), None);
        let mut given = None;
        let mut take = |prefixes: &[IpNet]| {
            given = Some(prefixes.to_vec());
            Ok(())
        };
        assert_eq!(updates.update_at(at(2_000), None, &mut take), None);
        assert_eq!(given, prefixes(2));
        assert_eq!(updates.update_at(at(2_000), prefixes(3), full).as_deref(), Some(line));
    }
}
