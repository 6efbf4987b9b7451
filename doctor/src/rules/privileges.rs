//! Rules about the privileges of this process.

use super::kernel::FIRST;
use crate::finding::{Findings, Harm};
use crate::host::Host;
use crate::wanted::{Device, Wanted};

/// From this version on, BPF maps and programs do not count as locked memory.
const UNCOUNTED: (u32, u32) = (5, 11);
/// Bytes that the maps of an xdp port count as locked memory in earlier versions.
const MAPS: u64 = 16 << 20;

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    capabilities(host, wanted, found);
    locked_memory(host, wanted, found);
    locked_maps(host, wanted, found);
}

/// CAP_SYS_ADMIN stands in for CAP_BPF, and for CAP_NET_ADMIN in bpf(2).
fn capabilities(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let has = |name: &str| host.process.capabilities.contains(name);
    let admin = has("CAP_SYS_ADMIN");
    let makes_tap =
        |device: &Device| matches!(device, Device::Tap(name) if !host.interfaces.contains_key(name));
    let any = |of: &dyn Fn(&Device) -> bool| wanted.ports.iter().any(|port| of(&port.device));
    let xdp = any(&|device| matches!(device, Device::Xdp(place) if !place.is_granted));
    let raw = xdp || any(&|device| matches!(device, Device::Packet(_)));
    let opens = xdp && !admin || any(&makes_tap);
    // A router asks the kernel for the neighbours of the kernel's routes.
    let is_on_a_link = |device: &Device| device.interface().is_some() || matches!(device, Device::Tap(_));
    let asks = wanted.kernel_routes && any(&is_on_a_link);
    let needs = [
        ("CAP_NET_RAW", raw && !has("CAP_NET_RAW")),
        ("CAP_NET_ADMIN", !has("CAP_NET_ADMIN") && (opens || asks)),
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
    let why = match missing.contains(&"CAP_NET_ADMIN") && !opens {
        true => ", by which a router with --routes kernel asks for neighbours",
        false => "",
    };
    let what = format!("this process lacks {}{why}", missing.join(", "));
    let remedy = format!("setcap {all}+ep \"$(command -v netmem)\", or run it as root");
    // There it may be root. Capabilities for the network count, if the container has them.
    let is_for_the_first = missing.iter().any(|name| !name.starts_with("CAP_NET_"));
    let (what, remedy) = match (host.process.in_user_namespace, is_for_the_first) {
        (true, true) => (
            format!("{what}: what it has in its user namespace does not count"),
            format!("outside of the user namespace (the rootless container): {remedy}"),
        ),
        (true, false) => {
            let options: Vec<_> =
                missing.iter().map(|name| format!("--cap-add {}", name.trim_start_matches("CAP_"))).collect();
            (what, format!("start the container with {}", options.join(" ")))
        }
        (false, _) => (what, remedy),
    };
    found.add("capabilities", Harm::Fails, "host", what, remedy);
}

fn locked_memory(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let Some(limit) = host.process.locked_memory else { return };
    let is_exempt = host.process.capabilities.contains("CAP_IPC_LOCK");
    if is_exempt || limit >= wanted.memory || wanted.xdp().next().is_none() {
        return;
    }
    let needed = wanted.memory.div_ceil(1024);
    let or = if host.process.in_user_namespace { "" } else { ", or CAP_IPC_LOCK" };
    found.add(
        "locked-memory",
        Harm::Fails,
        "host",
        format!("xdp ports lock {needed} KiB, and {} KiB may be locked", limit / 1024),
        format!("ulimit -l {needed} in the shell that starts netmem (LimitMEMLOCK= in its unit){or}"),
    );
}

/// There is no exemption: only a process that may raise the limit can exceed it.
fn locked_maps(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let Some(limit) = host.process.locked_memory.filter(|limit| *limit < MAPS) else { return };
    let is_old = host.kernel_version().is_some_and(|version| (FIRST..UNCOUNTED).contains(&version));
    let may_raise = host.process.capabilities.contains("CAP_SYS_RESOURCE");
    if !is_old || may_raise || wanted.xdp().next().is_none() {
        return;
    }
    found.add(
        "locked-maps",
        Harm::Fails,
        "host",
        format!(
            "before Linux 5.11 the maps of xdp ports count as locked memory, and {} KiB may be locked",
            limit / 1024
        ),
        "ulimit -l unlimited in the shell that starts netmem (LimitMEMLOCK=infinity in its unit), or CAP_SYS_RESOURCE"
            .to_owned(),
    );
}
