//! Properties that the kernel and the file system show in files. Source: proc(5), sysfs(5).

use crate::change::{file_of, interface_key};
use crate::host::{Cores, Interface, Kernel, MemoryState, NeighbourTable, Paths, named};
use crate::wanted::{Device, Wanted};
use rustix::fs::{Access, access};
use rustix::net::{AddressFamily, SocketType, socket};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Bytes of the huge pages that are counted.
const HUGE: u64 = 2 << 20;
/// Settings of the whole host, and of each interface, for IPv4 and IPv6.
const OF_THE_HOST: [&str; 10] = [
    "net.core.bpf_jit_enable",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.conf.default.rp_filter",
    "net.ipv4.neigh.default.gc_thresh2",
    "net.ipv4.neigh.default.gc_thresh3",
    "net.ipv4.nexthop_compat_mode",
    "net.ipv6.conf.all.forwarding",
    "net.ipv6.neigh.default.gc_thresh2",
    "net.ipv6.neigh.default.gc_thresh3",
    "vm.nr_hugepages",
];
/// The file `conf/IF/forwarding` of IPv6 says whether the host acts as a router there, and not whether it forwards.
const OF_AN_INTERFACE: [(&str, &str); 6] = [
    ("ipv4", "forwarding"),
    ("ipv4", "rp_filter"),
    ("ipv6", "accept_ra"),
    ("ipv6", "disable_ipv6"),
    ("ipv6", "force_forwarding"),
    ("ipv6", "forwarding"),
];

pub fn kernel() -> Kernel {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let af_xdp = match socket(AddressFamily::XDP, SocketType::RAW, None) {
        Ok(_) => Some(true),
        Err(rustix::io::Errno::AFNOSUPPORT) => Some(false),
        Err(_) => None,
    };
    Kernel { release, af_xdp, tun: Path::new("/dev/net/tun").exists() }
}

