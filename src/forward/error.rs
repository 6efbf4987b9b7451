//! Why a forwarder could not be made.

use super::decide::Decide;
use super::verdict::Reason;
use crate::pool::Pool;
use crate::port::Port;

/// Why a forwarder could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// No port, or more ports than the maximum.
    #[error("a forwarder of {0} ports: give 1 to 255")]
    Ports(usize),
    /// A port cannot receive into the pool's frames ([`Fill::can_refill_from`](crate::port::Fill::can_refill_from)).
    #[error(
        "a forwarder over {port} with pool {pool:?}: the port cannot receive into its frames, which lie in another memory or are \
         too small: give the pool that the port was opened with"
    )]
    Pool {
        /// The port's name.
        port: String,
        /// The pool's name.
        pool: String,
    },
    /// The decision has more reasons of its own than [`Reason::OWN_MAX`].
    #[error("a forwarder whose decision has {0} drop reasons of its own: give at most {most}", most = Reason::OWN_MAX)]
    Reasons(usize),
    /// The decision does not support these ports.
    #[error("{0}")]
    Decision(Box<dyn std::error::Error + Send + Sync>),
}

/// Returns why no forwarder can be made of these.
#[cold]
pub(super) fn check(ports: &[Box<dyn Port>], pool: &Pool, decision: &dyn Decide) -> Result<(), ForwardError> {
    if !(1..=255).contains(&ports.len()) {
        return Err(ForwardError::Ports(ports.len()));
    }
    if let Some(port) = ports.iter().find(|port| !port.can_refill_from(pool)) {
        return Err(ForwardError::Pool { port: port.name().to_owned(), pool: pool.name().to_owned() });
    }
    match decision.reasons().len() {
        0..=Reason::OWN_MAX => decision.check(ports.len()).map_err(ForwardError::Decision),
        too_many => Err(ForwardError::Reasons(too_many)),
    }
}

#[cfg(test)]
mod tests {
    use crate::forward::{Decide, ForwardError, Forwarder, PassAll, Reason, Verdict};
    use crate::pool::{Pool, PoolConfig};
    use crate::port::conformance::Fixture;
    use crate::port::fault::{FaultConfig, FaultPort};
    use crate::port::mem::{MemConfig, MemPort};
    use crate::port::tests::moody::{Mood, Moody};
    use crate::steer::Source;

    /// Seen: the pool of a forwarder lay in another memory than its port. The port was up and never received a frame.
    #[test]
    fn a_forwarder_whose_pool_a_port_cannot_receive_into_is_refused() {
        let Fixture { pool, .. } = Fixture::new(64);
        let made = |mood| {
            let (port, _) = MemPort::pair("0", &MemConfig::default()).unwrap();
            let port = Box::new(Moody::new(port, mood));
            let port = FaultPort::new(port, pool.clone(), FaultConfig::default());
            Forwarder::new(vec![Box::new(port)], pool.clone(), Box::new(PassAll)).map(drop)
        };
        let error = made(Mood::Choosy).unwrap_err();
        assert!(matches!(error, ForwardError::Pool { .. }), "{error}");
        let line = error.to_string();
        assert!(line.contains("fault/mem:0") && line.contains("the port was opened with"), "{line}");
        assert!(made(Mood::Picky).is_ok());
    }

    /// Seen: the names of a decision's reasons from the 17th on were in no list.
    #[test]
    fn a_decision_with_more_than_16_reasons_of_its_own_is_refused() {
        struct Many(&'static [&'static str]);
        impl Decide for Many {
            fn decide(&mut self, _: Source, _: &mut [u8]) -> Verdict {
                Verdict::Drop(Reason::Own(0))
            }
            fn reasons(&self) -> &'static [&'static str] {
                self.0
            }
        }
        let Fixture { mut w, memory, .. } = Fixture::new(64);
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
        let made = |names: &'static [&'static str]| {
            let (port, _) = MemPort::pair("0", &MemConfig::default()).unwrap();
            Forwarder::new(vec![Box::new(port)], pool.clone(), Box::new(Many(names))).map(drop)
        };
        assert!(made(&["x"; 16]).is_ok());
        assert!(matches!(made(&["x"; 17]), Err(ForwardError::Reasons(17))));
    }
}
