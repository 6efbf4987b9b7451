//! A host without problems, and each fault added to it, alone and together.

mod ipv6;
mod merged;
mod neighbours;
mod parts;
mod program;
mod seen;

use super::findings;
use crate::finding::{Finding, Harm};
use crate::host::{
    BoundSocket, Cores, Host, Interface, Kernel, MemoryState, OfferedModes, Process, QueueCounts, RingSizes,
};
use crate::wanted::{Device, Wanted, WantedPort, XdpPlace};
use netmem::port::xdp::XdpModePreference;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Two cards of the first node, four cores, and root.
fn good_host() -> Host {
    let card = |index| Interface {
        index,
        is_up: true,
        has_carrier: true,
        mtu: 1500,
        driver: Some("ice".into()),
        node: Some(0),
        interrupts: BTreeMap::from([(30 + index, vec![0]), (40 + index, vec![0, 1])]),
        queues: Some(combined(1)),
        rings: Some(RingSizes { rx: 2048, tx: 2048 }),
        offloads: BTreeSet::from(["rx-checksum".into(), "rx-vlan-hw-parse".into()]),
        modes: Some(OfferedModes { native: true, zero_copy: true, several_buffers: true }),
        ..Interface::default()
    };
    let setting = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Host {
        process: Process {
            capabilities: ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF", "CAP_IPC_LOCK"]
                .map(str::to_owned)
                .into(),
            locked_memory: Some(8 << 20),
            ..Process::default()
        },
        kernel: Kernel { release: "6.1.0-18-amd64".into(), af_xdp: Some(true), tun: true },
        memory: MemoryState {
            available: 8 << 30,
            huge_size: 2 << 20,
            transparent: "madvise".into(),
            ..MemoryState::default()
        },
        cores: Cores {
            allowed: vec![0, 1, 2, 3],
            nodes: BTreeMap::from([(0, vec![0, 1]), (1, vec![2, 3])]),
            governors: [0, 1, 2, 3].map(|core| (core, "performance".to_owned())).into(),
            ..Cores::default()
        },
        interfaces: BTreeMap::from([
            ("eth0".to_owned(), card(2)),
            ("eth1".to_owned(), card(3)),
            ("lo".to_owned(), Interface { index: 1, is_up: true, mtu: 65536, ..Interface::default() }),
        ]),
        settings: [
            setting("net.core.bpf_jit_enable", "1"),
            setting("vm.nr_hugepages", "0"),
            setting("net.ipv4.conf.all.rp_filter", "0"),
            setting("net.ipv4.conf.eth0.rp_filter", "2"),
            setting("net.ipv4.conf.eth0.forwarding", "0"),
            setting("net.ipv4.conf.eth1.forwarding", "1"),
        ]
        .into(),
        ..Host::default()
    }
}

/// Returns this number of queues, of eight that are possible.
fn combined(now: u32) -> QueueCounts {
    QueueCounts { now, most: 8, is_combined: true, combined: now, ..QueueCounts::default() }
}

fn xdp(interface: &str) -> WantedPort {
    let device = Device::Xdp(XdpPlace {
        interface: interface.into(),
        queue: 0,
        queues: Some(1),
        mode: XdpModePreference::NativeThenGeneric,
        is_partial: false,
        is_granted: false,
        takes_none: false,
        copies: false,
        leaves_control: true,
    });
    WantedPort { name: format!("xdp:{interface}"), device, traces: Vec::new() }
}

fn packet(interface: &str) -> WantedPort {
    let device = Device::Packet(interface.into());
    WantedPort { name: format!("packet:{interface}"), device, traces: Vec::new() }
}

fn tap(interface: &str) -> WantedPort {
    let device = Device::Tap(interface.into());
    WantedPort { name: format!("tap:{interface}"), device, traces: Vec::new() }
}

/// A router on both cards.
fn wanted() -> Wanted {
    Wanted {
        ports: vec![xdp("eth0"), xdp("eth1")],
        workers: 1,
        cores: vec![1],
        memory: 64 << 20,
        longest: 1514,
        forwards: true,
        routes: true,
        kernel_routes: true,
        packets_alone: true,
    }
}

/// Returns the place of the first port.
fn place(wanted: &mut Wanted) -> &mut XdpPlace {
    match &mut wanted.ports[0].device {
        Device::Xdp(place) => place,
        other => panic!("{other:?}"),
    }
}

fn eth0(host: &mut Host) -> &mut Interface {
    host.interfaces.get_mut("eth0").unwrap()
}

