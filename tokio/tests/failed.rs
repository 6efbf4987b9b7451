//! Tests of ports that are down for good or whose pool is closed, and of the counts of frames that a driver frees.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
mod scripted;

use netmem::port::mem::{MemConfig, MemPort};
use netmem::{Batch, PortState};
use netmem_tokio::{AsyncPort, close_pool};
use scripted::{PATIENCE, RING, Script, frames, runtime, scripted, until};
use std::sync::atomic::Ordering::SeqCst;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Takes the port down for good.
fn fail(script: &Script) {
    script.is_failed.store(true, SeqCst);
    script.is_down.store(true, SeqCst);
}

/// Seen: a task waited forever for a port that had failed, and was not told.
#[test]
fn a_reception_ends_when_its_port_is_down_for_good_after_the_packets_that_wait() {
    runtime().block_on(async {
        let (mut port, script) = scripted(64);
        let task = tokio::spawn(async move {
            let received = port.receive(&mut Batch::new()).await;
            (received, port.up().await, port)
        });
        until("it waits", || script.armed.load(SeqCst) > 0).await;
        fail(&script);
        let (received, is_up, mut port) = timeout(PATIENCE, task).await.expect("it ends").unwrap();
        assert!(received == 0 && !is_up);
        script.waiting.store(2, SeqCst);
        let mut rest = Batch::new();
        assert_eq!(timeout(PATIENCE, port.receive(&mut rest)).await.unwrap(), 2);
        assert_eq!(timeout(PATIENCE, port.receive(&mut rest)).await.unwrap(), 0);
    });
}

/// Found in a review: packets that came between the last look for packets and the failure stayed in the port.
#[test]
fn packets_that_come_just_before_a_port_fails_are_received() {
    runtime().block_on(async {
        let (mut port, script) = scripted(64);
        script.last.store(3, SeqCst);
        fail(&script);
        let mut frames = Batch::new();
        assert_eq!(timeout(PATIENCE, port.receive(&mut frames)).await.unwrap(), 3);
        assert_eq!(timeout(PATIENCE, port.receive(&mut frames)).await.expect("it ends"), 0);

        let (port, script) = scripted(64);
        let (mut incoming, _outgoing, driver) = port.share(4);
        script.last.store(3, SeqCst);
        fail(&script);
        let driver = tokio::spawn(driver.run());
        for _ in 0..3 {
            assert!(timeout(PATIENCE, incoming.receive()).await.unwrap().is_some());
        }
        assert!(timeout(PATIENCE, incoming.receive()).await.expect("the end").is_none());
        timeout(PATIENCE, driver).await.expect("the driver ends").unwrap();
    });
}

/// Seen: the output of a `pcap` port failed, and a loop of receiving and transmitting went on to the end of its input,
/// which was repeated forever.
#[test]
fn a_port_that_failed_and_still_receives_gets_no_more_frames_to_receive_into() {
    runtime().block_on(async {
        let (mut port, script) = scripted(64);
        script.waiting.store(100_000, SeqCst);
        let (mut frames, mut received) = (Batch::new(), 0);
        assert!(timeout(PATIENCE, port.receive(&mut frames)).await.unwrap() > 0);
        fail(&script);
        while timeout(PATIENCE, port.receive(&mut frames)).await.expect("it does not wait") > 0 {
            received += frames.len();
            assert_eq!(port.transmit(&mut frames).await, 0);
            frames.free(port.worker());
        }
        assert!(received <= 3 * RING, "{received}");

        let (port, script) = scripted(64);
        script.waiting.store(100_000, SeqCst);
        fail(&script);
        let (mut incoming, _outgoing, driver) = port.share(4);
        let (driver, mut received) = (tokio::spawn(driver.run()), 0);
        while timeout(PATIENCE, incoming.receive()).await.expect("a frame or the end").is_some() {
            received += 1;
        }
        assert!(received <= 3 * RING, "{received}");
        timeout(PATIENCE, driver).await.expect("the driver ends").unwrap();
    });
}

