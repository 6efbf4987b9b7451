//! The section and the keys of ICMP errors at the control socket.

use super::report::IcmpReport;
use super::worker_setup::WorkerSetup;
use crate::control::Record;
use crate::control::registry::Registry;
use netmem_router::icmp::{IcmpControl, IcmpLimit};
use std::sync::Arc;

/// Adds the section and the keys, which apply to all workers.
pub fn icmp(registry: &mut Registry, setups: &[WorkerSetup]) {
    let counters: Vec<_> = setups.iter().map(|setup| Arc::clone(&setup.icmp.counters)).collect();
    registry.section("icmp", move || {
        let IcmpReport { originated, sent, suppressed } = IcmpReport::new(&counters);
        let record = Record::default().with("name", "icmp").with("originated", originated);
        vec![record.with_all(sent).with_all(suppressed)]
    });
    let controls: Vec<_> = setups.iter().filter_map(|setup| setup.icmp.control.clone()).collect();
    limits(registry, &controls);
}

/// Adds the keys for the limit on ICMP errors.
pub fn limits(registry: &mut Registry, controls: &[IcmpControl]) {
    let what = "sustained rate of each worker's ICMP errors";
    let key = ("icmp.rate", "0 (none at all) to 1000000", "errors a second", what);
    number(registry, controls, key, 0, |limit| &mut limit.rate);
    let what = "burst of each worker's ICMP errors";
    number(registry, controls, ("icmp.burst", "1 to 1000000", "errors", what), 1, |limit| &mut limit.burst);
    let what = "sustained rate of each worker's ICMP errors to one source";
    let key = ("icmp.source_rate", "0 (none at all) to 1000000", "errors a second", what);
    number(registry, controls, key, 0, |limit| &mut limit.source_rate);
    let what = "burst of each worker's ICMP errors to one source";
    let key = ("icmp.source_burst", "1 to 1000000", "errors", what);
    number(registry, controls, key, 1, |limit| &mut limit.source_burst);
}

/// Adds a key for one number of the limit.
fn number(
    registry: &mut Registry,
    controls: &[IcmpControl],
    (name, range, unit, what): (&'static str, &'static str, &'static str, &'static str),
    least: u32,
    of: fn(&mut IcmpLimit) -> &mut u32,
) {
    let (read, write) = (controls.to_vec(), controls.to_vec());
    registry.number(
        name,
        (range, unit, what),
        move || *of(&mut read[0].get()) as usize,
        move |value| {
            let value = u32::try_from(value).ok().filter(|value| (least..=1_000_000).contains(value));
            let value = value.ok_or("out of range")?;
            for control in &write {
                let mut limit = control.get();
                *of(&mut limit) = value;
                control.set(limit);
            }
            Ok::<(), &str>(())
        },
    );
}
