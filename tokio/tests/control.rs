//! Tests of what tasks know of a shared port, and of the request to finish.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
mod scripted;

use netmem::port::mem::{MemConfig, MemPort};
use netmem::{Batch, PortState};
use netmem_tokio::AsyncPort;
use scripted::{PATIENCE, RING, frames, pool, runtime, scripted, until};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tokio::time::{sleep, timeout};

#[test]
fn a_task_sees_whether_the_port_is_up_and_waits_for_it() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        // It is looked at often.
        script.is_ready.store(true, SeqCst);
        script.is_down.store(true, SeqCst);
        let (_incoming, _outgoing, driver) = port.share(4);
        let control = driver.control();
        let down = PortState::Down("by the script".into());
        assert_eq!(control.state(), down, "before the driver runs");
        let driver = tokio::spawn(driver.run());
        for _ in 0..2 {
            let waits = control.clone();
            let waits = tokio::spawn(async move { waits.up().await });
            until("the driver looks", || script.armed.load(SeqCst) >= 2).await;
            assert!(control.state() == down && !waits.is_finished());
            script.is_down.store(false, SeqCst);
            assert!(timeout(PATIENCE, waits).await.expect("it comes up").unwrap());
            assert_eq!(control.state(), PortState::Up);
            assert!(timeout(PATIENCE, control.up()).await.expect("it is up"));
            script.is_down.store(true, SeqCst);
            until("it goes down", || control.state() == down).await;
        }
        script.is_down.store(false, SeqCst);
        assert!(timeout(PATIENCE, control.up()).await.expect("it comes up"));
        driver.abort();
        assert!(driver.await.unwrap_err().is_cancelled());
        assert!(!timeout(PATIENCE, control.up()).await.expect("the driver has ended"));
        assert_eq!(control.state().to_string(), "down: its driver has ended");
        control.finish();
    });
}

/// Seen: tasks that share a port of all queues learned nothing of the queues that its interface got later.
#[test]
fn a_task_sees_what_the_port_complains_of_while_it_is_up() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        // It is looked at often.
        script.is_ready.store(true, SeqCst);
        let (_incoming, _outgoing, driver) = port.share(4);
        let control = driver.control();
        assert_eq!(control.complaint(), None);
        tokio::spawn(driver.run());
        script.complains.store(true, SeqCst);
        until("it complains", || control.complaint().as_deref() == Some("of the script")).await;
        assert_eq!(control.state(), PortState::Up);
        script.complains.store(false, SeqCst);
        until("it complains no more", || control.complaint().is_none()).await;
    });
}

#[test]
fn a_state_changes_also_while_received_frames_wait_for_a_reader() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        script.waiting.store(3, SeqCst);
        let (_incoming, _outgoing, driver) = port.share(1);
        let control = driver.control();
        tokio::spawn(driver.run());
        until("frames are received", || script.waiting.load(SeqCst) == 0).await;
        script.is_down.store(true, SeqCst);
        until("it goes down", || control.state() != PortState::Up).await;
        script.is_down.store(false, SeqCst);
        assert!(timeout(PATIENCE, control.up()).await.expect("it comes up"));
    });
}

#[test]
fn a_task_sees_the_ports_counters_and_its_device_is_read_again_and_again() {
    runtime().block_on(async {
        let (w, pool) = pool(64);
        let (port, mut device) = MemPort::pair("0", &MemConfig { ring: RING, coalesce: 1 }).unwrap();
        let port = AsyncPort::new(Box::new(port), w, pool).unwrap();
        let (mut incoming, outgoing, driver) = port.share(4);
        let control = driver.control();
        assert_eq!((control.counters().rx.get(), control.counters().tx.get()), (0, 0));
        tokio::spawn(driver.run());
        while device.deliver(1, |_| 60) == 0 {
            tokio::task::yield_now().await;
        }
        let frame = timeout(PATIENCE, incoming.receive()).await.unwrap().unwrap();
        assert_eq!(control.counters().rx.get(), 1);
        outgoing.transmit(frame).await.unwrap();
        until("it is sent", || control.counters().tx.get() == 1).await;

        let (port, script) = scripted(64);
        let (_incoming, _outgoing, driver) = port.share(4);
        let before = script.counted.load(SeqCst);
        tokio::spawn(driver.run());
        until("the device is read", || script.counted.load(SeqCst) >= before + 2).await;
    });
}

#[test]
fn a_driver_that_is_asked_to_finish_sends_what_was_queued_and_returns_its_port() {
    runtime().block_on(async {
        for is_asked_before_it_runs in [true, false] {
            let (port, script) = scripted(64);
            let (mut other, _) = scripted(256);
            script.is_full.store(true, SeqCst);
            let (mut incoming, outgoing, driver) = port.share(16);
            let control = driver.control();
            let mut burst = frames(&mut other, 16);
            assert_eq!(outgoing.transmit_burst(&mut burst).await, 16);
            if is_asked_before_it_runs {
                control.finish();
            }
            let driver = tokio::spawn(driver.run());
            control.finish();
            control.finish();
            until("the queue closes", || outgoing.is_closed()).await;
            let mut late = frames(&mut other, 2);
            assert!(
                timeout(PATIENCE, outgoing.transmit_burst(&mut late)).await.unwrap() == 0 && late.len() == 2
            );
            assert!(outgoing.transmit(late.pop().unwrap()).await.is_err());
            let before = script.armed.load(SeqCst);
            until("it looks for room", || script.armed.load(SeqCst) >= before + 3).await;
            assert!(!driver.is_finished(), "frames wait");
            script.is_full.store(false, SeqCst);
            let port = timeout(PATIENCE, driver).await.expect("it finishes").unwrap();
            assert_eq!(script.taken.load(SeqCst), 16);
            assert!(timeout(PATIENCE, incoming.receive()).await.expect("the end").is_none());
            assert!(!control.up().await);
            assert!(port.close(PATIENCE).await);
        }
    });
}