pub fn memory() -> MemoryState {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let (huge_free, huge_total) = huge_pages(Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB"));
    let chosen = line_of(Path::new("/sys/kernel/mm/transparent_hugepage/enabled")).unwrap_or_default();
    let chosen = chosen.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
    MemoryState {
        available: of("MemAvailable") << 10,
        huge_free: huge_free * HUGE,
        huge_total: huge_total * HUGE,
        huge_size: of("Hugepagesize") << 10,
        transparent: chosen,
        ..MemoryState::default()
    }
}

/// Returns the numbers of huge pages that a new mapping can have, and of all, from the kernel's folder. Pages that are promised to a
/// mapping which has not touched them yet still count as free there.
fn huge_pages(folder: &Path) -> (u64, u64) {
    let pages = |name: &str| line_of(&folder.join(name)).and_then(|line| line.parse().ok()).unwrap_or(0_u64);
    (pages("free_hugepages").saturating_sub(pages("resv_hugepages")), pages("nr_hugepages"))
}

/// Returns the tables of neighbours that the kernel shows.
pub fn neighbours() -> BTreeMap<String, NeighbourTable> {
    let read = |(family, table): (&str, &str)| {
        let text = fs::read_to_string(Path::new("/proc/net/stat").join(table)).ok()?;
        Some((family.to_owned(), neighbour_table(&text)?))
    };
    [("ipv4", "arp_cache"), ("ipv6", "ndisc_cache")].into_iter().filter_map(read).collect()
}

/// Reads a table's file: names, and a line of hexadecimal numbers for each core. Each line has all entries, and the other
/// counters of its core. Source: `neigh_stat_seq_show`.
fn neighbour_table(text: &str) -> Option<NeighbourTable> {
    let (names, lines) = text.split_once('\n')?;
    let column = |name: &str| {
        let at = names.split_whitespace().position(|its| its == name)?;
        let number = |line: &str| u64::from_str_radix(line.split_whitespace().nth(at)?, 16).ok();
        Some(lines.lines().map_while(number).collect::<Vec<_>>())
    };
    // Old kernels do not count refusals.
    let refused = column("table_fulls").unwrap_or_default().iter().sum();
    Some(NeighbourTable { entries: *column("entries")?.first()?, refused })
}

pub fn cores(allowed: Vec<u32>) -> Cores {
    let folder = Path::new("/sys/devices/system");
    let list = |file: &str| line_of(&folder.join(file)).map(|line| ranges(&line)).unwrap_or_default();
    let (online, isolated) = (list("cpu/online"), list("cpu/isolated"));
    let mut nodes = BTreeMap::new();
    for node in list("node/online") {
        nodes.insert(node, list(&format!("node/node{node}/cpulist")));
    }
    let governor = |core: &u32| {
        let file = folder.join(format!("cpu/cpu{core}/cpufreq/scaling_governor"));
        line_of(&file).map(|governor| (*core, governor))
    };
    let governors = allowed.iter().filter_map(governor).collect();
    Cores { governors, allowed, online, isolated, nodes, ..Cores::default() }
}

/// Returns the interrupts of a device on a bus: one for each queue with MSI-X, or else that of its line. A USB
/// device has no interrupts of its own: its controller has them, for all devices on the bus.
pub fn interrupts(parent: &(String, String)) -> BTreeMap<u32, Vec<u32>> {
    if parent.0 == "usb" {
        return BTreeMap::new();
    }
    let Some(folder) = nearest_with(&folder_of(parent), &INTERRUPTS) else { return BTreeMap::new() };
    let cores = |number: u32| {
        let files = ["effective_affinity_list", "smp_affinity_list"];
        let of = |file: &&str| line_of(&Path::new("/proc/irq").join(number.to_string()).join(file));
        let list = files.iter().find_map(|file| of(file).filter(|list| !list.is_empty()))?;
        Some((number, ranges(&list)))
    };
    numbers_in(&folder).into_iter().filter_map(cores).collect()
}

/// The files of a device that has interrupts.
const INTERRUPTS: [&str; 2] = ["msi_irqs", "irq"];

/// Returns the numbers of the interrupts of the device with this folder.
fn numbers_in(folder: &Path) -> Vec<u32> {
    let number = |name: &str| name.parse().ok().filter(|number| *number > 0_u32);
    let messages = fs::read_dir(folder.join("msi_irqs")).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = messages.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    if numbers.is_empty() {
        numbers.extend(line_of(&folder.join("irq")).and_then(|line| number(&line)));
    }
    numbers
}

/// Returns the driver and the NUMA node of a device on a bus.
pub fn hardware(parent: &(String, String)) -> (Option<String>, Option<u32>) {
    let folder = folder_of(parent);
    let driver = fs::read_link(folder.join("driver")).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let node = nearest_with(&folder, &["numa_node"]).and_then(|folder| line_of(&folder.join("numa_node")));
    // -1 if there is only one node, or if the node is unknown.
    (driver, node.and_then(|line| line.parse().ok()))
}

fn folder_of((bus, device): &(String, String)) -> PathBuf {
    Path::new("/sys/bus").join(bus).join("devices").join(device)
}

/// Returns the bus that has a device of this name.
pub fn bus_of(device: &str) -> Option<String> {
    bus_below(Path::new("/sys/bus"), device)
}

/// As [`bus_of`], for the buses in this folder.
fn bus_below(root: &Path, device: &str) -> Option<String> {
    // Another text would lead to another folder.
    Path::new(device).file_name().filter(|name| *name == device)?;
    let has = |bus: &fs::DirEntry| bus.path().join("devices").join(device).exists();
    let bus = fs::read_dir(root).ok()?.flatten().find(has)?;
    bus.file_name().into_string().ok()
}

/// Returns the folder of a device, or of the nearest device above it, that has one of these files. A virtio device has no
/// interrupts and no node, but the PCI device above it has.
fn nearest_with(folder: &Path, files: &[&str]) -> Option<PathBuf> {
    nearest_below(Path::new("/sys/devices"), folder, files)
}

/// As [`nearest_with`], for devices below `root`.
fn nearest_below(root: &Path, folder: &Path, files: &[&str]) -> Option<PathBuf> {
    let device = fs::canonicalize(folder).ok()?;
    let above = device.ancestors().take_while(|above| above.starts_with(root));
    let has = |above: &&Path| files.iter().any(|file| above.join(file).exists());
    { above }.find(has).map(Path::to_owned)
}

/// Returns the settings that the rules examine. The kernel has those of an interface under its own name only.
pub fn settings(wanted: &Wanted, interfaces: &BTreeMap<String, Interface>) -> BTreeMap<String, String> {
    let of_the_host = OF_THE_HOST.into_iter().map(str::to_owned);
    let names = wanted.ports.iter().filter_map(|port| match &port.device {
        Device::Tap(name) => Some(&name[..]),
        device => device.interface(),
    });
    let names = names.map(|name| named(interfaces, name).map_or(name, |(own, _)| own));
    let of_interfaces = names.flat_map(|name| {
        OF_AN_INTERFACE.into_iter().map(move |(family, setting)| interface_key(family, name, setting))
    });
    let read = |key: String| line_of(&file_of(&key)).map(|value| (key, value));
    of_the_host.chain(of_interfaces).filter_map(read).collect()
}

/// Returns the state of the files that the ports name, and of the folders of files that are to be created.
pub fn paths(wanted: &Wanted) -> Paths {
    let mut paths = Paths::default();
    for port in &wanted.ports {
        let named: Vec<&PathBuf> = match &port.device {
            Device::Memif { path, .. } => vec![path],
            Device::Files { input, output } => input.iter().chain(output).collect(),
            _ => Vec::new(),
        };
        for path in named.into_iter().chain(&port.traces) {
            look(path, &mut paths);
        }
    }
    paths
}

fn look(path: &Path, paths: &mut Paths) {
    let may = |path: &Path, what| access(path, what).is_ok();
    let found = path.metadata().ok();
    let is_there = found.is_some();
    if let Some(kind) = found.map(|found| found.file_type()) {
        paths.there.insert(path.to_owned());
        if kind.is_dir() {
            paths.folders.insert(path.to_owned());
        }
        if !kind.is_socket() {
            paths.no_sockets.insert(path.to_owned());
        }
    }
    if may(path, Access::READ_OK) {
        paths.readable.insert(path.to_owned());
    }
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if if is_there { may(path, Access::WRITE_OK) } else { folder.is_dir() && may(folder, Access::WRITE_OK) } {
        paths.writable.insert(path.to_owned());
    }
}

fn line_of(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned())
}

