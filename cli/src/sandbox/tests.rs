use super::check_alone;
use super::filters::{Compiled, Side, apply, compiled, compiled_for};
use netmem::system::bpf::AddressMaps;
use netmem::system::cpu;
use netmem::system::memfd::SharedMemory;
use seccompiler::sock_filter;
use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Command, ExitStatus, exit};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, thread};

/// Names the action of a test's child on a thread of that side.
const PLANTED: &str = "NETMEM_PLANTED";
/// The exit code of a child whose action succeeded. A child that ran no test ends with 0.
const DONE: i32 = 33;
/// SIGSYS.
const ENDED: i32 = 31;
/// SIGABRT. With musl a thread that is not the first one cannot raise it, and ends by SIGSEGV.
const ABORTED: i32 = if cfg!(target_env = "musl") { 11 } else { 6 };

/// Returns the status of a process in which a thread of that side performs the action.
fn planted(side: &str, what: &str) -> ExitStatus {
    let program = env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "sandbox::tests::a_child_process_makes_the_planted_call", "--nocapture"]);
    command.env(PLANTED, format!("{side} {what}")).output().expect("it runs").status
}

/// The child's side of the tests below. Does nothing otherwise.
#[test]
fn a_child_process_makes_the_planted_call() {
    let Ok(planted) = env::var(PLANTED) else { return };
    let (side, what) = planted.split_once(' ').expect("a side and what is planted");
    thread::scope(|scope| {
        scope.spawn(|| {
            let worker = (side == "worker").then(|| compiled(Side::Worker).expect("filters"));
            apply(&compiled(Side::Control).expect("filters")).expect("a kernel with seccomp");
            worker.iter().for_each(|worker| apply(worker).expect("a second filter"));
            exit(if done(what) { DONE } else { 1 });
        });
    });
}

/// Performs the action. Returns true if it succeeded.
fn done(what: &str) -> bool {
    match what {
        "open" => File::open("/dev/null").is_ok(),
        "socket" => UnixDatagram::unbound().is_ok(),
        "execve" => {
            let error = Command::new("/bin/true").exec();
            panic!("it goes on: {error}")
        }
        "bpf" => AddressMaps::new().is_ok(),
        "nothing" => true,
        "abort" => process::abort(),
        "pin" => cpu::allowed().is_ok_and(|cores| cpu::pin(cores[0]).is_ok()),
        // The actions of ports, pauses and the standard library on a worker's thread.
        "work" => {
            let memory = SharedMemory::new("ring", 4096).is_ok();
            thread::sleep(Duration::from_millis(1));
            memory && thread::spawn(|| vec![7_u8; 8 << 20].len()).join().is_ok()
        }
        // A child would keep the broker from noticing the end of its parent.
        "spawn" => Command::new("/bin/true").status().is_ok(),
        // On none of the lists.
        "link" => std::fs::hard_link("/dev/null", "/dev/null").is_ok(),
        _ => unreachable!("{what}"),
    }
}

#[test]
fn a_worker_that_opens_a_file_or_a_socket_or_runs_a_program_is_ended() {
    for what in ["open", "socket", "execve", "bpf"] {
        let status = planted("worker", what);
        assert_eq!(status.signal(), Some(ENDED), "{what}: {status}");
    }
    for what in ["nothing", "work", "pin"] {
        let status = planted("worker", what);
        assert_eq!(status.code(), Some(DONE), "{what}: {status}");
    }
    for what in ["link", "spawn"] {
        let status = planted("worker", what);
        assert_eq!(status.code(), Some(1), "a call that is on no list fails, {what}: {status}");
    }
}

#[test]
fn the_control_side_opens_files_and_sockets_and_is_ended_by_a_program_or_bpf() {
    for what in ["open", "socket", "nothing", "work"] {
        let status = planted("control", what);
        assert_eq!(status.code(), Some(DONE), "{what}: {status}");
    }
    let status = planted("control", "spawn");
    assert_eq!(status.code(), Some(1), "{status}");
    for what in ["execve", "bpf"] {
        let status = planted("control", what);
        assert_eq!(status.signal(), Some(ENDED), "{what}: {status}");
    }
}

#[test]
fn a_worker_and_the_control_side_may_abort() {
    for side in ["worker", "control"] {
        let status = planted(side, "abort");
        assert_eq!(status.signal(), Some(ABORTED), "{side}: {status}");
    }
}

const SIDES: [Side; 4] = [Side::Worker, Side::Control, Side::Broker, Side::UndoingBroker];

/// An architecture, the number that the kernel has for it, and its numbers of some calls.
struct Arch {
    name: &'static str,
    audit: u32,
    tgkill: u32,
    tkill: u32,
    kill: u32,
    prlimit64: u32,
    sched_setaffinity: u32,
    sched_setscheduler: u32,
    fcntl: u32,
    ioctl: u32,
    getpgid: u32,
}