/// A port over a link fails when its device is dropped.
#[test]
fn a_reception_gets_what_a_dropped_device_had_delivered_and_then_the_end() {
    runtime().block_on(async {
        let (w, pool) = scripted::pool(64);
        let (port, mut device) = MemPort::pair("0", &MemConfig { ring: RING, coalesce: 1 }).unwrap();
        let mut port = AsyncPort::new(Box::new(port), w, pool).unwrap();
        let (is_posted, wait) = oneshot::channel();
        let network = tokio::spawn(async move {
            wait.await.unwrap();
            assert_eq!(device.deliver(5, |_| 60), 5);
        });
        let mut unsent = frames(&mut port, 4);
        assert_eq!(port.transmit(&mut unsent).await, 4);
        is_posted.send(()).unwrap();
        let (mut received, mut frames) = (0, Batch::new());
        loop {
            match timeout(PATIENCE, port.receive(&mut frames)).await.expect("it is woken") {
                0 => break,
                n => received += n,
            }
        }
        assert_eq!(received, 5);
        network.await.unwrap();
        assert!(!timeout(PATIENCE, port.up()).await.unwrap());
        timeout(PATIENCE, port.drained()).await.expect("nothing is left to send");
        assert_eq!(port.port().counters().tx_lost.get(), 4);
    });
}

/// Seen: after the end of its pool a task waited forever for packets that no frame could receive.
#[test]
fn a_reception_ends_when_its_pool_is_closed_after_the_packets_that_wait() {
    runtime().block_on(async {
        let (mut port, script) = scripted(64);
        let pool = port.pool().clone();
        let task = tokio::spawn(async move { (port.receive(&mut Batch::new()).await, port) });
        until("it waits", || script.armed.load(SeqCst) > 0).await;
        pool.close();
        let (received, mut port) = timeout(PATIENCE, task).await.expect("it ends").unwrap();
        assert_eq!(received, 0);
        assert!(port.pool().is_closed(), "which says why");
        script.waiting.store(RING, SeqCst);
        let mut rest = Batch::new();
        assert_eq!(timeout(PATIENCE, port.receive(&mut rest)).await.unwrap(), RING, "frames were posted");
        assert_eq!(timeout(PATIENCE, port.receive(&mut rest)).await.expect("it ends"), 0);
        drop((rest, port));
        timeout(PATIENCE, close_pool(&pool)).await.expect("all frames are freed");
    });
}

/// Seen: as above, by the tasks that shared a port.
#[test]
fn a_reader_of_a_shared_port_gets_the_end_when_the_pool_is_closed() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        let pool = port.pool().clone();
        let (mut incoming, outgoing, driver) = port.share(4);
        let driver = tokio::spawn(driver.run());
        until("it waits", || script.armed.load(SeqCst) > 0).await;
        pool.close();
        assert!(timeout(PATIENCE, incoming.receive()).await.expect("the end").is_none());
        drop(outgoing);
        drop(timeout(PATIENCE, driver).await.expect("the driver ends").unwrap());
        timeout(PATIENCE, close_pool(&pool)).await.expect("all frames are freed");
    });
}

/// Seen: the tasks that shared a port waited forever after it had failed. None of them could ask whether it had.
#[test]
fn a_driver_ends_when_its_port_is_down_for_good_and_its_tasks_see_why() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        let (mut incoming, outgoing, driver) = port.share(4);
        let control = driver.control();
        let driver = tokio::spawn(driver.run());
        let waits = control.clone();
        let waits = tokio::spawn(async move { waits.changed(&PortState::Up).await });
        until("it waits", || script.armed.load(SeqCst) > 0).await;
        assert!(!control.is_failed() && !waits.is_finished());
        fail(&script);
        let down = PortState::Down("by the script".into());
        assert_eq!(timeout(PATIENCE, waits).await.expect("it changes").unwrap().as_ref(), Some(&down));
        assert!(timeout(PATIENCE, incoming.receive()).await.expect("the end").is_none());
        let port = timeout(PATIENCE, driver).await.expect("the driver ends").unwrap();
        assert_eq!(port.port().state(), down);
        let (mut other, _) = scripted(64);
        assert!(outgoing.is_closed());
        assert!(outgoing.transmit(frames(&mut other, 1).pop().unwrap()).await.is_err());
        assert!(control.is_failed() && control.state() == down);
        assert!(!timeout(PATIENCE, control.up()).await.expect("it is down for good"));
        assert_eq!(timeout(PATIENCE, control.changed(&down)).await.unwrap(), None, "no change comes");
    });
}

