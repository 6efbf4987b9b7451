//! The same routes in the kernel's table, in a network namespace, and windows in which a program inside the kernel
//! looks them up.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::fs;
use std::net::IpAddr;

use ipnet::IpNet;
use netmem::system::bpf::{Answer, RouteLookup};
use netmem::system::netdev::Netdev;
use netmem::wire::MacAddr;

use super::super::namespace::{Namespace, written};
use super::WINDOW;
use super::routes::{Family, STATIONS, Way, station, station_mac};
use crate::method::clock::Tsc;
use crate::method::round::{Label, Variant};
use crate::method::window::{Windows, empty_cost, sample};

/// The interface of the stations, and its other end, on which packets would come in.
const OUT: &str = "out";
const IN: &str = "in";

/// A namespace with a full table.
#[derive(Debug)]
pub(super) struct Kernel {
    space: Namespace,
    /// The index of [`IN`].
    from: u32,
}

impl Kernel {
    /// Makes the namespace and loads all routes.
    ///
    /// # Errors
    /// The reason why that is not possible here.
    pub(super) fn load(family: Family, routes: &[(IpNet, Way)]) -> Result<Kernel, String> {
        let space = Namespace::new("fib")?;
        for which in ["all", "default"] {
            space
                .set(&format!("ipv6/conf/{which}/disable_ipv6"), if family == Family::V6 { "0" } else { "1" })
                .ok();
        }
        let forwarding = if family == Family::V6 { "ipv6/conf/all/forwarding" } else { "ipv4/ip_forward" };
        space.set(forwarding, "1")?;
        space.ip(&format!("link add {OUT} type veth peer name {IN}"))?;
        space.ip(&format!("link set {IN} up"))?;
        space.ip(&format!("link set {OUT} up"))?;
        space.ip_batch(&lines(family, routes))?;
        let from = space.inside(|| Netdev::open(IN).map(|netdev| netdev.index()))?;
        Ok(Kernel { from: from.map_err(|error| format!("interface {IN}: {error}"))?, space })
    }

    /// Looks up these destinations.
    ///
    /// # Errors
    /// The error of bpf(2).
    pub(super) fn lookup(&self, to: &[IpAddr]) -> Result<RouteLookup, String> {
        RouteLookup::load(self.from, to).map_err(|error| error.to_string())
    }

    /// Returns how many of the first `count` destinations lead elsewhere than `way_of` says.
    ///
    /// # Errors
    /// The error of bpf(2).
    pub(super) fn differing(
        &self,
        (lookup, to): (&RouteLookup, &[IpAddr]),
        count: u32,
        way_of: impl Fn(IpAddr) -> Option<Way>,
    ) -> Result<usize, String> {
        let answers = self
            .space
            .inside(|| (0..count).map(|place| lookup.answer(place)).collect::<Result<Vec<_>, _>>())?;
        let answers = answers.map_err(|error| error.to_string())?;
        let agrees = |(answer, to): (Answer, IpAddr)| match (answer, way_of(to)) {
            (Answer::Station(mac), Some(way)) => way.leads_to(MacAddr::new(mac)),
            (answer, Some(Way::Blackhole)) => answer == Answer::BLACKHOLE,
            _ => false,
        };
        Ok(answers.into_iter().zip(to.iter().copied()).filter(|pair| !agrees(*pair)).count())
    }

    /// Returns the bytes of the table as the kernel reports them, or `None` without a report, as for IPv6.
    pub(super) fn bytes(&self, family: Family) -> Option<f64> {
        if family == Family::V6 {
            return None;
        }
        let read = || fs::read_to_string("/proc/thread-self/net/fib_triestat");
        main_table_bytes(&self.space.inside(read).ok()?.ok()?)
    }
}

impl Drop for Kernel {
    /// The routes are removed with the interface at once, and not with the namespace at some time during the next
    /// measurement.
    fn drop(&mut self) {
        let _ = self.space.ip(&format!("link del {OUT}"));
    }
}

