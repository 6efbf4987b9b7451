//! Tests of the scrapes of a run that forwards: each is well-formed, and its counters add up.

mod netmem;
mod stall;
mod test_frames;

use netmem::{netmem, start, stderr, wait_while_it_runs};
use rustix::process::{Pid, Signal, kill_process};
use stall::Stall;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};
use test_frames::{Folder, frames, pcap_at_intervals};

/// A forwarding run whose metrics are at a Unix socket.
struct Run {
    child: Option<Child>,
    path: PathBuf,
}

impl Run {
    fn start(name: &str, options: &str) -> Run {
        let path = env::temp_dir().join(format!("netmem-metrics-{}-{name}", std::process::id()));
        Run::of(start(&format!("forward --json {options} --metrics {}", path.display())), path)
    }

    fn of(child: Child, path: PathBuf) -> Run {
        let mut run = Run { child: Some(child), path };
        let child = run.child.as_mut().expect("it runs");
        wait_while_it_runs(child, "it listens", || UnixStream::connect(&run.path).is_ok());
        run
    }

    fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("it runs"))
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(&self.path).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("it answers");
        said
    }

    /// The page, after its header was looked at.
    fn scrape(&self) -> String {
        let said = self.ask("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        let (head, page) = said.split_once("\r\n\r\n").expect("a header");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("version=0.0.4"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", page.len())), "{head}");
        page.to_owned()
    }

    /// Ends it by SIGINT. It must succeed.
    fn end(mut self) {
        let child = self.child.take().expect("it runs");
        kill_process(Pid::from_child(&child), Signal::INT).expect("it can be signalled");
        let out = child.wait_with_output().expect("it ends");
        let errors = stderr(&out).lines().filter(|line| line.starts_with("error:")).count();
        assert_eq!((out.status.code(), errors), (Some(0), 0), "{}", stderr(&out));
        assert!(!self.path.exists(), "the socket is gone");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn within_a_minute(mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "not within a minute");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The samples of a page, by name and labels.
fn samples(page: &str) -> HashMap<&str, f64> {
    let lines: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
    let all: HashMap<_, _> = lines
        .iter()
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            (name, value.parse().expect("a number"))
        })
        .collect();
    assert_eq!(all.len(), lines.len(), "no sample is there twice");
    all
}

/// The sum of all samples of a family whose labels contain `label`.
fn sum(samples: &HashMap<&str, f64>, family: &str, label: &str) -> f64 {
    let of =
        samples.iter().filter(|(name, _)| name.split('{').next() == Some(family) && name.contains(label));
    of.map(|(_, value)| value).sum()
}

/// Asserts that packets and frames of a scrape add up, each worker's and those of all together.
fn assert_adds_up(page: &str, workers: usize) {
    let samples = samples(page);
    let worker = |what: &str, label: &str| sum(&samples, &format!("netmem_worker_{what}"), label);
    let came = ["receive_packets_total", "take_packets_total", "originate_packets_total", "fragments_total"];
    let went = [
        "transmit_packets_total",
        "drop_packets_total",
        "held_packets",
        "pass_packets_total",
        "hand_packets_total",
        "fragmented_packets_total",
    ];
    for number in 0..workers {
        let label = format!("worker=\"{number}\"");
        let all = |names: &[&str]| names.iter().map(|name| worker(name, &label)).sum::<f64>();
        assert_eq!(all(&came), all(&went), "worker {number}: {page}");
        // Each burst is counted, and every packet of it is in one.
        assert_eq!(all(&["burst_packets_sum"]), all(&came[..2]), "worker {number}: {page}");
    }
    let one = |name: &str| sum(&samples, name, "");
    // The packets that the workers received have left them, are dropped for a reason, or are between them.
    let received: f64 = [came[0], came[2], came[3]].iter().map(|name| worker(name, "")).sum();
    let left: f64 = [went[0], went[2], went[3], went[5]].iter().map(|name| worker(name, "")).sum();
    let between = one("netmem_between_packets") - one("netmem_between_ahead_packets");
    assert_eq!(received, left + one("netmem_dropped_packets_total") + between, "{page}");
    let whole = one("netmem_cut_whole");
    assert!(whole == 0.0 || one("netmem_between_ahead_packets") == 0.0, "{page}");
    let pools = samples.iter().filter(|(name, _)| name.starts_with("netmem_pool_size_frames"));
    for (name, size) in pools {
        let label = name.split_once('{').expect("a label").1.trim_end_matches('}');
        assert_eq!(sum(&samples, "netmem_pool_frames", label), *size, "{page}");
        assert_eq!(sum(&samples, "netmem_pool_balanced", label), 1.0, "{page}");
    }
}

