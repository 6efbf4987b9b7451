//! Tests of ports in tokio: used by one task, and shared by many that are cancelled at random points.

#![allow(clippy::unwrap_used)]

use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::port::wrap::WrapPort;
use netmem::{Batch, Frame, Memory, MemoryConfig, Pool, PoolConfig, Worker};
use netmem_tokio::{AsyncPort, close_pool};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

/// Only guards against hangs: the machine may be stopped for a while.
const PATIENCE: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Returns a memory with that many ports, each with its own pool.
fn ports(number: usize, frames: usize) -> Vec<(netmem::MemPort, MemDevice, Worker, Pool)> {
    let config = MemoryConfig { bytes: 16 << 20, workers: number, ..MemoryConfig::default() };
    let memory = Memory::new(&config).unwrap();
    let port = |number: usize| {
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames, ..PoolConfig::default() }).unwrap();
        let (port, device) =
            MemPort::pair(&number.to_string(), &MemConfig { ring: 16, coalesce: 1 }).unwrap();
        (port, device, w, pool)
    };
    (0..number).map(port).collect()
}

/// Delivers one frame with this number in it, when there is room.
async fn deliver(device: &mut MemDevice, number: u64) {
    while device.deliver(1, |room| {
        room[..8].copy_from_slice(&number.to_be_bytes());
        60
    }) == 0
    {
        yield_now().await;
    }
}

fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[..8].try_into().unwrap())
}

/// Pseudo-random numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[test]
fn calls_that_are_cancelled_lose_no_frame_and_double_none() {
    const FRAMES: u64 = 3000;
    runtime().block_on(async {
        let (port, mut device, w, pool) = ports(1, 64).remove(0);
        let mut port = AsyncPort::new(Box::new(port), w, pool.clone()).unwrap();
        let network: JoinHandle<()> = tokio::spawn(async move {
            let (mut sent, mut back) = (0, 0);
            while back < FRAMES {
                if sent < FRAMES && sent - back < 40 {
                    deliver(&mut device, sent).await;
                    sent += 1;
                }
                device.collect(16, |frame| {
                    assert_eq!(number(frame), back, "in order, each once");
                    back += 1;
                });
                yield_now().await;
            }
        });
        let (mut frames, mut numbers, mut cancelled) = (Batch::new(), Numbers(7), 0);
        while !network.is_finished() {
            let pause = async {
                for _ in 0..numbers.below(4) {
                    yield_now().await;
                }
            };
            tokio::select! {
                biased;
                () = pause => cancelled += 1,
                _ = async { if frames.is_empty() { port.receive(&mut frames).await } else { port.transmit(&mut frames).await } } => {}
            }
        }
        timeout(PATIENCE, network).await.unwrap().unwrap();
        assert!(cancelled > 100, "{cancelled} calls were cancelled");
        drop((port, frames));
        timeout(PATIENCE, close_pool(&pool)).await.unwrap();
        assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
    });
}

/// Answers a probe after a few steps, at each of which it may be cancelled.
async fn answer(mut frame: Frame, outgoing: netmem_tokio::Outgoing, steps: u64) {
    for _ in 0..steps {
        yield_now().await;
    }
    frame.data_mut()[8] = b'A';
    if steps.is_multiple_of(2) {
        drop(outgoing.transmit(frame).await);
    } else if let Some(transmit) = outgoing.room().await {
        transmit(frame);
    }
}

/// Returns the port of a driver that has ended, after all frames that it had to send are taken.
async fn end(driver: JoinHandle<AsyncPort>, device: &mut MemDevice) -> AsyncPort {
    while !driver.is_finished() {
        device.collect(64, |_| ());
        yield_now().await;
    }
    driver.await.unwrap()
}

/// The number of probes, and the time limit. `NETMEM_PROBES` sets the number: ten million take minutes.
fn probes() -> (u64, Duration) {
    let number =
        std::env::var("NETMEM_PROBES").map_or(4000, |text| text.parse().expect("NETMEM_PROBES is a number"));
    (number, PATIENCE * (1 + (number / 4000) as u32))
}

