//! A TCP stream through a device, in windows at its receiving end: how long all who have a part in it had a core meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
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
/// Windows of one round at most, and those before the first that counts: after a pause TCP begins anew.
const WINDOWS: usize = 6;
const WARM_UP: usize = 2;
/// Bytes that are written, and read, by one call.
const CHUNK: usize = 256 << 10;
/// How long one looks for what is on its way while the sender ends.
const MOMENT: Duration = Duration::from_millis(20);
/// How long nothing may come before the stream is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stream, with those whose time counts.
pub(super) struct Stream {
    label: Label,
    clock: Tsc,
    sender: Sender,
    receiver: Receiver,
    middle: Option<Middle>,
    clocks: Vec<CpuClock>,
    put_off: Vec<Ksoftirqd>,
    /// Why there is nothing more to measure.
    broken: Option<String>,
}

/// The end that sends a text over and over.
struct Sender {
    to: TcpStream,
    text: Vec<u8>,
    /// Where in the text it is.
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
    /// Calls that gave other bytes than were sent.
    corrupt: u64,
}

impl Sender {
    /// Sends until `ends`; how many bytes.
    fn run(&mut self, ends: &AtomicBool) -> Result<u64, String> {
        let mut total = 0;
        // Relaxed: a wish, which carries no data.
        while !ends.load(Ordering::Relaxed) {
            let n = self.to.write(&self.text[self.at..]);
            let n = n.map_err(|error| format!("the stream cannot be written: {error}"))?;
            (total, self.at) = (total + n as u64, (self.at + n) % CHUNK);
        }
        Ok(total)
    }
}

impl Receiver {
    /// Receives what is there, and waits for it; false where nothing came in time.
    fn next(&mut self) -> Result<bool, String> {
        let n = match self.from.read(&mut self.room) {
            Ok(0) => return Err("the stream has ended".to_owned()),
            Ok(n) => n,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(false);
            }
            Err(error) => return Err(format!("the stream cannot be read: {error}")),
        };
        // One byte of each call: a look at all would be a good part of what is measured.
        let place = (self.at + n / 2) % CHUNK;
        self.corrupt += u64::from(self.room[n / 2] != self.text[place]);
        (self.came, self.at) = (self.came + n as u64, (self.at + n) % CHUNK);
        Ok(true)
    }

    fn wait_at_most(&self, time: Duration) -> Result<(), String> {
        self.from.set_read_timeout(Some(time)).map_err(|error| error.to_string())
    }
}

impl Stream {
    /// A stream between these ends, through `middle` or the kernel alone.
    ///
    /// # Errors
    /// What the system says of the clocks.
    pub(super) fn new(
        label: Label,
        [to, from]: [TcpStream; 2],
        middle: Option<Middle>,
    ) -> std::io::Result<Stream> {
        to.set_write_timeout(Some(PATIENCE))?;
        let mut clocks = vec![CpuClock::of_this()?];
        if let Some(middle) = &middle {
            clocks.push(middle.cpu_clock()?);
        }
        let put_off = cpu::allowed()?.into_iter().filter_map(Ksoftirqd::of).collect();
        let byte = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
        let text: Vec<u8> = (0..CHUNK as u64).map(byte).collect();
        let sender = Sender { to, text: text.clone(), at: 0 };
        let receiver = Receiver { from, text, at: 0, room: vec![0; CHUNK], came: 0, corrupt: 0 };
        Ok(Stream { label, clock: Tsc::new(), sender, receiver, middle, clocks, put_off, broken: None })
    }

    /// Streams for so many windows.
    fn run(&mut self, windows: usize) -> Result<Vec<Window>, String> {
        let Stream { clock, sender, receiver, clocks, put_off, .. } = self;
        let busy = || {
            let put_off: u64 = put_off.iter().map(Ksoftirqd::ns).sum();
            clocks.iter().map(|clock| clock.ns()).sum::<u64>() + put_off
        };
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            let sending = scope.spawn(|| sender.run(&ends));
            receiver.came = 0;
            receiver.wait_at_most(PATIENCE)?;
            let taken = (0..WARM_UP + windows).map(|_| window(receiver, clock, &busy)).collect();
            ends.store(true, Ordering::Relaxed);
            receiver.wait_at_most(MOMENT)?;
            // The sender may wait for room, so what is on its way is received while it does.
            while !sending.is_finished() {
                receiver.next()?;
            }
            let sent = sending.join().unwrap_or_else(|_| Err("the sender panicked".to_owned()))?;
            receiver.wait_at_most(PATIENCE)?;
            while receiver.came < sent {
                if !receiver.next()? {
                    return Err("some of what was sent does not come".to_owned());
                }
            }
            taken
        })
        .map(|mut taken: Vec<Window>| taken.split_off(WARM_UP))
    }

    /// Checks that all came as it was sent, when the stream is taken away.
    pub(super) fn settle(mut self, bench: &mut Bench<'_>) {
        let last = self.middle.as_mut().and_then(Middle::ended).map(|error| error.to_string());
        let (why, corrupt) = (self.broken.or(last), self.receiver.corrupt);
        bench.check(
            &format!("{}: the stream came as it was sent", self.label.variant),
            corrupt == 0 && why.is_none(),
            why.unwrap_or_else(|| format!("{corrupt} calls gave other bytes than were sent")),
        );
    }
}

/// One window at the receiver, in which all were `busy` for so long. It has no steps: a wait for what comes is no pause, and a pause of
/// the machine takes no core's time.
fn window(receiver: &mut Receiver, clock: &Tsc, busy: &dyn Fn() -> u64) -> Result<Window, String> {
    let (before, first) = (busy(), receiver.came);
    while receiver.came - first < WINDOW {
        if !receiver.next()? {
            return Err("nothing comes any more".to_owned());
        }
    }
    let ticks = ((busy() - before) as f64 * clock.ticks_per_ns()) as u64;
    Ok(Window { ticks, ops: (receiver.came - first) / OP, steps: 1, longest_step: ticks })
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