#[test]
fn each_change_of_a_state_is_seen_until_the_driver_has_ended() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        script.is_ready.store(true, SeqCst);
        let (_incoming, _outgoing, driver) = port.share(4);
        let control = driver.control();
        let driver = tokio::spawn(driver.run());
        let mut state = control.state();
        for is_down in [true, false, true, false] {
            script.is_down.store(is_down, SeqCst);
            state = timeout(PATIENCE, control.changed(&state)).await.expect("it changes").unwrap();
            assert_eq!(state == PortState::Up, !is_down);
        }
        control.finish();
        timeout(PATIENCE, driver).await.expect("it finishes").unwrap();
        let end = timeout(PATIENCE, control.changed(&state)).await.expect("it ends").unwrap();
        assert_eq!(end.to_string(), "down: its driver has ended");
        assert_eq!(timeout(PATIENCE, control.changed(&end)).await.unwrap(), None);
        assert!(!control.is_failed());
    });
}

/// Seen: a port that was up left frames in the batch which it never carries, and no other frame was posted. Each task that
/// sent waited forever, and so did the request to finish.
#[test]
fn frames_that_a_port_leaves_without_ever_having_room_are_freed_and_counted() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        let (mut other, _) = scripted(256);
        script.refuses.store(true, SeqCst);
        let (_incoming, outgoing, driver) = port.share(2);
        let control = driver.control();
        let driver = tokio::spawn(driver.run());
        for _ in 0..2 {
            let mut burst = frames(&mut other, 64);
            let queued = timeout(PATIENCE, outgoing.transmit_burst(&mut burst)).await.expect("room comes");
            assert_eq!(queued, 64);
        }
        control.finish();
        timeout(PATIENCE, driver).await.expect("it finishes").unwrap();
        assert_eq!((control.driver_counters().unsent.get(), script.taken.load(SeqCst)), (128, 0));
    });
}

/// Seen: frames that a driver freed were in no counter.
#[test]
fn frames_that_no_task_reads_and_frames_for_a_port_that_is_down_are_counted() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        let (incoming, outgoing, driver) = port.share(64);
        let control = driver.control();
        let (unread, unsent) =
            (|| control.driver_counters().unread.get(), || control.driver_counters().unsent.get());
        drop(incoming);
        script.waiting.store(5, SeqCst);
        let driver = tokio::spawn(driver.run());
        until("they are freed", || unread() == 5).await;
        script.is_down.store(true, SeqCst);
        until("it goes down", || control.state() != PortState::Up).await;
        let (mut other, _) = scripted(128);
        for _ in 0..2 {
            let mut burst = frames(&mut other, 64);
            assert_eq!(timeout(PATIENCE, outgoing.transmit_burst(&mut burst)).await.unwrap(), 64);
        }
        drop(outgoing);
        timeout(PATIENCE, driver).await.expect("the driver ends").unwrap();
        assert_eq!((unread(), unsent()), (5, 128));

        let (port, script) = scripted(64);
        script.waiting.store(RING, SeqCst);
        let (_incoming, _outgoing, driver) = port.share(2);
        let control = driver.control();
        let driver = tokio::spawn(driver.run());
        until("frames are received", || script.waiting.load(SeqCst) == 0).await;
        control.finish();
        timeout(PATIENCE, driver).await.expect("it finishes").unwrap();
        assert_eq!(control.driver_counters().unread.get(), RING as u64 - 2);
    });
}