/// Returns the commands for ip(8).
fn lines(family: Family, routes: &[(IpNet, Way)]) -> String {
    let mut lines = match family {
        Family::V4 => format!("addr add 10.77.0.1/24 dev {OUT}\n"),
        Family::V6 => format!("addr add fd77::1/64 dev {OUT} nodad\n"),
    };
    // Writing to a String cannot fail.
    for number in 0..STATIONS {
        let (address, mac) = (station(family, number), written(station_mac(number).bytes()));
        let _ = writeln!(lines, "neigh add {address} lladdr {mac} dev {OUT} nud permanent");
    }
    for (prefix, way) in routes {
        let _ = match way.stations()[..] {
            [] => writeln!(lines, "route add blackhole {prefix}"),
            [one] => writeln!(lines, "route add {prefix} via {}", station(family, one)),
            ref several => {
                let hops = several.iter().map(|number| format!(" nexthop via {}", station(family, *number)));
                writeln!(lines, "route add {prefix}{}", hops.collect::<String>())
            }
        };
    }
    lines
}

/// Returns the size of the main table in `/proc/net/fib_triestat`.
fn main_table_bytes(text: &str) -> Option<f64> {
    let main = text.split("Main:").nth(1)?;
    let size = main.lines().find_map(|line| line.strip_prefix("Total size: "))?;
    Some(size.strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

/// Windows of lookups inside the kernel. The cost of the rest of the program, and of the system call, is
/// subtracted.
pub(super) struct InKernel<'a> {
    label: Label,
    clock: Tsc,
    kernel: &'a Kernel,
    lookup: &'a RouteLookup,
    seen: &'a Seen,
}

/// The results of the lookups in all windows.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Number of lookups.
    pub(super) asked: Cell<u64>,
    /// The reason why a round has no windows.
    pub(super) failed: RefCell<Option<String>>,
}

impl<'a> InKernel<'a> {
    pub(super) fn new(
        label: Label,
        clock: Tsc,
        (kernel, lookup): (&'a Kernel, &'a RouteLookup),
        seen: &'a Seen,
    ) -> Self {
        InKernel { label, clock, kernel, lookup, seen }
    }
}

impl Variant for InKernel<'_> {
    fn label(&self) -> &Label {
        &self.label
    }

    /// Runs on a thread inside the namespace, which begins on the caller's core.
    fn round(&mut self, windows: usize) -> Windows {
        let (clock, lookup) = (self.clock, self.lookup);
        let taken = self.kernel.space.inside(|| {
            let mut failed = None;
            let mut timed = |count, run: &dyn Fn(u32) -> Result<(), netmem::system::bpf::BpfError>| {
                sample(&clock, count, WINDOW.0, &mut |lookups| failed = run(lookups).err().or(failed.take()))
            };
            let bare = timed(windows / 4, &|count| lookup.pass_over(count));
            timed(WINDOW.1, &|count| lookup.ask(count));
            let taken = timed(windows, &|count| lookup.ask(count));
            match failed {
                None => Ok(Windows::without_pauses(&taken, empty_cost(&bare))),
                Some(error) => Err(error.to_string()),
            }
        });
        let asked = (WINDOW.1 + windows) as u64 * u64::from(WINDOW.0);
        self.seen.asked.set(self.seen.asked.get() + asked);
        taken.and_then(|taken| taken).unwrap_or_else(|why| {
            *self.seen.failed.borrow_mut() = Some(why);
            Windows::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_tables_size_is_read_and_no_other() {
        let text = "Basic info: size of leaf: 48 bytes, size of tnode: 40 bytes.\nId 7:\nTotal size: 3  kB\n\
                    Main:\n\tLeaves:         86283\nTotal size: 11393  kB\nLocal:\nTotal size: 2  kB\n";
        assert_eq!(main_table_bytes(text), Some(11_393.0 * 1024.0));
        assert_eq!(main_table_bytes("Id 7:\nTotal size: 3  kB\n"), None);
    }

    #[test]
    fn each_kind_of_route_is_a_line() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let routes = [
            (net("198.51.100.0/24"), Way::Station(3)),
            (net("203.0.113.0/24"), Way::Paths(63)),
            (net("192.0.2.0/24"), Way::Blackhole),
        ];
        let lines = lines(Family::V4, &routes);
        let last: Vec<&str> = lines.lines().skip(65).collect();
        assert_eq!(
            last,
            [
                "route add 198.51.100.0/24 via 10.77.0.103",
                "route add 203.0.113.0/24 nexthop via 10.77.0.163 nexthop via 10.77.0.100",
                "route add blackhole 192.0.2.0/24"
            ]
        );
    }
}
