//! Rules about interfaces: whether each exists and is up, and its MTU.

use super::{interface, is_ethernet, listed};
use crate::change::Change;
use crate::finding::{Findings, Harm};
use crate::host::{Host, Interface};
use crate::wanted::{Device, Wanted, WantedPort};
use netmem::limits::{CHUNK_SIZE, FRAME_SIZE_MAX, ONE_BUFFER_MTU_MAX, PAGE_SIZE};
use netmem::pool::PoolConfig;
use netmem::port::xdp::XdpModePreference;
use netmem::wire::ethernet::HEADER_LEN;

/// The largest MTU that most drivers take with native XDP in one buffer of a page.
const MTU_OF_MOST: u32 = 3498;

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for (port, name) in wanted.interfaces() {
        let Some((own, its)) = interface(host, name) else {
            missing(host, port, name, found);
            continue;
        };
        if own != name {
            let what =
                format!("{name} is an altname of {own}, and /proc/sys has its settings only under {own}");
            found.add(
                "renamed",
                Harm::Loses,
                &port.name,
                what,
                format!("write {}", port.name.replace(name, own)),
            );
        }
        if !is_ethernet(its, &port.device) {
            let what = "the interface does not carry Ethernet frames".to_owned();
            let remedy = "give an Ethernet interface, such as veth or tap".to_owned();
            found.add("not-ethernet", Harm::Fails, &port.name, what, remedy);
            continue;
        }
        link(host, port, (own, its), found);
        frames(wanted, port, (own, its), found);
    }
    for (port, place) in wanted.xdp() {
        if let Some((own, its)) =
            interface(host, &place.interface).filter(|(_, its)| is_ethernet(its, &port.device))
        {
            modes(port, place.mode, (own, its), found);
        }
    }
}

fn missing(host: &Host, port: &WantedPort, name: &str, found: &mut Findings) {
    // If no interface could be read, nothing is known about interfaces.
    if host.interfaces.is_empty() {
        return;
    }
    let others = host.interfaces.keys().filter(|name| *name != "lo");
    let remedy = match listed(others) {
        none if none.is_empty() => {
            "make it with ip link add, or start netmem in the network namespace that has it".to_owned()
        }
        names => {
            format!(
                "the interfaces are {names}: give one of them, or start netmem in the network namespace that has it"
            )
        }
    };
    let what = format!("there is no interface {name} in this network namespace");
    found.add("missing", Harm::Fails, &port.name, what, remedy);
}

fn up(name: &str) -> Change {
    Change::run(&format!("ip link set dev {name} up"), &format!("ip link set dev {name} down"))
}

/// Adds a finding if the interface is down. Returns true if it is.
pub(super) fn is_down(port: &WantedPort, (name, its): (&str, &Interface), found: &mut Findings) -> bool {
    if !its.is_up {
        found.mend("down", Harm::Fails, &port.name, "the interface is down".to_owned(), up(name));
    }
    !its.is_up
}

/// Checks whether packets can pass.
fn link(host: &Host, port: &WantedPort, (name, its): (&str, &Interface), found: &mut Findings) {
    if is_down(port, (name, its), found) || its.has_carrier {
        return;
    }
    let what = "it has no carrier: the other end is down or missing".to_owned();
    let peer = its.link.as_deref().filter(|_| its.kind.as_deref() == Some("veth"));
    match peer.filter(|peer| host.interfaces.get(*peer).is_some_and(|peer| !peer.is_up)) {
        Some(peer) => found.mend("carrier", Harm::Loses, &port.name, what, up(peer)),
        None => {
            let remedy = format!("set the other end up, or check the cable: ethtool {name}");
            found.add("carrier", Harm::Loses, &port.name, what, remedy);
        }
    }
}

/// Checks whether the frames have room for the MTU of each port's interface.
pub(super) fn lengths(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for port in &wanted.ports {
        if let Some(its) = port.device.interface().and_then(|name| interface(host, name)) {
            frames(wanted, port, its, found);
        }
    }
}

