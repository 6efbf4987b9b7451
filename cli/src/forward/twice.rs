//! Whether the kernel forwards what packet ports receive: it gets a copy of each packet, and hosts would get all of them twice. COLD.

use super::plan::{Plan, Source};
use crate::args::ModeArg;
use netmem_ports::DeviceSpec;
use std::fs;
use std::path::Path;

/// Where the kernel says of each interface whether it forwards what comes by it.
const SETTINGS: &str = "/proc/sys/net";

/// A line for each packet port whose packets the kernel forwards too, with the remedy.
pub fn warnings(plan: &Plan) -> Vec<String> {
    let Source::Ports { ports, .. } = &plan.source else { return Vec::new() };
    if matches!(plan.mode, ModeArg::Drop | ModeArg::Pass) {
        return Vec::new();
    }
    let interfaces = ports.iter().filter_map(|spec| match &spec.device {
        DeviceSpec::Packet(interface) => Some(&interface[..]),
        _ => None,
    });
    interfaces.filter_map(|interface| warning(interface, Path::new(SETTINGS))).collect()
}

fn warning(interface: &str, settings: &Path) -> Option<String> {
    let forwards = |family: &str| {
        let path = settings.join(family).join("conf").join(interface).join("forwarding");
        // Not there without IPv6, or without such an interface.
        fs::read_to_string(path).is_ok_and(|text| text.trim() != "0")
    };
    // As a key of sysctl(8) the name of a VLAN's interface has slashes in the place of dots.
    let key = |family: &str| format!("net.{family}.conf.{}.forwarding=0", interface.replace('.', "/"));
    let on: Vec<String> = ["ipv4", "ipv6"].into_iter().filter(|family| forwards(family)).map(key).collect();
    (!on.is_empty()).then(|| {
        format!(
            "packet:{interface}: the kernel forwards what comes by {interface} as well, and packets arrive twice: sysctl -w {}, or take xdp:{interface}",
            on.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_families_that_the_kernel_forwards_are_named_with_the_remedy() {
        let settings = std::env::temp_dir().join(format!("netmem-twice-{}", std::process::id()));
        for (interface, v4, v6, wanted) in [
            ("none", Some("0\n"), Some("0\n"), None),
            ("gone", None, None, None),
            (
                "both",
                Some("1\n"),
                Some("1\n"),
                Some("net.ipv4.conf.both.forwarding=0 net.ipv6.conf.both.forwarding=0,"),
            ),
            ("e0.7", Some("1\n"), None, Some("sysctl -w net.ipv4.conf.e0/7.forwarding=0, or take xdp:e0.7")),
        ] {
            for (family, value) in [("ipv4", v4), ("ipv6", v6)] {
                let folder = settings.join(family).join("conf").join(interface);
                fs::create_dir_all(&folder).unwrap();
                if let Some(value) = value {
                    fs::write(folder.join("forwarding"), value).unwrap();
                }
            }
            let said = warning(interface, &settings);
            assert_eq!(said.is_some(), wanted.is_some(), "{said:?}");
            assert!(said.as_ref().is_none_or(|said| said.contains(wanted.unwrap())), "{said:?}");
        }
        fs::remove_dir_all(settings).unwrap();
    }
}