/// Makes a software interface.
fn soft(kind: &str, link: Option<&str>) -> Interface {
    let (kind, link) = (Some(kind.to_owned()), link.map(str::to_owned));
    Interface { is_up: true, has_carrier: true, mtu: 1500, kind, link, ..Interface::default() }
}

/// The name of a rule, its effect, and a change of the host or the plan that breaks it.
type Fault = (&'static str, Harm, fn(&mut Host, &mut Wanted));

/// Faults that can occur together.
const TOGETHER: [Fault; 32] = [
    ("capabilities", Harm::Fails, |host, _| {
        host.process.capabilities.remove("CAP_BPF");
    }),
    ("locked-memory", Harm::Fails, |host, _| {
        host.process.capabilities.remove("CAP_IPC_LOCK");
    }),
    ("kernel", Harm::Fails, |host, _| host.kernel.release = "5.4.0".into()),
    ("jit", Harm::Slow, |host, _| drop(host.settings.insert("net.core.bpf_jit_enable".into(), "0".into()))),
    ("tun", Harm::Fails, |host, wanted| {
        host.kernel.tun = false;
        wanted.ports.push(tap("tap0"));
    }),
    ("huge-pages", Harm::Slow, |host, _| host.memory.transparent = "never".into()),
    ("cores", Harm::Slow, |_, wanted| wanted.workers = 5),
    ("isolation", Harm::Slow, |host, _| host.cores.isolated = vec![2, 3]),
    ("governor", Harm::Slow, |host, _| drop(host.cores.governors.insert(1, "powersave".into()))),
    ("numa", Harm::Slow, |host, _| (eth0(host).node, eth0(host).interrupts) = (Some(1), BTreeMap::new())),
    ("interrupts", Harm::Slow, |host, _| {
        host.interfaces.get_mut("eth1").unwrap().interrupts.extend([(33, vec![1]), (43, vec![2, 3])]);
    }),
    ("missing", Harm::Fails, |_, wanted| wanted.ports.push(xdp("eth7"))),
    ("renamed", Harm::Loses, |host, wanted| {
        host.interfaces.get_mut("eth1").unwrap().other_names.push("enp3s0".into());
        wanted.ports[1] = xdp("enp3s0");
    }),
    ("down", Harm::Fails, |host, _| eth0(host).is_up = false),
    ("carrier", Harm::Loses, |host, _| host.interfaces.get_mut("eth1").unwrap().has_carrier = false),
    ("frame-size", Harm::Loses, |host, _| eth0(host).mtu = 3000),
    ("native", Harm::Slow, |host, _| {
        eth0(host).modes = Some(OfferedModes { zero_copy: true, ..Default::default() })
    }),
    ("queues", Harm::Fails, |_, wanted| place(wanted).queues = Some(4)),
    ("rings", Harm::Slow, |host, _| eth0(host).rings = Some(RingSizes { rx: 2040, tx: 512 })),
    ("lro", Harm::Loses, |host, _| eth0(host).offloads.extend(["rx-lro".into()])),
    ("gro-hw", Harm::Slow, |host, _| eth0(host).offloads.extend(["rx-gro-hw".into()])),
    ("vlan-tags", Harm::Loses, |host, _| {
        host.interfaces.insert("eth0.7".into(), soft("vlan", Some("eth0")));
    }),
    ("on-top", Harm::Loses, |host, _| {
        host.interfaces.insert("macvlan0".into(), soft("macvlan", Some("eth0")));
    }),
    ("program", Harm::Fails, |host, _| {
        eth0(host).program = Some("\"other\" (number 7), held by x (process 9)".into())
    }),
    ("bound", Harm::Fails, |host, _| {
        eth0(host).bound.push(BoundSocket { queue: 0, holder: Some("suricata (process 17)".into()) });
    }),
    ("bridge", Harm::Loses, |host, _| {
        host.interfaces.insert("br0".into(), soft("bridge", None));
        eth0(host).controller = Some("br0".into());
    }),
    ("rp-filter", Harm::Loses, |host, _| {
        drop(host.settings.insert("net.ipv4.conf.eth0.rp_filter".into(), "1".into()))
    }),
    ("router-advertisements", Harm::Loses, |host, _| ipv6::be_host(host, "eth1")),
    // Seen: `forward --check` found nothing.
    ("nexthop-objects", Harm::Loses, |host, _| {
        host.settings.insert("net.ipv4.nexthop_compat_mode".into(), "0".into());
    }),
    ("firewall", Harm::Loses, |host, _| {
        host.firewall.insert("nftables inet fw f".into());
    }),
    ("neighbours", Harm::Loses, |host, _| neighbours::fill(host, 400, 0)),
    ("forwarding", Harm::Loses, |host, wanted| {
        host.interfaces.insert("eth2".into(), soft("veth", None));
        host.settings.insert("net.ipv4.conf.eth2.forwarding".into(), "1".into());
        wanted.ports.push(packet("eth2"));
    }),
];

/// Faults that hide another, or that another hides.
const ALONE: [Fault; 28] = [
    ("locked-maps", Harm::Fails, |host, _| host.kernel.release = "5.10.0-32-amd64".into()),
    ("native-mtu", Harm::Slow, |host, wanted| {
        host.interfaces.get_mut("eth1").unwrap().mtu = 9000;
        wanted.longest = 9018;
    }),
    ("af-xdp", Harm::Fails, |host, _| host.kernel.af_xdp = Some(false)),
    ("memory", Harm::Fails, |_, wanted| wanted.memory = 9 << 30),
    ("other-queues", Harm::Loses, |host, _| eth0(host).queues = Some(combined(8))),
    ("native", Harm::Fails, |host, wanted| {
        eth0(host).modes = Some(OfferedModes::default());
        place(wanted).mode = XdpModePreference::Native;
    }),
    ("udp-segments", Harm::Loses, |host, wanted| {
        let mut peer = soft("veth", None);
        peer.offloads.insert("tx-udp-segmentation".into());
        host.interfaces.insert("host0".into(), peer);
        *eth0(host) = soft("veth", Some("host0"));
        place(wanted).mode = XdpModePreference::Generic;
    }),
    ("tunnel-segments", Harm::Loses, |host, wanted| {
        let mut peer = soft("veth", None);
        peer.offloads.insert("tx-udp_tnl-segmentation".into());
        host.interfaces.extend([("host0".into(), peer), ("vxlan0".into(), soft("vxlan", None))]);
        *eth0(host) = soft("veth", Some("host0"));
        wanted.ports[0] = packet("eth0");
    }),
    ("tunnel-segments", Harm::Loses, |host, wanted| {
        let mut peer = soft("veth", None);
        peer.offloads.insert("tx-udp_tnl-csum-segmentation".into());
        host.interfaces.extend([("host0".into(), peer), ("geneve0".into(), soft("geneve", None))]);
        *eth0(host) = soft("veth", Some("host0"));
        place(wanted).mode = XdpModePreference::Generic;
    }),
    ("bond", Harm::Fails, |host, _| eth0(host).kind = Some("bond".into())),
    ("bond-member", Harm::Loses, |host, _| {
        host.interfaces.insert("bond0".into(), soft("bond", None));
        eth0(host).controller = Some("bond0".into());
    }),
    ("bridge", Harm::Loses, |host, wanted| {
        host.interfaces.insert("br0".into(), soft("bridge", None));
        eth0(host).controller = Some("br0".into());
        wanted.ports[0] = packet("eth0");
    }),
    // Seen: nothing was found for a macvlan interface in another namespace.
    ("on-top", Harm::Loses, |host, _| eth0(host).addresses_elsewhere = 1),
    ("abstract-socket", Harm::Fails, |host, wanted| {
        host.abstract_sockets.insert("/run/memif.sock".into());
        wanted.ports.push(memif(false));
    }),
    ("socket-folder", Harm::Fails, |_, wanted| wanted.ports.push(memif(true))),
    ("input", Harm::Fails, |_, wanted| wanted.ports.push(files(Some("/none.pcap"), Some("-")))),
    ("output", Harm::Fails, |_, wanted| wanted.ports.push(files(Some("-"), Some("/none/out.pcap")))),
    ("output", Harm::Fails, |_, wanted| wanted.ports[0].traces.push("/none/trace.json".into())),
    ("input", Harm::Fails, |host, wanted| wanted.ports.push(files(Some(folder(host)), None))),
    ("output", Harm::Fails, |host, wanted| wanted.ports.push(files(None, Some(folder(host))))),
    ("socket", Harm::Fails, |host, wanted| {
        there(host, "/run/memif.sock");
        host.paths.no_sockets.insert("/run/memif.sock".into());
        wanted.ports.push(memif(true));
    }),
    ("socket", Harm::Fails, |host, wanted| {
        there(host, "/run/memif.sock");
        host.paths.listened.insert("/run/memif.sock".into());
        wanted.ports.push(memif(true));
    }),
    // Seen: `doctor packet:tun0` found nothing for a tun, and one for xdp that is slow.
    ("not-ethernet", Harm::Fails, |host, wanted| {
        host.interfaces.insert("tun0".into(), Interface { frame_type: Some(65534), ..soft("tun", None) });
        wanted.ports[0] = packet("tun0");
    }),
    ("not-ethernet", Harm::Fails, |host, wanted| {
        host.interfaces.insert("tun0".into(), Interface { frame_type: Some(65534), ..soft("tun", None) });
        wanted.ports[0] = xdp("tun0");
    }),
    // Seen: nothing was found for a TAP interface that was down.
    ("down", Harm::Fails, |host, wanted| {
        host.interfaces.insert("tap0".into(), Interface { is_up: false, ..soft("tun", None) });
        wanted.ports.push(tap("tap0"));
    }),
    ("tap-name", Harm::Fails, |host, wanted| {
        host.interfaces.insert("tap0".into(), soft("veth", None));
        wanted.ports.push(tap("tap0"));
    }),
    ("forwarding", Harm::Loses, |host, wanted| ipv6::turn_on(host, wanted, "all.forwarding")),
    ("forwarding", Harm::Loses, |host, wanted| ipv6::turn_on(host, wanted, "eth2.force_forwarding")),
];

/// Makes a file exist that may be read and written.
fn there(host: &mut Host, path: &str) {
    let paths = &mut host.paths;
    for set in [&mut paths.there, &mut paths.readable, &mut paths.writable] {
        set.insert(path.into());
    }
}

/// Makes a folder, and returns its path.
fn folder(host: &mut Host) -> &'static str {
    there(host, "/captures");
    host.paths.folders.insert("/captures".into());
    host.paths.no_sockets.insert("/captures".into());
    "/captures"
}

