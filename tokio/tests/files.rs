//! Tests of ports of files in tokio.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
mod scripted;

use netmem::port::pcap::{PcapConfig, PcapPort};
use netmem::{Batch, PortState};
use netmem_tokio::AsyncPort;
use scripted::{PATIENCE, pool, runtime, until};
use std::fs;
use std::path::{Path, PathBuf};
use tokio::time::timeout;

/// Whole packets before the damage.
const PACKETS: usize = 20;
const PACKET: usize = 60;
const HEADER: usize = 24;
const RECORD: usize = 16 + PACKET;

/// Returns a folder of this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a capture that ends within a packet.
fn damaged(path: &Path) {
    let mut bytes = [0xa1b2_3c4d_u32, 0, 0, 0, 65_535, 1].map(u32::to_ne_bytes).concat();
    bytes[4..8].copy_from_slice(&[2_u16, 4].map(u16::to_ne_bytes).concat());
    for i in 0..=PACKETS {
        bytes.extend([i as u32, 0, PACKET as u32, PACKET as u32].map(u32::to_ne_bytes).concat());
        bytes.extend([i as u8; PACKET]);
    }
    bytes.truncate(bytes.len() - 1);
    fs::write(path, bytes).unwrap();
}

/// Seen: of 1,253 packets in a damaged file, a shared port wrote 1,172 to its output, which was not damaged. The driver
/// ended while its reader still had the others, and refused them.
#[test]
fn a_port_whose_input_is_damaged_sends_until_the_last_task_that_sends_is_gone() {
    runtime().block_on(async {
        let folder = folder("damaged");
        let (input, output) = (folder.join("in.pcap"), folder.join("out.pcap"));
        damaged(&input);
        let config =
            PcapConfig { input: Some(input), output: Some(output.clone()), ring: 32, ..Default::default() };
        let (w, pool) = pool(128);
        let port = AsyncPort::new(Box::new(PcapPort::open("0", &config).unwrap()), w, pool).unwrap();
        let (mut incoming, outgoing, driver) = port.share(64);
        let (control, driver) = (driver.control(), tokio::spawn(driver.run()));
        until("the input fails", || control.is_failed()).await;
        let (mut received, mut frames) = (0, Batch::new());
        while let n @ 1.. =
            timeout(PATIENCE, incoming.receive_burst(&mut frames)).await.expect("all, then the end")
        {
            received += n;
            assert_eq!(timeout(PATIENCE, outgoing.transmit_burst(&mut frames)).await.unwrap(), n);
        }
        assert_eq!(received, PACKETS);
        assert!(!driver.is_finished(), "a task may still send");
        drop(outgoing);
        let port = timeout(PATIENCE, driver).await.expect("the driver ends").unwrap();
        assert!(matches!(port.port().state(), PortState::Down(reason) if reason.contains("damaged")));
        assert!(port.close(PATIENCE).await);
        assert_eq!(fs::metadata(output).unwrap().len() as usize, HEADER + PACKETS * RECORD);
    });
}
