//! bpf(2): the redirect program, the map of sockets it looks into, and the link that holds it to an interface.
//!
//! The program gives each packet to the socket that is bound to the receive queue the packet came in by, and
//! passes it to the kernel's stack when there is none. It is six instructions, so it is written here and
//! needs no compiler and no ELF loader.
//!
//! It is attached by a link (BPF_LINK_CREATE, Linux 5.9), whose file descriptor *is* the attachment: when the
//! descriptor closes the program is gone from the interface, and the kernel closes it on every way out of a
//! process, SIGKILL included.
//!
//! Source: bpf(2), `linux/bpf.h`, Documentation/bpf/map_xskmap.rst.

use super::netdev::last_errno;
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;

const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
/// The attach type of an XDP program.
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Bytes kept of what the verifier says.
const VERIFIER_LOG: usize = 64 << 10;

/// One instruction: `struct bpf_insn` of `linux/bpf.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u8,
    /// Destination register in the low four bits, source register in the high four.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: src << 4 | dst, offset, immediate }
}

/// `return bpf_redirect_map(&map, packet->rx_queue_index, XDP_PASS);`
const fn redirect_program(map: i32) -> [Instruction; 6] {
    /// `dst = *(u32 *)(src + offset)`: BPF_LDX | BPF_MEM | BPF_W.
    const LOAD_WORD: u8 = 0x61;
    /// `dst = immediate`, 64 bits in two slots: BPF_LD | BPF_IMM | BPF_DW; source register 1 (BPF_PSEUDO_MAP_FD)
    /// makes it the address of the map with that file descriptor.
    const LOAD_WIDE: u8 = 0x18;
    const MAP_FD: u8 = 1;
    /// `dst = immediate`: BPF_ALU64 | BPF_MOV | BPF_K.
    const MOVE: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    /// Where `struct xdp_md` keeps rx_queue_index.
    const RX_QUEUE_INDEX: i16 = 16;
    const REDIRECT_MAP: i32 = 51;
    /// The low bits of the flags are the verdict when the map has no socket at that index (Linux 5.3).
    const XDP_PASS: i32 = 2;
    [
        instruction(LOAD_WORD, 2, 1, RX_QUEUE_INDEX, 0),
        instruction(LOAD_WIDE, 1, MAP_FD, 0, map),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// What was being done when bpf(2) refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfStep {
    /// Making the map of sockets.
    CreateMap,
    /// Loading the redirect program.
    LoadProgram,
    /// Attaching it in native mode.
    AttachNative,
    /// Attaching it in generic mode.
    AttachGeneric,
    /// Putting a socket into the map.
    AddSocket,
    /// Taking a socket out of the map.
    RemoveSocket,
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
        })
    }
}

/// bpf(2) refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {errno}{}{log}", if log.is_empty() { "" } else { "; the verifier says: " })]
pub struct BpfError {
    /// What was being done.
    pub step: BpfStep,
    /// What the kernel said.
    pub errno: Errno,
    /// What the verifier said, when it was the verifier.
    pub log: String,
}

/// In which of the kernel's two ways a program sees packets.
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

/// A map from receive queue to AF_XDP socket.
#[derive(Debug)]
pub struct SocketMap {
    map: OwnedFd,
}

impl SocketMap {
    /// Makes a map for the queues 0 to `queues` − 1.
    ///
    /// # Errors
    /// [`BpfError`] with `PERM` without CAP_BPF and CAP_NET_ADMIN.
    pub fn new(queues: u32) -> Result<SocketMap, BpfError> {
        #[repr(C)]
        struct MapCreate {
            map_type: u32,
            key_size: u32,
            value_size: u32,
            max_entries: u32,
            map_flags: u32,
            inner_map_fd: u32,
            numa_node: u32,
            map_name: [u8; 16],
        }
        let attributes = MapCreate {
            map_type: BPF_MAP_TYPE_XSKMAP,
            key_size: size_of::<u32>() as u32,
            value_size: size_of::<u32>() as u32,
            max_entries: queues,
            map_flags: 0,
            inner_map_fd: 0,
            numa_node: 0,
            map_name: *b"netmem_sockets\0\0",
        };
        // SAFETY: the attributes of BPF_MAP_CREATE hold no pointers.
        let made = unsafe { bpf_fd(BPF_MAP_CREATE, &attributes) };
        made.map(|map| SocketMap { map }).map_err(|errno| BpfError::new(BpfStep::CreateMap, errno))
    }

    /// Sends what comes in by `queue` to `socket`, from now on.
    ///
    /// # Errors
    /// [`BpfError`]: `2BIG` when the map has no such queue.
    pub fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), BpfError> {
        let value = socket.as_raw_fd();
        self.element(BPF_MAP_UPDATE_ELEM, queue, Some(&value))
            .map_err(|errno| BpfError::new(BpfStep::AddSocket, errno))
    }

    /// Leaves what comes in by `queue` to the kernel's stack, from now on.
    ///
    /// # Errors
    /// [`BpfError`] when the map has no such queue.
    pub fn remove(&self, queue: u32) -> Result<(), BpfError> {
        self.element(BPF_MAP_DELETE_ELEM, queue, None)
            .map_err(|errno| BpfError::new(BpfStep::RemoveSocket, errno))
    }

    fn element(&self, command: libc::c_int, key: u32, value: Option<&i32>) -> Result<(), Errno> {
        #[repr(C)]
        struct MapElement {
            map_fd: u32,
            padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let attributes = MapElement {
            map_fd: self.map.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const key).expose_provenance() as u64,
            value: value.map_or(0, |v| (v as *const i32).expose_provenance() as u64),
            flags: 0,
        };
        // SAFETY: key and value are four bytes each, as the map was made, and outlive the call.
        unsafe { bpf(command, &attributes) }.map(drop)
    }
}