fn memif(is_server: bool) -> WantedPort {
    let device = Device::Memif { path: "/run/memif.sock".into(), is_server };
    WantedPort { name: "memif:/run/memif.sock".into(), device, traces: Vec::new() }
}

fn files(input: Option<&str>, output: Option<&str>) -> WantedPort {
    let device = Device::Files { input: input.map(PathBuf::from), output: output.map(PathBuf::from) };
    WantedPort { name: "pcap:".into(), device, traces: Vec::new() }
}

/// Returns the findings on a good host with these faults.
fn found(faults: &[&Fault]) -> Vec<Finding> {
    let (mut host, mut wanted) = (good_host(), wanted());
    faults.iter().for_each(|(_, _, plant)| plant(&mut host, &mut wanted));
    findings(&host, &wanted)
}

fn rules(findings: &[Finding]) -> Vec<(&'static str, Harm)> {
    findings.iter().map(|finding| (finding.rule, finding.harm)).collect()
}

#[test]
fn nothing_is_found_on_a_good_host() {
    assert_eq!(found(&[]), []);
}

#[test]
fn each_fault_alone_is_found_and_nothing_else() {
    for fault in TOGETHER.iter().chain(&ALONE) {
        assert_eq!(rules(&found(&[fault])), [(fault.0, fault.1)], "{:?}", found(&[fault]));
    }
}

