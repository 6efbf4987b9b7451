//! What other programs may do to a port: take its program off the interface, and its socket out of the program's map.

use crate::netns::{Wire, in_namespace, ip, veth};
use crate::{Bench, bench, ethernet, program_on, wait_for};
use netmem::pool::Batch;
use netmem::port::xdp::XdpPort;
use netmem::port::{Fill, Port, PortState, Rx, Wake};
use netmem::system::bpf::{RedirectLink, RedirectProgram, SocketMap};
use netmem::system::errno::Errno;
use std::fs;

const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_LINK_DETACH: libc::c_int = 34;
/// BPF_MAP_TYPE_XSKMAP.
const SOCKETS: &str = "map_type:\t17";

/// Returns the descriptors of this process with this text in their description by the kernel. Numbers of BPF objects
/// belong to the machine, so they are not compared.
fn descriptors(what: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc/self/fdinfo").unwrap().map(|entry| entry.unwrap());
    let said = entries.map(|entry| (entry.file_name(), fs::read_to_string(entry.path()).unwrap_or_default()));
    let these = said.filter(|(_, said)| said.lines().any(|line| line == what));
    these.map(|(name, _)| name.to_str().unwrap().parse().unwrap()).collect()
}

fn bpf<T>(command: libc::c_int, attributes: &T) {
    // SAFETY: each caller lays the attributes out as the command needs them, and what they point to lives longer than
    // the call.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Why it is down, or nothing.
pub fn says(port: &dyn Port) -> String {
    match port.state() {
        PortState::Up => String::new(),
        PortState::Down(reason) => reason,
    }
}

/// Detaches the link, as `bpftool link detach` does.
fn detach() {
    let [link] = descriptors("link_type:\txdp")[..] else { panic!("not one link") };
    bpf(BPF_LINK_DETACH, &[link]);
}

/// Deletes the entry of queue 0, as `bpftool map delete` does.
fn empty_map() {
    let [map] = descriptors(SOCKETS)[..] else { panic!("not one map") };
    let key = 0_u32;
    bpf(BPF_MAP_DELETE_ELEM, &[u64::from(map), (&raw const key).expose_provenance() as u64, 0, 0]);
}

/// Sends frames from the far end, and polls, until the port receives one.
fn receives(here: &mut Bench, port: &mut XdpPort, wire: &Wire) {
    wait_for("a frame from the wire", || {
        wire.send(&ethernet(7));
        let mut frames = Batch::new();
        port.refill(&mut here.w, &here.pool);
        port.kick();
        let n = port.rx(&mut here.w, &mut frames);
        frames.free(&mut here.w);
        (n > 0).then_some(())
    });
}

/// Seen: 100 % loss, no line and no other state in the five seconds looked at.
fn is_seen_and_mended(test: &str, harm: fn(), reason: &str) {
    in_namespace(test, || {
        veth("a0", "a1", 1);
        let mut here = bench(256);
        let mut port = here.open("a0").unwrap();
        let wire = Wire::open("a1");
        receives(&mut here, &mut port, &wire);
        for _ in 0..2 {
            harm();
            wait_for("the port is down", || {
                let _ = port.arm();
                matches!(port.state(), PortState::Down(_)).then_some(())
            });
            assert!(says(&port).contains(reason), "{}", says(&port));
            wait_for("it is mended", || {
                let _ = port.arm();
                (port.state() == PortState::Up).then_some(())
            });
            assert!(program_on("a0").is_some());
            receives(&mut here, &mut port, &wire);
        }
        // A port that was not touched reports nothing, and what the kernel removes with the interface is not a fault.
        port.close();
        assert!(program_on("a0").is_none());
    });
}

#[test]
fn a_program_that_another_process_detached_is_reported_and_attached_again() {
    let test = "health::a_program_that_another_process_detached_is_reported_and_attached_again";
    is_seen_and_mended(test, detach, "detached the XDP program from a0");
}

#[test]
fn a_socket_that_was_removed_from_the_map_is_reported_and_put_back() {
    let test = "health::a_socket_that_was_removed_from_the_map_is_reported_and_put_back";
    is_seen_and_mended(test, empty_map, "taken queue 0 of a0 out of the XDP program's map");
}

/// Detaches the port's program, and attaches another one.
fn replace_program(port: &XdpPort) -> RedirectLink {
    detach();
    let sockets = SocketMap::new(1).unwrap();
    let program = RedirectProgram::load(&sockets, None, false).unwrap();
    program.attach(port.netdev().index(), port.mode()).unwrap()
}

fn until_it_cannot_be_attached(port: &mut XdpPort) {
    wait_for("the reason", || {
        let _ = port.arm();
        says(port).contains("cannot be attached").then_some(())
    });
}

#[test]
fn an_interface_that_another_program_has_taken_meanwhile_leaves_the_port_down_with_the_reason() {
    let test =
        "health::an_interface_that_another_program_has_taken_meanwhile_leaves_the_port_down_with_the_reason";
    in_namespace(test, || {
        veth("a0", "a1", 1);
        let mut here = bench(256);
        let mut port = here.open("a0").unwrap();
        let other = replace_program(&port);
        until_it_cannot_be_attached(&mut port);
        assert!(says(&port).contains(&Errno::BUSY.to_string()), "{}", says(&port));
        drop(other);
        let wire = Wire::open("a1");
        wait_for("it is mended", || {
            let _ = port.arm();
            (port.state() == PortState::Up).then_some(())
        });
        receives(&mut here, &mut port, &wire);
    });
}

/// Found: a port whose program could not be put back before its interface was removed reported the loss of that program
/// on the next interface.
#[test]
fn a_program_that_could_not_be_put_back_is_not_missed_on_the_next_interface() {
    let test = "health::a_program_that_could_not_be_put_back_is_not_missed_on_the_next_interface";
    in_namespace(test, || {
        veth("a0", "a1", 1);
        let mut here = bench(256);
        let mut port = here.open("a0").unwrap();
        let other = replace_program(&port);
        until_it_cannot_be_attached(&mut port);
        ip("link del dev a0");
        wait_for("the port sees that its interface is gone", || {
            let _ = port.arm();
            says(&port).contains("is gone").then_some(())
        });
        drop(other);
        veth("a0", "a1", 1);
        let next = wait_for("the port has the next interface", || {
            let _ = port.arm();
            Some(says(&port)).filter(|said| !said.contains("is gone") && !said.contains("is down"))
        });
        assert_eq!(next, "");
        receives(&mut here, &mut port, &Wire::open("a1"));
    });
}
