//! Finds the XDP program on an interface. It asks the kernel over netlink, and /proc for the process that holds the
//! program. COLD.
//!
//! Source: rtnetlink(7), `linux/if_link.h` (IFLA_XDP), `struct bpf_prog_info` of `linux/bpf.h`, fdinfo of programs and
//! links.

use super::{BPF_LINK_TYPE_XDP, BPF_OBJ_GET_INFO_BY_FD, InfoByFd, bpf, bpf_fd};
use crate::sys::broker;
use crate::sys::capability::has_given_up_privileges;
use crate::sys::netdev::Netdev;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use std::cell::Cell;
use std::fmt;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
const BPF_LINK_GET_FD_BY_ID: libc::c_int = 30;
const BPF_LINK_GET_NEXT_ID: libc::c_int = 31;

const RTM_GETLINK: u16 = 18;
const NLM_F_REQUEST: u16 = 1;
const RTM_NEWLINK: u16 = 16;
/// Bytes of `struct nlmsghdr` and `struct ifinfomsg`.
const HEADERS: usize = 16 + 16;
const IFLA_XDP: u16 = 43;
/// The program's number, in any mode.
const IFLA_XDP_PROG_ID: u16 = 4;
/// The bits of an attribute's type, without those that say how it is encoded.
const TYPE: u16 = 0x3fff;

/// An XDP program on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttachedProgram {
    /// The kernel's number of the program.
    pub id: u32,
    /// The name that its author gave it. Empty if it has no name, or if this process may not ask for it.
    pub name: String,
    /// The number and the name of a process that holds it. None if no process that may be inspected holds it: ip(8)
    /// attached the program, or it is pinned in a file system.
    pub holder: Option<(u32, String)>,
    /// How it is attached. None if this process may not ask (CAP_SYS_ADMIN).
    pub attached_by: Option<AttachedBy>,
}

/// How an XDP program is attached to its interface, which decides how it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachedBy {
    /// By a BPF link, until no process has its descriptor and no file system its pin. ip(8) cannot remove it.
    Link,
    /// By netlink, until ip(8) or another program removes it, also if its process has ended.
    Netlink,
}

impl AttachedProgram {
    /// The program on the interface of that name in the calling thread's network namespace. None if there is none, if
    /// the kernel does not say, or if this process has given up the privileges for asking.
    #[cold]
    pub fn on(interface: &str) -> Option<AttachedProgram> {
        // In that case a worker that opens a socket or a file is killed.
        if broker::current().is_some() && has_given_up_privileges() {
            return None;
        }
        let index = Netdev::open(interface).ok()?.index();
        let id = program_on(index)?;
        let name = name_of(id).unwrap_or_default();
        Some(AttachedProgram { id, name, holder: holder_of(id), attached_by: attached_by(id, index) })
    }

    /// What removes it from the interface.
    pub(crate) fn remedy(&self, interface: &str) -> String {
        let stop = "stop that process, and any child that it forked meanwhile";
        let pin = "remove the pin of its BPF link with rm (`bpftool -f link show` lists the pins)";
        let off = format!("`ip link set dev {interface} xdp off` (xdpgeneric off if it is in generic mode)");
        match (self.attached_by, self.holder.is_some()) {
            (Some(AttachedBy::Link), true) => stop.to_owned(),
            (Some(AttachedBy::Link), false) => {
                format!("stop its process, if it is in another PID namespace, or {pin}")
            }
            (Some(AttachedBy::Netlink), true) => {
                format!("stop that process, and remove what it leaves by {off}")
            }
            (Some(AttachedBy::Netlink), false) => format!("remove it by {off}"),
            (None, true) => format!("{stop}; if the program stays, {off}"),
            (None, false) => format!("stop the program that attached it, or remove it by {off}, or {pin}"),
        }
    }
}