#[test]
fn all_faults_together_are_each_found() {
    let all = found(&TOGETHER.iter().collect::<Vec<_>>());
    let names: BTreeSet<_> = rules(&all).into_iter().collect();
    for (rule, harm, _) in TOGETHER {
        assert!(names.contains(&(rule, harm)), "{rule}: {all:#?}");
    }
    assert_eq!(names.len(), TOGETHER.len(), "{all:#?}");
    assert!(all.is_sorted_by_key(|finding| finding.harm));
}

#[test]
fn every_finding_is_one_line_with_a_remedy() {
    for fault in TOGETHER.iter().chain(&ALONE) {
        for finding in found(&[fault]) {
            let line = finding.to_string();
            assert!(!line.contains('\n') && !line.contains("  ") && finding.remedy.len() > 8, "{line}");
        }
    }
}

#[test]
fn commands_name_the_interface_and_can_be_taken_back() {
    let change = |rule: &str| {
        let fault = TOGETHER.iter().find(|fault| fault.0 == rule).unwrap();
        let change = found(&[fault]).remove(0).change.unwrap();
        (change.to_string(), change.reversed().to_string())
    };
    let pair = |to: &str, back: &str| (to.to_owned(), back.to_owned());
    assert_eq!(change("down"), pair("ip link set dev eth0 up", "ip link set dev eth0 down"));
    assert_eq!(change("queues"), pair("ethtool -L eth0 combined 4", "ethtool -L eth0 combined 1"));
    assert_eq!(change("rings"), pair("ethtool -G eth0 rx 1024 tx 512", "ethtool -G eth0 rx 2040 tx 512"));
    assert_eq!(
        change("lro"),
        pair("ethtool -K eth0 large-receive-offload off", "ethtool -K eth0 large-receive-offload on")
    );
    assert_eq!(change("huge-pages"), pair("sysctl -w vm.nr_hugepages=32", "sysctl -w vm.nr_hugepages=0"));
    assert_eq!(
        change("forwarding"),
        pair("sysctl -w net.ipv4.conf.eth2.forwarding=0", "sysctl -w net.ipv4.conf.eth2.forwarding=1")
    );
}

