//! Rings, whose two ends may panic, go, and be forgotten.

use super::Op;
use super::ground::Ground;
use super::value::Value;
use netmem::ring::{IdReceiver, IdSender, Receiver, Sender, id_ring, ring};
use std::num::NonZeroU32;

pub struct Rings {
    sender: Option<Sender<Value>>,
    receiver: Option<Receiver<Value>>,
    /// The last value that came.
    last: Option<u32>,
    ids: (IdSender, IdReceiver),
    /// Numbers sent, and received.
    sent: u32,
    received: u32,
}

impl Rings {
    pub fn new() -> Rings {
        let (sender, receiver) = ring(8);
        let (sender, receiver) = (Some(sender), Some(receiver));
        Rings { sender, receiver, last: None, ids: id_ring(8), sent: 0, received: 0 }
    }

    pub fn step(&mut self, ground: &mut Ground, op: Op) {
        match op.act {
            0..5 => self.send(ground, op),
            5..10 => self.receive(ground, op),
            10 | 11 => self.send_ids(op),
            12 | 13 => self.receive_ids(ground, op),
            14 => match op.c & 7 {
                0 => ground.register.firing(0, || drop(self.sender.take())).unwrap_or(()),
                1 => ground.register.firing(0, || drop(self.receiver.take())).unwrap_or(()),
                2 => self.receiver.take().into_iter().for_each(|receiver| ground.forget(receiver)),
                _ => {}
            },
            _ => {
                let new = Rings::new();
                let old = std::mem::replace(self, new);
                ground.register.firing(0, || drop(old));
            }
        }
    }

    /// Values from an iterator that may panic, or a vector, or one.
    fn send(&mut self, ground: &Ground, op: Op) {
        let (register, n) = (ground.register, usize::from(op.b) % 12);
        let Some(sender) = &mut self.sender else { return };
        let make = |armed: u8| {
            let mut value = register.value();
            value.armed = armed % 16 == 1;
            value
        };
        match op.act {
            0 => drop(sender.send(make(op.c))),
            1 => {
                let mut values: Vec<Value> = (0..n).map(|i| make(op.c.wrapping_add(i as u8))).collect();
                let sent = sender.send_all(&mut values);
                assert_eq!(values.len(), n - sent);
            }
            _ => {
                let mut values = (0..n).map(|i| {
                    register.tick();
                    make(op.c.wrapping_add(i as u8))
                });
                let sent = register.firing(usize::from(op.a) % 16, || sender.send_burst(n, &mut values));
                assert!(sent.is_none_or(|sent| sent <= n.min(8)));
            }
        }
        assert!(sender.len() <= sender.capacity());
    }

    /// What comes is dropped, which may panic, and comes in the order in which it was sent.
    fn receive(&mut self, ground: &Ground, op: Op) {
        let (register, n, Rings { receiver, last, .. }) = (ground.register, op.n() % 12, self);
        let Some(receiver) = receiver else { return };
        let mut see = |value: &Value| {
            value.look();
            assert!(last.replace(value.id()).is_none_or(|last| last < value.id()), "out of order");
        };
        let ready = receiver.ready(n);
        match op.act {
            5 => {
                let value = receiver.recv();
                value.iter().for_each(&mut see);
                register.firing(0, || drop(value));
            }
            6 => {
                let mut values = Vec::new();
                assert_eq!(receiver.recv_all(n, &mut values), ready);
                values.iter().for_each(&mut see);
                register.firing(0, || drop(values));
            }
            _ => {
                let got = register.firing(usize::from(op.a) % 8, || {
                    receiver.recv_burst(n, |value| {
                        see(&value);
                        register.tick();
                        drop(value);
                    })
                });
                assert!(got.is_none_or(|got| got == ready));
            }
        }
    }

    fn send_ids(&mut self, op: Op) {
        let n = u32::from(op.c) % 12;
        let ids: Vec<NonZeroU32> = (1..=n).filter_map(|i| NonZeroU32::new(self.sent + i)).collect();
        let sent = self.ids.0.clone().send_burst(&ids) as u32;
        assert!(sent == n.min(8 - (self.sent - self.received)));
        self.sent += sent;
    }

    /// Each item arrives once and in order, also if the code that takes them panics.
    fn receive_ids(&mut self, ground: &Ground, op: Op) {
        let (register, received) = (ground.register, &mut self.received);
        register.firing(usize::from(op.a) % 8, || {
            self.ids.1.recv_burst(op.n() % 12, |id| {
                *received += 1;
                assert_eq!(id.get(), *received);
                register.tick();
            })
        });
    }
}