/// `"netmem_redirect" (number 42, by a BPF link), held by netmem (process 1234)`
impl fmt::Display for AttachedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttachedProgram { id, name, holder, attached_by } = self;
        let by = match attached_by {
            Some(AttachedBy::Link) => ", by a BPF link",
            Some(AttachedBy::Netlink) => ", by netlink",
            None => "",
        };
        write!(f, "{name:?} (number {id}{by}), ")?;
        match holder {
            Some((process, name)) => write!(f, "held by {name} (process {process})"),
            None => f.write_str("held by no process that can be seen"),
        }
    }
}

/// The number of the program on the interface with that number.
fn program_on(index: u32) -> Option<u32> {
    let flags = SocketFlags::CLOEXEC;
    // Without a number the protocol is NETLINK_ROUTE, which has 0.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None).ok()?;
    let mut request = [0; HEADERS];
    request[..4].copy_from_slice(&(HEADERS as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    request[20..24].copy_from_slice(&index.to_ne_bytes());
    send(&socket, &request, SendFlags::empty()).ok()?;
    let mut answer = vec![0; 64 << 10];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty()).ok()?;
    let answer = answer.get(..length)?;
    let is_link = answer.get(4..6)? == RTM_NEWLINK.to_ne_bytes();
    let attributes = answer.get(HEADERS..).filter(|_| is_link)?;
    let id = attribute(attribute(attributes, IFLA_XDP)?, IFLA_XDP_PROG_ID)?;
    Some(u32::from_ne_bytes(id.try_into().ok()?))
}

/// The value of the first attribute of that type.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let ([l0, l1, t0, t1], _) = attributes.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([*l0, *l1]));
        let value = attributes.get(4..length)?;
        if u16::from_ne_bytes([*t0, *t1]) & TYPE == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// The name of the program with that number, if this process may ask (CAP_BPF).
fn name_of(id: u32) -> Option<String> {
    /// `struct bpf_prog_info`, up to the name.
    #[repr(C)]
    #[derive(Default)]
    struct ProgramInfo {
        before: [u64; 8],
        name: [u8; 16],
    }
    let attributes = ById::new(id);
    // SAFETY: the attributes of BPF_PROG_GET_FD_BY_ID hold no pointers.
    let program: OwnedFd = unsafe { bpf_fd(BPF_PROG_GET_FD_BY_ID, &attributes) }.ok()?;
    let mut info = ProgramInfo::default();
    let attributes = InfoByFd {
        bpf_fd: program.as_raw_fd() as u32,
        info_len: size_of::<ProgramInfo>() as u32,
        info: (&raw mut info).expose_provenance() as u64,
    };
    // SAFETY: the information is integers alone, zero in the fields that would ask for more, has the length given, and
    // outlives the call.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes) }.ok()?;
    let name = info.name.split(|&byte| byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// How the program with that number is attached to the interface with that number: by a link, if there is such a link.
fn attached_by(program: u32, interface: u32) -> Option<AttachedBy> {
    let mut before = 0;
    loop {
        match link_after(before) {
            Ok(id) => before = id,
            Err(Errno::NOENT) => return Some(AttachedBy::Netlink),
            Err(_) => return None,
        }
        // One that is gone by now is none.
        let info = link(before).and_then(|link| LinkInfo::of(link.as_fd()));
        let is_it = |info: LinkInfo| {
            info.link_type == BPF_LINK_TYPE_XDP && (info.program, info.interface) == (program, interface)
        };
        if info.is_ok_and(is_it) {
            return Some(AttachedBy::Link);
        }
    }
}

/// The attributes of BPF_LINK_GET_NEXT_ID, and of the commands that open something by its number.
#[repr(C)]
struct ById {
    id: u32,
    /// The kernel writes it.
    next: Cell<u32>,
    flags: u32,
}

impl ById {
    fn new(id: u32) -> ById {
        ById { id, next: Cell::new(0), flags: 0 }
    }
}

/// The number of the link behind that one.
fn link_after(id: u32) -> Result<u32, Errno> {
    let attributes = ById::new(id);
    // SAFETY: the attributes of BPF_LINK_GET_NEXT_ID hold no pointers.
    unsafe { bpf(BPF_LINK_GET_NEXT_ID, &attributes) }.map(|_| attributes.next.get())
}

/// The link with that number.
fn link(id: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: the attributes of BPF_LINK_GET_FD_BY_ID hold no pointers, and it makes a file descriptor.
    unsafe { bpf_fd(BPF_LINK_GET_FD_BY_ID, &ById::new(id)) }
}

/// `struct bpf_link_info` of an XDP link.
#[repr(C)]
#[derive(Default)]
pub(super) struct LinkInfo {
    pub(super) link_type: u32,
    id: u32,
    program: u32,
    _padding: u32,
    /// 0 if the link holds its program on no interface any more.
    pub(super) interface: u32,
    _rest: u32,
}

impl LinkInfo {
    pub(super) fn of(link: BorrowedFd<'_>) -> Result<LinkInfo, Errno> {
        let mut info = LinkInfo::default();
        let attributes = InfoByFd {
            bpf_fd: link.as_raw_fd() as u32,
            info_len: size_of::<LinkInfo>() as u32,
            info: (&raw mut info).expose_provenance() as u64,
        };
        // SAFETY: the information is integers alone, has the length given, and outlives the call.
        unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes) }.map(|_| info)
    }
}

/// A process with a descriptor of the program, or of a link that holds the program.
fn holder_of(id: u32) -> Option<(u32, String)> {
    let line = format!("prog_id:\t{id}");
    let holds = |process: &u32| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fdinfo")) else { return false };
        let mut shown = descriptors.flatten().filter_map(|one| fs::read_to_string(one.path()).ok());
        shown.any(|shown| shown.lines().any(|one| one == line))
    };
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut processes = processes.filter_map(|one| one.file_name().to_str()?.parse::<u32>().ok());
    let process = processes.find(holds)?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some((process, name.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_by_type_and_bad_lengths_end_the_search() {
        let of = |length: u16, kind: u16, value: &[u8]| {
            [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
        };
        let both = [of(5, 1, &[7, 0, 0, 0]), of(8, 0x8000 | IFLA_XDP, &[1, 2, 3, 4])].concat();
        assert_eq!(attribute(&both, IFLA_XDP), Some(&[1, 2, 3, 4][..]));
        assert_eq!((attribute(&both, 1), attribute(&both, 2)), (Some(&[7][..]), None));
        for bad in [of(0, 2, &[]), of(3, 1, &[]), of(9, 1, &[1, 2, 3, 4]), vec![1, 2, 3]] {
            assert_eq!(attribute(&bad, 1), None);
        }
    }

    /// Seen: the remedy was `ip link set dev IF xdp off`, which cannot remove a program that a BPF link holds.
    #[test]
    fn a_program_of_a_link_is_not_to_be_removed_by_ip() {
        let remedy = |attached_by, is_held: bool| {
            let holder = is_held.then(|| (7, "dns".to_owned()));
            AttachedProgram { id: 42, name: "other".into(), holder, attached_by }.remedy("eth9")
        };
        for is_held in [false, true] {
            assert!(!remedy(Some(AttachedBy::Link), is_held).contains("ip link"));
            assert!(remedy(Some(AttachedBy::Netlink), is_held).contains("`ip link set dev eth9 xdp off`"));
            assert!(remedy(None, is_held).contains("`ip link set dev eth9 xdp off`"));
        }
        assert!(remedy(Some(AttachedBy::Link), true).contains("any child that it forked"));
        assert!(remedy(Some(AttachedBy::Link), false).contains("with rm (`bpftool -f link show`"));
    }

    #[test]
    fn an_interface_without_a_program_or_without_itself_has_none() {
        assert_eq!(AttachedProgram::on("nosuch0"), None);
        assert_eq!(program_on(u32::MAX >> 1), None);
    }
}
