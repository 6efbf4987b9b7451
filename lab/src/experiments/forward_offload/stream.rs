//! TCP streams through a device, in windows at their receiving end: the CPU time of all processes and threads that
//! take part, or the time of the bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use netmem::system::cpu;

use super::super::peers::{Ksoftirqd, Middle};
use crate::bench::Bench;
use crate::method::clock::{Clock, Tsc};
use crate::method::round::{Label, Variant};
use crate::method::window::{Window, Windows};
use crate::system::cpu_time::CpuClock;

/// Bytes of a window.
const WINDOW: u64 = 8 << 20;
/// Bytes of an operation.
const OP: u64 = 1 << 10;
/// Maximum number of windows in one round, and number of windows before the first that counts: after a pause TCP starts
/// again.
const WINDOWS: usize = 6;
const WARM_UP: usize = 2;
/// Bytes that are written, and read, by one call.
const CHUNK: usize = 256 << 10;
/// How long a receiver looks for bytes in flight while the sender ends.
const MOMENT: Duration = Duration::from_millis(20);
/// How long nothing may arrive before the stream is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The meaning of a window's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    /// The time for which all participants had a core.
    OfCores,
    /// The elapsed time.
    Passed,
}

/// Streams, and the processes and threads whose time counts.
pub(super) struct Stream {
    label: Label,
    clock: Tsc,
    time: Time,
    flows: Vec<Flow>,
    middle: Option<Middle>,
    clocks: Vec<CpuClock>,
    put_off: Vec<Ksoftirqd>,
    /// The reason why nothing more can be measured.
    broken: Option<String>,
}

/// One stream: its two ends.
struct Flow {
    sender: Sender,
    receiver: Receiver,
}

/// The state that the receivers of all streams share.
#[derive(Default)]
struct Together {
    /// Set when the senders must end.
    ends: AtomicBool,
    /// Bytes that have arrived on all streams.
    came: AtomicU64,
}

/// The end that sends a text again and again.
struct Sender {
    to: TcpStream,
    text: Vec<u8>,
    /// The position in the text.
    at: usize,
}

/// The end that receives it.
struct Receiver {
    from: TcpStream,
    text: Vec<u8>,
    at: usize,
    room: Vec<u8>,
    /// Bytes of this round.
    came: u64,
    /// Calls whose bytes differ from the sent ones.
    corrupt: u64,
}

impl Sender {
    /// Sends until `ends`. Returns the number of bytes.
    fn run(&mut self, ends: &AtomicBool) -> Result<u64, String> {
        let mut total = 0;
        // Relaxed: a request, which carries no data.
        while !ends.load(Ordering::Relaxed) {
            let n = self.to.write(&self.text[self.at..]);
            let n = n.map_err(|error| format!("the stream cannot be written: {error}"))?;
            (total, self.at) = (total + n as u64, (self.at + n) % CHUNK);
        }
        Ok(total)
    }
}

impl Receiver {
    /// Receives the bytes that are there, or waits for some. Returns false if none arrived in time.
    fn next(&mut self, together: &Together) -> Result<bool, String> {
        let n = match self.from.read(&mut self.room) {
            Ok(0) => return Err("the stream has ended".to_owned()),
            Ok(n) => n,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(false);
            }
            Err(error) => return Err(format!("the stream cannot be read: {error}")),
        };
        // Compares one byte of each call: comparing all would take a good part of the measured time.
        let place = (self.at + n / 2) % CHUNK;
        self.corrupt += u64::from(self.room[n / 2] != self.text[place]);
        (self.came, self.at) = (self.came + n as u64, (self.at + n) % CHUNK);
        // Relaxed: a number, which carries no data.
        together.came.fetch_add(n as u64, Ordering::Relaxed);
        Ok(true)
    }

    /// Receives until the senders must end.
    fn until_the_end(&mut self, together: &Together) -> Result<(), String> {
        self.wait_at_most(MOMENT)?;
        while !together.ends.load(Ordering::Relaxed) {
            self.next(together)?;
        }
        Ok(())
    }

    fn wait_at_most(&self, time: Duration) -> Result<(), String> {
        self.from.set_read_timeout(Some(time)).map_err(|error| error.to_string())
    }
}

impl Flow {
    /// A stream between these ends that carries `text`.
    fn new([to, from]: [TcpStream; 2], text: &[u8]) -> std::io::Result<Flow> {
        to.set_write_timeout(Some(PATIENCE))?;
        let receiver =
            Receiver { from, text: text.to_vec(), at: 0, room: vec![0; CHUNK], came: 0, corrupt: 0 };
        Ok(Flow { sender: Sender { to, text: text.to_vec(), at: 0 }, receiver })
    }

