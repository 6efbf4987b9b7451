//! netmem's installed mempool ops for DPDK. The plug-in is opened by its name.
//!
//! The plug-in is linked to DPDK's shared libraries, and registers its ops with them. The lab contains DPDK's
//! static archives, and runs those. So the ops are copied from the one table into the other ([`Dpdk::adopt_ops`]).
//!
//! Sound because the plug-in and DPDK's libraries only register their ops when they are opened.

use std::env;
use std::ffi::CStr;
use std::path::Path;

use super::dpdk::Dpdk;
use super::libnetmem::{LIBRARY, library};
use crate::system::library::Library;

/// The name of netmem's ops.
pub const NETMEM: &CStr = c"netmem";
/// DPDK's default ops.
pub const RING: &CStr = c"ring_mp_mc";

/// The plug-in's file, in the folder of libnetmem.
const PLUG_IN: &str = "librte_mempool_netmem.so";

/// Registers netmem's ops with this DPDK.
///
/// # Errors
/// The way to install them.
pub fn adopt(dpdk: Dpdk) -> Result<(), String> {
    // First, so that the plug-in finds the library even if that is not installed.
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
