use super::filters::{Side, apply, compiled};
use netmem::system::bpf::AddressMaps;
use netmem::system::memfd::SharedMemory;
use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, exit};
use std::time::Duration;
use std::{env, thread};

/// Names the action of a test's child on a thread of that side.
const PLANTED: &str = "NETMEM_PLANTED";
/// SIGSYS.
const ENDED: i32 = 31;

/// Returns the status of a process in which a thread of that side performs the action.
fn planted(side: &str, what: &str) -> ExitStatus {
    let program = env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "sandbox::tests::a_child_does_what_is_planted", "--nocapture"]);
    command.env(PLANTED, format!("{side} {what}")).output().expect("it runs").status
}

/// The child's side of the tests below. Does nothing otherwise.
#[test]
fn a_child_does_what_is_planted() {
    let Ok(planted) = env::var(PLANTED) else { return };
    let (side, what) = planted.split_once(' ').expect("a side and what is planted");
    thread::scope(|scope| {
        scope.spawn(|| {
            let worker = (side == "worker").then(|| compiled(Side::Worker).expect("filters"));
            apply(&compiled(Side::Control).expect("filters")).expect("a kernel with seccomp");
            worker.iter().for_each(|worker| apply(worker).expect("a second filter"));
            exit(i32::from(!done(what)));
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
    for what in ["nothing", "work"] {
        let status = planted("worker", what);
        assert_eq!(status.code(), Some(0), "{what}: {status}");
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
        assert_eq!(status.code(), Some(0), "{what}: {status}");
    }
    let status = planted("control", "spawn");
    assert_eq!(status.code(), Some(1), "{status}");
    for what in ["execve", "bpf"] {
        let status = planted("control", what);
        assert_eq!(status.signal(), Some(ENDED), "{what}: {status}");
    }
}
