//! What this process may do.

use crate::finding::{Findings, Harm};
use crate::host::Host;
use crate::wanted::{Device, Wanted};

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    capabilities(host, wanted, found);
    locked_memory(host, wanted, found);
}

/// CAP_SYS_ADMIN stands in for CAP_BPF, and for CAP_NET_ADMIN in bpf(2).
fn capabilities(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let has = |name: &str| host.process.capabilities.contains(name);
    let admin = has("CAP_SYS_ADMIN");
    let makes_tap =
        |device: &Device| matches!(device, Device::Tap(name) if !host.interfaces.contains_key(name));
    let any = |of: &dyn Fn(&Device) -> bool| wanted.ports.iter().any(|port| of(&port.device));
    let xdp = any(&|device| matches!(device, Device::Xdp(_)));
    let raw = xdp || any(&|device| matches!(device, Device::Packet(_)));
    let needs = [
        ("CAP_NET_RAW", raw && !has("CAP_NET_RAW")),
        ("CAP_NET_ADMIN", !has("CAP_NET_ADMIN") && (xdp && !admin || any(&makes_tap))),
        ("CAP_BPF", xdp && !admin && !has("CAP_BPF")),
    ];
    let missing: Vec<_> =
        needs.into_iter().filter(|(_, is_missing)| *is_missing).map(|(name, _)| name).collect();
    if missing.is_empty() {
        return;
    }
    let all = if xdp {
        "cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock"
    } else {
        &missing.join(",").to_lowercase()
    };
    found.add(
        "capabilities",
        Harm::Fails,
        "host",
        format!("this process lacks {}", missing.join(", ")),
        format!("setcap {all}+ep \"$(command -v netmem)\", or run it as root"),
    );
}

fn locked_memory(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let Some(limit) = host.process.locked_memory else { return };
    let is_exempt = host.process.capabilities.contains("CAP_IPC_LOCK");
    if is_exempt || limit >= wanted.memory || wanted.xdp().next().is_none() {
        return;
    }
    let needed = wanted.memory.div_ceil(1024);
    found.add(
        "locked-memory",
        Harm::Fails,
        "host",
        format!("xdp ports lock {needed} KiB, and {} KiB may be locked", limit / 1024),
        format!(
            "ulimit -l {needed} in the shell that starts it (LimitMEMLOCK= in its unit), or CAP_IPC_LOCK"
        ),
    );
}
