//! Ports inside the process: a wire, and a device that copies.

use super::Op;
use super::frames::{Frames, HELD};
use super::ground::Ground;
use super::hostile::Hostile;
use super::value::Register;
use super::view::View;
use netmem::pool::Batch;
use netmem::port::Port;
use netmem::port::copying::CopyingPort;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Descriptors of the wire's rings, and frames in either stack of the device that copies.
const RING: usize = 16;

/// Made when a port is used, because most programs do not need its descriptors.
pub struct Ports {
    mood: Arc<AtomicU8>,
    register: &'static Register,
    wire: (Option<MemPort>, Option<MemDevice>),
    copying: Option<CopyingPort<Hostile>>,
}

impl Ports {
    pub fn new(ground: &Ground) -> Ports {
        Ports { mood: Arc::default(), register: ground.register, wire: (None, None), copying: None }
    }

    pub fn step(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op) {
        self.mood.store(op.c, Relaxed);
        match op.act {
            0..3 => _ = self.fill(ground, frames, op),
            3..6 => self.receive(ground, frames, op),
            6..8 => self.send(ground, frames, op),
            8 | 9 => self.complete(ground, op),
            10..14 => self.other_side(op),
            14 => self.go(ground, op),
            _ => {
                self.copying = Some(self.device());
                let (port, device) = MemPort::pair("", &MemConfig { ring: RING, coalesce: 2 }).unwrap();
                self.wire = (Some(port), Some(device));
            }
        }
    }

    fn device(&self) -> CopyingPort<Hostile> {
        let device = Hostile { mood: Arc::clone(&self.mood), register: self.register };
        CopyingPort::new("hostile".into(), device, RING)
    }

    fn port(&mut self, op: Op) -> Option<&mut dyn Port> {
        match op.c & 1 {
            0 => self.wire.0.as_mut().map(|port| port as &mut dyn Port),
            _ => self.copying.as_mut().map(|port| port as &mut dyn Port),
        }
    }

    fn fill(&mut self, ground: &mut Ground, frames: &Frames, op: Op) -> Option<usize> {
        let pool = frames.pool(op);
        let port = self.port(op)?;
        Some(port.refill_to(ground.worker(op), &pool, op.n() / 8))
    }

    fn receive(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op) {
        let Some(port) = self.port(op) else { return };
        let (w, register) = ground.both(op);
        let mut batch = Batch::new();
        register.firing(usize::from(op.a) % 20, || port.rx(w, &mut batch));
        let room = HELD.saturating_sub(frames.held.len());
        for mut frame in batch.drain().take(room) {
            if !frame.is_empty() {
                View::read(frame.data());
            }
            let view = View::write(frame.data_mut());
            frames.held.push((frame, view));
        }
    }

    fn send(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op) {
        let (pool, mut batch) = (frames.pool(op), Batch::new());
        let Some(port) = self.port(op) else { return };
        let (w, register) = ground.both(op);
        let got = pool.alloc_burst(w, &mut batch, op.n() / 12);
        batch.put_each(64, |_, bytes| _ = View::write(bytes));
        let sent = register.firing(usize::from(op.a) % 20, || port.tx(w, &mut batch));
        assert!(sent.is_none_or(|sent| sent + batch.len() == got));
        batch.iter().for_each(|frame| _ = View::read(frame.data()));
        batch.free(w);
    }

    fn complete(&mut self, ground: &mut Ground, op: Op) {
        let Some(port) = self.port(op) else { return };
        let (w, register) = ground.both(op);
        let mut batch = Batch::new();
        port.complete(w, &mut batch);
        batch.iter().for_each(|frame| _ = View::read(frame.data()));
        batch.free(w);
        register.firing(op.n() / 128, || port.kick());
    }

    /// The code at the other end of the link writes and reads frames, and may panic.
    fn other_side(&mut self, op: Op) {
        let (register, Some(device)) = (self.register, &mut self.wire.1) else { return };
        let n = op.n() % (RING + 4);
        register.firing(usize::from(op.a) % 20, || match op.act {
            10 | 11 => device.deliver(n, |room| {
                View::write(&mut room[..64]);
                register.tick();
                64
            }),
            _ => device.collect(n, |bytes| {
                View::read(bytes);
                register.tick();
            }),
        });
    }

    /// One of the ends goes, or is forgotten.
    fn go(&mut self, ground: &mut Ground, op: Op) {
        let register = self.register;
        match op.c & 7 {
            0 => drop(self.wire.0.take()),
            1 => drop(self.wire.1.take()),
            2 => self.wire.0.take().into_iter().for_each(|port| ground.forget(port)),
            3 => self.wire.1.take().into_iter().for_each(|device| ground.forget(device)),
            4 => _ = register.firing(op.n() / 64, || drop(self.copying.take())),
            5 => self.copying.take().into_iter().for_each(|port| ground.forget(port)),
            _ => {}
        }
    }
}
