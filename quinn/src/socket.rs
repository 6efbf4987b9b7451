//! A port as a socket.

use crate::state::{SEGMENTS_MAX, SocketStats, State};
use netmem::port::{NextHop, NextHops, PortCounters};
use netmem::{Batch, PortState};
use netmem_tokio::AsyncPort;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, timeout_at};

/// The first and the longest pause between two checks: a device does not wake a task when it has room.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);
/// The time after which a wait without a limit ends: thirty years, as tokio has it.
const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

/// Why a socket could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The address has UDP port 0.
    #[error(
        "{local} has UDP port 0, to which nothing can be answered: give the port whose datagrams the port takes (take=udp:PORT); \
         nothing chooses one, as the kernel does for its own sockets"
    )]
    NoPort {
        /// The address that was given.
        local: SocketAddr,
    },
}

/// A port that sends and receives the datagrams of one address and UDP port. See [the crate](crate).
#[derive(Debug)]
pub struct PortSocket {
    local: SocketAddr,
    /// Locked for at most a burst, and never while a task waits.
    state: Mutex<State>,
}

impl PortSocket {
    /// Makes a socket of the address and UDP port `local`, whose datagrams the port receives. With an unspecified address,
    /// it has all addresses whose datagrams the port receives, and answers from the address that was asked. It cannot be a
    /// client's then. Let the port [take](netmem::port::xdp::Take) the same datagrams from the kernel:
    ///
    /// | `local` | datagrams | rule of the port |
    /// |---|---|---|
    /// | `192.0.2.1:443` | for one address | `udp:443@192.0.2.1` |
    /// | `0.0.0.0:443` | for all addresses of IPv4; those of IPv6 are ignored | `udp:443@0.0.0.0/0` |
    /// | `[::]:443` | for all addresses of IPv6 and of IPv4, which quinn sees as `::ffff:192.0.2.1` | `udp:443` |
    /// | `[::]:443` | for all addresses of IPv6; the kernel keeps those of IPv4 | `udp:443@::/0` |
    ///
    /// At most three quarters of the pool's frames are posted for reception, and no more than the port was set to
    /// ([`AsyncPort::set_posted_max`]). The rest is for transmission: a pool of fewer than 128 frames sends fewer
    /// datagrams at once. Both follow the size of the pool ([`Pool::resize`](netmem::Pool::resize)); frames that are posted
    /// already stay posted until packets come. Sockets that share a pool must be set so that together they leave frames
    /// for transmission.
    ///
    /// # Errors
    /// [`SocketError::NoPort`] if `local` has UDP port 0. The port is closed then, on the calling thread.
    pub fn new(port: AsyncPort, local: SocketAddr) -> Result<PortSocket, SocketError> {
        if local.port() == 0 {
            return Err(SocketError::NoPort { local });
        }
        let posted_max = port.posted_max();
        let (received, fresh, to_send) = (Batch::new(), Batch::new(), Batch::new());
        let (next_hops, counts) = (NextHops::default(), SocketStats::default());
        let mut state = State { port, posted_max, next_hops, received, fresh, to_send, counts };
        state.follow_pool();
        Ok(PortSocket { local, state: Mutex::new(state) })
    }

    /// Sets the function that returns the next hop of a destination. An endpoint that connects needs it, and so does a
    /// server behind several routers, or one that sends to clients which have been quiet for long: what was learned is
    /// forgotten after datagrams from 16,384 other addresses ([`NextHops`]). If the function returns None, a datagram goes
    /// to the station from which the last one of its destination came. `ask` is called at each transmission of quinn, and
    /// must not call the socket. If it panics, the datagrams of the transmission are not sent, and the panic counts
    /// ([`SocketStats::next_hop_panics`]).
    pub fn set_next_hop(&self, ask: impl FnMut(IpAddr) -> Option<NextHop> + Send + 'static) {
        self.lock().next_hops.set_ask(ask);
    }

    /// Counts of datagrams that were not received or not sent so far. Frames that the device drops are in the port's
    /// counters.
    pub fn counts(&self) -> SocketStats {
        self.lock().counts
    }

    /// The state of the port.
    pub fn state(&self) -> PortState {
        self.lock().port.port().state()
    }

