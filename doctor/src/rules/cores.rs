//! Rules about the cores of the workers.

use super::{interface, listed};
use crate::finding::{Findings, Harm};
use crate::host::{Cores, Host};
use crate::wanted::Wanted;
use std::collections::BTreeSet;

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    enough(host, wanted, found);
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
            format!("start netmem with taskset -c {}", with_commas(isolated)),
        );
    }
    governors(host, wanted, found);
    nodes(host, wanted, found);
    interrupts(host, wanted, found);
}

/// Finds more workers than cores, or than the time of cores that the control group may use. The smaller number applies.
fn enough(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let (allowed, workers) = (host.cores.allowed.len(), wanted.workers);
    let limit = host.cores.group_thousandths.filter(|limit| *limit < (workers as u64).saturating_mul(1000));
    let limit = limit.filter(|limit| allowed == 0 || *limit < (allowed as u64).saturating_mul(1000));
    let (what, fewer, more) = if let Some(limit) = limit {
        let what = format!(
            "{workers} workers may use the time of {}.{:02} cores (cpu.max of its control group), and stand still for the rest of each period",
            limit / 1000,
            limit % 1000 / 10
        );
        let more = "raise that limit (CPUQuota= of its unit, or the container's)";
        (what, limit / 1000, more)
    } else if allowed > 0 && workers > allowed {
        let more = "let netmem run on more cores (taskset -c, AllowedCPUs= of its unit)";
        (format!("{workers} workers share {allowed} cores"), allowed as u64, more)
    } else {
        return;
    };
    // There is always one worker.
    let remedy = if fewer > 0 { format!("give --workers {fewer}, or {more}") } else { more.to_owned() };
    found.add("cores", Harm::Slow, "host", what, remedy);
}

/// Finds cores whose clock follows the load: they are slow when packets come after a pause.
fn governors(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let of = |core: &u32| host.cores.governors.get(core).filter(|governor| *governor != "performance");
    let slow: Vec<u32> = wanted.cores.iter().copied().filter(|core| of(core).is_some()).collect();
    let Some(governor) = slow.first().and_then(of) else { return };
    let cores = if slow.len() == 1 { "core" } else { "cores" };
    found.add(
        "governor",
        Harm::Slow,
        "host",
        format!("workers run on {cores} {}, whose frequency governor is {governor}", listed(&slow)),
        format!("cpupower -c {} frequency-set -g performance (Debian: linux-cpupower)", with_commas(&slow)),
    );
}

/// Finds interrupts of a card on a worker's core, if another core is free for them. They compete with the worker for
/// the core. If the card's node is known, only the cores of that node count as free, and interrupts on another node are
/// found too: they read the card's rings across nodes.
fn interrupts(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for (port, name) in wanted.interfaces() {
        let Some((_, interface)) = interface(host, name) else { continue };
        let near = interface.node.and_then(|node| host.cores.nodes.get(&node));
        let free = free(host, wanted, near);
        if free.is_empty() || wanted.cores.is_empty() {
            continue;
        }
        let is_right = |core: &u32| match near {
            Some(_) => free.contains(core),
            None => !wanted.cores.contains(core),
        };
        let is_bad = |cores: &Vec<u32>| !cores.is_empty() && !cores.iter().any(is_right);
        let bad = interface.interrupts.iter().filter(|(_, cores)| is_bad(cores));
        let bad: Vec<u32> = bad.map(|(number, _)| *number).collect();
        let Some(first) = bad.first() else { continue };
        let on: BTreeSet<u32> =
            bad.iter().flat_map(|number| &interface.interrupts[number]).copied().collect();
        let (them, each) =
            if bad.len() == 1 { ("interrupt", "") } else { ("interrupts", ", and the same for each") };
        let or_far = if near.is_some() { " or are far from the card" } else { "" };
        found.add(
            "interrupts",
            Harm::Slow,
            &port.name,
            format!(
                "the card's {them} {} run on cores {}, which have workers{or_far}",
                listed(&bad),
                listed(&on)
            ),
            format!(
                "echo {} > /proc/irq/{first}/smp_affinity_list{each}; irqbalance moves them back",
                with_commas(&free)
            ),
        );
    }
}

/// Returns the cores that may take interrupts: those `near` the card without a worker. If it is not known which are near,
/// they are all that are online, and not only those that this process may use: an operator who gives it some cores
/// keeps the others for such work. Isolated cores are left to dataplanes.
fn free(host: &Host, wanted: &Wanted, near: Option<&Vec<u32>>) -> Vec<u32> {
    let Cores { online, isolated, .. } = &host.cores;
    let is_kept = |core: &u32| near.is_none() && isolated.contains(core);
    let all = near.unwrap_or(online).iter().copied();
    all.filter(|core| !wanted.cores.contains(core) && !is_kept(core)).collect()
}

/// Finds interfaces whose hardware is on another node than every worker. Each packet is read across nodes.
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
                "the card is on NUMA node {node}, and workers run on cores {} of other nodes",
                listed(&wanted.cores)
            ),
            format!("start netmem with taskset -c {}", with_commas(near)),
        );
    }
}

fn with_commas(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}
