//! A client and a server in windows: the CPU time of all processes and threads that take part in a request and its
//! answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use netmem::system::{cpu, netns};

use super::super::peers::{Ksoftirqd, Middle};
use super::client::Client;
use super::servers::Server;
use crate::bench::Bench;
use crate::json::params;
use crate::method::clock::{Clock, Tsc};
use crate::method::round::{Label, Variant};
use crate::method::window::{Window, Windows};
use crate::system::cpu_time::CpuClock;

/// Answers in a window.
const WINDOW: usize = 1024;
/// Maximum number of windows in one round.
const WINDOWS: usize = 4;
/// Windows before the first that counts.
const WARM_UP: usize = 1;

/// The server.
pub(super) enum Serving {
    /// A thread of this process, which runs in the rounds of this exchange only.
    Here(Server),
    /// Another program, by its name, which is stopped in the rounds of others.
    There(String, Middle),
}

/// A client and a server.
pub(super) struct Exchange {
    label: Label,
    clock: Tsc,
    serving: Serving,
    client: Client,
    /// The server's namespace, and its core.
    place: (String, usize),
    clocks: Vec<CpuClock>,
    put_off: Vec<Ksoftirqd>,
    /// The reason why nothing more can be measured.
    broken: Option<String>,
}

impl Exchange {
    /// Makes an exchange whose server runs in the namespace `place.0`, on the core `place.1`.
    ///
    /// # Errors
    /// The system's error of the clocks.
    pub(super) fn new(serving: Serving, client: Client, place: (&str, usize)) -> std::io::Result<Exchange> {
        let (name, mut clocks) = match &serving {
            Serving::Here(server) => (server.name.to_owned(), Vec::new()),
            Serving::There(name, middle) => (name.clone(), vec![middle.cpu_clock()?]),
        };
        clocks.push(CpuClock::of_this()?);
        let params =
            params([("work", client.work().into()), ("op", "exchange".into()), ("cores", "all".into())]);
        let put_off = cpu::allowed()?.into_iter().filter_map(Ksoftirqd::of).collect();
        let label = Label { variant: name, params };
        let place = (place.0.to_owned(), place.1);
        let clock = Tsc::new();
        let mut exchange = Exchange { label, clock, serving, client, place, clocks, put_off, broken: None };
        exchange.hold();
        Ok(exchange)
    }

    /// Stops another program.
    fn hold(&mut self) {
        if let Serving::There(_, middle) = &mut self.serving {
            // It opens its sockets before.
            let ready = self.client.wait_for_server();
            let held = ready.and_then(|()| middle.hold().map_err(|error| error.to_string()));
            self.broken = held.err();
        }
    }

    /// Runs this many windows.
    fn run(&mut self, windows: usize) -> Result<Vec<Window>, String> {
        let Exchange { clock, serving, client, place, clocks, put_off, .. } = self;
        let ticks = || {
            let put_off: u64 = put_off.iter().map(Ksoftirqd::ns).sum();
            let busy = clocks.iter().map(|clock| clock.ns()).sum::<u64>() + put_off;
            (busy as f64 * clock.ticks_per_ns()) as u64
        };
        let mut exchanged = || {
            let taken: Result<Vec<_>, String> =
                (0..WARM_UP + windows).map(|_| window(client, &ticks)).collect();
            taken.map(|mut taken| taken.split_off(WARM_UP))
        };
        match serving {
            Serving::There(_, middle) => {
                middle.release().map_err(|error| error.to_string())?;
                let taken = exchanged();
                middle.hold().map_err(|error| error.to_string())?;
                taken
            }
            Serving::Here(server) => {
                let ends = AtomicBool::new(false);
                thread::scope(|scope| {
                    let served = scope.spawn(|| {
                        netns::inside(&place.0, || {
                            cpu::pin(place.1).map_err(|error| error.to_string())?;
                            (server.serve)(&ends)
                        })
                        .map_err(|error| error.to_string())?
                    });
                    let taken = exchanged();
                    // Relaxed: a request to end, which carries no data.
                    ends.store(true, Ordering::Relaxed);
                    served.join().unwrap_or_else(|_| Err("the server panicked".to_owned()))?;
                    taken
                })
            }
        }
    }

