//! A thread that accepts connections, and one for each served connection, up to a limit.

use crate::failure::Failure;
use crate::threads;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum number of connections served at once. One more is refused, or served if another one ends for it.
pub const CONNECTIONS: usize = 8;
/// The end of each line that refuses a client which may be served later. Clients recognize it.
pub const LATER: &str = "try again later";
/// Maximum number of connections with those that end for others.
const WITH_ENDING: usize = 2 * CONNECTIONS;
/// The interval at which threads check for a connection, and for the end of the run.
pub const TICK: Duration = Duration::from_millis(20);

/// The connections that are in the way of another one: their number, and whose they are.
#[derive(Debug, PartialEq, Eq)]
pub struct Others(pub usize, pub &'static str);

impl Others {
    /// As many as are served at once.
    pub const ALL: Others = Others(CONNECTIONS, "clients");
}

/// A listening socket, and the service for its connections.
pub trait Service: Send + Sync + 'static {
    type Connection: Send + 'static;
    /// The name of the service, which its threads have too.
    const NAME: &'static str;

    /// Returns the next connection, or an error if there is none.
    fn accept(&self) -> io::Result<Self::Connection>;

    /// Serves a connection until its end, or until the run is `over`, on a thread of its own. The connection is
    /// closed after this returns, and not before. So a client that sees the end finds room for its next connection.
    fn serve(&self, connection: &mut Self::Connection, over: &AtomicBool);

    /// Returns whether a connection that was accepted is to be served, or how many others are in its way. `is_full` if
    /// [`CONNECTIONS`] others are served: then one of them must end soon.
    fn admits(&self, _: &Self::Connection, is_full: bool) -> Result<(), Others> {
        if is_full { Err(Others::ALL) } else { Ok(()) }
    }

    /// Tells a client why its connection is not served. Runs on the thread that accepts, which must not wait for
    /// long.
    fn refuse(&self, connection: Self::Connection, why: &str);

    /// Other work of the thread that accepts, once every [`TICK`].
    fn tick(&self) {}
}

/// The shared state of a service's threads.
struct Shared<S> {
    service: S,
    over: Arc<AtomicBool>,
    /// Number of served connections. Only the thread that accepts increments it.
    served: AtomicUsize,
}

/// One of the served connections. Dropping it makes room for another one, also if the service panicked.
struct Slot<S>(Arc<Shared<S>>);

impl<S> Slot<S> {
    fn new(shared: &Arc<Shared<S>>) -> Slot<S> {
        shared.served.fetch_add(1, Relaxed);
        Slot(Arc::clone(shared))
    }
}

impl<S> Drop for Slot<S> {
    fn drop(&mut self) {
        self.0.served.fetch_sub(1, Relaxed);
    }
}

/// The threads of a service. Dropping it ends them.
#[derive(Debug)]
pub struct Server {
    over: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to serve.
    ///
    /// # Errors
    /// [`Failure::Input`] if a thread cannot be started.
    pub fn start<S: Service>(service: S) -> Result<Server, Failure> {
        let over = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Shared { service, over: Arc::clone(&over), served: AtomicUsize::new(0) });
        let listening = threads::spawn(S::NAME, move || listen(&shared));
        let listening = listening.map_err(|error| threads::none(&format!("the {}", S::NAME), &error))?;
        Ok(Server { over, listening: Some(listening) })
    }
}

impl Drop for Server {
    /// Waits for the threads. With them the socket is removed, and the handles that they read are dropped.
    fn drop(&mut self) {
        // Relaxed: the joins order everything else.
        self.over.store(true, Relaxed);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

/// Accepts connections until the run is over, then waits for the served ones to end.
fn listen<S: Service>(shared: &Arc<Shared<S>>) {
    let (mut serving, mut ticked): (Vec<JoinHandle<()>>, _) = (Vec::new(), Instant::now());
    while !shared.over.load(Relaxed) {
        serving.retain(|thread| !thread.is_finished());
        if ticked.elapsed() >= TICK {
            shared.service.tick();
            ticked = Instant::now();
        }
        match shared.service.accept() {
            Ok(connection) => match admits(shared, &connection) {
                Ok(()) => serving.extend(start(shared, connection)),
                Err(Others(count, whose)) => {
                    let why = format!("{count} {whose} are connected already: {LATER}");
                    shared.service.refuse(connection, &why);
                }
            },
            // There is none, or it is gone already. If file descriptors ran out, wait until another connection
            // ends.
            Err(_) => thread::sleep(TICK),
        }
    }
    serving.into_iter().for_each(|thread| drop(thread.join()));
}

fn admits<S: Service>(shared: &Shared<S>, connection: &S::Connection) -> Result<(), Others> {
    match shared.served.load(Relaxed) {
        served if served < WITH_ENDING => shared.service.admits(connection, served >= CONNECTIONS),
        _ => Err(Others::ALL),
    }
}

/// Starts a thread that serves a connection, or refuses the connection if there can be no thread.
fn start<S: Service>(shared: &Arc<Shared<S>>, connection: S::Connection) -> Option<JoinHandle<()>> {
    // The thread takes the connection. Without a thread it is still here.
    let connection = Arc::new(Mutex::new(Some(connection)));
    let take =
        |from: &Mutex<Option<S::Connection>>| from.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Without a thread the slot is dropped with what the thread would have run.
    let (its, taken) = (Arc::clone(&connection), Slot::new(shared));
    let thread = threads::spawn(&format!("{} client", S::NAME), move || {
        let mut connection = take(&its);
        // Declared after the connection, so that it is dropped before it: a client that sees the end finds room.
        let slot = taken;
        connection.iter_mut().for_each(|connection| slot.0.service.serve(connection, &slot.0.over));
    });
    let refuse = |error| {
        if let Some(connection) = take(&connection) {
            shared.service.refuse(connection, &format!("no thread for a client: {error}: {LATER}"));
        }
    };
    thread.map_err(refuse).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::sync::mpsc::{Sender, channel};

    /// A service that panics about each connection except the one of number 0.
    struct Panicking {
        /// The connections to accept, the last one first.
        waiting: Mutex<Vec<usize>>,
        served: Sender<usize>,
    }

    impl Service for Panicking {
        type Connection = usize;
        const NAME: &'static str = "panicking";

        fn accept(&self) -> io::Result<usize> {
            self.waiting.lock().unwrap().pop().ok_or_else(|| ErrorKind::WouldBlock.into())
        }

        fn serve(&self, connection: &mut usize, _: &AtomicBool) {
            assert_eq!(*connection, 0, "planted");
            self.served.send(*connection).unwrap();
        }

        /// The client tries again.
        fn refuse(&self, connection: usize, _: &str) {
            self.waiting.lock().unwrap().push(connection);
            thread::yield_now();
        }
    }

    #[test]
    fn a_client_is_served_after_more_panics_than_there_are_slots() {
        let (sender, served) = channel();
        let waiting = Mutex::new((0..=2 * CONNECTIONS).collect());
        let server = Server::start(Panicking { waiting, served: sender }).unwrap();
        // Only against a hang: a slot that is not given back is never free again.
        assert_eq!(served.recv_timeout(Duration::from_secs(60)), Ok(0));
        drop(server);
    }
}
