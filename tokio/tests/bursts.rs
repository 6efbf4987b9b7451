//! Tests of bursts on the queues of a shared port.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
mod scripted;

use netmem::Batch;
use netmem::port::mem::{MemConfig, MemPort};
use netmem_tokio::{AsyncPort, Incoming, Outgoing, close_pool};
use scripted::{PATIENCE, RING, frames, pool, runtime, scripted, until};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

/// Polls once. Returns whether it waits.
fn waits(call: impl Future) -> bool {
    pin!(call).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

fn numbers(frames: &Batch) -> Vec<u8> {
    frames.iter().map(|frame| frame.data()[0]).collect()
}

#[test]
fn a_burst_takes_in_order_what_waits_and_has_room() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        script.is_ready.store(true, SeqCst);
        let (mut incoming, _outgoing, driver) = port.share(64);
        let mut burst = Batch::new();
        assert!(waits(incoming.receive_burst(&mut burst)), "nothing waits");
        assert_eq!(incoming.receive_now(&mut burst), 0);

        script.waiting.store(RING, SeqCst);
        tokio::spawn(driver.run());
        until("all are received", || script.waiting.load(SeqCst) == 0).await;
        // It passes them before it sleeps.
        let before = script.armed.load(SeqCst);
        until("all are passed", || script.armed.load(SeqCst) > before).await;
        let (mut other, _) = scripted(128);
        let mut burst = frames(&mut other, 61);
        assert_eq!(timeout(PATIENCE, incoming.receive_burst(&mut burst)).await.unwrap(), 3);
        assert_eq!(numbers(&burst)[61..], [0, 1, 2]);
        assert!(!waits(incoming.receive_burst(&mut burst)), "it has no room");
        assert_eq!((incoming.receive_now(&mut burst), burst.len()), (0, 64));

        let mut burst = frames(&mut other, 60);
        assert_eq!(incoming.receive_now(&mut burst), 4);
        assert_eq!(numbers(&burst)[60..], [3, 4, 5, 6]);
        let mut burst = Batch::new();
        assert_eq!(timeout(PATIENCE, incoming.receive_burst(&mut burst)).await.unwrap(), RING - 7);
        assert_eq!(numbers(&burst), (7..RING as u8).collect::<Vec<_>>());
        assert_eq!(incoming.receive_now(&mut burst), 0);
    });
}

/// A task spends its budget of steps before tokio makes it wait. What does not wait is not refused for that.
#[test]
fn a_burst_without_waiting_is_received_also_by_a_task_that_should_yield() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        script.waiting.store(3, SeqCst);
        script.is_finished.store(true, SeqCst);
        let (mut incoming, outgoing, driver) = port.share(8);
        drop(outgoing);
        timeout(PATIENCE, driver.run()).await.expect("its file is read");
        let task = tokio::spawn(async move {
            // Within one poll.
            while tokio::task::coop::has_budget_remaining() {
                assert!(!waits(tokio::task::coop::consume_budget()));
            }
            let mut burst = Batch::new();
            (incoming.receive_now(&mut burst), incoming.receive_burst(&mut burst).await)
        });
        assert_eq!(timeout(PATIENCE, task).await.unwrap().unwrap(), (3, 0), "all, and the end");
    });
}

#[test]
fn a_burst_that_is_cancelled_leaves_what_was_not_queued_in_the_batch() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        let (mut other, _) = scripted(64);
        let (_incoming, outgoing, driver) = port.share(4);
        let mut burst = frames(&mut other, 10);
        (0..10).for_each(|at| burst[at].data_mut().fill(at as u8));
        assert!(waits(outgoing.transmit_burst(&mut burst)), "the queue is full");
        assert_eq!(numbers(&burst), [4, 5, 6, 7, 8, 9]);
        assert!(waits(outgoing.transmit_burst(&mut burst)), "it still is");
        assert_eq!(numbers(&burst), [4, 5, 6, 7, 8, 9]);
        tokio::spawn(driver.run());
        until("the queue is empty", || script.taken.load(SeqCst) == 4).await;
        assert_eq!(timeout(PATIENCE, outgoing.transmit_burst(&mut burst)).await.unwrap(), 6);
        assert!(burst.is_empty() && !waits(outgoing.transmit_burst(&mut burst)));
        until("all are sent", || script.taken.load(SeqCst) == 10).await;
    });
}

/// Found in a review: a task that transmits bursts as fast as the driver sends them never waited, and could not be aborted.
#[test]
fn a_task_that_should_yield_does_so_before_it_queues_a_burst() {
    runtime().block_on(async {
        let (port, _) = scripted(64);
        let (mut other, _) = scripted(64);
        let (_incoming, outgoing, _driver) = port.share(8);
        let task = tokio::spawn(async move {
            let mut burst = frames(&mut other, 2);
            // Within one poll.
            while tokio::task::coop::has_budget_remaining() {
                assert!(!waits(tokio::task::coop::consume_budget()));
            }
            (
                waits(outgoing.transmit_burst(&mut burst)),
                burst.len(),
                outgoing.transmit_burst(&mut burst).await,
            )
        });
        assert_eq!(timeout(PATIENCE, task).await.unwrap().unwrap(), (true, 2, 2));
    });
}