const ARCHS: [Arch; 2] = [
    Arch {
        name: "x86_64",
        audit: 0xc000_003e,
        tgkill: 234,
        tkill: 200,
        kill: 62,
        prlimit64: 302,
        sched_setaffinity: 203,
        sched_setscheduler: 144,
        fcntl: 72,
        ioctl: 16,
        getpgid: 121,
    },
    Arch {
        name: "aarch64",
        audit: 0xc000_00b7,
        tgkill: 131,
        tkill: 130,
        kill: 129,
        prlimit64: 261,
        sched_setaffinity: 122,
        sched_setscheduler: 119,
        fcntl: 25,
        ioctl: 29,
        getpgid: 155,
    },
];

/// Returns what a filter answers to a call with these arguments: it is run as the kernel runs it.
fn answer(filter: &[sock_filter], (arch, call): (u32, u32), arguments: [u64; 2]) -> u32 {
    let halves = |argument: u64| [argument as u32, (argument >> 32) as u32];
    let (first, second) = (halves(arguments[0]), halves(arguments[1]));
    // The beginning of struct seccomp_data, in words: the call, the architecture, the caller's address, the arguments.
    let data = [call, arch, 0, 0, first[0], first[1], second[0], second[1]];
    let (mut at, mut value) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = filter[at].clone();
        let by = |is_so: bool| usize::from(if is_so { jt } else { jf });
        at += 1;
        match code {
            0x20 => value = data[k as usize / 4],
            0x54 => value &= k,
            0x05 => at += k as usize,
            0x15 => at += by(value == k),
            0x25 => at += by(value > k),
            0x35 => at += by(value >= k),
            0x06 => return k,
            code => unreachable!("{code:#x}"),
        }
    }
}

/// Returns true if all filters allow the call.
fn may(filters: &Compiled, arch: &Arch, call: u32, arguments: [u64; 2]) -> bool {
    /// SECCOMP_RET_ALLOW.
    const ALLOW: u32 = 0x7fff_0000;
    filters.0.iter().all(|filter| answer(filter, (arch.audit, call), arguments) == ALLOW)
}

/// Found in a review: no run with `--fix` began on aarch64, which has no getpgrp(2).
#[test]
fn every_side_has_filters_on_each_architecture() {
    for arch in &ARCHS {
        for side in SIDES {
            let filters = compiled_for(side, arch.name);
            let filters = filters.unwrap_or_else(|why| panic!("{side:?} on {}: {why:?}", arch.name));
            let runs_programs = side == Side::UndoingBroker;
            assert_eq!(may(&filters, arch, arch.getpgid, [0; 2]), runs_programs, "{side:?} on {}", arch.name);
        }
    }
}

/// Found in a review: a worker of root's could end, stop and limit every other process of root's.
#[test]
fn no_side_may_signal_limit_or_pin_another_process() {
    let own = u64::from(process::id());
    for (arch, side) in ARCHS.iter().flat_map(|arch| SIDES.map(|side| (arch, side))) {
        let filters = compiled_for(side, arch.name).expect("filters");
        let may = |call, arguments| may(&filters, arch, call, arguments);
        let Arch { tgkill, tkill, kill, prlimit64, sched_setaffinity, sched_setscheduler, .. } = *arch;
        let Arch { fcntl, ioctl, .. } = *arch;
        for call in [tgkill, prlimit64, sched_setaffinity, sched_setscheduler] {
            assert!(may(call, [own, 6]), "call {call} for itself: {side:?} on {}", arch.name);
        }
        for call in [prlimit64, sched_setaffinity, sched_setscheduler] {
            assert!(may(call, [0, 8]), "call {call}: {side:?} on {}", arch.name);
        }
        for call in [tgkill, tkill, kill, prlimit64, sched_setaffinity, sched_setscheduler] {
            for other in [1, own + 1, u64::from(u32::MAX)] {
                assert!(!may(call, [other, 9]), "call {call} for {other}: {side:?} on {}", arch.name);
            }
        }
        // F_SETFL and FIONBIO set what a descriptor does; the others whose signals it sends.
        assert!(may(fcntl, [3, 4]) && may(ioctl, [3, 0x5421]), "{side:?} on {}", arch.name);
        for (call, command) in [(fcntl, 8), (fcntl, 15), (ioctl, 0x8901), (ioctl, 0x8902)] {
            assert!(!may(call, [3, command]), "call {call}, {command:#x}: {side:?} on {}", arch.name);
        }
    }
}

/// Found in a review: a thread that closed a descriptor of a peer's during the set-up kept every capability, and had no filter.
#[test]
fn privileges_are_not_given_up_while_another_thread_would_keep_them() {
    let (end, ends) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || ends.recv());
        let failure = check_alone().expect_err("there is another thread");
        drop(end);
        let [line] = failure.lines() else { panic!("one line: {failure:?}") };
        assert!(line.starts_with("sandbox: give up capabilities: the process has "), "{line}");
    });
}
