//! Rules about peers at sockets, files, and the names of TAP interfaces.

use super::interfaces::is_down;
use super::{interface, is_ethernet};
use crate::finding::{Findings, Harm};
use crate::host::Host;
use crate::wanted::{Device, Wanted, WantedPort};
use std::path::Path;

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for port in &wanted.ports {
        match &port.device {
            Device::Memif { path, is_server } => memif(host, port, (path, *is_server), found),
            Device::Files { input, output } => {
                if let Some(path) = input.as_deref() {
                    received(host, port, path, found);
                }
                if let Some(path) = output.as_deref() {
                    written(host, port, path, found);
                }
            }
            Device::Tap(name) => tap(host, port, name, found),
            Device::Xdp(_) | Device::Packet(_) => {}
        }
        port.traces.iter().for_each(|path| written(host, port, path, found));
    }
}

fn memif(host: &Host, port: &WantedPort, (path, is_server): (&Path, bool), found: &mut Findings) {
    const ANOTHER: &str = "give another path";
    // An abstract name has no file.
    if path.to_string_lossy().starts_with('@') {
        return;
    }
    if host.paths.no_sockets.contains(path) {
        let what = format!("{} exists and is not a socket", path.display());
        found.add("socket", Harm::Fails, &port.name, what, ANOTHER.to_owned());
        return;
    }
    if is_server && host.paths.listened.contains(path) {
        let what = format!("another process listens on {}", path.display());
        let remedy = format!("stop that process (ss -xlp), or {ANOTHER}");
        found.add("socket", Harm::Fails, &port.name, what, remedy);
    }
    let is_there = host.paths.there.contains(path);
    let is_abstract = host.abstract_sockets.contains(&*path.to_string_lossy());
    if !is_server && !is_there && is_abstract {
        let what = "the peer listens on an abstract socket of this name (DPDK's default), and there is no socket file"
            .to_owned();
        let remedy = format!("memif:@{}, or the DPDK side with socket-abstract=no", path.display());
        found.add("abstract-socket", Harm::Fails, &port.name, what, remedy);
    }
    if is_server && !host.paths.writable.contains(path) {
        let (what, remedy) = no_file(path);
        found.add("socket-folder", Harm::Fails, &port.name, what, remedy);
    }
}

/// Finds an interface that exists with the name of a TAP interface and is another kind: the kernel then makes none. A TAP interface
/// that exists is not set up by its port.
fn tap(host: &Host, port: &WantedPort, name: &str, found: &mut Findings) {
    let Some((own, its)) = interface(host, name) else { return };
    if its.kind.as_deref() != Some("tun") || !is_ethernet(its, &port.device) {
        let what = format!("there is an interface {own} already, which is no TAP interface");
        let remedy = format!("give another name, or packet:{own}, which uses that interface");
        found.add("tap-name", Harm::Fails, &port.name, what, remedy);
    } else {
        is_down(port, (own, its), found);
    }
}

/// Adds a finding if the path is a folder. Returns true if it is one.
fn is_folder(
    rule: &'static str,
    host: &Host,
    (port, path): (&WantedPort, &Path),
    found: &mut Findings,
) -> bool {
    let is_one = host.paths.folders.contains(path);
    if is_one {
        let what = format!("{} is a folder", path.display());
        found.add(rule, Harm::Fails, &port.name, what, "give the name of a file".to_owned());
    }
    is_one
}

/// Returns true for standard input or output.
fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

fn received(host: &Host, port: &WantedPort, path: &Path, found: &mut Findings) {
    if is_standard(path)
        || is_folder("input", host, (port, path), found)
        || host.paths.readable.contains(path)
    {
        return;
    }
    let (what, remedy) = if host.paths.there.contains(path) {
        (format!("{} cannot be read", path.display()), format!("chmod a+r {}", path.display()))
    } else {
        (format!("there is no file {}", path.display()), "check the path".to_owned())
    };
    found.add("input", Harm::Fails, &port.name, what, remedy);
}

fn written(host: &Host, port: &WantedPort, path: &Path, found: &mut Findings) {
    if is_standard(path)
        || is_folder("output", host, (port, path), found)
        || host.paths.writable.contains(path)
    {
        return;
    }
    let (what, remedy) = no_file(path);
    found.add("output", Harm::Fails, &port.name, what, remedy);
}

fn no_file(path: &Path) -> (String, String) {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let what = format!("{} cannot be made or written", path.display());
    (what, format!("mkdir -p {0}, or write access to it (ls -ld {0})", folder.display()))
}
