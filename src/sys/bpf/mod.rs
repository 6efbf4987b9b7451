//! bpf(2): the redirect program, its maps, and the link that holds it to an interface. Also a program that keeps the
//! packets of a packet socket from the kernel's stack ([`IngressProgram`]), and one that asks the kernel's own table of
//! routes ([`RouteLookup`]).
//!
//! The redirect program gives each packet to the socket that is bound to the packet's receive queue. It passes the
//! packet to the kernel's stack if there is no socket, or if the packet has to stay with the kernel ([`Punt`],
//! [`Take`]). The program is a few instructions. So it is written here and needs no compiler and no ELF loader.
//!
//! A link attaches the program (BPF_LINK_CREATE, Linux 5.9). The link's file descriptor *is* the attachment: when the
//! descriptor closes, the program is gone from the interface. The kernel closes it on every exit of a process, also by
//! SIGKILL.
//!
//! Source: bpf(2), `linux/bpf.h`, Documentation/bpf/map_xskmap.rst.

mod attached;
mod brokered;
mod ingress;
mod instruction;
mod lookup;
mod map;
mod program;
mod signalled;
mod take;
mod test_run;

pub use attached::{AttachedBy, AttachedProgram};
pub use ingress::{IngressLink, IngressProgram};
pub use lookup::{Answer, RouteLookup};
pub use map::{AddressMaps, KernelCounts, QUEUES_MAX, SocketMap, address_map, element_of};
pub use program::{Punt, Punted};
pub use take::{Take, TakeError, TakeRule};

use super::broker::{self, Hook, Request};
use super::capability::without_lock_limit;
use super::errno::last_errno;
use attached::LinkInfo;
use brokered::{attach_by, load_by, refused};
use instruction::Instruction;
use program::{Left, redirect_program};
use rustix::io::Errno;
use signalled::unless_signalled;
use std::ffi::CStr;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use test_run::test_run;

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_LINK_UPDATE: libc::c_int = 29;
const BPF_LINK_TYPE_XDP: u32 = 6;

/// A program in the path of the stack (BPF_PROG_TYPE_SCHED_CLS). It has no attach type of its own.
const ON_PACKETS: ProgramType = ProgramType { number: 3, attach: 0, flags: 0 };
/// An XDP program (BPF_PROG_TYPE_XDP), and its attach type.
const XDP: ProgramType = ProgramType { number: 6, attach: BPF_XDP, flags: 0 };
/// The driver may give the program packets that lie in several buffers.
const XDP_HAS_FRAGS: u32 = 1 << 5;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Maximum number of bytes that are kept of the verifier's log.
const VERIFIER_LOG: usize = 64 << 10;

/// The step at which bpf(2) refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfStep {
    /// Making the map of sockets.
    CreateMap,
    /// Loading the redirect program.
    LoadProgram,
    /// Attaching the program in native mode.
    AttachNative,
    /// Attaching the program in generic mode.
    AttachGeneric,
    /// Putting a socket into the map.
    AddSocket,
    /// Taking a socket out of the map.
    RemoveSocket,
    /// Making the map of counts of frames left to the kernel.
    CreateCounts,
    /// Replacing an attached program by another one.
    ReplaceProgram,
    /// Making the maps of own addresses.
    CreateAddressMap,
    /// Putting an own address into its map.
    AddAddress,
    /// Taking an own address out of its map.
    RemoveAddress,
    /// Making the maps of route lookups.
    CreateLookupMap,
    /// Loading the program that looks up routes.
    LoadLookup,
    /// Running the program that looks up routes.
    RunLookup,
    /// Asking the redirect program about a frame.
    AskProgram,
    /// Loading the program that keeps packets from the kernel's stack.
    LoadIngress,
    /// Attaching that program to an interface's ingress.
    AttachIngress,
    /// Checking a map that another process handed over.
    LookAtMap,
    /// Finding a port whose program is to be replaced.
    FindPort,
}

