//! netmem's mempool ops for DPDK, as they are installed: the plug-in is opened by its name.
//!
//! The plug-in is linked to DPDK's shared libraries, and registers its ops with them; the lab has DPDK's archives in it, and runs those. So the ops are taken
//! over from the one table into the other ([`Dpdk::adopt_ops`]).
//!
//! Sound because the plug-in and DPDK's libraries only register what they have when they are opened.

use std::env;
use std::ffi::CStr;
use std::path::Path;

use super::dpdk::Dpdk;
use super::libnetmem::{LIBRARY, library};
use crate::system::library::Library;

/// What netmem's ops are called.
pub const NETMEM: &CStr = c"netmem";
/// DPDK's own, where none are chosen.
pub const RING: &CStr = c"ring_mp_mc";

/// The plug-in's file, beside libnetmem's.
const PLUG_IN: &str = "librte_mempool_netmem.so";

/// Makes netmem's ops ops of this DPDK.
///
/// # Errors
/// How to get them.
pub fn adopt(dpdk: Dpdk) -> Result<(), String> {
    // First: so the plug-in has found it, also where it is not installed.
    library()?;
    let beside = env::var(LIBRARY).ok().map(|library| Path::new(&library).with_file_name(PLUG_IN));
    let named = beside.map_or_else(|| PLUG_IN.to_owned(), |path| path.to_string_lossy().into_owned());
    // SAFETY: see the module.
    let plug_in = unsafe { Library::open(&named) }.ok_or_else(|| {
        format!(
            "there is no {named}: make -C capi install-dpdk PREFIX=DIR and name DIR/lib/libnetmem.so.0 by {LIBRARY}"
        )
    })?;
    dpdk.adopt_ops(plug_in, NETMEM).map_err(|why| format!("{named}: {why}"))
}
