//! The reasons why a port could not be opened. Each is one line: the step, what refused, and the remedy.

use super::mode::{is_about_the_mode, mode_refused};
use super::{Umem, XdpConfig};
use crate::sys::bpf::{AttachedProgram, BpfError, BpfStep};
use crate::sys::capability;
use crate::sys::errno::{Errno, descriptor_remedy, of_io};
use crate::sys::event::Watch;
use crate::sys::xdp::{SocketError, SocketStep, ZeroCopy};

/// The reason why an AF_XDP port could not be opened. Nothing is left behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum XdpError {
    /// A ring size that the kernel would refuse.
    #[error("{ring} ring of {size} entries: give a power of two between {min} and {max}")]
    RingSize {
        /// The ring.
        ring: &'static str,
        /// The requested size.
        size: u32,
        /// The minimum.
        min: u32,
        /// The maximum.
        max: u32,
    },
    /// A chunk size that the kernel does not take.
    #[error("AF_XDP with chunks of {0} bytes: the kernel takes 2048 or 4096")]
    ChunkSize(usize),
    /// The pool's frames lie in another memory than the UMEM, so nothing could be received into them.
    #[error(
        "open an xdp port with pool {pool:?}: its frames lie in another memory than the UMEM: make both of one Memory"
    )]
    WrongMemory {
        /// The pool's name.
        pool: String,
    },
    /// The pool's frames are smaller than the UMEM's chunks, so nothing could be received into them.
    #[error(
        "open an xdp port with pool {pool:?}: its frames of {frame_size} bytes are smaller than the UMEM's chunks of {chunk_size}: \
         give the pool frames of at least that size, or make a Umem with smaller chunks"
    )]
    SmallFrames {
        /// The pool's name.
        pool: String,
        /// Bytes of its frames.
        frame_size: usize,
        /// Bytes of the UMEM's chunks.
        chunk_size: usize,
    },
    /// The worker belongs to another memory than the pool.
    #[error(
        "open an xdp port with pool {pool:?}: the worker belongs to another memory: claim one from the pool's Memory"
    )]
    WrongWorker {
        /// The pool's name.
        pool: String,
    },
    /// The memory has guard pages, which the kernel cannot pin with the rest of it.
    #[error(
        "AF_XDP over memory with guard pages: the kernel pins all of it, so leave guard out (random,clear,canary)"
    )]
    GuardPages,
    /// There is no interface of that name in this network namespace.
    #[error("interface {interface} does not exist: `ip link` lists those of this network namespace")]
    UnknownInterface {
        /// The requested name.
        interface: String,
    },
    /// The interface is down.
    #[error("interface {interface} is down: set it up with `ip link set dev {interface} up`")]
    InterfaceDown {
        /// The interface.
        interface: String,
    },
    /// The interface has no such queue, or has it not for both receiving and sending.
    #[error("interface {interface} has no queue {queue}: {}", known_queues(*.queues))]
    NoSuchQueue {
        /// The interface.
        interface: String,
        /// The requested queue.
        queue: u32,
        /// Number of queues that both receive and send; None if the driver cannot report it.
        queues: Option<u32>,
    },
    /// A port of several queues was to have none ([`XdpQueues::open`](super::XdpQueues::open)).
    #[error("open a port on no queue of {interface}: name its queues; XdpQueues::all_of returns all of them")]
    NoQueues {
        /// The interface.
        interface: String,
    },
    /// A grant of too many queues, or of one twice; or a grant of several for a port of one
    /// ([`XdpPort::open_granted`](super::XdpPort::open_granted)).
    #[error(
        "a grant of {count} queues of {interface}: it has 1 to 128, each once; with several, open one port by \
         XdpQueues::open_granted, or one on each by XdpGrant::split_off",
        count = .queues.len()
    )]
    GrantedQueues {
        /// The interface.
        interface: String,
        /// The numbers of the queues.
        queues: Vec<u32>,
    },
    /// The driver does not report the queues of the interface.
    #[error(
        "count the queues of {interface}: its driver does not report them; give queues=N, or their numbers to XdpQueues::open \
         (`ls /sys/class/net/{interface}/queues`)"
    )]
    UncountedQueues {
        /// The interface.
        interface: String,
    },
    /// The interface has receive queues without a transmit queue, on which no port can be opened.
    #[error(
        "open all queues of {interface}: it has {rx} to receive and {tx} to transmit, a port needs both, and the kernel would get \
         the packets of the others; make them equal, as `ethtool -L {interface} rx {0} tx {0}` does",
        rx.min(tx).max(&1)
    )]
    UnpairedQueues {
        /// The interface.
        interface: String,
        /// Number of receive queues.
        rx: u32,
        /// Number of transmit queues, which is lower.
        tx: u32,
    },
    /// A socket is bound to the queue already.
    #[error(
        "queue {queue} of {interface} is bound by another AF_XDP socket: stop its program or choose another queue; if this \
         program has the socket, let one port take the packets of both, as in take=udp:53+udp:853"
    )]
    QueueBound {
        /// The interface.
        interface: String,
        /// The requested queue.
        queue: u32,
    },
    /// The interface has an XDP program of another owner, which the port must not replace.
    #[error(
        "interface {interface} has an XDP program attached already{}",
        holder_and_remedy(interface, program.as_ref())
    )]
    ProgramAttached {
        /// The interface.
        interface: String,
        /// The program and its holder; None if the kernel does not report them.
        program: Option<AttachedProgram>,
    },
    /// The kernel denies permission to this process.
    #[error("{step} for {interface}: not permitted; {}", permission_remedy(.missing))]
    NotPermitted {
        /// The interface.
        interface: String,
        /// The step that failed.
        step: String,
        /// The capabilities that AF_XDP needs and this thread lacks.
        missing: Vec<&'static str>,
    },
    /// The limit on locked memory is smaller than the region.
    #[error(
        "register UMEM for {interface}: {needed} KiB may not be locked (ENOBUFS, the limit is {}): \
         raise it with `ulimit -l`, grant CAP_IPC_LOCK, or use less memory", kibibytes(*.limit)
    )]
    LockedMemory {
        /// The interface.
        interface: String,
        /// KiB to be locked.
        needed: u64,
        /// The limit in KiB. None if there is no limit, and other locked memory of the user takes up the rest.
        limit: Option<u64>,
    },
    /// Zero-copy was required, or a granted socket shares a UMEM of ports that are zero-copy, and the driver does not
    /// support it.
    #[error("interface {interface} cannot do zero-copy: {}", zero_copy_remedy(*.preference))]
    NoZeroCopy {
        /// The interface.
        interface: String,
        /// The port's setting.
        preference: ZeroCopy,
    },
    /// The redirect program cannot be attached in any allowed mode.
    #[error(
        "interface {interface} takes the redirect program in no allowed mode ({refused}): allow generic mode, or see `dmesg`"
    )]
    NoMode {
        /// The interface.
        interface: String,
        /// The errors of each mode that was tried.
        refused: String,
    },
    /// Another port of the interface leaves other packets to the kernel, and all ports share one program.
    #[error(
        "interface {interface}: all its ports share one program: give each of them the same packets to leave to the kernel \
         (punt and take; in a port's string kernel= and take=)"
    )]
    PuntDiffers {
        /// The interface.
        interface: String,
    },
    /// A port of another network namespace punts control traffic, and all ports of a UMEM know the same addresses of the
    /// host.
    #[error(
        "interface {interface} is in another network namespace than the host's addresses that are left to the kernel: \
         give the ports of each namespace a Umem of their own"
    )]
    OtherNamespace {
        /// The interface.
        interface: String,
    },
    /// The kernel lacks AF_XDP or a part of bpf(2).
    #[error(
        "{step} for {interface}: this kernel cannot ({errno}); AF_XDP needs Linux 5.9 or later with CONFIG_XDP_SOCKETS"
    )]
    Unsupported {
        /// The interface.
        interface: String,
        /// The step that failed.
        step: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// The process or the system has no descriptor left.
    #[error("{step} for {interface}: {errno}{}", descriptor_remedy(*.errno))]
    NoDescriptor {
        /// The interface.
        interface: String,
        /// The step that failed.
        step: String,
        /// The kernel's error: `MFILE` or `NFILE`.
        errno: Errno,
    },
    /// Another error of the kernel.
    #[error("{interface}: {cause}")]
    Refused {
        /// The interface.
        interface: String,
        /// The step, the kernel's error, and the verifier's message if it came from the verifier.
        cause: String,
    },
}

