//! The system calls that each side may still make (seccomp(2)).
//!
//! Each side has three filters:
//!
//! 1. A process that makes one of the calls by which an intruder takes over a process is ended (`SIGSYS`). So is
//!    one that types into a terminal by ioctl(2), or has signals sent to another process by fcntl(2) or ioctl(2).
//! 2. clone3(2) fails with `ENOSYS`, since no filter can see its arguments. The C library then makes threads by clone(2).
//! 3. A call that is not listed fails with `EPERM`. clone(2) may make threads alone. A call that signals, limits or pins a process
//!    may name no other one. A C library that tries a new call first takes its other way.
//!
//! A filter has the number of the process that compiled it, so each process compiles its own.
//!
//! clone3(2) is on the third list: if two filters fail a call, the error of the last one applies. For calls whose
//! arguments no filter examines, the kernel answers from a bitmap (Linux 5.11).

use super::failed;
use crate::failure::Failure;
use seccompiler::{BpfProgram, TargetArch, apply_filter, compile_from_json};
use serde_json::{Value, json};
use std::env::consts::ARCH;
use std::process;

/// The sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Threads that move packets.
    Worker,
    /// All other threads of the process.
    Control,
    /// The broker.
    Broker,
    /// A broker that runs programs to undo changes of the host.
    UndoingBroker,
}

/// Calls of all sides: memory, threads, time, signals, and the use of open descriptors.
const OF_ALL: &str = "accept4 brk capget capset clock_getres clock_gettime clock_nanosleep clone3 close close_range dup dup3 \
    epoll_create1 epoll_ctl epoll_pwait eventfd2 exit exit_group fallocate fcntl fdatasync fstat fstatfs fsync ftruncate futex get_robust_list getcpu \
    getegid geteuid getgid getpeername getpid getppid getrandom getresgid getresuid getrusage getsockname getsockopt gettid gettimeofday getuid \
    inotify_add_watch inotify_init1 io_destroy io_getevents io_setup io_submit ioctl lseek madvise membarrier memfd_create mincore \
    mlock mmap mprotect mremap msync munlock munmap nanosleep newfstatat ppoll prctl pread64 preadv pselect6 pwrite64 pwritev read readlinkat readv recvfrom recvmmsg \
    recvmsg restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_getaffinity \
    sched_getparam sched_getscheduler sched_yield sendmmsg sendmsg sendto set_robust_list set_tid_address setsockopt \
    shutdown sigaltstack statx sysinfo timerfd_create timerfd_settime timerfd_gettime uname write writev bind";
/// Further calls of all sides, with names that only older architectures have.
const OF_ALL_X86: &str =
    "access arch_prctl epoll_create epoll_wait eventfd getrlimit lstat poll readlink select stat time";
/// Calls of all sides for themselves alone: the first argument is the process's own number, or 0. A program that a broker
/// runs has the broker's filters, so it has only the 0.
const OF_ITSELF: &str = "prlimit64 sched_setaffinity sched_setscheduler tgkill";
/// musl's raise(3) and abort(3) use tkill(2), which takes the number of a thread. The process's number is that of its
/// first thread. Another thread cannot raise a signal, and its abort(3) ends the process by SIGSEGV.
const OF_ITSELF_MUSL: &str = if cfg!(target_env = "musl") { "tkill" } else { "" };
/// Additional calls of the control side: files and sockets.
const OF_CONTROL: &str = "accept chdir connect faccessat faccessat2 fchdir fchmod fchmodat fchown fchownat flock getdents64 \
    linkat listen mkdirat openat pipe2 renameat renameat2 socket socketpair statfs umask unlinkat utimensat wait4 waitid \
    fadvise64 getcwd sendfile copy_file_range seccomp";
const OF_CONTROL_X86: &str =
    "chmod chown getdents lchown link mkdir open pipe rename rmdir unlink alarm pause";
/// Additional calls of a broker: programs, and network namespaces.
const OF_BROKER: &str = "bpf setns";
/// Additional calls of an undoing broker: running a program.
const OF_UNDOING: &str = "clone execve getpgid setpgid dup3 rt_sigaction getgroups";
const OF_UNDOING_X86: &str = "vfork fork dup2 getpgrp";
/// CLONE_THREAD of clone(2).
const THREAD: u64 = 0x1_0000;
/// Calls that end any process if this is the second argument: TIOCSTI and TIOCLINUX type into a terminal. After FIOSETOWN,
/// SIOCSPGRP, F_SETOWN and F_SETOWN_EX the kernel sends the signals of a descriptor to another process.
const ENDED_BY_ARGUMENT: [(&str, u64); 6] =
    [("ioctl", 0x5412), ("ioctl", 0x541c), ("ioctl", 0x8901), ("ioctl", 0x8902), ("fcntl", 8), ("fcntl", 15)];
/// ENOSYS.
const NOT_THERE: u32 = 38;