impl fmt::Display for BpfStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BpfStep::CreateMap => "create XSKMAP",
            BpfStep::LoadProgram => "load redirect program",
            BpfStep::AttachNative => "attach redirect program in native mode",
            BpfStep::AttachGeneric => "attach redirect program in generic mode",
            BpfStep::AddSocket => "put socket into XSKMAP",
            BpfStep::RemoveSocket => "take socket out of XSKMAP",
            BpfStep::CreateCounts => "create counts of frames left to the kernel",
            BpfStep::ReplaceProgram => "replace redirect program",
            BpfStep::CreateAddressMap => "create map of own addresses",
            BpfStep::AddAddress => "put address into map of own addresses",
            BpfStep::RemoveAddress => "take address out of map of own addresses",
            BpfStep::CreateLookupMap => "create map of route lookups",
            BpfStep::LoadLookup => "load program for route lookups",
            BpfStep::RunLookup => "run program for route lookups",
            BpfStep::AskProgram => "ask redirect program about a frame",
            BpfStep::LoadIngress => "load program for an interface's ingress",
            BpfStep::AttachIngress => "attach program to an interface's ingress (Linux 6.6 or later)",
            BpfStep::LookAtMap => "look at a map that was handed over",
            BpfStep::FindPort => "replace the program of ports that are all closed",
        })
    }
}

/// bpf(2) refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {errno}{}{log}", if log.is_empty() { "" } else { "; the verifier says: " })]
pub struct BpfError {
    /// The step that failed.
    pub step: BpfStep,
    /// The kernel's error.
    pub errno: Errno,
    /// The verifier's log, if the verifier refused.
    pub log: String,
}

/// Which of the kernel's two XDP modes a program runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the kernel has built a packet of its own.
    Native,
    /// In the stack, for drivers without XDP: slower, works everywhere.
    Generic,
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        })
    }
}

/// The selection of packets that the redirect program leaves to the kernel.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The packets that are punted, with the own addresses.
    pub punted: Punted<&'a AddressMaps>,
    /// The only packets that are taken of the rest, among frames for the station with this MAC address. None takes all
    /// of the rest.
    pub take: Option<(&'a Take, [u8; 6])>,
    /// The map that counts the packets left to the kernel.
    pub counts: &'a KernelCounts,
}

/// The loaded redirect program.
#[derive(Debug)]
pub struct RedirectProgram(OwnedFd);

impl RedirectProgram {
    /// Loads the program over `sockets`. It leaves to the kernel the packets that `selection` says, or none. With
    /// `several` a driver may give it packets that lie in several buffers (Linux 5.18); it reads the first buffer only.
    ///
    /// # Errors
    /// [`BpfError`]: `PERM` without CAP_BPF and CAP_NET_ADMIN. If the verifier refused, with its words.
    pub fn load(
        sockets: &SocketMap,
        selection: Option<&Selection<'_>>,
        several: bool,
    ) -> Result<RedirectProgram, BpfError> {
        if let Some(broker) = broker::current() {
            return load_by(broker, sockets, selection, several).map(RedirectProgram);
        }
        let left = selection.map(|&Selection { punted, take, counts }| Left {
            punted: punted.map(AddressMaps::raw),
            take,
            counts: counts.raw(),
        });
        let code = &redirect_program(sockets.raw(), left);
        let kind = if several { ProgramType { flags: XDP_HAS_FRAGS, ..XDP } } else { XDP };
        let program = Program { kind, name: b"netmem_redirect\0", license: c"MIT", code };
        load_or_say_why(BpfStep::LoadProgram, &program).map(RedirectProgram)
    }

    /// The verdict (`XDP_PASS` and so on, of `linux/bpf.h`) on `frame`, 14 bytes at least, as if it came in through
    /// receive queue 0. No socket receives the frame.
    ///
    /// # Errors
    /// [`BpfError`]: `INVAL` for a shorter frame, or for one that does not fit a page.
    pub fn verdict(&self, frame: &[u8]) -> Result<u32, BpfError> {
        test_run(&self.0, frame, 1).map_err(|errno| BpfError::new(BpfStep::AskProgram, errno))
    }