#[test]
fn a_server_whose_tasks_are_cancelled_at_random_answers_every_probe_and_leaks_nothing() {
    let (number_of_probes, patience) = probes();
    runtime().block_on(async {
        let (port, mut device, w, pool) = ports(1, 128).remove(0);
        let port = AsyncPort::new(Box::new(port), w, pool.clone()).unwrap();
        let (mut incoming, outgoing, driver) = port.share(8);
        let driver = tokio::spawn(driver.run());
        let server = tokio::spawn(async move {
            let (mut numbers, mut cancelled) = (Numbers(3), 0_u64);
            while let Some(frame) = incoming.receive().await {
                let task = tokio::spawn(answer(frame, outgoing.clone(), numbers.below(8)));
                if numbers.below(3) == 0 {
                    for _ in 0..numbers.below(4) {
                        yield_now().await;
                    }
                    task.abort();
                    cancelled += 1;
                }
            }
            cancelled
        });
        // A probe is sent again until it is answered, as by a client.
        let probes = async {
            let (mut waiting, mut next, mut answers, mut longest) =
                (BTreeMap::new(), 0, 0_u64, Duration::ZERO);
            while next < number_of_probes || !waiting.is_empty() {
                while waiting.len() < 24 && next < number_of_probes {
                    waiting.insert(next, (0_u32, Instant::now()));
                    next += 1;
                }
                for (probe, (tries, _)) in &mut waiting {
                    if tries.is_multiple_of(64) {
                        deliver(&mut device, *probe).await;
                    }
                    *tries += 1;
                }
                device.collect(64, |frame| {
                    assert_eq!(frame[8], b'A');
                    let answered = waiting.remove(&number(frame));
                    longest = answered.map_or(longest, |(_, begun)| begun.elapsed().max(longest));
                    answers += 1;
                });
                yield_now().await;
            }
            (answers, longest)
        };
        let (answers, longest) = timeout(patience, probes).await.expect("every probe is answered");
        println!("{number_of_probes} probes, each answered within {longest:?}");
        assert!(answers >= number_of_probes);
        server.abort();
        // Its end drops both ends of the queues, and the driver returns the port after the device has taken every
        // answer. A probe that was sent again has several.
        let port = timeout(PATIENCE, end(driver, &mut device)).await.expect("the driver ends");
        let counters = port.port().counters();
        assert_eq!((counters.tx_invalid.get(), counters.wrong_memory.get()), (0, 0));
        drop((port, device));
        timeout(PATIENCE, close_pool(&pool)).await.expect("all frames are freed");
        assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
    });
}

#[test]
fn a_driver_that_is_cancelled_closes_its_port_and_every_frame_returns_to_its_pool() {
    // One thread: the driver has filled the queue before the test goes on.
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let (port, mut device, w, pool) = ports(1, 64).remove(0);
        let (mut incoming, outgoing, driver) =
            AsyncPort::new(Box::new(port), w, pool.clone()).unwrap().share(4);
        let driver = tokio::spawn(driver.run());
        for probe in 0..12 {
            deliver(&mut device, probe).await;
        }
        let first = timeout(PATIENCE, incoming.receive()).await.unwrap().unwrap();
        assert_eq!(number(first.data()), 0);
        driver.abort();
        assert!(driver.await.unwrap_err().is_cancelled());
        let mut taken = 1;
        while let Some(frame) = incoming.receive().await {
            assert_eq!(number(frame.data()), taken);
            taken += 1;
        }
        assert!(taken >= 4, "what was in the queue is there still");
        let refused = outgoing.transmit(first).await.unwrap_err();
        assert!(outgoing.room().await.is_none());
        assert!(pool.close_and_wait(Duration::ZERO).is_err(), "one is out");
        drop((refused, device));
        timeout(PATIENCE, close_pool(&pool)).await.unwrap();
    });
}

/// A port that counts how often it is armed.
struct Counted(netmem::MemPort, Arc<AtomicUsize>);

impl WrapPort for Counted {
    fn within(&self) -> &dyn Port {
        &self.0
    }

    fn within_mut(&mut self) -> &mut dyn Port {
        &mut self.0
    }

    fn arm(&mut self) -> bool {
        self.1.fetch_add(1, SeqCst);
        self.within_mut().arm()
    }

    fn name(&self) -> &str {
        "counted"
    }

    fn kind(&self) -> &'static str {
        "counted"
    }
}

#[test]
fn ports_that_wait_are_not_looked_at_while_nothing_comes_and_wake_when_it_does() {
    runtime().block_on(async {
        let (mut devices, mut tasks, mut armed) = (Vec::new(), Vec::new(), Vec::new());
        // Each looks once a second from its start on.
        let begun = Instant::now();
        // A memory has at most 64 workers, and each port has one of its own.
        for (port, device, w, pool) in ports(50, 16).into_iter().chain(ports(50, 16)) {
            let count = Arc::new(AtomicUsize::new(0));
            let port = Counted(port, count.clone());
            let mut port = AsyncPort::new(Box::new(port), w, pool).unwrap();
            tasks.push(tokio::spawn(async move {
                let mut frames = Batch::new();
                assert_eq!(port.receive(&mut frames).await, 1);
                number(frames[0].data())
            }));
            devices.push(device);
            armed.push(count);
        }
        // All have posted their frames, and wait.
        for count in &armed {
            timeout(PATIENCE, async {
                while count.load(SeqCst) == 0 {
                    yield_now().await
                }
            })
            .await
            .unwrap();
        }
        // A second in which a poll every fifty milliseconds would make twenty checks each.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let looks: usize = armed.iter().map(|count| count.load(SeqCst)).sum();
        let most = 2 + begun.elapsed().as_secs_f64().ceil() as usize;
        assert!(looks <= most * armed.len(), "{looks} looks at {} idle ports", armed.len());
        for (number, device) in devices.iter_mut().enumerate() {
            deliver(device, number as u64).await;
        }
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(timeout(PATIENCE, task).await.expect("it wakes").unwrap(), number as u64);
        }
    });
}