fn known_queues(queues: Option<u32>) -> String {
    match queues {
        Some(0) => "none of its queues both receives and sends".into(),
        Some(1) => "its only queue is 0".into(),
        Some(n) => format!("its queues are 0 to {}", n - 1),
        None => "`ls /sys/class/net/<interface>/queues` lists them".into(),
    }
}

/// `, "netmem_redirect" (number 42), held by netmem (process 1234): stop the program that holds it, or …`
fn holder_and_remedy(interface: &str, program: Option<&AttachedProgram>) -> String {
    let holder = program.and_then(|program| program.holder.as_ref());
    let is_ours = holder.is_some_and(|(process, _)| *process == std::process::id());
    let Some(program) = program else {
        return format!(": stop the program that attached it, or `ip link set dev {interface} xdp off`");
    };
    if is_ours {
        return format!(
            ", {program}, which is this one: open all its ports of the interface over one Umem (in C, by workers of one memory)"
        );
    }
    format!(", {program}: {}", program.remedy(interface))
}

fn permission_remedy(missing: &[&str]) -> String {
    if missing.is_empty() {
        "a container or a security module forbids it, or before Linux 5.11 the limit on locked memory does \
         (`ulimit -l unlimited`, or CAP_SYS_RESOURCE)"
            .into()
    } else {
        format!("missing {}: run as root, or grant them with setcap(8)", missing.join(", "))
    }
}