    /// Attaches the program to the interface number `interface` in `mode`.
    ///
    /// # Errors
    /// [`BpfError`]: `BUSY` or `EXIST` if the interface has a program already, `OPNOTSUPP` and others if the driver
    /// cannot do `mode`.
    pub fn attach(&self, interface: u32, mode: XdpMode) -> Result<RedirectLink, BpfError> {
        #[repr(C)]
        struct LinkCreate {
            prog_fd: u32,
            target_ifindex: u32,
            attach_type: u32,
            flags: u32,
        }
        let (flags, step) = match mode {
            XdpMode::Native => (XDP_FLAGS_DRV_MODE, BpfStep::AttachNative),
            XdpMode::Generic => (XDP_FLAGS_SKB_MODE, BpfStep::AttachGeneric),
        };
        let attributes = LinkCreate {
            prog_fd: self.0.as_raw_fd() as u32,
            target_ifindex: interface,
            attach_type: BPF_XDP,
            flags,
        };
        let made = match broker::current() {
            // SAFETY: the attributes of BPF_LINK_CREATE hold no pointers.
            None => unsafe { bpf_fd(BPF_LINK_CREATE, &attributes) },
            Some(broker) => {
                let hook = if mode == XdpMode::Native { Hook::Native } else { Hook::Generic };
                attach_by(broker, hook, interface, self.0.as_fd())
            }
        };
        // The link holds the program, and the program holds its maps: their own descriptors may be closed.
        made.map(|link| RedirectLink { link, mode }).map_err(|errno| BpfError::new(step, errno))
    }
}

impl From<OwnedFd> for RedirectProgram {
    /// Wraps a program that another process loaded and handed over. It is only attached; the kernel checks it then.
    fn from(program: OwnedFd) -> RedirectProgram {
        RedirectProgram(program)
    }
}

impl AsFd for RedirectProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The redirect program, attached to one interface until this is dropped.
#[derive(Debug)]
pub struct RedirectLink {
    link: OwnedFd,
    mode: XdpMode,
}

impl AsFd for RedirectLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

impl RedirectLink {
    /// Wraps a link that another process made in this mode and handed over.
    pub fn given(link: OwnedFd, mode: XdpMode) -> RedirectLink {
        RedirectLink { link, mode }
    }

    /// The mode in which the program runs.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Replaces the attached program by `program`. Each packet is given to one of the two. Packets that come after this
    /// call has returned are given to `program`.
    ///
    /// # Errors
    /// [`BpfError`]: `NOLINK` if the link is on no interface any more.
    pub fn replace(&self, program: &RedirectProgram) -> Result<(), BpfError> {
        #[repr(C)]
        struct LinkUpdate {
            link_fd: u32,
            new_prog_fd: u32,
            flags: u32,
            old_prog_fd: u32,
        }
        if let Some(broker) = broker::current() {
            let done = broker::ask(broker, &Request::Replace, &[self.link.as_fd(), program.0.as_fd()]);
            return done.map(drop).map_err(refused(BpfStep::ReplaceProgram));
        }
        let attributes = LinkUpdate {
            link_fd: self.link.as_raw_fd() as u32,
            new_prog_fd: program.0.as_raw_fd() as u32,
            flags: 0,
            old_prog_fd: 0,
        };
        // SAFETY: the attributes of BPF_LINK_UPDATE hold no pointers.
        let done = unsafe { bpf(BPF_LINK_UPDATE, &attributes) };
        done.map(drop).map_err(|errno| BpfError::new(BpfStep::ReplaceProgram, errno))
    }

    /// Whether the link is on no interface any more: the interface is gone, or another program has detached the link
    /// (BPF_LINK_DETACH). Returns false if the kernel cannot say.
    ///
    /// # Cost
    /// One system call, which waits for the kernel's lock of all interfaces.
    #[cold]
    pub fn is_detached(&self) -> bool {
        if let Some(broker) = broker::current() {
            let answer = broker::ask(broker, &Request::IsDetached, &[self.link.as_fd()]);
            return answer.is_ok_and(|(said, _)| said == [1]);
        }
        LinkInfo::of(self.link.as_fd())
            .is_ok_and(|info| info.link_type == BPF_LINK_TYPE_XDP && info.interface == 0)
    }
}

impl From<RedirectLink> for OwnedFd {
    fn from(link: RedirectLink) -> OwnedFd {
        link.link
    }
}

