//! What a service manager is told (sd_notify): that the run is ready, reloads, ends, and is alive.
//!
//! Datagrams to the Unix socket that `NOTIFY_SOCKET` names, in the file system or abstract; nothing where there is none. Nobody waits for
//! whoever reads them.

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
    /// How often it is to hear that the run is alive, twice over; None where it does not wait for that.
    alive: Option<(Duration, Instant)>,
}

impl Service {
    /// The one that the environment names.
    pub fn of_environment() -> Service {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|name| connect(&name));
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(process::id()));
        let within = number("WATCHDOG_USEC").filter(|&usec| usec > 0 && is_ours);
        let alive = within.map(|usec| (Duration::from_micros(usec) / 2, Instant::now()));
        Service { socket, alive }
    }

    /// Everything is set up, at the start or after a reload.
    pub fn ready(&self) {
        self.say("READY=1");
    }

    /// The configuration is read again.
    pub fn reloading(&self) {
        self.say("RELOADING=1");
    }

    /// The run ends.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    /// All workers come round; call it often.
    pub fn alive(&mut self) {
        let now = Instant::now();
        if let Some((every, next)) = &mut self.alive
            && now >= *next
        {
            *next = now + *every / 2;
            self.say("WATCHDOG=1");
        }
    }

    fn say(&self, state: &str) {
        // A manager that is gone, or does not read, is no reason to stop forwarding.
        self.socket.iter().for_each(|socket| drop(socket.send(state.as_bytes())));
    }
}

/// A socket to the one of that name: a path, or behind an @ what is abstract.
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
