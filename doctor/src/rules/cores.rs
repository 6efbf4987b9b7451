//! Where the workers run.

use super::{interface, listed};
use crate::finding::{Findings, Harm};
use crate::host::Host;
use crate::wanted::Wanted;

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let allowed = host.cores.allowed.len();
    if allowed > 0 && wanted.workers > allowed {
        found.add(
            "cores",
            Harm::Slow,
            "host",
            format!("{} workers take turns on {allowed} cores", wanted.workers),
            format!(
                "give --workers {allowed}, or let it run on more cores (taskset -c, AllowedCPUs= of its unit)"
            ),
        );
    }
    let isolated = &host.cores.isolated;
    if !isolated.is_empty()
        && !wanted.cores.is_empty()
        && !wanted.cores.iter().any(|core| isolated.contains(core))
    {
        found.add(
            "isolation",
            Harm::Slow,
            "host",
            format!("cores {} are kept free (isolcpus), and no worker runs there", listed(isolated)),
            format!("start it by taskset -c {}", with_commas(isolated)),
        );
    }
    nodes(host, wanted, found);
}

/// Workers on another node than an interface's hardware read each packet across.
fn nodes(host: &Host, wanted: &Wanted, found: &mut Findings) {
    if host.cores.nodes.len() < 2 || wanted.cores.is_empty() {
        return;
    }
    for (port, name) in wanted.interfaces() {
        let node = interface(host, name).and_then(|(_, interface)| interface.node);
        let Some((node, near)) = node.and_then(|node| Some((node, host.cores.nodes.get(&node)?))) else {
            continue;
        };
        if near.is_empty() || wanted.cores.iter().any(|core| near.contains(core)) {
            continue;
        }
        found.add(
            "numa",
            Harm::Slow,
            &port.name,
            format!(
                "its card is on NUMA node {node}, and workers run on cores {} of others",
                listed(&wanted.cores)
            ),
            format!("start it by taskset -c {}", with_commas(near)),
        );
    }
}

fn with_commas(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}
