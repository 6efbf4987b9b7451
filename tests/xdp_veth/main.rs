//! The `xdp` port on real interfaces: veth pairs in network namespaces, as root.

#![allow(clippy::unwrap_used)]

mod absence;
mod close;
mod coverage;
mod forked;
mod granted;
mod health;
mod lookup;
mod mirror;
mod mtu;
mod elsewhere;
mod failed;
#[path = "../netns/mod.rs"]
mod netns;
mod promiscuous;
mod punt;
mod refusals;
mod take;
mod transmit;

use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Batch, Frame, Pool, PoolConfig};
use netmem::port::xdp::{
    RingSizes, Umem, XdpConfig, XdpError, XdpMode, XdpModePreference, XdpPort, ZeroCopy,
};
use netmem::port::{Complete, Fill, Port, PortState, Rx, Tx, Wake};
use netmem::sync::Worker;
use netns::{Wire, again, in_namespace, ip, veth};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to wait for something that has to happen: a guard against hangs, nothing else.
const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    memory: Memory,
    w: Worker,
    pool: Pool,
    umem: Arc<Umem>,
}

fn bench(frames: usize) -> Bench {
    let config = MemoryConfig {
        bytes: 8 << 20,
        workers: 1,
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames, ..PoolConfig::default() }).unwrap();
    let umem = Umem::new(&memory);
    Bench { memory, w, pool, umem }
}

/// 64 entries in each ring.
fn small() -> XdpConfig {
    XdpConfig { rings: RingSizes { fill: 64, rx: 64, tx: 64, completion: 64 }, ..XdpConfig::default() }
}

impl Bench {
    /// Every frame of the pool.
    fn take_all(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.pool.alloc(&mut self.w)).collect()
    }

    fn open(&mut self, interface: &str) -> Result<XdpPort, XdpError> {
        self.open_with(interface, 0, &small())
    }

    fn open_with(&mut self, interface: &str, queue: u32, config: &XdpConfig) -> Result<XdpPort, XdpError> {
        XdpPort::open(&self.umem, &mut self.w, &self.pool, interface, queue, config)
    }
}

/// An Ethernet frame with `n` in every byte of its 46.
fn ethernet(n: u8) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend([n; 46]);
    frame
}

/// What `ip` shows of an XDP program on the interface, if there is one.
fn program_on(interface: &str) -> Option<String> {
    let shown = ip(&format!("-d link show dev {interface}"));
    shown.lines().find(|line| line.contains("prog/xdp")).map(str::to_owned)
}

/// Polls until `done` gives something.
fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

fn receive(port: &mut XdpPort, w: &mut Worker, frames: &mut Batch, n: usize) {
    wait_for("frames from the wire", || {
        port.kick();
        port.rx(w, frames);
        (frames.len() >= n).then_some(())
    });
}

fn rings_mapped() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("socket:[")).count()
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn native_and_generic_mode_bind_and_report_what_they_got() {
    in_namespace("native_and_generic_mode_bind_and_report_what_they_got", || {
        veth("a0", "a1", 1);
        let mut here = bench(64);
        for (preference, mode, shown) in [
            (XdpModePreference::Native, XdpMode::Native, "xdp "),
            (XdpModePreference::Generic, XdpMode::Generic, "xdpgeneric "),
            (XdpModePreference::NativeThenGeneric, XdpMode::Native, "xdp "),
        ] {
            let port = here.open_with("a0", 0, &XdpConfig { mode: preference, ..small() }).unwrap();
            assert_eq!((port.mode(), port.native_refused(), port.is_zero_copy()), (mode, None, false));
            assert_eq!((port.name(), port.kind(), port.state()), ("xdp:a0", "xdp", PortState::Up));
            assert!(program_on("a0").is_some());
            assert!(ip("link show dev a0").contains(shown), "{shown}");
        }
        // The loopback interface has no native XDP.
        ip("link set dev lo up");
        let port = here.open("lo").unwrap();
        assert_eq!(port.mode(), XdpMode::Generic);
        assert!(port.native_refused().unwrap().starts_with("native: "), "{:?}", port.native_refused());
        let native = XdpConfig { mode: XdpModePreference::Native, ..small() };
        drop(port);
        assert!(matches!(here.open_with("lo", 0, &native), Err(XdpError::NoMode { .. })));
        let required = XdpConfig { zero_copy: ZeroCopy::Require, ..small() };
        assert!(matches!(here.open_with("a0", 0, &required), Err(XdpError::NoZeroCopy { .. })));
    });
}

