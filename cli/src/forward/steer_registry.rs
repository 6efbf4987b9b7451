//! The section and keys of packets between workers at the control socket.

use super::report::steer_counts;
use crate::control::Record;
use crate::control::registry::Registry;
use netmem::forward::SteeringControl;
use netmem::steer::{Policy, PolicyError};

/// Adds a record for each worker, and the keys of the policy: the whole, or the map alone.
pub fn steer(registry: &mut Registry, steering: &SteeringControl) {
    let of = steering.clone();
    registry.section("steer", move || {
        let record = |(number, stats): (usize, &_)| {
            Record::default().with("name", number.to_string()).with_all(steer_counts(stats))
        };
        of.stats().iter().enumerate().map(record).collect()
    });
    let set = |to: &SteeringControl, text: &str| {
        let policy: Policy = text.parse().map_err(|error: PolicyError| error.to_string())?;
        to.set_policy(&policy).map_err(|error| error.to_string())
    };
    let (of, to) = (steering.clone(), steering.clone());
    registry.text(
        "steer.policy",
        ("a policy as in --steer", "", "which worker forwards a packet"),
        move || of.policy().to_string(),
        move |text| set(&to, text),
    );
    let (of, to) = (steering.clone(), steering.clone());
    let range = "queues and workers, as in rx0:1,rx1:2,3";
    registry.text(
        "steer.map",
        (range, "", "which workers forward the packets of each queue; sets the policy map"),
        move || of.policy().to_string().strip_prefix("map=").unwrap_or_default().to_owned(),
        move |text| set(&to, &format!("map={text}")),
    );
}
