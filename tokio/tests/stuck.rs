//! Tests of ports that report work and have none, that have no room, that are down, or whose runtime has ended.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
mod scripted;

use netmem::Batch;
use netmem::port::mem::{MemConfig, MemPort};
use netmem_tokio::AsyncPort;
use scripted::{PATIENCE, RING, Script, frames, pool, runtime, scripted, until};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

/// Checks that the task sleeps, in the middle, after it has looked three times.
async fn assert_sleeps(what: &str, script: &Script) {
    until(what, || script.armed.load(SeqCst) >= 3).await;
    let before = script.armed.load(SeqCst);
    sleep(Duration::from_secs(1)).await;
    let looks = script.armed.load(SeqCst) - before;
    assert!(looks <= 1000, "{what}: {looks} looks in a second");
}

/// Seen: packets waited for a frame of a dry pool. The port reported them at each look, nothing was received, and
/// `poll_receive` turned within one poll without an end, the others without a pause.
#[test]
fn a_port_that_reports_work_and_gives_none_is_looked_at_after_pauses() {
    runtime().block_on(async {
        let (mut polled, script) = scripted(64);
        script.is_ready.store(true, SeqCst);
        let task = tokio::spawn(async move {
            let mut frames = Batch::new();
            poll_fn(|context| polled.poll_receive(context, &mut frames)).await
        });
        assert_sleeps("poll_receive", &script).await;
        script.waiting.store(1, SeqCst);
        assert_eq!(timeout(PATIENCE, task).await.expect("it receives at last").unwrap(), 1);

        let (mut port, script) = scripted(64);
        script.is_ready.store(true, SeqCst);
        let task = tokio::spawn(async move { port.receive(&mut Batch::new()).await });
        assert_sleeps("receive", &script).await;
        script.waiting.store(2, SeqCst);
        assert_eq!(timeout(PATIENCE, task).await.expect("it receives at last").unwrap(), 2);

        let (port, script) = scripted(64);
        script.is_ready.store(true, SeqCst);
        let (mut incoming, _outgoing, driver) = port.share(4);
        let task = tokio::spawn(driver.run());
        assert_sleeps("the driver", &script).await;
        script.waiting.store(1, SeqCst);
        assert!(timeout(PATIENCE, incoming.receive()).await.expect("it receives at last").is_some());
        task.abort();
    });
}

/// Seen: a packet socket was full, and frames waited. Nothing wakes a task when it has room, and the task slept for a
/// second. Likewise after frames returned to a pool that was almost dry.
#[test]
fn a_port_without_room_and_one_that_lacks_frames_are_looked_at_more_often_than_one_that_only_waits() {
    runtime().block_on(async {
        let (mut idle, seldom) = scripted(64);
        tokio::spawn(async move { idle.receive(&mut Batch::new()).await });
        until("it waits", || seldom.armed.load(SeqCst) > 0).await;

        let (mut full, blocked) = scripted(64);
        blocked.is_full.store(true, SeqCst);
        let mut unsent = frames(&mut full, 3);
        let sender = tokio::spawn(async move { full.transmit(&mut unsent).await });

        let (shared, driven) = scripted(64);
        driven.is_full.store(true, SeqCst);
        let (_incoming, outgoing, driver) = shared.share(4);
        tokio::spawn(driver.run());
        let (mut other, _) = scripted(64);
        outgoing.transmit(frames(&mut other, 1).pop_front().unwrap()).await.unwrap();

        // Seen: frames that were given up had the port looked at as often ever after.
        let (mut resigned, given_up) = scripted(64);
        given_up.is_full.store(true, SeqCst);
        let mut unsent = frames(&mut resigned, 3);
        assert_eq!(resigned.transmit_now(&mut unsent), 0);
        drop(unsent);
        tokio::spawn(async move { resigned.receive(&mut Batch::new()).await });

        // Seen: it was looked at once a second, as if an event would wake its task.
        let (mut deaf, unwatched) = scripted(64);
        unwatched.is_unwatchable.store(true, SeqCst);
        tokio::spawn(async move { deaf.receive(&mut Batch::new()).await });

        let (mut short, lacking) = scripted(RING);
        let elsewhere = frames(&mut short, RING / 2);
        tokio::spawn(async move { short.receive(&mut Batch::new()).await });

        for (what, script) in [
            ("transmit", &blocked),
            ("the driver", &driven),
            ("a short refill", &lacking),
            ("a descriptor that is not watched", &unwatched),
        ] {
            // However long that takes.
            let is_often = || script.armed.load(SeqCst) >= 40 + 4 * seldom.armed.load(SeqCst);
            until(what, is_often).await;
        }
        assert!(2 * given_up.armed.load(SeqCst) < blocked.armed.load(SeqCst), "nothing waits to be sent");
        [&blocked, &driven].iter().for_each(|script| script.is_full.store(false, SeqCst));
        assert_eq!(timeout(PATIENCE, sender).await.unwrap().unwrap(), 3);
        until("the driver sends", || driven.taken.load(SeqCst) == 1).await;
        drop(elsewhere);
    });
}

