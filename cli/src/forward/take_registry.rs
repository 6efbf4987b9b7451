//! The keys that change the packets which xdp ports take of their interfaces.

use crate::control::registry::Registry;
use netmem::port::xdp::{Take, TakeControl, TakeError};
use std::sync::Arc;

/// Adds a key for each interface.
pub fn takes(registry: &mut Registry, takes: &[Arc<TakeControl>]) {
    for control in takes {
        let (of, to) = (Arc::clone(control), Arc::clone(control));
        let range = "rules as in udp:53+tcp:53@192.0.2.1, or none";
        registry.text(
            format!("xdp.{}.take", control.interface()),
            (range, "", "which packets the interface's ports take; the kernel gets all others"),
            move || of.get().to_string(),
            move |text| {
                let take: Take = text.parse().map_err(|error: TakeError| error.to_string())?;
                to.set(&take).map_err(|error| error.to_string())
            },
        );
    }
}
