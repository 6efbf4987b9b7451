//! Tests of calls that wait for a port to send, to come up, or to close.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
mod scripted;

use netmem::Batch;
use netmem_tokio::close_pool;
use scripted::{PATIENCE, frames, runtime, scripted, until};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::{advance, sleep, timeout};

/// Seen: after a reception that was given up, the next call waited for the rest of its pause, up to a second.
#[test]
fn a_transmission_after_a_reception_that_was_given_up_begins_a_pause_of_its_own() {
    runtime().block_on(async {
        let (mut port, script) = scripted(64);
        let mut unsent = frames(&mut port, 3);
        let mut context = Context::from_waker(Waker::noop());
        assert!(port.poll_receive(&mut context, &mut Batch::new()).is_pending());
        script.is_full.store(true, SeqCst);
        let before = script.armed.load(SeqCst);
        assert!(pin!(port.transmit(&mut unsent)).as_mut().poll(&mut context).is_pending());
        assert_eq!(script.armed.load(SeqCst), before + 1);

        script.is_full.store(false, SeqCst);
        script.keeps_sent.store(true, SeqCst);
        assert_eq!(port.transmit_now(&mut unsent), 3);
        assert!(port.poll_receive(&mut context, &mut Batch::new()).is_pending());
        let before = script.armed.load(SeqCst);
        assert!(pin!(port.drained()).as_mut().poll(&mut context).is_pending());
        assert_eq!(script.armed.load(SeqCst), before + 1);
    });
}

/// Seen: a port whose peer had not read everything was closed after `drained`, and the rest was lost.
#[test]
fn a_port_is_drained_when_its_peer_has_read_its_copies() {
    runtime().block_on(async {
        let (mut port, script) = scripted(64);
        script.unread.store(3, SeqCst);
        assert_eq!(port.port_mut().tx_unread(), 3);
        let waits = tokio::spawn(async move {
            port.drained().await;
            port
        });
        // Nothing tells it that the peer reads: it looks often.
        until("it waits", || script.armed.load(SeqCst) >= 10).await;
        assert!(!waits.is_finished());
        script.unread.store(0, SeqCst);
        timeout(PATIENCE, waits).await.expect("it ends").unwrap();
    });
}

/// Seen: a port closed on the thread of a runtime, whose other tasks waited for up to two seconds.
#[test]
fn a_port_closes_on_a_thread_for_blocking_work_after_it_has_sent_everything() {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let (mut port, script) = scripted(64);
        let mut unsent = frames(&mut port, 3);
        script.keeps_sent.store(true, SeqCst);
        assert_eq!(port.transmit_now(&mut unsent), 3);
        let closes = tokio::spawn(port.close(PATIENCE));
        let before = script.armed.load(SeqCst);
        until("it waits", || script.armed.load(SeqCst) > before).await;
        assert!(script.closed_by.lock().unwrap().is_none());
        script.keeps_sent.store(false, SeqCst);
        assert!(timeout(PATIENCE, closes).await.expect("it closes").unwrap());
        assert_ne!(script.closed_by.lock().unwrap().expect("it is closed"), thread::current().id());

        let (mut port, script) = scripted(64);
        let mut unsent = frames(&mut port, 3);
        script.keeps_sent.store(true, SeqCst);
        assert_eq!(port.transmit_now(&mut unsent), 3);
        assert!(!port.close(Duration::from_millis(5)).await, "the time was up");
        assert!(script.closed_by.lock().unwrap().is_some());
    });
}

/// Found in a review: the frame stayed in the queue of the driver that was gone until the last `Outgoing` was dropped.
#[test]
fn a_frame_for_which_there_was_room_before_its_driver_was_cancelled_is_freed() {
    runtime().block_on(async {
        let (port, _script) = scripted(64);
        let (mut other, _) = scripted(64);
        let pool = other.pool().clone();
        let (_incoming, outgoing, driver) = port.share(4);
        let driver = tokio::spawn(driver.run());
        let transmit = outgoing.room().await.unwrap();
        driver.abort();
        assert!(driver.await.unwrap_err().is_cancelled());
        transmit(frames(&mut other, 1).pop().unwrap());
        drop(other);
        timeout(PATIENCE, close_pool(&pool)).await.expect("the frame is free");
        drop(outgoing);
    });
}

/// Seen: while its port was down, a task that received and transmitted turned without a pause.
#[test]
fn a_task_whose_port_is_down_waits_until_it_is_up() {
    runtime().block_on(async {
        let (mut port, script) = scripted(128);
        assert!(timeout(PATIENCE, port.up()).await.expect("it is up"));
        script.is_down.store(true, SeqCst);
        script.is_ready.store(true, SeqCst);
        let mut unsent = frames(&mut port, 64);
        assert_eq!(port.transmit(&mut unsent).await, 0);
        assert_eq!(port.receive(&mut unsent).await, 0, "there is no room");
        let task = tokio::spawn(async move {
            assert!(port.up().await);
            port.transmit(&mut unsent).await
        });
        until("it looks", || script.armed.load(SeqCst) >= 3).await;
        let before = script.armed.load(SeqCst);
        sleep(Duration::from_secs(1)).await;
        let looks = script.armed.load(SeqCst) - before;
        assert!(looks <= 1000 && !task.is_finished(), "{looks} looks in a second");
        script.is_down.store(false, SeqCst);
        assert_eq!(timeout(PATIENCE, task).await.expect("it comes up").unwrap(), 64);
    });
}

/// A port counts a frame that it can never carry each time that it is offered.
#[test]
fn frames_that_a_port_can_never_carry_are_freed_at_once_also_while_it_is_down() {
    runtime().block_on(async {
        let (mut port, script) = scripted(64);
        let mut unsent = frames(&mut port, 2);
        unsent[0].put(1000).unwrap().fill(1);
        script.is_down.store(true, SeqCst);
        assert_eq!((port.transmit(&mut unsent).await, unsent.len()), (0, 1));
        script.is_down.store(false, SeqCst);
        assert_eq!((port.transmit(&mut unsent).await, unsent.len()), (1, 0));
        timeout(PATIENCE, port.drained()).await.expect("nothing else waits to be sent");
    });
}

/// A task's wake-ups, counted.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Seen: a task changed its port by `port_mut` while it waited in `poll_receive`. The port was not armed any more, so no
/// packet woke the task, which slept for up to a second.
#[tokio::test(start_paused = true)]
async fn a_task_that_waits_is_woken_when_its_port_is_lent_and_not_armed_any_more() {
    let (mut port, _) = scripted(64);
    let wakes = Arc::new(Wakes::default());
    let waker = wakes.clone().into();
    let mut context = Context::from_waker(&waker);
    assert!(port.poll_receive(&mut context, &mut Batch::new()).is_pending());
    assert_eq!(port.port_mut().tx_unread(), 0);
    // The clock only moves where the test moves it.
    advance(Duration::from_millis(2)).await;
    assert_eq!(wakes.0.load(SeqCst), 1);
    assert_eq!(port.port_mut().tx_unread(), 0);
    advance(Duration::from_millis(2)).await;
    assert_eq!(wakes.0.load(SeqCst), 1, "no task waits");
}
