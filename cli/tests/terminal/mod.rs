//! A terminal that is not read until a test reads it.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;

/// Returns a terminal that is not read, and the path of its other end.
pub fn terminal() -> (File, String) {
    let reader = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&reader).expect("grantpt(3)");
    unlockpt(&reader).expect("unlockpt(3)");
    let name = ptsname(&reader, Vec::new()).expect("ptsname(3)");
    (reader.into(), name.into_string().expect("a path"))
}