/// Returns the numbers of a list in the kernel's notation: `0-3,8`.
fn ranges(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wanted::WantedPort;
    use std::collections::BTreeSet;
    use std::os::unix::net::UnixListener;

    #[test]
    fn lists_of_cores_are_numbers_and_ranges() {
        assert_eq!(ranges("0-2,7\n"), [0, 1, 2, 7]);
        assert_eq!((ranges(""), ranges("none")), (vec![], vec![]));
    }

    #[test]
    fn a_table_of_neighbours_has_all_entries_in_each_line_and_the_refusals_of_one_core() {
        let table = |entries, refused| Some(NeighbourTable { entries, refused });
        let old = "entries  allocs unresolved_discards\n0000000a 00003bd8 00000000\n";
        assert_eq!(neighbour_table(old), table(10, 0));
        let text = "entries  allocs   table_fulls\n00000400 00003bd8 00000010\n00000400 000026b5 00000002\n";
        assert_eq!(neighbour_table(text), table(1024, 18));
        assert_eq!((neighbour_table(""), neighbour_table("entries\nx\n")), (None, None));
    }

    /// Found in a review: pages that another program had mapped and not touched counted as free.
    #[test]
    fn huge_pages_that_are_promised_to_another_program_are_not_free() {
        let folder = std::env::temp_dir().join(format!("netmem-doctor-huge-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, pages) in
            [("nr_hugepages", "64\n"), ("free_hugepages", "40\n"), ("resv_hugepages", "30\n")]
        {
            fs::write(folder.join(name), pages).unwrap();
        }
        assert_eq!(huge_pages(&folder), (10, 64));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(huge_pages(&folder), (0, 0));
    }

    #[test]
    fn a_file_that_is_to_be_made_is_writable_where_its_folder_is() {
        let mut paths = Paths::default();
        let folder = std::env::temp_dir();
        let (new, nowhere) = (folder.join("netmem-doctor-new"), folder.join("netmem-doctor-no/x"));
        look(&new, &mut paths);
        look(&nowhere, &mut paths);
        assert_eq!(paths.writable.iter().collect::<Vec<_>>(), [&new]);
        assert!(paths.there.is_empty() && paths.readable.is_empty());
    }

    #[test]
    fn folders_files_and_sockets_are_told_apart_and_the_file_of_a_trace_is_looked_at() {
        let folder = std::env::temp_dir().join(format!("netmem-doctor-kinds-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, socket) = (folder.join("file"), folder.join("socket"));
        fs::write(&file, "").unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let port = |path: &PathBuf| WantedPort {
            name: String::new(),
            device: Device::Memif { path: path.clone(), is_server: true },
            traces: vec![file.clone()],
        };
        let ports = [&folder, &socket].map(port).to_vec();
        let paths = paths(&Wanted { ports, ..Wanted::default() });
        drop(listener);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(paths.there, BTreeSet::from([folder.clone(), file.clone(), socket]));
        assert_eq!(paths.folders, BTreeSet::from([folder.clone()]));
        assert_eq!(paths.no_sockets, BTreeSet::from([folder, file]));
    }

    #[test]
    fn the_bus_of_a_device_is_the_one_whose_folder_has_it() {
        let root = std::env::temp_dir().join(format!("netmem-doctor-buses-{}", std::process::id()));
        for device in ["pci/devices/0000:03:00.0", "usb/devices/usb1"] {
            fs::create_dir_all(root.join(device)).unwrap();
        }
        let bus = |device: &str| bus_below(&root, device);
        let found = ["0000:03:00.0", "usb-0000:00:14.0-1", "", ".", "../devices/usb1"].map(bus);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [Some("pci".to_owned()), None, None, None, None]);
    }

    /// Seen: a virtio interface had no interrupts and no NUMA node.
    #[test]
    fn a_device_has_the_interrupts_and_the_node_of_the_nearest_device_above_it_that_has_some() {
        let root = std::env::temp_dir().join(format!("netmem-doctor-devices-{}", std::process::id()));
        let card = root.join("bus/card");
        let device = card.join("virtio0");
        fs::create_dir_all(&device).unwrap();
        fs::write(root.join("numa_node"), "7\n").unwrap();
        fs::create_dir(card.join("msi_irqs")).unwrap();
        fs::write(card.join("numa_node"), "1\n").unwrap();
        fs::write(card.join("irq"), "9\n").unwrap();
        let root = fs::canonicalize(&root).unwrap();
        let card = fs::canonicalize(&card).unwrap();
        let nearest = |files: &[&str]| nearest_below(&root, &device, files);
        assert_eq!(nearest(&["numa_node"]).as_deref(), Some(card.as_path()));
        assert_eq!(nearest(&INTERRUPTS).as_deref(), Some(card.as_path()));
        assert_eq!(nearest(&["driver"]), None);
        assert_eq!(numbers_in(&card), [9], "without messages it has that of its line");
        for number in ["40", "41", "0"] {
            fs::write(card.join("msi_irqs").join(number), "msix\n").unwrap();
        }
        let numbers = BTreeSet::from_iter(numbers_in(&card));
        assert_eq!(numbers, BTreeSet::from([40, 41]));
        let outside = root.join("bus");
        assert_eq!(nearest_below(&card, &outside, &["numa_node"]), None, "it is not below that");
        fs::remove_dir_all(&root).unwrap();
    }

    /// The same on this machine, which need not have such a device.
    #[test]
    fn a_virtio_device_has_the_interrupts_and_the_node_of_the_pci_device_above_it() {
        let devices = fs::read_dir("/sys/bus/virtio/devices").into_iter().flatten().flatten();
        for name in devices.filter_map(|entry| entry.file_name().into_string().ok()) {
            let parent = ("virtio".to_owned(), name);
            let Ok(device) = fs::canonicalize(folder_of(&parent)) else { continue };
            let Some(above) = device.parent().filter(|above| above.join("numa_node").exists()) else {
                continue;
            };
            assert_eq!(nearest_with(&device, &["numa_node"]).as_deref(), Some(above));
            let messages = fs::read_dir(above.join("msi_irqs")).into_iter().flatten().count();
            assert!(interrupts(&parent).len() <= messages.max(1));
        }
        assert_eq!(nearest_with(Path::new("/sys/bus/netmem-none"), &["irq"]), None);
        assert_eq!(nearest_with(&std::env::temp_dir(), &[""]), None, "that is no device");
    }

    /// Seen: `conf/IF/forwarding` was read, which does not control whether IPv6 is forwarded.
    #[test]
    fn forwarding_of_ipv6_is_read_from_the_setting_of_all_interfaces() {
        let ports = vec![WantedPort {
            name: "packet:lo".into(),
            device: Device::Packet("lo".into()),
            traces: Vec::new(),
        }];
        let settings = settings(&Wanted { ports, ..Wanted::default() }, &BTreeMap::new());
        let has_ipv6 = Path::new("/proc/sys/net/ipv6/conf/all/forwarding").exists();
        assert_eq!(settings.contains_key("net.ipv6.conf.all.forwarding"), has_ipv6);
        assert_eq!(settings.contains_key("net.ipv6.conf.lo.disable_ipv6"), has_ipv6);
    }

    /// Found in a review: no setting of an interface that a port names by an altname was read, and `--undo` wrote 0 for
    /// its value.
    #[test]
    fn settings_are_read_under_an_interfaces_own_name_where_a_port_gives_another_one() {
        let other_names = vec!["loopback".to_owned()];
        let interfaces =
            BTreeMap::from([("lo".to_owned(), Interface { other_names, ..Interface::default() })]);
        let port = |device| WantedPort { name: String::new(), device, traces: Vec::new() };
        for device in [Device::Packet("loopback".into()), Device::Tap("loopback".into())] {
            let wanted = Wanted { ports: vec![port(device)], ..Wanted::default() };
            let settings = settings(&wanted, &interfaces);
            assert!(settings.contains_key("net.ipv4.conf.lo.rp_filter"), "{settings:?}");
        }
    }
}