/// It may have 64 frames of its own, and the queue as many more.
#[test]
fn a_driver_of_a_port_that_is_down_finishes_and_frees_what_was_queued() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        let (mut other, _) = scripted(128);
        script.is_down.store(true, SeqCst);
        let (_incoming, outgoing, driver) = port.share(64);
        let control = driver.control();
        let driver = tokio::spawn(driver.run());
        for _ in 0..2 {
            let mut burst = frames(&mut other, 64);
            assert_eq!(timeout(PATIENCE, outgoing.transmit_burst(&mut burst)).await.unwrap(), 64);
        }
        control.finish();
        timeout(PATIENCE, driver).await.expect("it finishes").unwrap();
        assert_eq!(script.taken.load(SeqCst), 0);
        let (first, second) = (frames(&mut other, 64), frames(&mut other, 64));
        assert_eq!(first.len() + second.len(), 128, "they are free");
    });
}

#[test]
fn a_driver_that_finishes_waits_for_tasks_that_have_room() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        let (mut other, _) = scripted(64);
        let (_incoming, outgoing, driver) = port.share(4);
        let control = driver.control();
        let driver = tokio::spawn(driver.run());
        let (used, unused) = (outgoing.room().await.unwrap(), outgoing.room().await.unwrap());
        control.finish();
        until("the queue closes", || outgoing.is_closed()).await;
        used(frames(&mut other, 1).pop().unwrap());
        until("it is sent", || script.taken.load(SeqCst) == 1).await;
        assert!(outgoing.room().await.is_none() && !driver.is_finished());
        drop(unused);
        timeout(PATIENCE, driver).await.expect("it finishes").unwrap();
    });
}

#[test]
fn frames_from_before_the_end_are_in_the_queue_and_later_ones_in_the_port() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        script.is_ready.store(true, SeqCst);
        script.waiting.store(RING + 5, SeqCst);
        let (mut incoming, _outgoing, driver) = port.share(2);
        let control = driver.control();
        let driver = tokio::spawn(driver.run());
        // As many as were posted. They wait for the reader, and the driver receives no more.
        until("frames are received", || script.waiting.load(SeqCst) == 5).await;
        control.finish();
        let mut port = timeout(PATIENCE, driver).await.expect("it finishes, read or not").unwrap();
        let mut burst = Batch::new();
        assert_eq!(timeout(PATIENCE, incoming.receive_burst(&mut burst)).await.unwrap(), 2);
        assert_eq!(timeout(PATIENCE, incoming.receive_burst(&mut burst)).await.unwrap(), 0);
        assert_eq!(timeout(PATIENCE, port.receive(&mut burst)).await.unwrap(), 5);
        assert_eq!(burst.iter().map(|frame| frame.data()[0]).collect::<Vec<_>>(), [0, 1, 16, 17, 18, 19, 20]);
    });
}

#[test]
fn a_driver_that_finishes_sleeps_while_a_full_port_has_packets() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        let (mut other, _) = scripted(64);
        script.is_ready.store(true, SeqCst);
        script.is_full.store(true, SeqCst);
        let (incoming, outgoing, driver) = port.share(4);
        drop(incoming);
        let control = driver.control();
        outgoing.transmit(frames(&mut other, 1).pop().unwrap()).await.unwrap();
        control.finish();
        let driver = tokio::spawn(driver.run());
        until("it waits", || script.armed.load(SeqCst) >= 3).await;
        let before = script.armed.load(SeqCst);
        sleep(Duration::from_secs(1)).await;
        let looks = script.armed.load(SeqCst) - before;
        assert!(looks <= 1000 && !driver.is_finished(), "{looks} looks in a second");
        script.is_full.store(false, SeqCst);
        timeout(PATIENCE, driver).await.expect("it finishes").unwrap();
        assert_eq!(script.taken.load(SeqCst), 1);
    });
}

#[test]
fn a_driver_that_never_sleeps_and_one_that_sleeps_are_asked_to_finish_at_once() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        script.waiting.store(usize::MAX, SeqCst);
        let (incoming, _outgoing, driver) = port.share(4);
        // So that it always has packets to free.
        drop(incoming);
        let control = driver.control();
        let driver = tokio::spawn(driver.run());
        until("it receives", || script.waiting.load(SeqCst) < usize::MAX - 1000).await;
        control.finish();
        timeout(PATIENCE, driver).await.expect("it finishes").unwrap();

        // A port that only waits is looked at once a second. No request waits for that.
        let (mut idle, seldom) = scripted(64);
        tokio::spawn(async move { idle.receive(&mut Batch::new()).await });
        let requests = async {
            let mut without_a_look = 0;
            while without_a_look < 3 {
                let (port, script) = scripted(64);
                let (_incoming, _outgoing, driver) = port.share(4);
                let (control, before) = (driver.control(), seldom.armed.load(SeqCst));
                let driver = tokio::spawn(driver.run());
                until("it sleeps", || script.armed.load(SeqCst) > 0).await;
                control.finish();
                driver.await.unwrap();
                without_a_look += usize::from(seldom.armed.load(SeqCst) == before);
            }
        };
        timeout(PATIENCE, requests).await.expect("the request wakes it");
    });
}
