//! Backlogs and flows between two ends that are joined without a device, or with a faulty port instead.

use netmem::limits::CHUNK_SIZE;
use netmem::page::MemoryConfig;
use netmem::pool::Pool;
use netmem::port::Port;
use netmem::port::fault::{Chance, FaultConfig, FaultPort};
use netmem::port::memif::{MemifConfig, MemifPort, Role, Sealing};
use netmem_traffic::StreamConfig;

use super::{Backlog, Ends, Flow, Path, Tools, lending};
use crate::bench::tests::report_of;
use crate::experiments::scratch::Folder;
use crate::json::{Params, Report};
use crate::method::round::{Label, Variant};
use crate::method::window::Windows;
use netmem::system::cpu;

const RING: u32 = 1_024;

/// Makes a path directly from a memif client to its server, whose port is wrapped.
fn path(folder: &Folder, wrap: impl FnOnce(Box<dyn Port>, &Pool) -> Box<dyn Port>) -> Path {
    let frames = 4 * RING as usize;
    let config = MemoryConfig { bytes: frames * CHUNK_SIZE, workers: 1, ..MemoryConfig::default() };
    let tools = Tools::new(lending::memory(&config).unwrap(), frames).unwrap();
    let open = |role| {
        let lend = Some(lending::to_peers_of_ours());
        // Memory that is lent cannot be sealed against holes.
        let sealing = Sealing::HolesAllowed;
        let config = MemifConfig { role, ring: RING, sealing, lend, ..MemifConfig::default() };
        Box::new(MemifPort::open(&folder.path("sock"), &tools.memory, &config).unwrap()) as Box<dyn Port>
    };
    let receiver = open(Role::Server);
    let sender = open(Role::Client);
    let receiver = wrap(receiver, &tools.pool);
    let stream = |stream| StreamConfig { stream, ..StreamConfig::default() };
    let ends = Ends::new(tools, [sender, receiver], stream(1)).unwrap();
    let label = Label { variant: "limit".into(), params: Params::new() };
    Path::new(label, (ends, None), &stream(2)).unwrap()
}

/// The windows of a measurement, and the final report.
type Settled = (Windows, Report);

fn backlogs(wrap: impl FnOnce(Box<dyn Port>, &Pool) -> Box<dyn Port>) -> Settled {
    let folder = Folder::new().unwrap();
    let mut backlog = Backlog::new(path(&folder, wrap), RING as usize);
    (backlog.round(8), report_of(false, |bench| backlog.settle(bench)))
}

fn flows(wrap: impl FnOnce(Box<dyn Port>, &Pool) -> Box<dyn Port>) -> Settled {
    let folder = Folder::new().unwrap();
    let mut flow = Flow::new(path(&folder, wrap), RING as usize / 2, cpu::allowed().unwrap()[0]);
    (flow.round(8), report_of(false, |bench| flow.settle(bench)))
}

/// Makes a port with these faults.
fn faulty(config: FaultConfig) -> impl Fn(Box<dyn Port>, &Pool) -> Box<dyn Port> {
    move |port, pool| Box::new(FaultPort::new(port, pool.clone(), config.clone()))
}

fn seen(windows: &Windows) -> usize {
    windows.per_op.len() + (windows.paused + windows.starved) as usize
}

#[test]
fn every_packet_of_all_backlogs_and_flows_is_accounted_for_and_every_frame_is_freed() {
    for (windows, report) in [backlogs(|port, _| port), flows(|port, _| port)] {
        assert_eq!(seen(&windows), 8);
        assert!(report.ok() && report.checks.len() == 3, "{:?}", report.checks);
    }
}

#[test]
fn a_flow_through_the_kernel_alone_never_waits_and_costs_what_sending_does() {
    let (windows, report) = flows(|port, _| port);
    assert_eq!(windows.starved, 0);
    assert!(windows.per_op.iter().all(|&ticks| ticks > 0.0), "{windows:?}");
    assert!(report.notes.iter().any(|note| note.contains(", 0 ns the device's")), "{:?}", report.notes);
}

#[test]
fn a_packet_that_is_lost_ends_the_measurement_and_fails_its_check() {
    let lossy = faulty(FaultConfig { drop: Chance::Every(2_000), ..FaultConfig::default() });
    for (windows, report) in [backlogs(&lossy), flows(&lossy)] {
        assert_eq!(seen(&windows), 0, "it is lost before the first that counts");
        let check = &report.checks[0];
        assert!(
            !check.ok && check.detail.contains("1 lost") && check.detail.contains("came out"),
            "{check:?}"
        );
        assert!(report.checks[1].ok && report.checks[2].ok, "{:?}", report.checks);
    }
}

#[test]
fn a_packet_that_is_corrupted_or_comes_late_fails_its_check() {
    let some = Chance::Every(3_000);
    for config in [
        FaultConfig { corrupt: some, seed: 3, ..FaultConfig::default() },
        FaultConfig { reorder: some, ..FaultConfig::default() },
    ] {
        let faulty = faulty(config);
        for (_, report) in [backlogs(&faulty), flows(&faulty)] {
            assert!(!report.checks[1].ok, "{:?}", report.checks);
        }
    }
}
