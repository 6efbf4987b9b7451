//! Notifications to a service manager (sd_notify): the run is ready, reloads, ends, or is alive.
//!
//! They are datagrams to the Unix socket that `NOTIFY_SOCKET` names, in the file system or abstract. Without it
//! nothing is sent. The run never waits for the reader: while the socket's queue is full, what the manager must know is
//! sent again later.

use crate::log::{self, Level};
use std::cell::Cell;
use std::env;
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::time::{Duration, Instant};

/// The connection to the service manager, if there is one.
#[derive(Debug)]
pub struct Service {
    socket: Option<UnixDatagram>,
    /// Whether it has been told that the run is ready. Until then it is told nothing else.
    is_ready: bool,
    /// Whether it is still to be told so, at the start or after a reload. Otherwise it would end a run that works.
    is_unsaid: Cell<bool>,
    /// A quarter of the interval in which it expects a sign of life, and the time of the next one. None if it expects none.
    alive: Option<(Duration, Instant)>,
}

impl Service {
    /// Connects to the service manager that the environment names.
    pub fn of_environment() -> Service {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|name| connect(&name));
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(process::id()));
        let within = number("WATCHDOG_USEC").filter(|&usec| usec > 0 && is_ours);
        let alive = within.map(|usec| (Duration::from_micros(usec) / 4, Instant::now()));
        Service { socket, is_ready: false, is_unsaid: Cell::new(false), alive }
    }

    /// Reports that everything is set up, at the first call. A report that could not be sent is sent again. Call it often.
    /// In a log, a line names the version.
    pub fn ready(&mut self) {
        if !self.is_ready {
            if log::is_log() {
                log::say(Level::Info, concat!("netmem: ready, version ", env!("CARGO_PKG_VERSION")));
            }
            self.is_ready = true;
            self.is_unsaid.set(true);
        }
        self.say_ready();
    }

    /// Reports that the configuration is being read again, unless the run is not ready yet.
    pub fn reloading(&self) {
        if self.is_ready {
            self.say("RELOADING=1");
        }
    }

    /// Reports that the configuration was read again, unless the run is not ready yet.
    pub fn reloaded(&self) {
        if self.is_ready {
            self.is_unsaid.set(true);
            self.say_ready();
        }
    }

    /// Reports that the run ends.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    /// Returns the time for a worker to come round. If one takes longer, the run is not alive. None if no sign of life is
    /// expected.
    pub fn patience(&self) -> Option<Duration> {
        self.alive.map(|(every, _)| every)
    }

    /// Reports that all workers come round, once the run is ready. Call it often.
    pub fn alive(&mut self) {
        let now = Instant::now();
        if let Some((every, next)) = self.alive
            && self.is_ready
            && now >= next
            && self.say("WATCHDOG=1")
        {
            self.alive = Some((every, now + every));
        }
    }

    fn say_ready(&self) {
        if self.is_unsaid.get() {
            self.is_unsaid.set(!self.say("READY=1"));
        }
    }

    /// Returns true if the message was sent. Forwarding goes on if the manager is gone or does not read.
    fn say(&self, state: &str) -> bool {
        self.socket.as_ref().is_none_or(|socket| socket.send(state.as_bytes()).is_ok())
    }
}

/// Connects a socket to this name: a path, or an abstract name after an @.
fn connect(name: &OsStr) -> Option<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(name),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the messages that have arrived, without those that filled the queue.
    fn arrived(manager: &UnixDatagram) -> Vec<String> {
        let mut said = [0; 64];
        let next = || manager.recv(&mut said).ok().map(|n| String::from_utf8_lossy(&said[..n]).into_owned());
        std::iter::from_fn(next).filter(|said| said != "full").collect()
    }

    /// Found in a review: a manager that was busy lost READY=1, and ended the run that worked when its start had taken too
    /// long.
    #[test]
    fn a_manager_whose_queue_is_full_is_told_later_that_the_run_is_ready_and_alive() {
        let (socket, manager) = UnixDatagram::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        manager.set_nonblocking(true).unwrap();
        let filler = socket.try_clone().unwrap();
        let fill = || while filler.send(b"full").is_ok() {};
        let alive = Some((Duration::from_secs(3600), Instant::now()));
        let mut service =
            Service { socket: Some(socket), is_ready: false, is_unsaid: Cell::new(false), alive };
        fill();
        service.ready();
        service.alive();
        assert!(arrived(&manager).is_empty());
        service.ready();
        service.alive();
        service.ready();
        service.alive();
        assert_eq!(arrived(&manager), ["READY=1", "WATCHDOG=1"]);
        service.reloading();
        fill();
        service.reloaded();
        assert_eq!(arrived(&manager), ["RELOADING=1"]);
        service.ready();
        service.ready();
        assert_eq!(arrived(&manager), ["READY=1"]);
    }
}