/// Returns the output of `promtool check metrics` for a page. Returns None if promtool is not installed.
fn promtool(page: &str) -> Option<String> {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            assert!(env::var_os("NETMEM_NO_SKIP").is_none(), "no promtool: {error}");
            eprintln!("SKIPPED: promtool check metrics: {error}");
            return None;
        }
    };
    child.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("it reads");
    let out = child.wait_with_output().expect("it ends");
    assert!(out.status.success(), "{}\n{page}", String::from_utf8_lossy(&out.stderr));
    Some(format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr)))
}

/// Number of scrapes of each run: a hundred, or NETMEM_SCRAPES.
fn scrapes() -> usize {
    env::var("NETMEM_SCRAPES").ok().map_or(100, |n| n.parse().expect("NETMEM_SCRAPES is a number"))
}

/// Scrapes a run this number of times, and checks each scrape. Returns how many were whole cuts.
fn judged(run: &Run, number: usize, workers: usize) -> usize {
    let mut whole = 0;
    for at in 0..number {
        let page = run.scrape();
        assert_adds_up(&page, workers);
        whole += usize::from(page.contains("\nnetmem_cut_whole 1\n"));
        // All of them, if there is time.
        if number > 100 || at % 10 == 0 {
            let said = promtool(&page);
            assert!(said.is_none_or(|said| said.is_empty()), "promtool warns");
        }
        thread::sleep(Duration::from_millis(21));
    }
    whole
}

#[test]
fn every_scrape_of_one_worker_under_traffic_and_reload_adds_up() {
    let folder = Folder::new("metrics-reload");
    let config = |rate: usize| folder.write("netmem.toml", format!("icmp-rate = {rate}\n").as_bytes());
    let file = config(5);
    let run = Run::start("one", &format!("--seconds 600 --flows 1 --config {}", file.display()));
    let mut whole = 0;
    for turn in 0..5 {
        config(6 + turn);
        kill_process(run.pid(), Signal::HUP).expect("it can be signalled");
        whole += judged(&run, scrapes() / 5, 1);
    }
    assert!(whole > 0, "no scrape was a whole cut");
    let page = run.scrape();
    let samples = samples(&page);
    for (family, least) in [
        ("netmem_worker_receive_packets_total", 1.0),
        ("netmem_port_receive_bytes_total", 64.0),
        ("netmem_worker_burst_packets_count", 10.0),
        ("netmem_worker_latency_seconds_count", 100.0),
        ("netmem_worker_latency_seconds_sum", 1e-6),
        ("netmem_worker_busy_seconds_total", 1e-6),
        ("netmem_port_posted_packets_count", 10.0),
        ("netmem_port_up", 2.0),
        ("netmem_pool_size_frames", 64.0),
        ("netmem_scrapes_total", 100.0_f64.min(scrapes() as f64)),
    ] {
        assert!(sum(&samples, family, "") >= least, "{family}: {page}");
    }
    run.end();
}