#[test]
fn tasks_that_transmit_bursts_longer_than_the_queue_all_get_room() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        let (_incoming, outgoing, driver) = port.share(3);
        tokio::spawn(driver.run());
        let burst = |outgoing: Outgoing| async move {
            let (mut other, _) = scripted(128);
            for _ in 0..20 {
                let mut burst = Batch::new();
                while burst.len() < 64 {
                    // Earlier ones may be on their way.
                    let room = burst.room();
                    other.alloc_burst(&mut burst, room);
                    yield_now().await;
                }
                assert_eq!(outgoing.transmit_burst(&mut burst).await, 64);
            }
        };
        let tasks: Vec<JoinHandle<()>> = (0..4).map(|_| tokio::spawn(burst(outgoing.clone()))).collect();
        for task in tasks {
            timeout(PATIENCE, task).await.expect("all get room").unwrap();
        }
        until("all are sent", || script.taken.load(SeqCst) == 4 * 20 * 64).await;
    });
}

#[test]
fn a_burst_for_a_port_that_is_down_fills_what_is_before_it_and_keeps_the_rest() {
    runtime().block_on(async {
        let (port, script) = scripted(64);
        script.is_down.store(true, SeqCst);
        let (mut other, _) = scripted(256);
        let (incoming, outgoing, driver) = port.share(5);
        let driver = tokio::spawn(driver.run());
        let (mut first, mut second) = (frames(&mut other, 64), frames(&mut other, 64));
        assert_eq!(timeout(PATIENCE, outgoing.transmit_burst(&mut first)).await.unwrap(), 64);
        // The driver takes a batch of them, and the queue has room for five more.
        assert_eq!(timeout(PATIENCE, outgoing.transmit_burst(&mut second)).await.unwrap(), 5);
        assert_eq!((first.len(), second.len()), (0, 59));
        script.is_down.store(false, SeqCst);
        until("it is up again", || script.taken.load(SeqCst) == 69).await;
        assert_eq!(timeout(PATIENCE, outgoing.transmit_burst(&mut second)).await.unwrap(), 59);
        until("the rest is sent too", || script.taken.load(SeqCst) == 128).await;

        driver.abort();
        assert!(driver.await.unwrap_err().is_cancelled());
        let mut third = frames(&mut other, 3);
        assert_eq!(timeout(PATIENCE, outgoing.transmit_burst(&mut third)).await.unwrap(), 0);
        assert!(outgoing.is_closed() && third.len() == 3);
        drop(incoming);
    });
}

/// Sends back what comes, in bursts that are cancelled at random.
async fn echo(mut incoming: Incoming, outgoing: Outgoing) -> usize {
    let (mut burst, mut seed, mut cancelled) = (Batch::new(), 7_u64, 0);
    loop {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let pause = async {
            for _ in 0..seed >> 62 {
                yield_now().await;
            }
        };
        let step = async {
            match burst.is_empty() {
                true => incoming.receive_burst(&mut burst).await > 0,
                false => outgoing.transmit_burst(&mut burst).await > 0,
            }
        };
        tokio::select! {
            biased;
            () = pause => cancelled += 1,
            goes_on = step => if !goes_on { return cancelled },
        }
    }
}

#[test]
fn bursts_that_are_cancelled_at_random_lose_no_frame_double_none_and_keep_their_order() {
    const FRAMES: u64 = 1000;
    runtime().block_on(async {
        let (w, pool) = pool(128);
        let (port, mut device) = MemPort::pair("0", &MemConfig { ring: RING, coalesce: 1 }).unwrap();
        let port = AsyncPort::new(Box::new(port), w, pool.clone()).unwrap();
        let (incoming, outgoing, driver) = port.share(5);
        let control = driver.control();
        let driver = tokio::spawn(driver.run());
        let server = tokio::spawn(echo(incoming, outgoing));
        let network = async {
            let (mut sent, mut back) = (0, 0);
            while back < FRAMES {
                while sent < FRAMES && sent - back < 40 {
                    let write = |room: &mut [u8]| {
                        room[..8].copy_from_slice(&u64::to_be_bytes(sent));
                        60
                    };
                    if device.deliver(1, write) == 0 {
                        break;
                    }
                    sent += 1;
                }
                device.collect(64, |frame| {
                    assert_eq!(frame[..8], u64::to_be_bytes(back), "in order, each once");
                    back += 1;
                });
                yield_now().await;
            }
        };
        timeout(PATIENCE, network).await.expect("each comes back");
        control.finish();
        let port = timeout(PATIENCE, driver).await.expect("the driver finishes").unwrap();
        let cancelled = timeout(PATIENCE, server).await.expect("the server sees the end").unwrap();
        assert!(cancelled > 50, "{cancelled} calls were cancelled");
        drop((port, device));
        timeout(PATIENCE, close_pool(&pool)).await.expect("all frames are freed");
        assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
    });
}