#[test]
fn frames_cross_from_one_interface_to_another_without_being_copied() {
    in_namespace("frames_cross_from_one_interface_to_another_without_being_copied", || {
        for mode in [XdpModePreference::Native, XdpModePreference::Generic] {
            veth("a0", "a1", 1);
            veth("b0", "b1", 1);
            let mut here = bench(256);
            let config = XdpConfig { mode, ..small() };
            let mut a = here.open_with("a0", 0, &config).unwrap();
            let mut b = here.open_with("b0", 0, &config).unwrap();
            let Bench { mut w, pool, umem, memory } = here;
            assert_eq!((a.fill_room(), b.fill_room(), pool.ledger().posted), (0, 0, 128));
            let (left, right) = (Wire::open("a1"), Wire::open("b1"));

            let mut frames = Batch::new();
            for n in 0..200u8 {
                left.send(&ethernet(n));
                receive(&mut a, &mut w, &mut frames, 1);
                let frame = &frames[0];
                assert_eq!((frames.len(), frame.headroom()), (1, 256));
                assert_eq!(frame.data(), ethernet(n));
                let (id, start) = (frame.id(), frame.data().as_ptr());
                assert_eq!(b.tx(&mut w, &mut frames), 1);
                assert_eq!((b.tx_posted(), frames.len()), (1, 0));
                b.kick();
                assert_eq!(right.receive(), ethernet(n));
                wait_for("the completion", || (b.complete(&mut w, &mut frames) == 1).then_some(()));
                assert_eq!((frames[0].id(), frames[0].data().as_ptr(), b.tx_posted()), (id, start, 0));
                frames.free(&mut w);
                assert_eq!(a.refill(&mut w, &pool), 1);
            }
            let (ra, tb) = (a.counters(), b.counters());
            assert_eq!((ra.rx.get(), ra.rx_bytes.get(), ra.rx_drops()), (200, 200 * 60, 0));
            assert_eq!((tb.tx.get(), tb.tx_bytes.get(), tb.completed.get()), (200, 200 * 60, 200));
            assert_eq!((ra.bad_descriptor.get(), ra.wrong_memory.get(), tb.tx_invalid.get()), (0, 0, 0));
            assert!(pool.ledger().balanced() && pool.ledger().posted == 128, "{:?}", pool.ledger());
            drop((a, b));
            assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
            drop((frames, pool, w, umem));
            assert_eq!(memory.stats().free + memory.stats().cached, memory.stats().total);
            ip("link del dev a0");
            ip("link del dev b0");
        }
    });
}

/// Seen: a duplicate of the polled descriptor was a duplicate of the socket. So the socket lived longer than its port
/// and the port's frames.
#[test]
fn a_duplicate_of_the_polled_descriptor_keeps_no_socket_open() {
    in_namespace("a_duplicate_of_the_polled_descriptor_keeps_no_socket_open", || {
        veth("a0", "a1", 1);
        let mut here = bench(64);
        let port = here.open("a0").unwrap();
        let kept = port.wakeup_fd().unwrap().try_clone_to_owned().unwrap();
        drop(port);
        assert!(here.pool.ledger().all_freed());
        // The queue is free, which it is not while any socket is bound to it.
        let again = here.open("a0").unwrap();
        drop((again, kept));
    });
}

/// Seen: a packet took 150 ns more on the sender's core, since the kernel took the lock of an epoll set without a
/// sleeper.
#[test]
fn a_port_without_a_sleeper_is_in_no_epoll_set() {
    in_namespace("a_port_without_a_sleeper_is_in_no_epoll_set", || {
        veth("a0", "a1", 1);
        let mut here = bench(64);
        let mut port = here.open("a0").unwrap();
        let watched = |port: &XdpPort| {
            let descriptor = port.wakeup_fd().unwrap().as_raw_fd();
            let said = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).unwrap();
            said.lines().filter(|line| line.starts_with("tfd:")).count()
        };
        for _ in 0..2 {
            assert_eq!(watched(&port), 0);
            assert!(!port.arm());
            assert_eq!(watched(&port), 1);
            port.disarm();
        }
        assert_eq!(watched(&port), 0);
    });
}

