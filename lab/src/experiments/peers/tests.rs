//! Backlogs between two ends that are joined without a device, or with a faulty port in its place.

use netmem::forward::traffic::StreamConfig;
use netmem::limits::CHUNK_SIZE;
use netmem::page::{Memory, MemoryConfig};
use netmem::pool::Pool;
use netmem::port::Port;
use netmem::port::fault::{Chance, FaultConfig, FaultPort};
use netmem::port::memif::{MemifConfig, MemifPort, Role};

use super::middle::Folder;
use super::{Backlog, Costs, Ends, Tools};
use crate::bench::tests::report_of;
use crate::json::{Params, Report};
use crate::method::round::{Label, Variant};

const RING: u32 = 1_024;

/// A path straight from a memif client to its server, whose port is wrapped.
fn path(folder: &Folder, wrap: impl FnOnce(Box<dyn Port>, &Pool) -> Box<dyn Port>) -> Backlog {
    let frames = 4 * RING as usize;
    let config = MemoryConfig { bytes: frames * CHUNK_SIZE, workers: 1, ..MemoryConfig::default() };
    let tools = Tools::new(Memory::shared(&config).unwrap(), frames).unwrap();
    let open = |role| {
        let config = MemifConfig { role, ring: RING, ..MemifConfig::default() };
        Box::new(MemifPort::open(&folder.path("sock"), &tools.memory, &config).unwrap()) as Box<dyn Port>
    };
    let receiver = open(Role::Server);
    let sender = open(Role::Client);
    let receiver = wrap(receiver, &tools.pool);
    let stream = |stream| StreamConfig { stream, ..StreamConfig::default() };
    let ends = Ends::new(tools, [sender, receiver], stream(1)).unwrap();
    let label = Label { variant: "limit".into(), params: Params::new() };
    Backlog::new(label, (ends, None), Costs::Sender, RING as usize, &stream(2)).unwrap()
}

fn settled(wrap: impl FnOnce(Box<dyn Port>, &Pool) -> Box<dyn Port>) -> (usize, Report) {
    let folder = Folder::new("backlog").unwrap();
    let mut path = path(&folder, wrap);
    let windows = path.round(8);
    let taken = windows.per_op.len() + windows.paused as usize + windows.starved as usize;
    (taken, report_of(false, |bench| path.settle(bench)))
}

#[test]
fn every_packet_of_all_backlogs_is_accounted_for_and_every_frame_goes_home() {
    let (taken, report) = settled(|port, _| port);
    assert_eq!(taken, 8);
    assert!(report.ok() && report.checks.len() == 3, "{:?}", report.checks);
}

#[test]
fn a_packet_that_is_lost_ends_the_measurement_and_fails_its_check() {
    let (taken, report) = settled(|port, pool| {
        let drop = Chance::Every(3_000);
        Box::new(FaultPort::new(port, pool.clone(), FaultConfig { drop, ..FaultConfig::default() }))
    });
    assert_eq!(taken, 0, "it is lost in the third backlog, before the first that counts");
    let check = &report.checks[0];
    assert!(!check.ok && check.detail.contains("1 lost") && check.detail.contains("came out"), "{check:?}");
    assert!(report.checks[1].ok && report.checks[2].ok, "{:?}", report.checks);
}

#[test]
fn a_packet_that_is_spoilt_or_comes_late_fails_its_check() {
    let some = Chance::Every(3_000);
    for config in [
        FaultConfig { corrupt: some, seed: 3, ..FaultConfig::default() },
        FaultConfig { reorder: some, ..FaultConfig::default() },
    ] {
        let (_, report) =
            settled(|port, pool| Box::new(FaultPort::new(port, pool.clone(), config)) as Box<dyn Port>);
        assert!(!report.checks[1].ok, "{:?}", report.checks);
    }
}
