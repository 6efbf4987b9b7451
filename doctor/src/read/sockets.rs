//! Sockets of other programs: AF_XDP sockets that are bound, and abstract names of listening sockets.
//!
//! Source: sock_diag(7), `linux/xdp_diag.h`, proc_net_unix of proc(5).

use super::netlink::{Asker, Extent, find};
use crate::host::BoundSocket;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

const BY_FAMILY: u16 = 20;
const AF_XDP: u8 = 44;
/// Bytes of `struct xdp_diag_req`, and where it says what is to be shown: the interface and the queue.
const REQUEST: usize = 20;
const SHOW: usize = 8;
const SHOW_INFO: u32 = 1;
/// Bytes of `struct xdp_diag_msg`, and where its inode's number is.
const MESSAGE: usize = 16;
const INODE: usize = 4;
/// `struct xdp_diag_info`: the interface's number, and the queue's.
const INFO: u16 = 1;

/// The sockets of each interface, by its number.
///
/// # Errors
/// `ENOENT` where the kernel was built without XDP_SOCKETS_DIAG, or its module is not there.
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

/// A socket's interface, queue and inode; None for one that is not bound.
fn socket(body: &[u8]) -> Option<(u32, u32, u64)> {
    let word = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let inode = word(body.get(INODE..)?)?;
    let info = find(body.get(MESSAGE..)?, INFO)?;
    let (interface, queue) = (word(info)?, word(info.get(4..)?)?);
    (interface > 0).then_some((interface, queue, u64::from(inode)))
}

/// The process that has each socket, of those that may be looked at.
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

/// The abstract names that Unix sockets of this namespace listen on.
pub fn abstract_names() -> io::Result<BTreeSet<String>> {
    fs::read_to_string("/proc/net/unix").map(|text| abstract_names_of(&text))
}

/// A line is the address, counts, flags in hexadecimal digits, type, state, inode and name; `@` stands for the first zero.
fn abstract_names_of(text: &str) -> BTreeSet<String> {
    /// The flag of a socket that listens (__SO_ACCEPTCON).
    const LISTENS: u32 = 1 << 16;
    let name = |line: &str| {
        let mut parts = line.split_whitespace();
        let flags = u32::from_str_radix(parts.nth(3)?, 16).ok()?;
        // DPDK gives the whole length of a name, so zeros follow it, which are shown as @ too.
        let name = parts.nth(3)?.strip_prefix('@')?.trim_end_matches('@');
        (flags & LISTENS != 0).then(|| name.to_owned())
    };
    text.lines().skip(1).filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_abstract_and_listened_on_are_read_without_their_zeros() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000: 00000002 00000000 00010000 0005 01 100 @/run/memif.sock@@@@\n\
                    0000: 00000002 00000000 00010000 0001 01 101 /run/file.sock\n\
                    0000: 00000003 00000000 00000000 0001 03 102 @/connected\n\
                    0000: 00000002 00000000 00010000 0001 01 103\n";
        assert_eq!(abstract_names_of(text), BTreeSet::from(["/run/memif.sock".to_owned()]));
    }
}
