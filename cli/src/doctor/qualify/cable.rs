//! Two interfaces that are cabled to each other. Packets are forwarded from each to the other, over and over. HOT.
//!
//! ```text
//!   direction 0: made ─► port 0 tx ═══ cable ═══► port 1 rx ─► TTL less one ─► port 0 tx …   with the last TTL: judged, freed
//!   direction 1: made ─► port 1 tx ═══ cable ═══► port 0 rx ─► TTL less one ─► port 1 tx …
//! ```
//! A packet that was received on one interface leaves by the other without a copy, so each lap is one forwarding
//! between the two. The number of packets in flight is below the size of every ring. A lost packet was therefore
//! lost by a driver, a cable, or an action of the trial.

use super::direction::Direction;
use super::meter::Meter;
use super::mode::{Frames, Mode};
use crate::failure::Failure;
use crate::forward::worker_setup::Owner;
use crate::idle::Idle;
use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Batch, DmaMap, Ledger, Pool, PoolConfig};
use netmem::port::xdp::Umem;
use netmem::port::{Port, PortState};
use netmem::system::clock::monotonic_ns;
use netmem::wire::MacAddr;
use std::sync::Arc;
use std::time::Duration;

/// Frames of the pool: for two rings in each direction and the packets in flight.
const FRAMES: usize = 4096;
/// Maximum number of frames that a port may have posted for reception.
const SHARE: usize = FRAMES / 4;
/// Nanoseconds without a received packet after which the missing packets count as lost.
const QUIET: u64 = 2_000_000_000;
/// The time for frames to be freed after the ports are closed.
const HOME: Duration = Duration::from_secs(2);

/// The two ports, and the packets between them.
pub struct Cable {
    interfaces: [String; 2],
    mode: Mode,
    umem: Arc<Umem>,
    owner: Owner,
    /// None while it is closed.
    ports: [Option<Box<dyn Port>>; 2],
    directions: [Direction; 2],
    /// Of both directions together.
    meter: Meter,
    /// True while the trial keeps packets from crossing.
    is_disturbed: bool,
    idle: Idle,
}

/// The result of a closed cable.
pub struct Closed {
    pub directions: [Direction; 2],
    /// Packets a second in both directions together, in each window without a gap.
    pub rates: Vec<u64>,
    pub ledger: Ledger,
    /// Frames that a driver still had two seconds after the close.
    pub away: u64,
}

impl Cable {
    /// Opens both ports.
    ///
    /// # Errors
    /// One line with the failed step. Nothing is left open.
    pub fn open(
        mode: Mode,
        interfaces: &[String; 2],
        macs: [MacAddr; 2],
        frames: Frames,
        sizes: &[usize],
    ) -> Result<Cable, Failure> {
        let config = MemoryConfig { bytes: FRAMES * frames.bytes(), workers: 1, ..MemoryConfig::default() };
        let memory = Memory::new(&config).map_err(Failure::input)?;
        let mut worker = memory.worker().map_err(Failure::input)?;
        let usual = PoolConfig::of_frames(frames.bytes());
        let config = PoolConfig { name: "frames".into(), frames: FRAMES, dma: DmaMap::Umem, ..usual };
        let pool = Pool::new(&memory, &mut worker, &config).map_err(Failure::input)?;
        let umem = Umem::with_chunks(&memory, frames.chunk()).map_err(Failure::input)?;
        let mut owner = Owner { worker, pool };
        let [first, second] = interfaces;
        let one = mode.open(&umem, &mut owner, first).map_err(Failure::Input)?;
        let other = mode.open(&umem, &mut owner, second).map_err(Failure::Input)?;
        let direction = |number| Direction::new(number, macs, sizes);
        Ok(Cable {
            interfaces: interfaces.clone(),
            mode,
            umem,
            owner,
            ports: [Some(one), Some(other)],
            directions: [direction(0)?, direction(1)?],
            meter: Meter::default(),
            is_disturbed: false,
            idle: Idle::default(),
        })
    }

    /// Forwards until `is_over` returns true for the directions and the time, or the program is asked to end.
    pub fn forward(&mut self, is_over: impl Fn(&[Direction; 2], u64) -> bool) {
        loop {
            let now = monotonic_ns();
            if is_over(&self.directions, now) || crate::stop::is_asked() {
                return;
            }
            self.round(now, true);
        }
    }

