//! `endpoint`: the CPU time over all cores of a request over UDP and its answer. A netmem server answers in the
//! frame of the request. It is compared with servers over the kernel's sockets, by recvmmsg and sendmmsg and by
//! io_uring.

mod client;
mod exchange;
mod servers;
mod work;

use std::cell::RefCell;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::Experiment;
use super::peers::middle::unless_rival;
use super::peers::{Borrowed, Middle};
use super::scratch::Folder;
use super::veths::Veths;
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::metric::Metric;
use crate::settings::Key;
use crate::sources;
use client::Client;
use exchange::{Exchange, Serving};
use work::Work;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "endpoint",
    source: sources::NONE.key,
    question: "What does a UDP request with its answer cost by a server of netmem beside the kernel, or by the kernel's sockets?",
    seconds: 40,
    keys: KEYS,
    run,
};

const KEYS: &[Key] =
    &[Key { name: "outstanding", what: "requests under way at most", min: 1, max: 512, full: 64, quick: 64 }];

/// Names further programs to measure, as echo servers, separated by `:` as in `PATH`. Each is started with the
/// interface and the UDP port as its arguments.
const PROGRAMS: &str = "NETMEM_LAB_ECHO";

/// The interface of the server's machine, and its address there.
const INTERFACE: &str = "one";
const ADDRESS: [u8; 4] = [10, 77, 1, 254];

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&core) = bench.cores.get(1) else {
        bench.check("two cores", false, "the server needs one and the client another".to_owned());
        return Ok(());
    };
    if let Err(why) = Veths::lay().and_then(|veths| veths.ports(64).map(drop)) {
        bench.note_nothing_measured(why);
        return Ok(());
    }
    let folder = Folder::new().map_err(SetUpError::at("a folder"))?;
    for work in [Work::Echo, Work::Dns] {
        let mut laid = Vec::new();
        for &(server, rival) in servers::ALL {
            let made = exchange(bench, core, work, |veths| Ok(Serving::Here(server(veths, work)?)));
            let made = unless_rival(bench, (rival.unwrap_or_default(), rival.is_none()), made)?;
            laid.extend(made.map(|(exchange, veths)| (RefCell::new(exchange), veths)));
        }
        let named = laid.len();
        let others = if work == Work::Echo { programs(std::env::var_os(PROGRAMS)) } else { Vec::new() };
        for (at, (name, program)) in others.into_iter().enumerate() {
            let serving = |veths: &Veths| {
                let mut command = veths.command(&program);
                command.args([INTERFACE, &work.port().to_string()]);
                let said = folder.path(&format!("program-{at}"));
                let started = Middle::start(command, core, &said).map_err(|error| error.to_string())?;
                Ok(Serving::There(name, started))
            };
            let (exchange, veths) = exchange(bench, core, work, serving)?;
            laid.push((RefCell::new(exchange), veths));
        }
        measure(bench, &laid, named);
        for (exchange, veths) in laid {
            exchange.into_inner().settle(bench);
            drop(veths);
        }
    }
    notes(bench);
    Ok(())
}

/// Returns the named programs with their names in the rows: `program/` and the file name, or the whole path if two
/// have the same file name.
fn programs(named: Option<OsString>) -> Vec<(String, PathBuf)> {
    let programs: Vec<_> = named
        .iter()
        .flat_map(std::env::split_paths)
        .filter(|program| !program.as_os_str().is_empty())
        .collect();
    let is_alone = |program: &PathBuf| {
        programs.iter().filter(|other| other.file_name() == program.file_name()).count() == 1
    };
    let name = |program: &PathBuf| match program.file_name().filter(|_| is_alone(program)) {
        Some(name) => format!("program/{}", name.to_string_lossy()),
        None => format!("program/{}", program.display()),
    };
    programs.iter().map(|program| (name(program), program.clone())).collect()
}

/// Returns the compared pairs of `count` servers, of which those from `named` on are named programs.
fn pairs(count: usize, named: usize) -> Vec<(usize, usize)> {
    let sockets = 1;
    let others = (0..count).filter(|one| *one != sockets).map(|one| (one, sockets));
    others.chain((named + 1..count).map(|one| (one, named))).collect()
}

