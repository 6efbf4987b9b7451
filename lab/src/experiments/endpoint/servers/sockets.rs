//! A server over a socket of the kernel, by recvmmsg(2) and sendmmsg(2).

use std::io::{IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg};

use super::super::super::veths::Veths;
use super::super::work::{MOST, Work};
use super::{LOOK, Server};

/// Datagrams in one call.
const BURST: usize = 32;

pub(super) fn open(veths: &Veths, work: Work) -> Result<Server, String> {
    let bound = veths.on_middle(|| {
        let socket = UdpSocket::bind(("0.0.0.0", work.port()))?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok(socket)
    })?;
    let socket = bound.map_err(|error: std::io::Error| error.to_string())?;
    Ok(Server { name: "sockets", serve: Box::new(move |ends| serve(&socket, work, ends)) })
}

fn serve(socket: &UdpSocket, work: Work, ends: &AtomicBool) -> Result<(), String> {
    let mut room = [[0; MOST]; BURST];
    // Relaxed: a request to end, which carries no data.
    while !ends.load(Ordering::Relaxed) {
        let received = match receive(socket, &mut room) {
            Ok(received) => received,
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(error) => return Err(format!("recvmmsg: {error}")),
        };
        let answers = room.iter_mut().zip(&received);
        let (slices, to): (Vec<_>, Vec<_>) = answers
            .filter_map(|(room, (len, from))| {
                let end = work.answer(room, *len)?;
                Some(([IoSlice::new(&room[..end])], *from))
            })
            .unzip();
        send(socket, &slices, &to).map_err(|error| format!("sendmmsg: {error}"))?;
    }
    Ok(())
}

/// Receives the available datagrams, at least one. Returns the length and the sender of each.
fn receive(
    socket: &UdpSocket,
    room: &mut [[u8; MOST]; BURST],
) -> Result<Vec<(usize, Option<SockaddrIn>)>, Errno> {
    let mut slices: Vec<_> = room.iter_mut().map(|room| [IoSliceMut::new(room)]).collect();
    let mut headers = MultiHeaders::preallocate(BURST, None);
    let flags = MsgFlags::MSG_WAITFORONE;
    let received = recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), flags, None)?;
    Ok(received.map(|message| (message.bytes, message.address)).collect())
}

/// Sends all of them.
fn send(socket: &UdpSocket, slices: &[[IoSlice<'_>; 1]], to: &[Option<SockaddrIn>]) -> Result<(), Errno> {
    let mut sent = 0;
    while sent < slices.len() {
        let mut headers = MultiHeaders::preallocate(slices.len() - sent, None);
        let (slices, to) = (&slices[sent..], &to[sent..]);
        sent += sendmmsg(socket.as_raw_fd(), &mut headers, slices, to, [], MsgFlags::empty())?.count();
    }
    Ok(())
}