#[test]
fn every_scrape_of_workers_that_share_packets_adds_up() {
    let run =
        Run::start("shared", "--seconds 600 --workers 2 --generators 1 --steer round-robin --flows 100");
    let whole = judged(&run, scrapes(), 2);
    eprintln!("{whole} of {} scrapes were whole cuts", scrapes());
    let page = run.scrape();
    assert!(sum(&samples(&page), "netmem_worker_take_packets_total", "") > 0.0, "{page}");
    within_a_minute(|| run.scrape().contains("\nnetmem_cut_whole 1\n"));
    run.end();
}

/// Seen: a pool whose frames are lent to a peer was in no family of the ledger, so that no alert saw it.
#[test]
fn the_ledger_of_a_pool_that_is_lent_is_scraped_too() {
    let folder = Folder::new("metrics-lent");
    let socket = folder.path("socket");
    let mut peer =
        start(&format!("sink --seconds 600 --port memif:{},role=server,holes=ok", socket.display()));
    let input = folder.write("in.pcap", &pcap_at_intervals(&frames(), 1000));
    let run = Run::start(
        "lent",
        &format!(
            "--seconds 600 --mode cross-connect --port memif:{},lend=yes,peer=any --port pcap:in={},speed=recorded,loop=0",
            socket.display(),
            input.display()
        ),
    );
    within_a_minute(|| run.scrape().contains("\nnetmem_pool_balanced{pool=\"lent0\"} 1\n"));
    let page = run.scrape();
    for family in ["netmem_pool_frames", "netmem_pool_size_frames", "netmem_pool_age_seconds"] {
        assert!(page.contains(&format!("\n{family}{{pool=\"lent0\"")), "{page}");
    }
    run.end();
    peer.kill().expect("it runs");
    peer.wait().expect("it ends");
}

#[test]
fn scrapes_stay_exact_while_a_local_queue_frees_frames() {
    let run = Run::start("held", "--seconds 600 --mode pass --local-queue 100");
    judged(&run, scrapes() / 2, 1);
    within_a_minute(|| run.scrape().contains("\nnetmem_cut_whole 1\n"));
    run.end();
}