fn kibibytes(limit: Option<u64>) -> String {
    limit.map_or("used up".into(), |kib| format!("{kib} KiB"))
}

fn zero_copy_remedy(preference: ZeroCopy) -> &'static str {
    match preference {
        ZeroCopy::Require => "do not require it (copy=no of a port's string)",
        _ => {
            "the first port of its UMEM does, so open that one with ZeroCopy::Never (copy=yes of a port's string)"
        }
    }
}

/// The descriptor that a sleeping worker polls in place of one or several sockets. A duplicate of it keeps none of the
/// sockets alive, whose release frees frames.
#[cold]
pub(super) fn watch(interface: &str) -> Result<Watch, XdpError> {
    Watch::new().map_err(of_io).map_err(|errno| refused(interface, "watch its sockets", errno))
}

/// The error of a step that the kernel refused.
fn refused(interface: &str, step: impl ToString, errno: Errno) -> XdpError {
    let (interface, step) = (interface.to_owned(), step.to_string());
    match errno {
        Errno::MFILE | Errno::NFILE => XdpError::NoDescriptor { interface, step, errno },
        _ => XdpError::Refused { interface, cause: format!("{step}: {errno}") },
    }
}

/// The context of an error: the interface and queue, the configuration, and the size of the region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt<'a> {
    pub(super) interface: &'a str,
    pub(super) queue: u32,
    pub(super) zero_copy: ZeroCopy,
    pub(super) umem_bytes: usize,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(umem: &Umem, interface: &'a str, queue: u32, config: &XdpConfig) -> Attempt<'a> {
        Attempt { umem_bytes: umem.region().len(), ..Attempt::of_no_memory(interface, queue, config) }
    }

    /// Returns an attempt that registers no memory.
    pub(super) fn of_no_memory(interface: &'a str, queue: u32, config: &XdpConfig) -> Attempt<'a> {
        Attempt { interface, queue, zero_copy: config.zero_copy, umem_bytes: 0 }
    }
}

impl Attempt<'_> {
    /// Converts an error about the interface from a system call other than bpf(2) and the socket's own steps.
    #[cold]
    pub(super) fn netdev(&self, step: &str, errno: Errno) -> XdpError {
        let interface = self.interface.to_owned();
        match errno {
            Errno::NODEV | Errno::NXIO => XdpError::UnknownInterface { interface },
            _ => refused(self.interface, step, errno),
        }
    }

    #[cold]
    pub(super) fn socket(&self, error: SocketError) -> XdpError {
        let interface = self.interface.to_owned();
        let queue = self.queue;
        let step = error.step.to_string();
        match (error.step, error.errno) {
            (_, Errno::PERM | Errno::ACCESS) => self.not_permitted(step),
            (SocketStep::Open, Errno::AFNOSUPPORT) => {
                XdpError::Unsupported { interface, step, errno: error.errno }
            }
            (SocketStep::Register, Errno::NOBUFS) => {
                let limit = capability::locked_memory_limit().map(|bytes| bytes / 1024);
                XdpError::LockedMemory { interface, needed: self.umem_bytes as u64 / 1024, limit }
            }
            (SocketStep::Bind, Errno::BUSY) => XdpError::QueueBound { interface, queue },
            (SocketStep::Bind, Errno::INVAL) => XdpError::NoSuchQueue { interface, queue, queues: None },
            (SocketStep::Bind, Errno::NODEV) => XdpError::UnknownInterface { interface },
            (SocketStep::Bind, Errno::NETDOWN) => XdpError::InterfaceDown { interface },
            (SocketStep::Bind, Errno::OPNOTSUPP) => {
                XdpError::NoZeroCopy { interface, preference: self.zero_copy }
            }
            (_, errno) => refused(self.interface, step, errno),
        }
    }

    #[cold]
    pub(super) fn bpf(&self, error: &BpfError) -> XdpError {
        let interface = self.interface.to_owned();
        let attach = matches!(error.step, BpfStep::AttachNative | BpfStep::AttachGeneric);
        match error.errno {
            Errno::PERM => self.not_permitted(error.step.to_string()),
            Errno::BUSY | Errno::EXIST if attach => {
                let program = AttachedProgram::on(&interface);
                XdpError::ProgramAttached { interface, program }
            }
            Errno::NODEV if attach => XdpError::UnknownInterface { interface },
            Errno::NOSYS => {
                XdpError::Unsupported { interface, step: error.step.to_string(), errno: error.errno }
            }
            _ if is_about_the_mode(error) => XdpError::NoMode { interface, refused: mode_refused(error) },
            Errno::MFILE | Errno::NFILE => {
                let (step, errno) = (error.step.to_string(), error.errno);
                XdpError::NoDescriptor { interface, step, errno }
            }
            _ => XdpError::Refused { interface, cause: error.to_string() },
        }
    }

    fn not_permitted(&self, step: String) -> XdpError {
        let interface = self.interface.to_owned();
        XdpError::NotPermitted { interface, step, missing: capability::missing_for_xdp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::bpf::AttachedBy;

    const ATTEMPT: Attempt<'_> =
        Attempt { interface: "eth9", queue: 3, zero_copy: ZeroCopy::Try, umem_bytes: 64 << 20 };

    fn socket(step: SocketStep, errno: Errno) -> XdpError {
        ATTEMPT.socket(SocketError { step, errno })
    }

    fn bpf(step: BpfStep, errno: Errno) -> XdpError {
        ATTEMPT.bpf(&BpfError { step, errno, log: String::new() })
    }

    #[test]
    fn every_refusal_names_the_step_and_the_remedy_in_one_line() {
        for (error, needles) in [
            (ATTEMPT.netdev("find", Errno::NODEV), ["eth9 does not exist", "`ip link`"]),
            (socket(SocketStep::Bind, Errno::NETDOWN), ["eth9 is down", "ip link set dev eth9 up"]),
            (socket(SocketStep::Bind, Errno::BUSY), ["queue 3 of eth9", "another queue"]),
            (socket(SocketStep::Bind, Errno::INVAL), ["no queue 3", "queues"]),
            (socket(SocketStep::Register, Errno::NOBUFS), ["65536 KiB", "ulimit -l"]),
            (socket(SocketStep::Open, Errno::AFNOSUPPORT), ["open AF_XDP socket", "CONFIG_XDP_SOCKETS"]),
            (socket(SocketStep::Bind, Errno::OPNOTSUPP), ["zero-copy", "ZeroCopy::Never"]),
            (
                bpf(BpfStep::AttachNative, Errno::BUSY),
                ["eth9 has an XDP program", "ip link set dev eth9 xdp off"],
            ),
            (bpf(BpfStep::AttachGeneric, Errno::EXIST), ["eth9 has an XDP program", "xdp off"]),
            (bpf(BpfStep::AttachGeneric, Errno::OPNOTSUPP), ["no allowed mode", "generic: "]),
            (bpf(BpfStep::CreateMap, Errno::NOSYS), ["create XSKMAP", "Linux 5.9"]),
            (bpf(BpfStep::LoadProgram, Errno::INVAL), ["load redirect program", "eth9"]),
            (bpf(BpfStep::LoadProgram, Errno::MFILE), ["load redirect program", "`ulimit -n`"]),
            (bpf(BpfStep::AttachNative, Errno::MFILE), ["attach", "`ulimit -n`"]),
            (socket(SocketStep::Open, Errno::NFILE), ["open AF_XDP socket", "`sysctl fs.file-max`"]),
        ] {
            let line = error.to_string();
            assert!(needles.iter().all(|needle| line.contains(needle)), "{line}");
            assert!(!line.contains('\n') && !line.contains("  "), "{line}");
        }
    }

    #[test]
    fn a_second_namespace_with_addresses_of_its_own_is_refused_with_the_remedy() {
        let line = XdpError::OtherNamespace { interface: "eth9".into() }.to_string();
        assert!(line.contains("eth9 is in another network namespace"), "{line}");
        assert!(line.ends_with("a Umem of their own") && !line.contains("  "), "{line}");
    }

    #[test]
    fn a_missing_capability_is_named_and_a_foreign_ban_is_not_blamed_on_one() {
        let denied =
            |missing| XdpError::NotPermitted { interface: "eth9".into(), step: "open".into(), missing };
        let line = denied(vec!["CAP_NET_RAW", "CAP_BPF"]).to_string();
        assert!(line.contains("missing CAP_NET_RAW, CAP_BPF") && line.contains("root"), "{line}");
        assert!(denied(vec![]).to_string().contains("a container"));
        assert!(matches!(socket(SocketStep::Open, Errno::PERM), XdpError::NotPermitted { .. }));
        assert!(matches!(bpf(BpfStep::CreateMap, Errno::PERM), XdpError::NotPermitted { .. }));
    }

    /// Seen: a second Umem of one program was told to stop the program, which was itself.
    #[test]
    fn a_program_that_this_process_holds_is_not_to_be_stopped_but_its_umem_to_be_shared() {
        let line = |process| {
            let holder = Some((process, "dns".into()));
            let (name, attached_by) = ("netmem_redirect".into(), Some(AttachedBy::Link));
            let program = Some(AttachedProgram { id: 42, name, holder, attached_by });
            XdpError::ProgramAttached { interface: "eth9".into(), program }.to_string()
        };
        let ours = line(std::process::id());
        assert!(
            ours.ends_with(
                ", which is this one: open all its ports of the interface over one Umem (in C, by workers of one memory)"
            ),
            "{ours}"
        );
        let other = line(u32::MAX);
        assert!(other.contains("held by dns (process 4294967295): stop that process"), "{other}");
    }

    #[test]
    fn the_queues_that_exist_are_named() {
        let line = |queues| XdpError::NoSuchQueue { interface: "eth9".into(), queue: 3, queues }.to_string();
        assert!(line(Some(1)).ends_with("its only queue is 0"));
        assert!(line(Some(3)).ends_with("its queues are 0 to 2"));
        let line = XdpError::UncountedQueues { interface: "eth9".into() }.to_string();
        assert!(line.contains("count the queues of eth9") && line.contains("give queues=N"), "{line}");
        for (rx, tx, remedy) in [(8, 4, "ethtool -L eth9 rx 4 tx 4"), (2, 0, "ethtool -L eth9 rx 1 tx 1")] {
            let line = XdpError::UnpairedQueues { interface: "eth9".into(), rx, tx }.to_string();
            assert!(line.contains(remedy) && line.contains(&format!("{rx} to receive and {tx}")), "{line}");
            assert!(!line.contains('\n') && !line.contains("  "), "{line}");
        }
    }
}