/// Calls that end a worker.
const NOT_FOR_WORKERS: &str = "openat openat2 socket bpf execve execveat";
const NOT_FOR_WORKERS_X86: &str = "open creat";
/// Calls that end any process, except a broker for its own calls.
const NOT_FOR_ANY: &str = "execve execveat ptrace process_vm_readv process_vm_writev init_module finit_module delete_module kexec_load \
    mount umount2 pivot_root chroot unshare setns bpf perf_event_open userfaultfd open_by_handle_at name_to_handle_at add_key \
    request_key keyctl reboot swapon swapoff io_uring_setup io_uring_enter io_uring_register setuid setgid setresuid setresgid";

/// The filters of a side, ready for any thread, in the order in which they are applied.
pub struct Compiled(pub(super) [BpfProgram; 3]);

/// Returns the names of a side on that architecture: the calls that it may make with any arguments, and the calls that end it.
fn names(side: Side, arch: &str) -> (Vec<&'static str>, Vec<&'static str>) {
    let on_x86 = |names: &'static str| if arch == "x86_64" { names } else { "" };
    let (mut left, mut ended) = (vec![OF_ALL, on_x86(OF_ALL_X86)], vec![NOT_FOR_ANY]);
    match side {
        Side::Worker => ended.extend([NOT_FOR_WORKERS, on_x86(NOT_FOR_WORKERS_X86)]),
        Side::Control => left.extend([OF_CONTROL, on_x86(OF_CONTROL_X86)]),
        Side::Broker => left.extend([OF_CONTROL, on_x86(OF_CONTROL_X86), OF_BROKER]),
        Side::UndoingBroker => {
            left.extend([OF_CONTROL, on_x86(OF_CONTROL_X86), OF_BROKER, OF_UNDOING, on_x86(OF_UNDOING_X86)]);
        }
    }
    let words = |of: Vec<&'static str>| -> Vec<&'static str> {
        of.into_iter().flat_map(str::split_whitespace).collect()
    };
    let left = words(left);
    let ended = words(ended).into_iter().filter(|name| !left.contains(name)).collect();
    (left, ended)
}

/// Returns a rule for a call, or for a call with this argument.
fn rule(name: &str, argument: Option<Value>) -> Value {
    match argument {
        None => json!({ "syscall": name }),
        Some(argument) => json!({ "syscall": name, "args": [argument] }),
    }
}

/// Returns the condition that the argument of this index has the value. The kernel reads 32 bits of these arguments.
fn is(index: u8, value: u64) -> Value {
    json!({ "index": index, "type": "dword", "op": "eq", "val": value })
}

/// Returns the filters of a side, for this process.
///
/// # Errors
/// [`Failure::Input`] if there is none for this architecture.
pub fn compiled(side: Side) -> Result<Compiled, Failure> {
    compiled_for(side, ARCH)
}

/// As [`compiled`], for that architecture.
pub(super) fn compiled_for(side: Side, arch: &str) -> Result<Compiled, Failure> {
    let target = TargetArch::try_from(arch).map_err(|error| failed("filters of system calls", &error))?;
    let (left, ended) = names(side, arch);
    let rules = |of: &[&str]| of.iter().map(|name| rule(name, None)).collect::<Vec<_>>();
    let by_argument = ENDED_BY_ARGUMENT.map(|(name, value)| rule(name, Some(is(1, value))));
    let ended = [rules(&ended), by_argument.to_vec()].concat();
    let mut left_rules = rules(&left);
    for name in [OF_ITSELF, OF_ITSELF_MUSL].into_iter().flat_map(str::split_whitespace) {
        left_rules.extend([0, process::id()].map(|number| rule(name, Some(is(0, number.into())))));
    }
    if !left.contains(&"clone") {
        let is_thread = json!({ "index": 0, "type": "qword", "op": { "masked_eq": THREAD }, "val": THREAD });
        left_rules.push(rule("clone", Some(is_thread)));
    }
    let filters = json!({
        "ended": { "mismatch_action": "allow", "match_action": "kill_process", "filter": ended },
        "old": { "mismatch_action": "allow", "match_action": { "errno": NOT_THERE }, "filter": rules(&["clone3"]) },
        "left": { "mismatch_action": { "errno": 1 }, "match_action": "allow", "filter": left_rules },
    });
    let compiled = compile_from_json(filters.to_string().as_bytes(), target);
    let mut compiled = compiled.map_err(|error| failed("filters of system calls", &error))?;
    Ok(Compiled(["ended", "old", "left"].map(|name| compiled.remove(name).unwrap_or_default())))
}

/// Applies these filters to the calling thread, and to the threads that it starts.
///
/// # Errors
/// [`Failure::Input`] if the kernel has no such filters.
pub fn apply(filters: &Compiled) -> Result<(), Failure> {
    // After the last filter a worker cannot call seccomp(2).
    let done = filters.0.iter().try_for_each(|filter| apply_filter(filter));
    done.map_err(|error| failed("filter system calls", &error))
}