    /// Sends while `receive` receives, which returns when the round must end. Then receives the rest.
    fn carry<T>(
        &mut self,
        together: &Together,
        receive: impl FnOnce(&mut Receiver) -> Result<T, String>,
    ) -> Result<T, String> {
        let Flow { sender, receiver } = self;
        receiver.came = 0;
        thread::scope(|scope| {
            let sending = scope.spawn(|| sender.run(&together.ends));
            let received = receive(receiver);
            together.ends.store(true, Ordering::Relaxed);
            receiver.wait_at_most(MOMENT)?;
            // The sender may wait for room, so bytes in flight are received meanwhile.
            while !sending.is_finished() {
                receiver.next(together)?;
            }
            let sent = sending.join().unwrap_or_else(|_| Err("the sender panicked".to_owned()))?;
            receiver.wait_at_most(PATIENCE)?;
            while receiver.came < sent {
                if !receiver.next(together)? {
                    return Err("some of what was sent does not come".to_owned());
                }
            }
            received
        })
    }
}

impl Stream {
    /// Streams between these ends, through `middle` or the kernel alone.
    ///
    /// # Errors
    /// The error of the system's clocks.
    pub(super) fn new(
        label: Label,
        time: Time,
        ends: Vec<[TcpStream; 2]>,
        middle: Option<Middle>,
    ) -> std::io::Result<Stream> {
        let mut clocks = vec![CpuClock::of_this()?];
        if let Some(middle) = &middle {
            clocks.push(middle.cpu_clock()?);
        }
        let put_off = cpu::allowed()?.into_iter().filter_map(Ksoftirqd::of).collect();
        let byte = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
        let text: Vec<u8> = (0..CHUNK as u64).map(byte).collect();
        let flows = ends.into_iter().map(|ends| Flow::new(ends, &text)).collect::<Result<_, _>>()?;
        Ok(Stream { label, clock: Tsc::new(), time, flows, middle, clocks, put_off, broken: None })
    }

    /// Runs streams for this number of windows, which the first stream measures.
    fn run(&mut self, windows: usize) -> Result<Vec<Window>, String> {
        let Stream { clock, time, flows, clocks, put_off, .. } = self;
        let ticks = || match time {
            Time::Passed => clock.ticks(),
            Time::OfCores => {
                let put_off: u64 = put_off.iter().map(Ksoftirqd::ns).sum();
                let busy = clocks.iter().map(|clock| clock.ns()).sum::<u64>() + put_off;
                (busy as f64 * clock.ticks_per_ns()) as u64
            }
        };
        let together = Together::default();
        let Some((first, others)) = flows.split_first_mut() else { return Ok(Vec::new()) };
        thread::scope(|scope| {
            let others: Vec<_> = others
                .iter_mut()
                .map(|flow| {
                    scope.spawn(|| flow.carry(&together, |receiver| receiver.until_the_end(&together)))
                })
                .collect();
            let taken = first.carry(&together, |receiver| {
                receiver.wait_at_most(PATIENCE)?;
                (0..WARM_UP + windows).map(|_| window(receiver, &together, &ticks)).collect()
            });
            for other in others {
                other.join().unwrap_or_else(|_| Err("a receiver panicked".to_owned()))?;
            }
            taken
        })
        .map(|mut taken: Vec<Window>| taken.split_off(WARM_UP))
    }

    /// Checks that all bytes arrived unchanged, when the stream is closed.
    pub(super) fn settle(mut self, bench: &mut Bench<'_>) {
        let last = self.middle.as_mut().and_then(Middle::ended).map(|error| error.to_string());
        let corrupt: u64 = self.flows.iter().map(|flow| flow.receiver.corrupt).sum();
        let why = self.broken.or(last);
        bench.check(
            &format!("{}: what came is what was sent, streams: {}", self.label.variant, self.flows.len()),
            corrupt == 0 && why.is_none(),
            why.unwrap_or_else(|| format!("{corrupt} calls gave other bytes than were sent")),
        );
    }
}

/// Measures one window of all streams, between two reads of `ticks` by one receiver. It has no steps: a wait for bytes
/// is not a pause, and a pause of the machine takes no core's time.
fn window(receiver: &mut Receiver, together: &Together, ticks: &dyn Fn() -> u64) -> Result<Window, String> {
    let came = || together.came.load(Ordering::Relaxed);
    let (before, first) = (ticks(), came());
    while came() - first < WINDOW {
        if !receiver.next(together)? {
            return Err("nothing comes any more".to_owned());
        }
    }
    let ticks = ticks() - before;
    Ok(Window { ticks, ops: (came() - first) / OP, steps: 1, longest_step: ticks })
}

impl Variant for Stream {
    fn label(&self) -> &Label {
        &self.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        if self.broken.is_some() {
            return Windows::default();
        }
        match self.run(windows.min(WINDOWS)) {
            Ok(taken) => Windows::without_pauses(&taken, 0.0),
            Err(why) => {
                self.broken = Some(why);
                Windows::default()
            }
        }
    }
}
