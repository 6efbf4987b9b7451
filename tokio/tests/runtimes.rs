//! Ports that are made in one runtime and used in another, as in a server that opens its ports first and then gives each
//! thread a runtime of its own.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
mod scripted;

use netmem::Batch;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem_tokio::AsyncPort;
use scripted::{PATIENCE, frames, pool, runtime, scripted};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// A runtime that nothing wakes while no thread is in its `block_on`.
fn single() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Makes a port in `home`.
fn mem_port(home: &Runtime) -> (AsyncPort, MemDevice) {
    let (w, pool) = pool(256);
    let (port, device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 1 }).unwrap();
    (home.block_on(async { AsyncPort::new(Box::new(port), w, pool).unwrap() }), device)
}

/// Receives in `here`, in which a packet comes after the port has begun to wait.
fn receives(here: &Runtime, port: &mut AsyncPort, mut device: MemDevice) {
    let network = thread::spawn(move || {
        while device.deliver(1, |_room| 60) == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        device
    });
    let received = here
        .block_on(async { timeout(PATIENCE, port.receive(&mut Batch::new())).await.expect("it is woken") });
    assert_eq!(received, 1);
    drop(network.join().unwrap());
}

/// Seen: the wait never ended, since the events and timers were those of the first runtime, which no thread drove.
#[test]
fn a_port_is_woken_in_another_runtime_while_no_thread_drives_the_one_that_it_was_made_in() {
    let (home, here) = (single(), runtime());
    let (mut port, device) = mem_port(&home);
    receives(&here, &mut port, device);
    drop(home);
}

/// Seen: the wait panicked ("is being shutdown").
#[test]
fn a_port_is_used_after_the_end_of_the_runtime_that_it_was_made_in() {
    let home = runtime();
    let (mut port, device) = mem_port(&home);
    drop(home);
    let here = single();
    receives(&here, &mut port, device);
    assert!(here.block_on(port.close(PATIENCE)));
}

#[test]
fn a_port_goes_from_runtime_to_runtime_and_back() {
    let (one, two) = (single(), runtime());
    let (mut port, mut device) = mem_port(&one);
    for here in [&two, &one, &two] {
        let (given, frames) = here.block_on(async {
            // It waits here once, without a packet.
            let waits = timeout(Duration::from_millis(5), port.receive(&mut Batch::new())).await;
            assert!(waits.is_err());
            let given = device.deliver(3, |_room| 60);
            let mut frames = Batch::new();
            (given, timeout(PATIENCE, port.receive(&mut frames)).await.expect("it is woken"))
        });
        assert_eq!((given, frames), (3, 3));
    }
}

/// The pause has begun in one runtime, and the same future goes on in another.
#[test]
fn a_wait_that_began_in_one_runtime_ends_in_another() {
    let (one, two) = (single(), runtime());
    let (mut port, script) = one.block_on(async { scripted(64) });
    let mut unsent = one.block_on(async { frames(&mut port, 3) });
    script.is_full.store(true, SeqCst);
    {
        let mut sends = Box::pin(port.transmit(&mut unsent));
        let given_up = one.block_on(async { timeout(Duration::from_millis(5), &mut sends).await });
        assert!(given_up.is_err());
        drop(one);
        script.is_full.store(false, SeqCst);
        let sent = two.block_on(async { timeout(PATIENCE, &mut sends).await.expect("it is woken") });
        assert_eq!(sent, 3);
    }
    assert_eq!(script.taken.load(SeqCst), 3);
}