#[test]
fn a_stalled_worker_is_marked_stale_with_its_age_and_delays_no_scrape() {
    let folder = Folder::new("metrics-stall");
    let (stall, path) = (Stall::new(&folder.path(""), true), folder.path("metrics"));
    let input = folder.write("in.pcap", &pcap_at_intervals(&frames(), 1000));
    let mut command = netmem(&format!(
        "forward --json --mode cross-connect --watchdog 0 --metrics {} --port \
         trace:file={}/pcap:in={},speed=recorded,loop=0 --port pcap:out={}",
        path.display(),
        folder.path("trace").display(),
        input.display(),
        folder.path("out.pcap").display()
    ));
    stall.within(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = Run::of(command.spawn().expect("netmem starts"), path);
    within_a_minute(|| run.scrape().contains("\nnetmem_worker_stale{worker=\"0\"} 1\n"));
    let age = |page: &str| sum(&samples(page), "netmem_worker_age_seconds", "");
    let first = run.scrape();
    within_a_minute(|| age(&run.scrape()) >= 1.0 + age(&first));
    judged(&run, 10, 1);
    assert!(run.scrape().contains("\nnetmem_cut_whole 0\n"));
    stall.hold(false);
    within_a_minute(|| run.scrape().contains("\nnetmem_worker_stale{worker=\"0\"} 0\n"));
    judged(&run, 10, 1);
    run.end();
}

#[test]
fn openmetrics_are_sent_on_request_and_only_a_scrape_is_answered() {
    let run = Run::start("formats", "--seconds 600");
    assert_eq!(fs::metadata(&run.path).expect("the socket").permissions().mode() & 0o777, 0o600);
    let open = run.ask("GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n");
    assert!(open.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
    assert!(open.ends_with("\n# EOF\n") && open.contains("\n# TYPE netmem_scrapes counter\n"), "{open}");
    for (request, status) in [
        ("GET /other HTTP/1.1\r\n\r\n", "404"),
        ("PUT /metrics HTTP/1.1\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let said = run.ask(request);
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
    }
    run.end();
}

/// Seen: `curl --head` and checks of a proxy got 405, although RFC 9110 (9.1) asks each server for GET and HEAD.
#[test]
fn head_is_answered_as_get_is_without_the_metrics() {
    let run = Run::start("head", "--seconds 600");
    let said = run.ask("HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 200 ") && said.ends_with("\r\nConnection: close\r\n\r\n"), "{said}");
    assert!(said.contains("\r\nContent-Length: "), "{said}");
    assert!(run.ask("HEAD /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    run.end();
}

/// The bytes that a process has in memory.
fn resident(pid: Pid) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.split_whitespace().next().and_then(|kib| kib.parse::<usize>().ok()).expect("a number") << 10
}

#[test]
fn hostile_scrapers_cost_little_and_stop_nothing() {
    let run = Run::start("hostile", "--seconds 600");
    run.scrape();
    let (before, received) =
        (resident(run.pid()), |page: &str| sum(&samples(page), "netmem_worker_receive_packets_total", ""));
    let first = received(&run.scrape());
    // A thousand connections that send nothing, not all of which are accepted. Some never read the answer to their
    // request.
    let connect = || UnixStream::connect(&run.path);
    let mut silent = Vec::new();
    for at in 0..1000 {
        let Ok(mut stream) = connect() else { continue };
        if at % 3 == 0 {
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        }
        silent.push(stream);
    }
    // One with a header of 1 MiB.
    if let Ok(mut stream) = connect() {
        let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
        let _ = stream.write_all(&vec![b'x'; 1 << 20]);
    }
    assert!(resident(run.pid()) < before + (8 << 20), "{} grew to {}", before, resident(run.pid()));
    // All have been sent away after a while, though they are still there.
    within_a_minute(|| {
        let Ok(mut stream) = connect() else { return false };
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said);
        said.starts_with("HTTP/1.1 200 OK")
            && received(said.split_once("\r\n\r\n").expect("a page").1) > first
    });
    drop(silent);
    judged(&run, 5, 1);
    run.end();
}

/// Found in a review: while eight connections sent nothing, every scrape was answered by 503.
#[test]
fn a_scrape_is_answered_in_the_place_of_a_silent_connection() {
    let run = Run::start("silent", "--seconds 600");
    // If this machine stands still for two seconds, the silent ones have been sent away by themselves: then once more.
    let has_made_room = || {
        let silent: Vec<_> = (0..8).map(|_| UnixStream::connect(&run.path).expect("it listens")).collect();
        within_a_minute(|| {
            let mut stream = UnixStream::connect(&run.path).expect("it listens");
            let (_, mut said) = (stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n"), String::new());
            let _ = stream.read_to_string(&mut said);
            said.starts_with("HTTP/1.1 200 OK")
        });
        let said = |mut stream: UnixStream| {
            let mut said = String::new();
            stream.read_to_string(&mut said).map_or(String::new(), |_| said)
        };
        silent.into_iter().map(said).any(|said| said.contains("503") && said.contains("no request has come"))
    };
    assert!((0..20).any(|_| has_made_room()));
    run.end();
}

#[test]
fn only_this_machine_may_scrape_by_default() {
    let refused = |words: &str, code| {
        let out = netmem(&format!("forward --seconds 1 --json {words}")).output().expect("it starts");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), said.lines().count()), (Some(code), 1), "{said}");
        said
    };
    let refusal = |words: &str| refused(words, 2);
    for address in ["0.0.0.0:19681", "[::]:19681", "192.0.2.1:19681"] {
        let said = refusal(&format!("--metrics {address}"));
        assert!(said.contains("others than this machine could read it: give 127.0.0.1:19681 or"), "{said}");
    }
    assert!(refusal("--metrics-from anywhere").contains("give --metrics as well"));
    assert!(refusal("--metrics 19681").contains("give IP:PORT, as in 127.0.0.1:19681"));
    assert!(
        refusal("--metrics /nonexistent/m").contains("metrics socket /nonexistent/m: there is no folder")
    );
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    assert!(
        refused(&format!("--metrics {address}"), 3).contains("another program listens there"),
        "it may end"
    );
    drop(taken);
    let (mut address, mut child) = at_a_free_port();
    within_a_minute(|| {
        if child.try_wait().expect("wait").is_some() {
            // Another program may have taken the port since it was seen to be free.
            let (another, next) = at_a_free_port();
            let out = std::mem::replace(&mut child, next).wait_with_output().expect("its end");
            assert!(stderr(&out).contains("another program listens there"), "{}", stderr(&out));
            address = another;
        }
        is_scraped(address)
    });
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

/// A run whose metrics are at a port of this machine that was free.
fn at_a_free_port() -> (SocketAddr, Child) {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    (free, start(&format!("forward --seconds 600 --json --metrics {free}")))
}

/// Whether a run answers there, and its worker is not stale.
fn is_scraped(address: SocketAddr) -> bool {
    let mut said = String::new();
    let scraped = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
        stream.read_to_string(&mut said)
    });
    scraped.is_ok()
        && said.starts_with("HTTP/1.1 200 OK\r\n")
        && said.contains("\nnetmem_worker_stale{worker=\"0\"} 0\n")
}

