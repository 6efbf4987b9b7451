//! Tests of a link one of whose ends is dropped.

#[cfg(not(loom))]
mod dropped;

use super::end::LinkEnd;
use crate::ring::loan;
use crate::ring::tests::{lend, model, take_back, thread};
use crate::sync::Doorbell;
use crate::sys::event::sleep_until_readable;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn what_a_device_had_to_send_when_it_was_dropped_comes_back_once() {
    model(|| {
        let (mut tx, mut sending) = loan(4, u32::MAX - 1);
        let end = Arc::new(LinkEnd::new());
        lend(&mut tx, Box::new(0));
        let of_device = Arc::clone(&end);
        let device = thread::spawn(move || {
            let sent = sending.ready(1);
            sending.give_back(sent);
            of_device.leave(sending)
        });
        let mut transmitted = 1;
        if !end.is_device_gone() {
            lend(&mut tx, Box::new(1));
            transmitted += 1;
        }
        let (mut back, mut unsent) = (take_back(&mut tx), 0);
        if end.is_device_gone() {
            unsent += end.take_back();
            back.extend(take_back(&mut tx));
            assert_eq!(back.len(), transmitted);
        }
        assert_eq!(device.join().unwrap(), 0, "the port counts them");
        unsent += end.take_back();
        back.extend(take_back(&mut tx));
        assert!(back.into_iter().map(|item| *item).eq(0..transmitted));
        assert_eq!(unsent, transmitted - 1);
    });
}

#[test]
fn what_both_ends_had_when_they_were_dropped_is_counted_by_one_of_them() {
    model(|| {
        let (mut tx, sending) = loan(4, 0);
        let end = Arc::new(LinkEnd::new());
        lend(&mut tx, Box::new(0));
        let of_device = Arc::clone(&end);
        let device = thread::spawn(move || of_device.leave(sending));
        let of_port = end.close();
        drop((tx, end));
        assert_eq!(device.join().unwrap() + of_port, 1);
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no ppoll")]
fn a_sleeper_finds_that_the_device_is_gone_with_what_it_delivered_or_is_woken() {
    model(|| {
        let ((mut rx, mut filling), (_tx, sending)) = (loan(4, 0), loan::<Box<u32>>(4, 0));
        let (end, bell) = (Arc::new(LinkEnd::new()), Arc::new(Doorbell::new().unwrap()));
        lend(&mut rx, Box::new(0));
        let (of_device, ringing) = (Arc::clone(&end), Arc::clone(&bell));
        let device = thread::spawn(move || {
            let n = filling.ready(1);
            filling.item(0, |item| **item = 7);
            filling.give_back(n);
            of_device.leave(sending);
            ringing.ring();
        });
        bell.arm();
        let sleeps = !end.is_device_gone();
        if !sleeps {
            assert_eq!(take_back(&mut rx), [Box::new(7)]);
        }
        device.join().unwrap();
        let woken = sleep_until_readable(&[bell.as_fd()], Duration::ZERO);
        assert!(!sleeps || woken, "it sleeps, and the device is gone");
        bell.disarm();
    });
}
