//! The system calls that each side is left with (seccomp(2)).
//!
//! Two filters each: by the first, whoever asks for one of the calls that take a process over is ended (`SIGSYS`); by the second, what is not listed fails with
//! `EPERM`, so that a C library that tries something new and has another way takes that. No argument is looked at, so that the kernel
//! answers for an allowed call from a bitmap (Linux 5.11).

use super::failed;
use crate::failure::Failure;
use seccompiler::{BpfProgram, apply_filter, compile_from_json};
use serde_json::json;
use std::env::consts::ARCH;

/// Who is left with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Threads that move packets.
    Worker,
    /// All others of the process.
    Control,
    /// The broker.
    Broker,
}

/// Calls of all: memory, threads, time, signals, and what is done with descriptors that are there.
const OF_ALL: &str = "accept4 brk capget capset clock_getres clock_gettime clock_nanosleep clone clone3 close close_range dup dup3 \
    epoll_create1 epoll_ctl epoll_pwait eventfd2 exit exit_group fallocate fcntl fdatasync fstat fstatfs fsync ftruncate futex get_robust_list getcpu \
    getegid geteuid getgid getpeername getpid getppid getrandom getresgid getresuid getrusage getsockname getsockopt gettid gettimeofday getuid \
    io_destroy io_getevents io_setup io_submit ioctl lseek madvise membarrier memfd_create mincore mlock mmap mprotect mremap msync \
    munlock munmap nanosleep newfstatat ppoll prctl pread64 preadv prlimit64 pselect6 pwrite64 pwritev read readlinkat readv recvfrom recvmmsg \
    recvmsg restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_getaffinity \
    sched_getparam sched_getscheduler sched_setaffinity sched_yield sendmmsg sendmsg sendto set_robust_list set_tid_address setsockopt \
    shutdown sigaltstack statx sysinfo tgkill timerfd_create timerfd_settime timerfd_gettime uname write writev bind";
/// The same by names that only older architectures have.
const OF_ALL_X86: &str =
    "access arch_prctl epoll_create epoll_wait eventfd getrlimit lstat poll readlink select stat time";
/// Beside those: files, sockets, and what ends children.
const OF_CONTROL: &str = "accept chdir connect faccessat faccessat2 fchdir fchmod fchmodat fchown fchownat flock getdents64 \
    inotify_init1 linkat listen mkdirat openat pipe2 renameat renameat2 socket socketpair statfs umask unlinkat utimensat wait4 waitid \
    fadvise64 getcwd sendfile copy_file_range kill seccomp";
const OF_CONTROL_X86: &str =
    "chmod chown getdents lchown link mkdir open pipe rename rmdir unlink alarm pause";
/// Beside those of control: programs, and network namespaces.
const OF_BROKER: &str = "bpf setns";

/// Calls by which a worker is ended.
const NOT_FOR_WORKERS: &str = "openat openat2 socket bpf execve execveat";
const NOT_FOR_WORKERS_X86: &str = "open creat";
/// Calls by which anybody is ended, but a broker for those that are its own.
const NOT_FOR_ANY: &str = "execve execveat ptrace process_vm_readv process_vm_writev init_module finit_module delete_module kexec_load \
    mount umount2 pivot_root chroot unshare setns bpf perf_event_open userfaultfd open_by_handle_at name_to_handle_at add_key \
    request_key keyctl reboot swapon swapoff io_uring_setup io_uring_enter io_uring_register setuid setgid setresuid setresgid";

/// The filters of a side, ready for any thread.
pub struct Compiled {
    ended: BpfProgram,
    left: BpfProgram,
}

/// The filters of a side.
///
/// # Errors
/// [`Failure::Input`] where there is none for this architecture.
pub fn compiled(side: Side) -> Result<Compiled, Failure> {
    let on_x86 = |names: &'static str| if ARCH == "x86_64" { names } else { "" };
    let (mut allowed, mut ended) = (vec![OF_ALL, on_x86(OF_ALL_X86)], vec![NOT_FOR_ANY]);
    match side {
        Side::Worker => ended.extend([NOT_FOR_WORKERS, on_x86(NOT_FOR_WORKERS_X86)]),
        Side::Control => allowed.extend([OF_CONTROL, on_x86(OF_CONTROL_X86)]),
        Side::Broker => allowed.extend([OF_CONTROL, on_x86(OF_CONTROL_X86), OF_BROKER]),
    }
    let names = |of: &[&'static str]| -> Vec<&'static str> {
        of.iter().flat_map(|names| names.split_whitespace()).collect()
    };
    let allowed = names(&allowed);
    let ended: Vec<_> = names(&ended).into_iter().filter(|name| !allowed.contains(name)).collect();
    let rules = |of: &[&str]| of.iter().map(|name| json!({ "syscall": name })).collect::<Vec<_>>();
    let filters = json!({
        "ended": { "mismatch_action": "allow", "match_action": "kill_process", "filter": rules(&ended) },
        "left": { "mismatch_action": { "errno": 1 }, "match_action": "allow", "filter": rules(&allowed) },
    });
    let arch = ARCH.try_into().map_err(|error| failed("filters of system calls", &error))?;
    let compiled = compile_from_json(filters.to_string().as_bytes(), arch);
    let mut compiled = compiled.map_err(|error| failed("filters of system calls", &error))?;
    let mut of = |name| compiled.remove(name).unwrap_or_default();
    Ok(Compiled { ended: of("ended"), left: of("left") })
}

/// Leaves the calling thread, and those that it starts, with the calls of these filters.
///
/// # Errors
/// [`Failure::Input`] where the kernel has no such filters.
pub fn apply(filters: &Compiled) -> Result<(), Failure> {
    // By the second a worker is left without seccomp(2).
    let done = apply_filter(&filters.ended).and_then(|()| apply_filter(&filters.left));
    done.map_err(|error| failed("filter system calls", &error))
}