#[test]
fn frames_of_another_memory_and_frames_that_no_wire_takes_stay_with_the_caller() {
    in_namespace("frames_of_another_memory_and_frames_that_no_wire_takes_stay_with_the_caller", || {
        veth("a0", "a1", 1);
        let (mut here, mut there) = (bench(64), bench(64));
        // Nothing is left for the FILL ring, so that it has room.
        let all = here.take_all();
        let mut port = here.open("a0").unwrap();
        drop(all);
        let wire = Wire::open("a1");
        let mut frames = Batch::new();
        for n in 0..9u8 {
            let Bench { pool, w, .. } = if n % 3 == 1 { &mut there } else { &mut here };
            let mut frame = pool.alloc(w).unwrap();
            let bytes = ethernet(n);
            // Every third is a byte shorter than an Ethernet header.
            let len = if n % 3 == 2 { 13 } else { bytes.len() };
            frame.put(len).unwrap();
            frame.data_mut().copy_from_slice(&bytes[..len]);
            frames.push(frame).unwrap();
        }
        assert_eq!(port.tx(&mut here.w, &mut frames), 3);
        let lengths: Vec<usize> = frames.iter().map(|frame| frame.len()).collect();
        assert_eq!(lengths, [60, 13, 60, 13, 60, 13]);
        port.kick();
        for n in [0, 3, 6] {
            assert_eq!(wire.receive(), ethernet(n));
        }
        assert_eq!((port.counters().wrong_memory.get(), port.counters().tx_invalid.get()), (3, 3));
        // Found: while the interface was down, they were not counted.
        ip("link set dev a0 down");
        let _ = port.arm();
        port.disarm();
        assert!(matches!(port.state(), PortState::Down(_)));
        assert_eq!((port.tx(&mut here.w, &mut frames), frames.len()), (0, 6));
        assert_eq!((port.counters().wrong_memory.get(), port.counters().tx_invalid.get()), (6, 6));
        assert_eq!(port.fill(&mut here.w, &mut frames), 3, "to be filled, their length does not matter");
        assert_eq!((frames.len(), port.counters().wrong_memory.get()), (3, 9));
        drop((frames, port));
        assert!(here.pool.ledger().all_freed() && there.pool.ledger().all_freed());
    });
}

#[test]
fn packets_that_the_interface_drops_are_counted_by_cause() {
    in_namespace("packets_that_the_interface_drops_are_counted_by_cause", || {
        veth("a0", "a1", 1);
        ip("link set dev a1 mtu 3000");
        ip("link set dev a0 mtu 3000");
        let mut here = bench(256);
        let wire = Wire::open("a1");
        // FILL is larger than RX, so that both causes can be had.
        let rings = RingSizes { fill: 64, rx: 32, tx: 32, completion: 32 };
        let all = here.take_all();
        let mut port = here.open_with("a0", 0, &XdpConfig { rings, ..small() }).unwrap();
        drop(all);
        let Bench { mut w, pool, .. } = here;
        let counters = port.counters();
        let counted = |port: &XdpPort| {
            port.counters();
            (counters.rx_no_frame.get(), counters.rx_ring_full.get(), counters.rx_dropped.get())
        };
        for n in 0..10 {
            wire.send(&ethernet(n));
        }
        wait_for("ten without a frame", || (counted(&port) == (10, 0, 0)).then_some(()));
        assert_eq!(port.refill(&mut w, &pool), 64);
        for n in 0..40 {
            wire.send(&ethernet(n));
        }
        wait_for("eight with the ring full", || (counted(&port) == (10, 8, 0)).then_some(()));
        let mut frames = Batch::new();
        receive(&mut port, &mut w, &mut frames, 32);
        // It comes in two chunks, and no frame has room for both.
        wire.send(&[0x55; 2500]);
        wait_for("one longer than a frame", || {
            port.rx(&mut w, &mut frames);
            (counters.rx_too_long.get() == 1).then_some(())
        });
        assert_eq!((frames.len(), counted(&port), counters.rx_drops()), (32, (10, 8, 0), 19));
    });
}

