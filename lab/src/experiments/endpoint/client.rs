//! The client: a bounded number of requests in flight, and each answer compared.

use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, sendmmsg};

use super::super::veths::Veths;
use super::work::{MOST, Work};

/// Datagrams in one call.
const BURST: usize = 32;

/// The time without an answer after which the exchange is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Number of tries at the start, when no server may listen yet.
const TRIES: usize = 400;
const PAUSE: Duration = Duration::from_millis(50);

/// One socket, connected to the server.
pub(super) struct Client {
    socket: UdpSocket,
    work: Work,
    outstanding: usize,
    /// Every request, by its number, and every answer.
    requests: Vec<Vec<u8>>,
    answers: Vec<Vec<u8>>,
    /// The requests in flight.
    waits: Vec<bool>,
    under_way: usize,
    next: u16,
    /// Answers without a request, and wrong answers.
    pub(super) wrong: u64,
}

impl Client {
    /// Makes a client on the first host.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn new(
        veths: &Veths,
        to: SocketAddr,
        work: Work,
        outstanding: usize,
    ) -> Result<Client, String> {
        let connect = || {
            let socket = UdpSocket::bind("10.77.1.1:0")?;
            socket.connect(to)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        let socket = veths.on_first(connect)?.map_err(|error: std::io::Error| error.to_string())?;
        let all = 0..=u16::MAX;
        let requests = all.clone().map(|id| work.request(id)).collect();
        let answers = all.map(|id| work.expected(id)).collect();
        let waits = vec![false; usize::from(u16::MAX) + 1];
        Ok(Client { socket, work, outstanding, requests, answers, waits, under_way: 0, next: 0, wrong: 0 })
    }

    pub(super) fn work(&self) -> &'static str {
        self.work.name()
    }

    /// Sends one request repeatedly until it is answered, because the server may not listen yet.
    ///
    /// # Errors
    /// No answer comes.
    pub(super) fn wait_for_server(&mut self) -> Result<(), String> {
        let said = |error: std::io::Error| error.to_string();
        self.socket.set_read_timeout(Some(PAUSE)).map_err(said)?;
        let mut room = [0; MOST];
        let answered = (0..TRIES).any(|_| {
            let asked = self.socket.send(&self.requests[0]);
            let answered = asked.and_then(|_| self.socket.recv(&mut room)).is_ok();
            if !answered {
                // The call returns at once if the other machine reports that no server listens.
                std::thread::sleep(PAUSE / 5);
            }
            answered
        });
        // Later answers to these requests are not part of the exchange.
        while self.socket.recv(&mut room).is_ok() {}
        self.socket.set_read_timeout(Some(PATIENCE)).map_err(said)?;
        if answered { Ok(()) } else { Err("the server answers nothing".to_owned()) }
    }

    /// Sends requests and receives until `count` answers have come. The maximum number of requests is in flight
    /// until all are sent, and none at the end.
    ///
    /// # Errors
    /// No answer comes, or the system's error.
    pub(super) fn ask(&mut self, count: usize) -> Result<(), String> {
        let (mut asked, mut came) = (0, 0);
        while came < count {
            while asked < count && self.under_way < self.outstanding {
                let most = (count - asked).min(self.outstanding - self.under_way).min(BURST);
                asked += self.send(most)?;
            }
            came += self.receive()?;
        }
        Ok(())
    }

    fn send(&mut self, count: usize) -> Result<usize, String> {
        let ids: Vec<u16> = (0..count).map(|i| self.next.wrapping_add(i as u16)).collect();
        let slices: Vec<_> = ids.iter().map(|id| [IoSlice::new(&self.requests[usize::from(*id)])]).collect();
        let mut headers = MultiHeaders::<()>::preallocate(count, None);
        let no_addresses = vec![None; count];
        let fd = self.socket.as_raw_fd();
        let sent = sendmmsg(fd, &mut headers, &slices, &no_addresses, [], MsgFlags::empty());
        let sent = sent.map_err(|error| format!("a request cannot be sent: {error}"))?.count();
        ids.iter().take(sent).for_each(|id| self.waits[usize::from(*id)] = true);
        self.next = self.next.wrapping_add(sent as u16);
        self.under_way += sent;
        Ok(sent)
    }

    fn receive(&mut self) -> Result<usize, String> {
        let mut room = [[0; MOST]; BURST];
        let mut slices: Vec<_> = room.iter_mut().map(|room| [IoSliceMut::new(room)]).collect();
        let mut headers = MultiHeaders::<()>::preallocate(BURST, None);
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_WAITFORONE;
        let received = match recvmmsg(fd, &mut headers, slices.iter_mut(), flags, None) {
            Ok(received) => received.map(|message| message.bytes).collect::<Vec<_>>(),
            Err(Errno::EINTR) => return Ok(0),
            Err(Errno::EAGAIN) => return Err("no answer comes any more".to_owned()),
            Err(error) => return Err(format!("no answer can be received: {error}")),
        };
        for (room, len) in room.iter().zip(&received) {
            self.take(&room[..*len]);
        }
        Ok(received.len())
    }

    fn take(&mut self, answer: &[u8]) {
        let id = self.work.id(answer).map(usize::from);
        let asked = id.filter(|id| self.waits[*id] && self.answers[*id] == answer);
        match asked {
            Some(id) => {
                self.waits[id] = false;
                self.under_way -= 1;
            }
            None => self.wrong += 1,
        }
    }
}
