//! An interface that is renamed while it is forwarded by.

use crate::forwarder::netmem;
use crate::testbed::{Testbed, Wiring, host_mac, scratch, wait_until};
use crate::traffic::ping_once;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Starts a command. Returns what it says on standard error, up to now, and the thread that reads it.
fn spawned(mut command: Command) -> (Child, Arc<Mutex<String>>, JoinHandle<()>) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("netmem");
    let (said, from) = (Arc::new(Mutex::new(String::new())), child.stderr.take().expect("its lines"));
    let to = Arc::clone(&said);
    let reading = thread::spawn(move || {
        BufReader::new(from)
            .lines()
            .map_while(Result::ok)
            .for_each(|line| to.lock().expect("lines").push_str(&(line + "\n")));
    });
    (child, said, reading)
}

/// Seen: the line said that the port's interface had the name of another one, which had its number after it was gone.
#[test]
fn an_interface_that_gets_the_number_of_one_that_is_gone_is_not_taken_for_it() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &[]) else { return };
    bed.dut.ip("link add e3 index 7300 up type veth peer name p3");
    bed.dut.ip("link set p3 up");
    let mut command = netmem(&bed);
    command.args(["forward", "--port=packet:one", "--port=packet:e3", "--mode=cross-connect", "--control"]);
    let socket = scratch("renamed");
    command.arg(&socket);
    let (mut child, said, reading) = spawned(command);
    let has_said = |line: &str| said.lock().expect("lines").contains(line);
    wait_until("the run is there", || socket.exists());
    bed.dut.ip("link del e3");
    bed.dut.ip("link add foo index 7300 up type veth peer name q3");
    wait_until("the interface is reported as gone", || has_said("is gone"));
    kill_process(Pid::from_child(&child), Signal::INT).expect("kill(2)");
    child.wait().expect("wait");
    reading.join().expect("lines");
    assert!(!has_said("is called foo"), "{}", said.lock().expect("lines"));
}

/// Seen: the router used the address and MTU of the interface that had the old name, and dropped all packets to itself
/// as `not_for_us`.
#[test]
fn a_router_with_given_routes_keeps_to_the_interface_that_was_renamed() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let mut command = netmem(&bed);
    command.args(["forward", "--port=packet:one", "--port=packet:two"]);
    command.args(
        [(0, 1), (1, 2)].map(|(port, host)| format!("--route=10.77.{host}.0/24,{port},{}", host_mac(host))),
    );
    let (mut child, said, reading) = spawned(command);
    let has_said = |line: &str| said.lock().expect("lines").contains(line);
    wait_until("packets cross", || ping_once(&bed.h1, "10.77.2.1"));
    bed.dut.rename("two", "uplink");
    bed.dut.ip("link add two mtu 1300 type veth peer name other");
    let line = "netmem: port packet:two: its interface two is called uplink now; the port keeps this interface, and looks for two when the interface goes away: \
                rename the interface to two, or restart netmem with uplink\n";
    wait_until("the new name is said", || has_said(line));
    bed.dut.ip("link set dev uplink mtu 1400");
    wait_until("the MTU of the interface is followed", || {
        has_said("netmem: interface uplink now has address ")
    });
    wait_until("packets cross", || ping_once(&bed.h1, "10.77.2.1"));
    kill_process(Pid::from_child(&child), Signal::INT).expect("kill(2)");
    let status = child.wait().expect("wait");
    reading.join().expect("lines");
    assert!(status.success() && !has_said("MTU 1300"), "{}", said.lock().expect("lines"));
}