/// Measures netmem's server and the others, compared with the server of sockets, and each named program, which are those
/// from `named` on, compared with the first of them.
fn measure(bench: &mut Bench<'_>, laid: &[(RefCell<Exchange>, Veths)], named: usize) {
    let metric = Metric::NsPerOp;
    let pairs = pairs(laid.len(), named).into_iter();
    let comparisons: Vec<_> = pairs.map(|(a, b)| Comparison { a, b, metric }).collect();
    let mut variants: Vec<Box<dyn crate::method::round::Variant + '_>> = Vec::new();
    laid.iter().for_each(|(one, _)| variants.push(Box::new(Borrowed::new(one))));
    let series = bench.measure(&mut variants, &comparisons, Cores::Cross);
    drop(variants);
    for one in &series {
        bench.row(one, metric, None);
    }
}

/// Makes a client and a server, and the interfaces between them.
fn exchange(
    bench: &Bench<'_>,
    core: usize,
    work: Work,
    serving: impl FnOnce(&Veths) -> Result<Serving, String>,
) -> Result<(Exchange, Veths), SetUpError> {
    let veths = Veths::lay().map_err(SetUpError::at("veths"))?;
    veths.address().map_err(SetUpError::at("addresses of the hosts"))?;
    veths.route().map_err(SetUpError::at("addresses of the server"))?;
    let serving = serving(&veths).map_err(SetUpError::at("the server"))?;
    let to = SocketAddr::from((ADDRESS, work.port()));
    let outstanding = bench.setting("outstanding") as usize;
    let client = Client::new(&veths, to, work, outstanding).map_err(SetUpError::at("the client"))?;
    let exchange = Exchange::new(serving, client, (veths.middle_name(), core));
    Ok((exchange.map_err(SetUpError::at("clocks"))?, veths))
}

fn notes(bench: &mut Bench<'_>) {
    bench.note(
        "core-ns for a request and its answer, over all cores: the time for which the client, the server and the \
         kernel's ksoftirqd had a core, in windows of 1,024 answers. The client is the same for all servers. It \
         sends and receives by sendmmsg and recvmmsg in bursts of 32 on its own core, where the kernel also carries \
         its packets to the server. Each answer is compared with the expected one",
    );
    bench.note(
        "work echo: 64 bytes come back unchanged; work dns: a query for an A record is answered with it, built from \
         the question. netmem: an xdp port in native mode (over a veth the kernel copies, once in and once out) \
         that takes only this UDP port; it answers in the frame, and sleeps if no packets come; netmem/polling \
         polls again at once instead. sockets: recvmmsg and sendmmsg of 32; io_uring: 64 receptions in flight, each \
         answered from its buffer",
    );
    if std::env::var_os(PROGRAMS).is_none() {
        bench.note(format!(
            "{PROGRAMS} names programs that are also measured as echo servers, with `:` between them. Each is \
             started with the interface and the UDP port, is program/FILENAME in the rows, is stopped (SIGSTOP) in \
             the rounds of others, and is also compared with the first of them"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(named: &str) -> Vec<String> {
        programs(Some(named.into())).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn named_programs_are_compared_with_the_first_of_them_with_and_without_io_uring() {
        let expected = |first: usize| {
            [vec![(0, 1)], (2..first + 2).map(|one| (one, 1)).collect(), vec![(first + 1, first)]]
        };
        for named in [3, 4] {
            assert_eq!(pairs(named + 2, named), expected(named).concat());
        }
        assert_eq!(pairs(3, 3), [(0, 1), (2, 1)]);
    }

    #[test]
    fn programs_are_called_by_their_file_names_where_these_differ() {
        assert_eq!(programs(None), []);
        assert_eq!(names(""), [""; 0]);
        assert_eq!(names("/a/before:/a/after:"), ["program/before", "program/after"]);
        assert_eq!(
            names("/a/echo:/b/echo:/b/other"),
            ["program//a/echo", "program//b/echo", "program/other"]
        );
    }
}