#[test]
fn a_burst_larger_than_the_rings_comes_out_whole_and_in_order() {
    in_namespace("a_burst_larger_than_the_rings_comes_out_whole_and_in_order", || {
        veth("a0", "a1", 1);
        let mut here = bench(256);
        let mut port = here.open("a0").unwrap();
        let Bench { mut w, pool, .. } = here;
        let wire = Wire::open("a1");
        let (mut waiting, mut done) = (Batch::new(), Batch::new());
        let mut next = 0u8;
        wait_for("200 frames to be sent", || {
            while next < 200 && waiting.room() > 0 {
                let mut frame = pool.alloc(&mut w)?;
                frame.put(60).unwrap();
                frame.data_mut().copy_from_slice(&ethernet(next));
                waiting.push(frame).unwrap();
                next += 1;
            }
            port.tx(&mut w, &mut waiting);
            port.kick();
            port.complete(&mut w, &mut done);
            done.free(&mut w);
            (next == 200 && waiting.is_empty() && port.tx_posted() == 0).then_some(())
        });
        for n in 0..200 {
            assert_eq!(wire.receive(), ethernet(n));
        }
        assert_eq!(port.counters().completed.get(), 200);
        drop(port);
        assert!(pool.ledger().all_freed());
    });
}

#[test]
fn two_queues_of_one_interface_share_one_program() {
    in_namespace("two_queues_of_one_interface_share_one_program", || {
        veth("a0", "a1", 2);
        let mut here = bench(256);
        let mut ports: Vec<XdpPort> =
            (0..2).map(|queue| here.open_with("a0", queue, &small()).unwrap()).collect();
        assert_eq!((ports[0].name(), ports[1].name()), ("xdp:a0", "xdp:a0:1"));
        let generic = XdpConfig { mode: XdpModePreference::Generic, ..small() };
        assert!(here.open_with("a0", 1, &generic).is_err());
        let Bench { mut w, pool, .. } = here;
        let wire = Wire::open("a1");
        // IPv4 and UDP, from 40 source ports: the kernel spreads flows over the queues.
        let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x08, 0];
        frame.extend([
            0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 9, 0, 26, 0, 0,
        ]);
        frame.extend([0; 18]);
        let mut received = [Batch::new(), Batch::new()];
        for source in 0..40 {
            frame[35] = source;
            wire.send(&frame);
        }
        wait_for("40 frames on two queues", || {
            let n: usize = ports
                .iter_mut()
                .zip(&mut received)
                .map(|(port, to)| {
                    port.rx(&mut w, to);
                    to.len()
                })
                .sum();
            (n == 40).then_some(())
        });
        assert!(received.iter().all(|batch| !batch.is_empty()), "{:?}", received.each_ref().map(|b| b.len()));

        drop(ports.remove(0));
        assert!(program_on("a0").is_some(), "the other queue goes on");
        drop(ports);
        assert_eq!(program_on("a0"), None);
        drop(received);
        assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
    });
}

#[test]
fn nothing_is_left_after_a_drop_and_the_interface_can_be_opened_again() {
    in_namespace("nothing_is_left_after_a_drop_and_the_interface_can_be_opened_again", || {
        veth("a0", "a1", 1);
        let mut here = bench(256);
        let before = open_files();
        for _ in 0..3 {
            let port = here.open("a0").unwrap();
            assert!(program_on("a0").is_some() && open_files() > before);
            assert_eq!(rings_mapped(), 4);
            drop(port);
            assert_eq!((program_on("a0"), open_files(), rings_mapped()), (None, before, 0));
            assert!(here.pool.ledger().all_freed());
        }
    });
}

#[test]
fn nothing_is_left_after_sigkill() {
    const TEST: &str = "nothing_is_left_after_sigkill";
    in_namespace(TEST, || {
        if std::env::var_os("NETMEM_TEST_HOLD").is_some() {
            let _port = bench(256).open("a0").unwrap();
            println!("\nHOLDING");
            loop {
                std::thread::park();
            }
        }
        veth("a0", "a1", 1);
        let mut holder = again(TEST).env("NETMEM_TEST_HOLD", "1").stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(holder.stdout.take().unwrap()).lines();
        assert!(said.map_while(Result::ok).any(|line| line == "HOLDING"));
        assert!(program_on("a0").is_some());
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!(program_on("a0"), None);
        bench(64).open("a0").unwrap();
    });
}