impl From<RedirectProgram> for OwnedFd {
    fn from(program: RedirectProgram) -> OwnedFd {
        program.0
    }
}

/// The beginning of `struct bpf_map_info`.
#[repr(C)]
#[derive(Default)]
struct MapInfo {
    map_type: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
}

/// The attributes of BPF_OBJ_GET_INFO_BY_FD.
#[repr(C)]
struct InfoByFd {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// The type of a program: it determines which functions the program may call, and where it may be attached.
#[derive(Clone, Copy)]
struct ProgramType {
    number: u32,
    attach: u32,
    flags: u32,
}

/// A program to be loaded.
struct Program<'a> {
    kind: ProgramType,
    name: &'a [u8; 16],
    license: &'a CStr,
    code: &'a [Instruction],
}

/// Loads a program. If the kernel refuses, loads it once more to get the verifier's reasons.
fn load_or_say_why(step: BpfStep, program: &Program<'_>) -> Result<OwnedFd, BpfError> {
    let refused = match unless_signalled(|| load(program, &mut [])) {
        Ok(program) => return Ok(program),
        Err(errno) => errno,
    };
    let mut log = vec![0; VERIFIER_LOG];
    let errno = match unless_signalled(|| load(program, &mut log)) {
        Ok(program) => return Ok(program),
        // The log has no room for all reasons.
        Err(Errno::NOSPC) => refused,
        Err(errno) => errno,
    };
    let text = String::from_utf8_lossy(log.split(|&b| b == 0).next().unwrap_or_default());
    Err(BpfError { step, errno, log: text.trim().replace('\n', " | ") })
}

/// BPF_PROG_LOAD. The verifier's log goes into `log`, if that has room.
fn load(program: &Program<'_>, log: &mut [u8]) -> Result<OwnedFd, Errno> {
    #[repr(C)]
    struct ProgramLoad {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
        kern_version: u32,
        prog_flags: u32,
        prog_name: [u8; 16],
        prog_ifindex: u32,
        expected_attach_type: u32,
    }
    let attributes = ProgramLoad {
        prog_type: program.kind.number,
        insn_cnt: program.code.len() as u32,
        insns: program.code.as_ptr().expose_provenance() as u64,
        license: program.license.as_ptr().expose_provenance() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr().expose_provenance() as u64 },
        kern_version: 0,
        prog_flags: program.kind.flags,
        prog_name: *program.name,
        prog_ifindex: 0,
        expected_attach_type: program.kind.attach,
    };
    // SAFETY: the program, the license and the log outlive the call and have the lengths given.
    unsafe { bpf_fd(BPF_PROG_LOAD, &attributes) }
}

impl BpfError {
    fn new(step: BpfStep, errno: Errno) -> BpfError {
        BpfError { step, errno, log: String::new() }
    }
}

/// bpf(2).
///
/// # Safety
/// `attributes` has the layout that `command` requires, and every pointer in it is valid for what `command` does.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> Result<libc::c_int, Errno> {
    // SAFETY: the caller's promise; the kernel reads no more than the size given.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) };
    if done < 0 { Err(last_errno()) } else { Ok(done as libc::c_int) }
}

/// bpf(2) for the commands that make a file descriptor (close-on-exec, as all of bpf's are). Before Linux 5.11 the made
/// objects count as locked memory, from which no capability exempts. There the limit is lifted during the call, if that
/// is allowed.
///
/// # Safety
/// As [`bpf`], and `command` returns a new file descriptor.
unsafe fn bpf_fd<T>(command: libc::c_int, attributes: &T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's promise.
    let make = || unsafe { bpf(command, attributes) };
    let fd = match make() {
        Err(Errno::PERM) => without_lock_limit(make),
        done => done,
    }?;
    // SAFETY: the kernel just made it and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_step_and_carries_the_verifiers_words() {
        let plain = BpfError::new(BpfStep::CreateMap, Errno::PERM);
        assert!(plain.to_string().starts_with("create XSKMAP: "), "{plain}");
        let refused =
            BpfError { step: BpfStep::LoadProgram, errno: Errno::ACCESS, log: "R2 !read_ok".into() };
        assert!(refused.to_string().ends_with("; the verifier says: R2 !read_ok"), "{refused}");
    }
}