    /// Makes no more packets, and forwards until the last is judged or nothing has come for two seconds.
    pub fn drain(&mut self) {
        let begun = monotonic_ns();
        while self.directions.iter().any(|direction| direction.in_flight() > 0) && !crate::stop::is_asked() {
            let (now, laps) = (monotonic_ns(), self.laps());
            let is_quiet =
                now.saturating_sub(self.directions[0].last.max(self.directions[1].last).max(begun)) > QUIET;
            self.round(now, false);
            // This program may have stood still meanwhile. Then packets lie in the rings.
            if is_quiet && self.laps() == laps {
                return;
            }
        }
    }

    /// Sets whether the trial keeps packets from crossing. Windows without a packet do not count then.
    pub fn set_disturbed(&mut self, is_disturbed: bool) {
        self.is_disturbed = is_disturbed;
    }

    /// Returns both directions.
    pub fn directions(&self) -> &[Direction; 2] {
        &self.directions
    }

    /// Returns the number of receptions in each direction.
    pub fn laps(&self) -> [u64; 2] {
        [self.directions[0].laps, self.directions[1].laps]
    }

    /// Closes the second interface's port while packets are in flight.
    pub fn close_one(&mut self) {
        drop(self.ports[1].take());
    }

    /// Opens it again.
    ///
    /// # Errors
    /// As [`Cable::open`].
    pub fn reopen(&mut self) -> Result<(), Failure> {
        let port = self.mode.open(&self.umem, &mut self.owner, &self.interfaces[1]);
        self.ports[1] = Some(port.map_err(Failure::Input)?);
        Ok(())
    }

    /// Returns the ports that carry no packets, by name, with the reason.
    pub fn down(&self) -> impl Iterator<Item = String> {
        self.ports.iter().flatten().filter_map(|port| match port.state() {
            PortState::Up => None,
            PortState::Down(why) => Some(format!("port {} is down: {why}", port.name())),
        })
    }

    /// Closes both ports, even in mid-traffic, and waits for all frames.
    pub fn close(self) -> Closed {
        let Cable { mut owner, ports, mut directions, meter, .. } = self;
        directions.iter_mut().for_each(|direction| direction.waiting.free(&mut owner.worker));
        drop(ports);
        let ledger = owner.pool.ledger();
        let away = owner.pool.close_and_wait(HOME).err().map_or(0, |_| owner.pool.ledger().out());
        Closed { directions, rates: meter.rates, ledger, away }
    }

    /// Moves one burst in each direction.
    fn round(&mut self, now: u64, makes: bool) {
        let (mut worked, before) = (0, self.laps());
        for number in 0..2 {
            let Cable { owner, ports, directions, .. } = self;
            let (direction, far) = (&mut directions[number], 1 - number);
            // If packets wait to be sent, there is no room for more.
            if let (Some(port), true) = (&mut ports[far], direction.waiting.is_empty()) {
                let mut batch = Batch::new();
                port.refill_to(&mut owner.worker, &owner.pool, SHARE);
                worked += port.rx(&mut owner.worker, &mut batch);
                direction.take(&mut batch, now);
                batch.free(&mut owner.worker);
            }
            if makes {
                direction.make(owner, now);
            }
            if let Some(port) = &mut ports[number] {
                if !direction.waiting.is_empty() {
                    worked += port.tx(&mut owner.worker, &mut direction.waiting);
                }
                port.kick();
                let mut sent = Batch::new();
                while port.complete(&mut owner.worker, &mut sent) > 0 {
                    sent.free(&mut owner.worker);
                }
            }
        }
        let come = self.laps().iter().sum::<u64>() - before.iter().sum::<u64>();
        // A card may need seconds until the first packet crosses.
        let crosses = !self.is_disturbed && self.laps().iter().all(|laps| *laps > 0);
        let expected = makes && crosses && self.directions.iter().any(|direction| direction.in_flight() > 0);
        self.meter.mark(now, come, expected);
        self.idle.round(worked > 0);
    }
}