/// Seen: the last frames in the ring were claimed between the transmission and the question whether there will be room.
/// `transmit` took the port for one that is down, and returned with frames that had room.
#[test]
fn a_transmission_after_all_sent_frames_came_back_takes_every_frame() {
    runtime().block_on(async {
        let (w, pool) = pool(64);
        let (port, mut device) = MemPort::pair("0", &MemConfig { ring: RING, coalesce: 1 }).unwrap();
        let mut port = AsyncPort::new(Box::new(port), w, pool).unwrap();
        let mut unsent = frames(&mut port, RING + 4);
        assert_eq!(port.transmit_now(&mut unsent), RING);
        assert_eq!(device.collect(RING, |_| ()), RING);
        assert_eq!(timeout(PATIENCE, port.transmit(&mut unsent)).await.unwrap(), 4);
        assert!(unsent.is_empty());
    });
}

/// Seen: with frames to send, the driver of a port that is down never ended, also with more of them than it takes at once,
/// and a task that waited for room in the queue waited forever.
#[test]
fn a_port_that_is_down_keeps_no_task_waiting() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        let (mut other, _) = scripted(512);
        let (incoming, outgoing, driver) = port.share(2);
        let driver = tokio::spawn(driver.run());
        for up_again in [true, false] {
            script.is_down.store(true, SeqCst);
            let before = script.taken.load(SeqCst);
            let refused = async {
                loop {
                    let frame = frames(&mut other, 1).pop_front().unwrap();
                    if let Err(refused) = outgoing.transmit(frame).await {
                        return refused;
                    }
                }
            };
            let refused = timeout(PATIENCE, refused).await.expect("all is full, and no room will come");
            assert!(refused.len() == 60 && !outgoing.is_closed());
            assert!(timeout(PATIENCE, outgoing.room()).await.unwrap().is_none());
            if up_again {
                script.is_down.store(false, SeqCst);
                until("the port is up again", || script.taken.load(SeqCst) >= before + 66).await;
                timeout(PATIENCE, outgoing.transmit(refused)).await.unwrap().unwrap();
                until("it is sent too", || script.taken.load(SeqCst) >= before + 67).await;
            }
        }
        drop((incoming, outgoing));
        let mut port = timeout(PATIENCE, driver).await.expect("the driver ends").unwrap();
        assert_eq!(frames(&mut port, 64 - RING).len(), 64 - RING, "it holds no other frame");
    });
}

/// Seen: the reader went while the driver had received frames for it. The driver then waited only for a sender.
#[test]
fn received_frames_for_a_reader_that_went_are_freed_and_the_driver_goes_on() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        let (incoming, _outgoing, driver) = port.share(1);
        *script.reader.lock().unwrap() = Some(incoming);
        script.waiting.store(3, SeqCst);
        tokio::spawn(driver.run());
        until("the reader goes", || script.reader.lock().unwrap().is_none()).await;
        script.waiting.store(5, SeqCst);
        until("the driver receives, and frees", || script.waiting.load(SeqCst) == 0).await;
    });
}

/// Seen: while received frames waited for a reader, no task claimed what the device had sent.
#[test]
fn sent_frames_are_claimed_while_received_frames_wait_for_a_reader() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        script.keeps_sent.store(true, SeqCst);
        script.waiting.store(3, SeqCst);
        let (_incoming, outgoing, driver) = port.share(1);
        tokio::spawn(driver.run());
        until("frames are received", || script.waiting.load(SeqCst) == 0).await;
        let (mut other, _) = scripted(64);
        outgoing.transmit(frames(&mut other, 1).pop_front().unwrap()).await.unwrap();
        until("a frame is sent", || script.taken.load(SeqCst) == 1).await;
        sleep(Duration::from_millis(20)).await;
        script.keeps_sent.store(false, SeqCst);
        until("it is claimed", || script.claimed.load(SeqCst) == 1).await;
    });
}

/// Seen: the port had received its whole file, and `Incoming::receive` waited for more.
#[test]
fn after_the_last_packet_of_a_file_the_reader_gets_none() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        script.waiting.store(3, SeqCst);
        script.is_finished.store(true, SeqCst);
        let (mut incoming, outgoing, driver) = port.share(1);
        let driver = tokio::spawn(driver.run());
        let read = async {
            let mut read = 0;
            while incoming.receive().await.is_some() {
                read += 1;
                yield_now().await;
            }
            read
        };
        assert_eq!(timeout(PATIENCE, read).await.expect("the end comes"), 3);
        let (mut other, _) = scripted(64);
        outgoing.transmit(frames(&mut other, 1).pop_front().unwrap()).await.unwrap();
        drop(outgoing);
        timeout(PATIENCE, driver).await.expect("the driver ends").unwrap();
        assert_eq!(script.taken.load(SeqCst), 1, "it sent until then");
    });
}

/// Seen: after the end of the runtime, the descriptor was in error at each look, and a task that waited for the port
/// turned without an end. In another runtime it waits there (`runtimes.rs`); here is none.
#[test]
fn a_wait_outside_of_any_runtime_panics_after_the_end_of_its_own_as_every_timer_does() {
    let first = runtime();
    let (mut port, _) = first.block_on(async { scripted(64) });
    drop(first);
    let wait = AssertUnwindSafe(|| {
        port.poll_receive(&mut Context::from_waker(Waker::noop()), &mut Batch::new()).is_pending()
    });
    assert!(catch_unwind(wait).is_err());
}