/// Returns a port that counts how often it is armed, with that count.
fn counted() -> (AsyncPort, MemDevice, Arc<AtomicUsize>, Pool) {
    let (port, device, w, pool) = ports(1, 64).remove(0);
    let count = Arc::new(AtomicUsize::new(0));
    let port = AsyncPort::new(Box::new(Counted(port, count.clone())), w, pool.clone()).unwrap();
    (port, device, count, pool)
}

/// Each port is looked at once a second, with a packet or without. Found in a review: no test noticed if only that look
/// found the packets.
#[test]
fn a_packet_wakes_the_task_that_waits_for_it_without_a_look_at_the_port() {
    runtime().block_on(async {
        let (mut idle, _device, looks, _) = counted();
        tokio::spawn(async move { idle.receive(&mut Batch::new()).await });
        let deliveries = async {
            let mut without_a_look = 0;
            while without_a_look < 3 {
                let (mut port, mut device, armed, _) = counted();
                let before = looks.load(SeqCst);
                let task = tokio::spawn(async move { port.receive(&mut Batch::new()).await });
                while armed.load(SeqCst) == 0 {
                    yield_now().await;
                }
                // It has found nothing, and waits.
                tokio::time::sleep(Duration::from_millis(5)).await;
                deliver(&mut device, 7).await;
                assert_eq!(task.await.unwrap(), 1);
                without_a_look += usize::from(looks.load(SeqCst) == before);
            }
        };
        timeout(PATIENCE, deliveries).await.expect("the packets wake it");
    });
}

/// Seen: frames stayed in a port whose reader was gone, ended each wait at once, and the driver turned without a pause.
#[test]
fn a_driver_without_a_reader_sleeps_while_packets_come_and_frees_them() {
    runtime().block_on(async {
        let (port, mut device, armed, pool) = counted();
        let (incoming, outgoing, driver) = port.share(8);
        let driver = tokio::spawn(driver.run());
        drop(incoming);
        for number in 0..100 {
            timeout(PATIENCE, deliver(&mut device, number)).await.unwrap();
        }
        let before = armed.load(SeqCst);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let looks = armed.load(SeqCst) - before;
        assert!(looks <= 100, "{looks} looks in a second");
        drop(outgoing);
        drop((timeout(PATIENCE, end(driver, &mut device)).await.unwrap(), device));
        timeout(PATIENCE, close_pool(&pool)).await.unwrap();
        assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
    });
}

/// Seen: a transmission that waited for room turned without a pause while a received packet waited.
#[test]
fn a_transmission_that_waits_for_room_sleeps_while_a_received_packet_waits() {
    runtime().block_on(async {
        let (mut port, mut device, armed, _pool) = counted();
        let (mut frames, mut received) = (Batch::new(), Batch::new());
        assert_eq!(port.alloc_burst(&mut frames, 20), 20);
        for frame in &mut *frames {
            frame.put(60).unwrap().fill(1);
        }
        port.transmit_now(&mut frames);
        assert!(!frames.is_empty(), "the ring has 16 slots");
        deliver(&mut device, 7).await;
        let task = tokio::spawn(async move {
            port.transmit(&mut frames).await;
            port.drained().await;
            port.receive(&mut received).await
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let looks = armed.load(SeqCst);
        assert!(looks <= 1000, "{looks} looks in a second");
        while !task.is_finished() {
            device.collect(64, |_| ());
            yield_now().await;
        }
        assert_eq!(timeout(PATIENCE, task).await.unwrap().unwrap(), 1);
    });
}

#[test]
fn a_pool_that_is_closed_is_waited_for_until_its_last_frame_is_freed() {
    runtime().block_on(async {
        let (_, _, mut w, pool) = ports(1, 16).remove(0);
        let frame = pool.alloc(&mut w).unwrap();
        let is_freed = Arc::new(AtomicBool::new(false));
        let (waiting, seen) = (pool.clone(), is_freed.clone());
        let end = tokio::spawn(async move {
            close_pool(&waiting).await;
            assert!(seen.load(SeqCst), "a frame was out");
        });
        assert!(timeout(Duration::from_millis(20), close_pool(&pool)).await.is_err());
        assert!(pool.alloc(&mut w).is_none(), "it stays closed");
        is_freed.store(true, SeqCst);
        tokio::task::spawn_blocking(move || drop(frame)).await.unwrap();
        timeout(PATIENCE, end).await.unwrap().unwrap();
    });
}
