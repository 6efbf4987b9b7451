//! Rules about the kernel's abilities, and its memory.

use crate::change::{Change, HUGE_PAGES};
use crate::finding::{Findings, Harm};
use crate::host::Host;
use crate::wanted::{Device, Wanted};

/// The first kernel with sufficient links for programs and rings.
pub(super) const FIRST: (u32, u32) = (5, 9);
const HUGE: u64 = 2 << 20;

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    if let Some((_, place)) = wanted.xdp().next() {
        af_xdp(host, &place.interface, found);
    }
    if let (Some(port), false) =
        (wanted.ports.iter().find(|port| matches!(port.device, Device::Tap(_))), host.kernel.tun)
    {
        let what = "there is no /dev/net/tun".to_owned();
        found.add("tun", Harm::Fails, &port.name, what, "modprobe tun".to_owned());
    }
    memory(host, wanted, found);
}

fn af_xdp(host: &Host, interface: &str, found: &mut Findings) {
    let instead = format!("or use packet:{interface}, which does not need it");
    if let Some(version) = host.kernel_version().filter(|version| *version < FIRST) {
        let what =
            format!("Linux {}.{}: xdp ports need {}.{} or later", version.0, version.1, FIRST.0, FIRST.1);
        found.add("kernel", Harm::Fails, "host", what, format!("boot a newer kernel, {instead}"));
    } else if host.kernel.af_xdp == Some(false) {
        let what = "the kernel was built without CONFIG_XDP_SOCKETS".to_owned();
        found.add("af-xdp", Harm::Fails, "host", what, format!("boot a kernel that has it, {instead}"));
    }
    if host.setting("net.core.bpf_jit_enable") == Some("0") {
        let change =
            Change::Setting { key: "net.core.bpf_jit_enable".into(), from: "0".into(), to: "1".into() };
        let what = "XDP programs are interpreted".to_owned();
        found.mend("jit", Harm::Slow, "host", what, change);
    }
}

fn memory(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let memory = &host.memory;
    let small = memory.group_left.map_or(memory.available, |left| left.min(memory.available));
    let is_limited = small < memory.available && small >= memory.huge_free;
    // All frames are on one kind of pages.
    let most = small.max(memory.huge_free);
    if memory.available > 0 && most < wanted.memory {
        let (limited, raise) = if is_limited {
            (
                " within memory.max of its control group",
                ", or raise that limit (MemoryMax= of its unit, or the container's)",
            )
        } else {
            ("", "")
        };
        let what =
            format!("frames take {} MiB, and {} MiB are available{limited}", mib(wanted.memory), most >> 20);
        let remedy = format!("give fewer --frames, or a smaller --ring{raise}");
        found.add("memory", Harm::Fails, "host", what, remedy);
        return;
    }
    if memory.transparent == "never" && memory.huge_free < wanted.memory {
        huge_pages(host, wanted, found);
    }
}

/// `vm.nr_hugepages` counts pages of the default size, which need not be 2 MiB. Then a change of it would reserve other
/// pages, and its undo would take pages from another program.
fn huge_pages(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let memory = &host.memory;
    let (pages, missing) = (memory.huge_total / HUGE, (wanted.memory - memory.huge_free).div_ceil(HUGE));
    let (from, to) = (pages.to_string(), (pages + missing).to_string());
    let what = format!(
        "transparent huge pages are off, and {} MiB of huge pages are free for {} MiB of frames, which use small pages",
        mib(memory.huge_free),
        mib(wanted.memory)
    );
    if memory.huge_size == HUGE && host.setting(HUGE_PAGES) == Some(from.as_str()) {
        let change = Change::Setting { key: HUGE_PAGES.into(), from, to };
        found.mend("huge-pages", Harm::Slow, "host", what, change);
    } else {
        let remedy = format!("echo {to} > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
        found.add("huge-pages", Harm::Slow, "host", what, remedy);
    }
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
