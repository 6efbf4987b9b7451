//! What must add up when a run is over.

use super::network::Traveled;
use super::report::Report;
use netmem::port::PortState;

/// One line for everything that does not hold.
pub fn broken(report: &Report) -> Vec<String> {
    let mut broken = Vec::new();
    let Report { received, transmitted, held, .. } = *report;
    let dropped = report.dropped_total();
    if received != transmitted + dropped + held {
        broken.push(format!(
            "check failed: received {received} = transmitted {transmitted} + dropped {dropped} + held {held}"
        ));
    }
    if let Some(traveled) = &report.traveled {
        check_network(report, traveled, &mut broken);
    }
    for pool in report.pools.iter().filter(|pool| !pool.balanced()) {
        broken.push(format!("check failed: the places of pool {} add up to its total: {pool:?}", pool.name));
    }
    broken.extend(report.still_out.iter().map(|still_out| format!("check failed: {still_out}")));
    for port in &report.ports {
        if let PortState::Down(reason) = &port.state {
            broken.push(format!("port {} is down: {reason}", port.name));
        }
    }
    broken
}

/// What holds where this process has both ends of the wires.
fn check_network(report: &Report, traveled: &Traveled, broken: &mut Vec<String>) {
    let Report { received, transmitted, .. } = *report;
    let Traveled { sent, sink, first_fault, .. } = traveled;
    let rx_drops: u64 = report.ports.iter().map(|port| port.rx_drops()).sum();
    if *sent != received + rx_drops {
        broken.push(format!("check failed: sent {sent} = received {received} + rx drops {rx_drops}"));
    }
    let completed: u64 = report.ports.iter().map(|port| port.counter("completed")).sum();
    if transmitted != completed {
        broken.push(format!("check failed: transmitted {transmitted} = completed {completed}"));
    }
    if transmitted != sink.received {
        broken.push(format!(
            "check failed: transmitted {transmitted} = received by the sink {}",
            sink.received
        ));
    }
    if sink.corrupt > 0 {
        let first = first_fault.map_or("unknown", |fault| fault.name());
        broken.push(format!("check failed: corrupt {} = 0 (the first one: {first})", sink.corrupt));
    }
    if sink.duplicates > 0 {
        broken.push(format!("check failed: packets that came twice {} = 0", sink.duplicates));
    }
}
