//! A server over a socket of the kernel, by io_uring(7).

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::super::veths::Veths;
use super::super::work::Work;
use super::{LOOK, Server};
use crate::system::uring::AnswerRing;

pub(super) fn open(veths: &Veths, work: Work) -> Result<Server, String> {
    let bound = veths.on_middle(|| UdpSocket::bind(("0.0.0.0", work.port())))?;
    let socket = bound.map_err(|error| error.to_string())?;
    // What the kernel lacks or forbids is found before a client waits for answers.
    let lacks = "; it needs Linux 6.1, and kernel.io_uring_disabled=0";
    drop(AnswerRing::new(&socket).map_err(|error| format!("io_uring: {error}{lacks}"))?);
    Ok(Server { name: "io_uring", serve: Box::new(move |ends| serve(&socket, work, ends)) })
}

/// A ring belongs to the thread that made it, so each round has one of its own.
fn serve(socket: &UdpSocket, work: Work, ends: &AtomicBool) -> Result<(), String> {
    let said = |error: std::io::Error| format!("io_uring: {error}");
    let mut ring = AnswerRing::new(socket).map_err(said)?;
    // Relaxed: a request to end, which carries no data.
    while !ends.load(Ordering::Relaxed) {
        ring.round(LOOK, |room, len| work.answer(room, len)).map_err(said)?;
    }
    Ok(())
}