    /// Checks that every request was answered correctly, when the exchange is closed.
    pub(super) fn settle(self, bench: &mut Bench<'_>) {
        let wrong = self.client.wrong;
        let work = self.client.work();
        bench.check(
            &format!("{}, {work}: every request has its answer", self.label.variant),
            wrong == 0 && self.broken.is_none(),
            self.broken.unwrap_or_else(|| format!("{wrong} answers are none of what was asked")),
        );
    }
}

/// Runs one window. Waiting for packets is not a pause, and a pause of the machine takes no CPU time.
fn window(client: &mut Client, ticks: &dyn Fn() -> u64) -> Result<Window, String> {
    let before = ticks();
    client.ask(WINDOW)?;
    let ticks = ticks() - before;
    Ok(Window { ticks, ops: WINDOW as u64, steps: 1, longest_step: ticks })
}

impl Variant for Exchange {
    fn label(&self) -> &Label {
        &self.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        if self.broken.is_some() {
            return Windows::default();
        }
        match self.run(windows.min(WINDOWS)) {
            Ok(taken) => Windows::without_pauses(&taken, 0.0),
            Err(why) => {
                self.broken = Some(why);
                Windows::default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::net::{SocketAddr, UdpSocket};

    use super::super::super::scratch::Folder;
    use super::super::super::veths::Veths;
    use super::super::work::Work;
    use super::*;

    /// Set if this test is the program that another test starts.
    const IS_PROGRAM: &str = "NETMEM_LAB_TEST_IS_ECHO";
    const ADDRESS: &str = "10.77.1.254:7";

    /// A program that echoes until it is ended.
    #[test]
    fn a_program_that_echoes() {
        if env::var_os(IS_PROGRAM).is_none() {
            return;
        }
        let socket = UdpSocket::bind(ADDRESS).unwrap();
        let mut room = [0; 2048];
        loop {
            // An error reports an earlier answer that reached no socket.
            if let Ok((len, from)) = socket.recv_from(&mut room) {
                socket.send_to(&room[..len], from).ok();
            }
        }
    }

    fn exchange(name: &str, folder: &Folder) -> Result<(Exchange, Veths), String> {
        let veths = Veths::lay()?;
        veths.address()?;
        veths.route()?;
        let said = |error: std::io::Error| error.to_string();
        let core = cpu::allowed().map_err(said)?[0];
        let mut command = veths.command(&env::current_exe().map_err(said)?);
        command.env(IS_PROGRAM, "1").args(["--nocapture", "a_program_that_echoes"]);
        let program = Middle::start(command, core, &folder.path(name)).map_err(said)?;
        let to: SocketAddr = ADDRESS.parse().unwrap();
        let client = Client::new(&veths, to, Work::Echo, 8)?;
        let serving = Serving::There(name.to_owned(), program);
        Ok((Exchange::new(serving, client, (veths.middle_name(), core)).map_err(said)?, veths))
    }

    #[test]
    fn a_program_stands_still_in_the_rounds_of_others_and_answers_all_in_its_own() {
        if let Err(why) = Veths::lay() {
            assert!(env::var_os("NETMEM_NO_SKIP").is_none(), "network namespaces: {why}");
            eprintln!("SKIPPED: it needs root and network namespaces: {why}");
            return;
        }
        let folder = Folder::new().unwrap();
        let mut programs = ["a", "b"].map(|name| exchange(name, &folder).unwrap());
        for round in 0..6 {
            let [one, other] = &mut programs;
            let (runs, stands) = if round % 2 == 0 { (one, other) } else { (other, one) };
            let program = |of: &Exchange| of.clocks[0].ns();
            let before = (program(&runs.0), program(&stands.0));
            let taken = runs.0.run(2).unwrap();
            assert_eq!(taken.len(), 2);
            assert!(program(&runs.0) > before.0, "it has served");
            assert_eq!(program(&stands.0), before.1, "it has stood still");
        }
        for (exchange, _veths) in programs {
            assert_eq!((exchange.client.wrong, exchange.broken), (0, None));
        }
    }
}
