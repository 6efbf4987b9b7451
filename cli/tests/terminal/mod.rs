//! A terminal that nobody reads until a test does.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;

/// A terminal that nobody reads, and its other end's path.
pub fn terminal() -> (File, String) {
    let reader = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&reader).expect("grantpt(3)");
    unlockpt(&reader).expect("unlockpt(3)");
    let name = ptsname(&reader, Vec::new()).expect("ptsname(3)");
    (reader.into(), name.into_string().expect("a path"))
}