/// The redirect program, attached to one interface until this is dropped.
#[derive(Debug)]
pub struct RedirectLink {
    _link: OwnedFd,
    mode: XdpMode,
}

impl RedirectLink {
    /// Loads the redirect program over `map` and attaches it to the interface number `interface` in `mode`.
    ///
    /// # Errors
    /// [`BpfError`]: `PERM` without CAP_BPF and CAP_NET_ADMIN, `BUSY` or `EXIST` when the interface has a
    /// program already, `OPNOTSUPP` and others when the driver cannot do `mode`.
    pub fn attach(map: &SocketMap, interface: u32, mode: XdpMode) -> Result<RedirectLink, BpfError> {
        #[repr(C)]
        struct LinkCreate {
            prog_fd: u32,
            target_ifindex: u32,
            attach_type: u32,
            flags: u32,
        }
        let program = load(map)?;
        let (flags, step) = match mode {
            XdpMode::Native => (XDP_FLAGS_DRV_MODE, BpfStep::AttachNative),
            XdpMode::Generic => (XDP_FLAGS_SKB_MODE, BpfStep::AttachGeneric),
        };
        let attributes = LinkCreate {
            prog_fd: program.as_raw_fd() as u32,
            target_ifindex: interface,
            attach_type: BPF_XDP,
            flags,
        };
        // SAFETY: the attributes of BPF_LINK_CREATE hold no pointers.
        let made = unsafe { bpf_fd(BPF_LINK_CREATE, &attributes) };
        // The link holds the program, and the program the map: the program's own descriptor may go.
        made.map(|link| RedirectLink { _link: link, mode }).map_err(|errno| BpfError::new(step, errno))
    }

    /// The mode it runs in.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }
}

/// Loads the redirect program; if that fails, once more for the verifier's reasons.
fn load(map: &SocketMap) -> Result<OwnedFd, BpfError> {
    let refused = match load_logged(map, &mut []) {
        Ok(program) => return Ok(program),
        Err(errno) => errno,
    };
    let mut log = vec![0; VERIFIER_LOG];
    let text = match load_logged(map, &mut log) {
        Ok(program) => return Ok(program),
        Err(_) => String::from_utf8_lossy(log.split(|&b| b == 0).next().unwrap_or_default()),
    };
    Err(BpfError { step: BpfStep::LoadProgram, errno: refused, log: text.trim().replace('\n', " | ") })
}

fn load_logged(map: &SocketMap, log: &mut [u8]) -> Result<OwnedFd, Errno> {
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
    let program = redirect_program(map.map.as_raw_fd());
    let license = c"MIT";
    let attributes = ProgramLoad {
        prog_type: BPF_PROG_TYPE_XDP,
        insn_cnt: program.len() as u32,
        insns: program.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr().expose_provenance() as u64 },
        kern_version: 0,
        prog_flags: 0,
        prog_name: *b"netmem_redirect\0",
        prog_ifindex: 0,
        expected_attach_type: BPF_XDP,
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
/// `attributes` is laid out as `command` wants it, and every pointer in it is good for what `command` does.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> Result<libc::c_int, Errno> {
    // SAFETY: the caller's promise; the kernel reads no more than the size given.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) };
    if done < 0 { Err(last_errno()) } else { Ok(done as libc::c_int) }
}

/// bpf(2) for the commands that make a file descriptor (close-on-exec, as all of bpf's are).
///
/// # Safety
/// As [`bpf`], and `command` returns a new file descriptor.
unsafe fn bpf_fd<T>(command: libc::c_int, attributes: &T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel just made it and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_six_instructions_of_redirect_map_with_pass() {
        let bytes: Vec<[u8; 8]> = redirect_program(0x0102)
            .iter()
            .map(|i| {
                let [o0, o1] = i.offset.to_le_bytes();
                let [i0, i1, i2, i3] = i.immediate.to_le_bytes();
                [i.code, i.registers, o0, o1, i0, i1, i2, i3]
            })
            .collect();
        let expected = [
            [0x61, 0x12, 16, 0, 0, 0, 0, 0],      // r2 = *(u32 *)(r1 + 16)
            [0x18, 0x11, 0, 0, 0x02, 0x01, 0, 0], // r1 = map fd 0x0102 ll
            [0, 0, 0, 0, 0, 0, 0, 0],
            [0xb7, 0x03, 0, 0, 2, 0, 0, 0],  // r3 = XDP_PASS
            [0x85, 0x00, 0, 0, 51, 0, 0, 0], // call bpf_redirect_map
            [0x95, 0x00, 0, 0, 0, 0, 0, 0],  // exit
        ];
        assert_eq!(bytes, expected);
        assert_eq!(size_of::<Instruction>(), 8);
    }

    #[test]
    fn an_error_names_the_step_and_carries_the_verifiers_words() {
        let plain = BpfError::new(BpfStep::CreateMap, Errno::PERM);
        assert!(plain.to_string().starts_with("create XSKMAP: "), "{plain}");
        let refused =
            BpfError { step: BpfStep::LoadProgram, errno: Errno::ACCESS, log: "R2 !read_ok".into() };
        assert!(refused.to_string().ends_with("; the verifier says: R2 !read_ok"), "{refused}");
    }
}