/// Checks whether a frame has room for the interface's MTU.
fn frames(wanted: &Wanted, port: &WantedPort, (name, its): (&str, &Interface), found: &mut Findings) {
    let is_xdp = matches!(port.device, Device::Xdp(_));
    if let Some((what, remedy)) = longer_than_frames((name, its.mtu), wanted.longest, is_xdp) {
        found.add("frame-size", Harm::Loses, &port.name, what, remedy);
    }
}

/// Returns what is lost, and the remedy, if the packets of an interface with this name and MTU can be longer than
/// `frame`, the bytes that a frame has room for. `is_xdp` is true for an xdp port. It is the check of the rule
/// `frame-size`, for an interface whose MTU has changed.
///
/// # Examples
/// ```
/// # use netmem_doctor::longer_than_frames;
/// assert_eq!(longer_than_frames(("eth0", 1500), 1792, false), None);
/// let (what, remedy) = longer_than_frames(("eth0", 3000), 1792, false).expect("it is too long");
/// assert_eq!(what, "its packets have up to 3014 bytes, and a frame has room for 1792");
/// assert_eq!(remedy, "--frame-size 4096, or ip link set dev eth0 mtu 1778");
/// ```
#[must_use]
pub fn longer_than_frames((name, mtu): (&str, u32), frame: usize, is_xdp: bool) -> Option<(String, String)> {
    let longest = mtu as usize + HEADER_LEN;
    if longest <= frame {
        return None;
    }
    let sizes = (0..).map(|twice| CHUNK_SIZE << twice).take_while(|size| *size <= FRAME_SIZE_MAX);
    let enough = { sizes }.find(|size| PoolConfig::room(*size) >= longest);
    let fits = frame.saturating_sub(HEADER_LEN);
    let remedy = match enough {
        // An xdp port then needs a kernel and a driver that pass on packets in several buffers (rule native-mtu).
        Some(size) if size > PAGE_SIZE && is_xdp => format!(
            "--frame-size {size} (with packet:{name} before Linux 6.6, or if the driver takes one buffer a packet), or ip \
             link set dev {name} mtu {fits}"
        ),
        Some(size) => format!("--frame-size {size}, or ip link set dev {name} mtu {fits}"),
        None => format!("ip link set dev {name} mtu {fits}"),
    };
    Some((format!("its packets have up to {longest} bytes, and a frame has room for {frame}"), remedy))
}

/// Checks whether the program runs in the requested mode.
fn modes(port: &WantedPort, mode: XdpModePreference, (name, its): (&str, &Interface), found: &mut Findings) {
    let Some(offered) = its.modes else { return };
    let harm = match mode {
        XdpModePreference::Generic => return,
        XdpModePreference::Native => Harm::Fails,
        XdpModePreference::NativeThenGeneric => Harm::Slow,
    };
    if !offered.native {
        let driver = its.driver.as_deref().or(its.kind.as_deref()).unwrap_or("its driver");
        let what =
            format!("{driver} has no native XDP: each packet takes the generic path, as a copy in an skb");
        found.add(
            "native",
            harm,
            &port.name,
            what,
            "if this is intended, give --xdp-mode generic".to_owned(),
        );
    } else if its.mtu > ONE_BUFFER_MTU_MAX && !(its.kind.is_some() && offered.several_buffers) {
        let what = format!(
            "native XDP needs packets in one buffer, and MTU {} may be too large for it (drivers differ: the limit of most is between \
             {ONE_BUFFER_MTU_MAX} and {MTU_OF_MOST})",
            its.mtu
        );
        let remedy = format!("ip link set dev {name} mtu {ONE_BUFFER_MTU_MAX}, or packet:{name}");
        // Below this one, some drivers take it and others do not.
        let harm = if its.mtu > MTU_OF_MOST { harm } else { Harm::Slow };
        found.add("native-mtu", harm, &port.name, what, remedy);
    }
}