#[test]
fn the_alerts_are_valid_rules_over_scraped_names_and_are_raised_for_what_is_lost() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/prometheus/netmem.rules.yml");
    let text = fs::read_to_string(&rules).expect("the rules");
    let run = Run::start("rules", "--seconds 600");
    // The values of frames that only a cut gives are left out until there has been one.
    let mut page = String::new();
    within_a_minute(|| {
        page = run.scrape();
        page.contains("\nnetmem_cut_whole 1\n")
    });
    let mut named = 0;
    for name in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        // Only a router by the kernel's routes, and ports with interfaces, have these (tests/routes, tests/netns).
        let is_elsewhere = ["netmem_netlink_", "netmem_routes", "netmem_port_carrier"];
        if name.starts_with("netmem_") && !is_elsewhere.iter().any(|other| name.starts_with(other)) {
            let has = |end: char| page.contains(&format!("\n{name}{end}"));
            assert!(has('{') || has(' '), "{name} in {page}");
            named += 1;
        }
    }
    assert!(named >= 7, "{named} names");
    run.end();
    if promtool("").is_some() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/alerts.yml");
        for (words, file) in [(["check", "rules"], rules), (["test", "rules"], tests)] {
            let out = Command::new("promtool").args(words).arg(file).output().expect("it starts");
            assert!(out.status.success(), "{out:?}");
        }
    }
}

/// Seen: no alert was raised while every packet was dropped as too long for a frame.
#[test]
fn the_alert_about_lost_packets_names_each_counter_that_the_library_counts_as_dropped() {
    let read = |path: &str| {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).expect("a file")
    };
    let source = read("src/port/counters.rs");
    let (_, body) = source.split_once("pub fn rx_drops(&self) -> u64 {").expect("the sum");
    let (body, _) = body.split_once('}').expect("its end");
    let names: Vec<&str> =
        body.split("self.").skip(1).filter_map(|part| Some(part.split_once(".get()")?.0)).collect();
    assert!(names.len() >= 5, "{names:?}");
    let wanted = format!("netmem_port_events_total{{event=~\"{}\"}}", names.join("|"));
    assert!(read("docs/prometheus/netmem.rules.yml").contains(&wanted), "{wanted}");
    let quoted = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    assert!(read("cli/src/stat.rs").contains(&format!("[{quoted}]")), "{quoted}");
}
