//! Sockets of other programs: bound AF_XDP sockets, and the names of listening Unix sockets.
//!
//! Source: sock_diag(7), `linux/xdp_diag.h`, proc_net_unix of proc(5).

use super::netlink::{Asker, Extent, find};
use crate::host::BoundSocket;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;

const BY_FAMILY: u16 = 20;
const AF_XDP: u8 = 44;
/// Bytes of `struct xdp_diag_req`, and the flags for the information to return: the interface and the queue.
const REQUEST: usize = 20;
const SHOW: usize = 8;
const SHOW_INFO: u32 = 1;
/// Bytes of `struct xdp_diag_msg`, and the offset of the inode's number.
const MESSAGE: usize = 16;
const INODE: usize = 4;
/// `struct xdp_diag_info`: the index of the interface, and the queue.
const INFO: u16 = 1;

/// Returns the bound sockets of each interface, by its index.
///
/// # Errors
/// `ENOENT` if the kernel was built without XDP_SOCKETS_DIAG, or if its module is missing.
pub fn bound() -> io::Result<BTreeMap<u32, Vec<BoundSocket>>> {
    let mut request = [0; REQUEST];
    request[0] = AF_XDP;
    request[SHOW..SHOW + 4].copy_from_slice(&SHOW_INFO.to_ne_bytes());
    let answers = Asker::new(NETLINK_SOCK_DIAG)?.ask(BY_FAMILY, Extent::All, &request)?;
    let sockets: Vec<(u32, u32, u64)> = answers.iter().filter_map(|body| socket(body)).collect();
    let holders = if sockets.is_empty() { BTreeMap::new() } else { holders() };
    let mut bound: BTreeMap<u32, Vec<BoundSocket>> = BTreeMap::new();
    for (interface, queue, inode) in sockets {
        let socket = BoundSocket { queue, holder: holders.get(&inode).cloned() };
        bound.entry(interface).or_default().push(socket);
    }
    Ok(bound)
}

/// Returns a socket's interface, queue and inode, or None if it is not bound.
fn socket(body: &[u8]) -> Option<(u32, u32, u64)> {
    let word = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let inode = word(body.get(INODE..)?)?;
    let info = find(body.get(MESSAGE..)?, INFO)?;
    let (interface, queue) = (word(info)?, word(info.get(4..)?)?);
    (interface > 0).then_some((interface, queue, u64::from(inode)))
}

/// Returns the process that owns each socket, out of the processes that this one may examine.
fn holders() -> BTreeMap<u64, String> {
    let mut holders = BTreeMap::new();
    let Ok(processes) = fs::read_dir("/proc") else { return holders };
    for process in processes.flatten() {
        let number = process.file_name();
        let Some(number) = number.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        let mut name = None;
        for descriptor in descriptors.flatten() {
            let Some(inode) = fs::read_link(descriptor.path()).ok().and_then(|target| {
                target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
            }) else {
                continue;
            };
            let name = name.get_or_insert_with(|| {
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                format!("{} (process {number})", name.trim_end())
            });
            holders.insert(inode, name.clone());
        }
    }
    holders
}

/// The names on which Unix sockets of this network namespace listen.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listening {
    /// The abstract names, without the first zero byte.
    pub abstract_names: BTreeSet<String>,
    /// The absolute paths. A relative one depends on the folder of the process.
    pub paths: BTreeSet<PathBuf>,
}

pub fn listening() -> io::Result<Listening> {
    fs::read_to_string("/proc/net/unix").map(|text| listening_of(&text))
}

/// The fields of a line are the address, counts, flags in hexadecimal, type, state, inode and name. `@` stands for
/// the first zero byte.
fn listening_of(text: &str) -> Listening {
    /// The flag of a listening socket (__SO_ACCEPTCON).
    const LISTENS: u32 = 1 << 16;
    let name = |line| -> Option<&str> {
        let mut parts = str::split_whitespace(line);
        let flags = u32::from_str_radix(parts.nth(3)?, 16).ok()?;
        parts.nth(3).filter(|_| flags & LISTENS != 0)
    };
    let mut listening = Listening::default();
    for name in text.lines().skip(1).filter_map(name) {
        if let Some(name) = name.strip_prefix('@') {
            // DPDK passes the whole length of a name. The zero bytes after the name are shown as @ too.
            listening.abstract_names.insert(name.trim_end_matches('@').to_owned());
        } else if name.starts_with('/') {
            listening.paths.insert(name.into());
        }
    }
    listening
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_listened_on_are_read_and_abstract_ones_without_their_zeros() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000: 00000002 00000000 00010000 0005 01 100 @/run/memif.sock@@@@\n\
                    0000: 00000002 00000000 00010000 0001 01 101 /run/file.sock\n\
                    0000: 00000003 00000000 00000000 0001 03 102 @/connected\n\
                    0000: 00000002 00000000 00010000 0001 01 103\n\
                    0000: 00000002 00000000 00010000 0001 01 104 file.sock\n\
                    0000: 00000002 00000000 00000000 0002 01 105 /run/datagrams.sock\n";
        let wanted = Listening {
            abstract_names: BTreeSet::from(["/run/memif.sock".to_owned()]),
            paths: BTreeSet::from(["/run/file.sock".into()]),
        };
        assert_eq!(listening_of(text), wanted);
    }
}
