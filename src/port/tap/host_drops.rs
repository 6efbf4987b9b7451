//! COLD: the frames that the host dropped because the queue of the interface was full.

use crate::sys::netdev::Netdev;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The counts that ports of this process have.
static OPEN: Mutex<Vec<Weak<HostDrops>>> = Mutex::new(Vec::new());

/// The kernel's count of the frames that an interface dropped when transmitting. The ports of its queues share it, and
/// each frame is counted by one of them.
#[derive(Debug)]
pub(super) struct HostDrops {
    /// The interface's `tx_dropped` in /sys. It is the interface's own, also after a rename.
    file: File,
    /// The device and the number of that file.
    id: (u64, u64),
    /// The kernel's count up to which frames are counted.
    counted: Mutex<u64>,
}

impl HostDrops {
    /// Returns the count of this interface, for frames that are dropped from now on. Returns None if /sys does not show
    /// the interface: it shows those of the network namespace for which it was mounted.
    pub(super) fn of(netdev: &Netdev) -> Option<Arc<HostDrops>> {
        let folder = format!("/sys/class/net/{}", netdev.name());
        let says = |name| fs::read_to_string(format!("{folder}/{name}")).ok();
        let mac = netdev.mac_at_once().ok()?.map(|byte| format!("{byte:02x}")).join(":");
        // An interface of the same name in another namespace may have the same number, but not the same address.
        if says("ifindex")?.trim() != netdev.index().to_string() || says("address")?.trim() != mac {
            return None;
        }
        HostDrops::in_file(File::open(format!("{folder}/statistics/tx_dropped")).ok()?)
    }

    /// Returns the count in this file, which ports that opened the same file share.
    pub(super) fn in_file(file: File) -> Option<Arc<HostDrops>> {
        let about = file.metadata().ok()?;
        let id = (about.dev(), about.ino());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|one| one.strong_count() > 0);
        if let Some(shared) = open.iter().filter_map(Weak::upgrade).find(|one| one.id == id) {
            return Some(shared);
        }
        let counted = Mutex::new(read(&file)?);
        let new = Arc::new(HostDrops { file, id, counted });
        open.push(Arc::downgrade(&new));
        Some(new)
    }

    /// Returns the frames that were dropped since the last call by any port, or 0 if the interface is gone.
    ///
    /// # Cost
    /// One system call.
    pub(super) fn take(&self) -> u64 {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let now = read(&self.file).unwrap_or(*counted).max(*counted);
        now - std::mem::replace(&mut *counted, now)
    }
}

/// Returns the number in the file.
fn read(file: &File) -> Option<u64> {
    let mut text = [0; 24];
    let len = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
}