/// Found in a review: `--undo` ran whatever stood in the journal.
#[test]
fn every_change_of_a_rule_is_of_a_form_that_is_undone() {
    let changes: Vec<_> = TOGETHER
        .iter()
        .chain(&ALONE)
        .flat_map(|fault| found(&[fault]))
        .filter_map(|finding| finding.change)
        .collect();
    assert!(changes.len() > 10, "{changes:?}");
    for change in changes {
        assert!(change.has_known_form() && change.reversed().has_known_form(), "{change}");
    }
}

/// Adds ports on these queues of eth0, which is a port already.
fn queues(wanted: &mut Wanted, numbers: &[u32]) {
    wanted.ports.truncate(1);
    for queue in numbers {
        let mut port = xdp("eth0");
        let Device::Xdp(place) = &mut port.device else { unreachable!() };
        (place.queue, port.name) = (*queue, format!("xdp:eth0:{queue}"));
        wanted.ports.push(port);
    }
}

fn changes(found: &[Finding]) -> Vec<String> {
    found.iter().filter_map(|finding| finding.change.as_ref().map(ToString::to_string)).collect()
}

#[test]
fn a_port_may_take_a_tap_interface_that_exists_and_a_client_a_socket_with_a_listener() {
    let (mut host, mut wanted) = (good_host(), wanted());
    host.interfaces.insert("tap0".into(), soft("tun", None));
    there(&mut host, "/run/memif.sock");
    host.paths.listened.insert("/run/memif.sock".into());
    wanted.ports.extend([tap("tap0"), memif(false)]);
    assert_eq!(findings(&host, &wanted), []);
}

#[test]
fn interrupts_are_no_fault_where_no_core_near_the_card_is_free_and_are_named_with_their_cores_else() {
    let fault = TOGETHER.iter().find(|fault| fault.0 == "interrupts").unwrap();
    let line = found(&[fault]).remove(0).to_string();
    assert!(line.contains("interrupts 33 and 43 run on cores 1, 2 and 3"), "{line}");
    assert!(line.contains("echo 0 > /proc/irq/33/smp_affinity_list, and the same for each"), "{line}");
    let (mut host, mut wanted) = (good_host(), wanted());
    fault.2(&mut host, &mut wanted);
    (wanted.workers, wanted.cores) = (2, vec![0, 1]);
    assert_eq!(findings(&host, &wanted), []);
    host.cores.governors.clear();
    assert_eq!(findings(&host, &wanted), [], "a virtual machine has no governors");
}

#[test]
fn a_port_that_takes_a_part_loses_nothing_to_vlans_and_bridges() {
    let (mut host, mut wanted) = (good_host(), wanted());
    place(&mut wanted).is_partial = true;
    host.interfaces.insert("macvlan0".into(), soft("macvlan", Some("eth0")));
    host.interfaces.insert("br0".into(), soft("bridge", None));
    eth0(&mut host).controller = Some("br0".into());
    assert_eq!(findings(&host, &wanted), []);
}

#[test]
fn a_kernel_that_can_be_kept_from_its_copies_forwards_none() {
    let found = |release: &str, lacks: &[&str], packets_alone: bool| {
        let (mut host, mut wanted) = (good_host(), wanted());
        host.kernel.release = release.into();
        host.process.capabilities.retain(|name| !lacks.contains(&name.as_str()));
        // The kernel forwards packets that come in on this interface.
        (wanted.ports, wanted.packets_alone) = (vec![packet("eth1")], packets_alone);
        findings(&host, &wanted).iter().any(|finding| finding.rule == "forwarding")
    };
    assert!(!found("6.6.0", &[], true) && !found("7.0.1-amd64", &[], true));
    assert!(found("6.5.13", &[], true), "it has no such programs");
    assert!(found("6.6.0", &["CAP_BPF"], true) && found("6.6.0", &["CAP_NET_ADMIN"], true));
    assert!(found("6.6.0", &[], false), "it is left its copies");
}
