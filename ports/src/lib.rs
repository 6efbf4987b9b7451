//! This crate parses port strings, and opens the ports that they name ([`PortOpener`]).
//!
//! Port strings are `xdp:eth0:1`, `memif:PATH`, `packet:eth0`, `tap:tap0`, `pcap:in=FILE`, and those of the ports that wrap
//! them (`fault:`, `trace:`).
//!
//! ```
//! use netmem_ports::{DeviceSpec, port_spec};
//!
//! let spec = port_spec("fault:drop=1/100/pcap:in=a.pcap")?;
//! assert!(spec.ends() && spec.wraps.len() == 1);
//! assert!(matches!(spec.device, DeviceSpec::Pcap { .. }));
//! assert!(port_spec("eth0").unwrap_err().contains("did you mean packet:eth0 or xdp:eth0?"));
//! # Ok::<(), String>(())
//! ```
#![deny(unsafe_code)]

mod kind;
#[allow(unsafe_code)]
mod lend;
mod memif;
mod nearest;
mod open;
mod options;
mod packet;
mod pcap;
mod spec;
mod xdp;

pub use memif::{open_files_by, warn_by, without_secrets};
pub use nearest::nearest;
pub use open::{KernelCopies, OpenConfig, OpenError, OpenPort, PortOpener, PortPlace};
pub use packet::PacketSpec;
pub use spec::{DeviceSpec, PortSpec, WrapSpec, port_spec};
pub use xdp::{QueueCount, XdpSpec};