    /// Returns whether the port is down for good ([`Port::is_failed`](netmem::Port::is_failed)). The endpoint ends then:
    /// [`Endpoint::accept`](quinn::Endpoint::accept) returns None, and its connections are lost.
    pub fn is_failed(&self) -> bool {
        self.lock().port.port().is_failed()
    }

    /// The reason for a failure of the port that does not stop its packets
    /// ([`Port::complaint`](netmem::Port::complaint)).
    pub fn complaint(&self) -> Option<String> {
        self.lock().port.port().complaint()
    }

    /// The counters of the port. Those that its device keeps are read again ([`Port::counters`](netmem::Port::counters)).
    pub fn port_counters(&self) -> Arc<PortCounters> {
        self.lock().port.port().counters()
    }

    /// Waits until nothing of quinn has the socket any more, sends what is not sent yet, and closes the port as
    /// [`AsyncPort::close`] does. Returns whether everything was sent within `at_most`. An endpoint has the socket, and so
    /// has each connection of it that is not dropped yet, with its streams and its `Connecting`, also after it was closed. If
    /// one of them has it for longer, returns false, and the port stays open until the last of them is dropped.
    ///
    /// ```no_run
    /// use netmem_quinn::PortSocket;
    /// use quinn::Endpoint;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// /// Ends a server: its clients are notified, and the last packets are sent.
    /// async fn end(endpoint: Endpoint, socket: Arc<PortSocket>) -> bool {
    ///     endpoint.close(0_u32.into(), b"");
    ///     endpoint.wait_idle().await;
    ///     drop(endpoint);
    ///     socket.close(Duration::from_secs(5)).await
    /// }
    /// ```
    ///
    /// # Cancelling
    /// The port closes all the same, on the thread that drops it.
    pub async fn close(self: Arc<Self>, at_most: Duration) -> bool {
        let now = Instant::now();
        let until = now.checked_add(at_most).unwrap_or(now + FAR);
        let Ok(socket) = timeout_at(until, alone(self)).await else { return false };
        let State { mut port, mut to_send, .. } = socket.into_state();
        let is_handed = timeout_at(until, port.transmit(&mut to_send)).await.is_ok() && to_send.is_empty();
        drop(to_send);
        port.close(until.saturating_duration_since(Instant::now())).await && is_handed
    }

    /// Returns the port, the pool and the worker, after nothing of quinn has the socket any more. Frames that were not sent
    /// or read are freed. A socket that is dropped closes its port on the runtime's thread, which may wait for it: use
    /// [`PortSocket::close`].
    pub fn into_port(self) -> AsyncPort {
        self.into_state().port
    }

    fn into_state(self) -> State {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state is consistent between any two calls of foreign code. If such a call panicked, the state stays in use.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until there is no other reference to the socket. Nothing wakes a task when one is dropped.
async fn alone(mut socket: Arc<PortSocket>) -> PortSocket {
    let mut pause = SHORTEST;
    loop {
        match Arc::try_unwrap(socket) {
            Ok(alone) => return alone,
            Err(shared) => socket = shared,
        }
        sleep(pause).await;
        pause = (2 * pause).min(LONGEST);
    }
}

impl AsyncUdpSocket for PortSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable::new(self))
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.lock().try_send(self.local, transmit)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.lock().poll_receive(self.local, context, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn max_transmit_segments(&self) -> usize {
        self.lock().follow_pool()
    }

    fn max_receive_segments(&self) -> usize {
        SEGMENTS_MAX
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

/// One task that waits for room.
#[derive(Debug)]
struct Writable {
    socket: Arc<PortSocket>,
    pause: Duration,
    /// Ends the current pause.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Writable {
    fn new(socket: Arc<PortSocket>) -> Writable {
        Writable { socket, pause: SHORTEST, timer: None }
    }
}

impl UdpPoller for Writable {
    fn poll_writable(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.socket.lock().is_writable() {
                (self.pause, self.timer) = (SHORTEST, None);
                return Poll::Ready(Ok(()));
            }
            let pause = self.pause;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(pause)));
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let longer = (2 * pause).min(LONGEST);
            timer.as_mut().reset(Instant::now() + longer);
            self.pause = longer;
        }
    }
}
