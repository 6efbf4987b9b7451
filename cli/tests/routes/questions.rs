//! What ordinary tools find when they look through a router, in words without times, so that two routers can be compared.

use crate::iperf3::{PORT, arrives, transfer};
use crate::router::set;
use crate::testbed::{Namespace, PATIENCE, Testbed, scratch, wait_until};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

/// The programs that these need in addition to ip.
pub const PROGRAMS: [&str; 6] = ["ping", "traceroute", "tracepath", "iperf3", "curl", "python3"];

/// Bytes of an IP packet on the link behind the router.
const NARROW: &str = "1400";
/// Bytes of a transfer by TCP.
const TRANSFER: u64 = 16 << 20;
/// Bytes of a download.
const DOWNLOAD: usize = 24 << 20;
const WEB: u16 = 8000;

/// A question, and the answer of a tool.
pub type Answer = (String, String);

/// Puts a second router and a third network behind the first: h2 forwards to the host that is returned, and the link to h2 is
/// narrow.
///
/// ```text
///   h1 ═══ one  dut  two ══ 1400 ══ h2 ═══════ far
///   10.77.1.1  .254  .254   10.77.2.1  10.77.3.254  10.77.3.1     and fd77:1:: to fd77:3::
/// ```
pub fn lengthen(bed: &Testbed) -> Namespace {
    let far = Namespace::new("far").expect("a fourth host");
    let (h1, dut, h2) = (&bed.h1, &bed.dut, &bed.h2);
    for host in [h1, h2, &far] {
        host.set_ipv6(true);
        set(host, &[("ipv6/conf/all/accept_dad", "0"), ("ipv6/conf/default/accept_dad", "0")]);
    }
    set(h2, &[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")]);
    // Else a kernel answers a host six times, and then once a second.
    for router in [dut, h2] {
        set(router, &[("ipv4/icmp_ratemask", "0"), ("ipv6/icmp/ratelimit", "0")]);
    }
    h2.ip(&format!("link add behind type veth peer name eth0 netns {}", far.name()));
    for (host, link, net, last) in
        [(h1, "eth0", 1, 1), (h2, "eth0", 2, 1), (h2, "behind", 3, 254), (&far, "eth0", 3, 1)]
    {
        if net == 3 {
            host.ip(&format!("addr add 10.77.{net}.{last}/24 dev {link}"));
            host.ip(&format!("link set {link} up"));
        }
        host.ip(&format!("addr add fd77:{net}::{last}/64 dev {link} nodad"));
    }
    dut.ip(&format!("link set two mtu {NARROW}"));
    h2.ip(&format!("link set eth0 mtu {NARROW}"));
    for (host, route) in [
        (h1, "-6 route add default via fd77:1::254"),
        (h2, "-6 route add default via fd77:2::254"),
        (&far, "route add default via 10.77.3.254"),
        (&far, "-6 route add default via fd77:3::254"),
        (dut, "route add 10.77.3.0/24 via 10.77.2.1"),
        (dut, "-6 route add fd77:3::/64 via fd77:2::1"),
    ] {
        host.ip(route);
    }
    for (kind, net) in [("unreachable", 81), ("prohibit", 82), ("blackhole", 83)] {
        dut.ip(&format!("route add {kind} 10.{net}.0.0/16"));
        dut.ip(&format!("-6 route add {kind} fd{net}::/16"));
    }
    for (net, mtu) in OWN_MTUS {
        for (family, to, via) in
            [("-4", format!("10.{net}.0"), "10.77.2.1"), ("-6", format!("fd{net}:"), "fd77:2::1")]
        {
            let (wide, host) = if family == "-4" { (".0/16", ".1/32") } else { (":/16", ":1/128") };
            dut.ip(&format!("{family} route add {to}{wide} via {via} mtu {mtu}"));
            h2.ip(&format!("{family} addr add {to}{host} dev lo"));
        }
    }
    dut.ip("route add 10.85.0.0/16 via 10.77.1.1");
    dut.ip("-6 route add fd85::/16 via fd77:1::1");
    far
}

/// Networks of h2's, of both families, to which the routes have an MTU of their own.
const OWN_MTUS: [(u8, &str); 4] = [(86, "1300"), (87, "lock 1300"), (88, "1000"), (89, "2000")];

/// Asks everything, in both families.
pub fn ask_all(bed: &Testbed, far: &Namespace) -> Vec<Answer> {
    wait_until("there is a way to the far host", || {
        ["10.77.3.1", "fd77:3::1"]
            .iter()
            .all(|to| ping(&bed.h1, &format!("-c 1 -w 5 {to}")).starts_with("answered"))
    });
    let mut answers = pings(&bed.h1);
    answers.extend(paths(&bed.h1));
    answers.extend(transfers(&bed.h1, far));
    answers.extend(downloads(&bed.h1, far));
    answers
}

/// Pings of sizes about that of the narrow link, and of routes' own MTUs.
const SIZES: [&str; 24] = [
    "-s 0 10.77.3.1",
    "-M do -s 1372 10.77.3.1",
    "-M do -s 1373 10.77.3.1",
    "-M do -s 1472 10.77.3.1",
    "-M want -s 4000 10.77.3.1",
    "-M dont -s 1372 10.77.3.1",
    "-M dont -s 1373 10.77.3.1",
    "-M dont -s 4000 10.77.3.1",
    "-s 1352 fd77:3::1",
    "-M do -s 1353 fd77:3::1",
    "-M do -s 1452 fd77:3::1",
    "-M want -s 4000 fd77:3::1",
    "-M do -s 1272 10.86.0.1",
    "-M do -s 1273 10.86.0.1",
    "-M dont -s 1273 10.86.0.1",
    "-M do -s 1273 10.87.0.1",
    "-M dont -s 1472 10.87.0.1",
    "-M do -s 973 10.88.0.1",
    "-M do -s 1472 10.89.0.1",
    "-M do -s 1252 fd86::1",
    "-M do -s 1253 fd86::1",
    "-M do -s 1253 fd87::1",
    "-M do -s 1232 fd88::1",
    "-M do -s 1353 fd89::1",
];

/// Pings with other settings, to the router itself, and to addresses without a host. For five of them a kernel without
/// a route sends ICMP errors. It sends five at once and then one a second, whatever its settings are.
const ELSEWHERE: [&str; 29] = [
    "10.77.3.1",
    "-t 1 10.77.3.1",
    "-t 2 10.77.3.1",
    "-t 3 10.77.3.1",
    "-Q 0xb8 10.77.3.1",
    "-R 10.77.3.1",
    "-T tsandaddr 10.77.3.1",
    "10.77.1.254",
    "10.77.2.254",
    "10.77.2.99",
    "10.77.2.255",
    "10.81.0.1",
    "10.82.0.1",
    "10.83.0.1",
    "10.84.0.1",
    "169.254.9.9",
    "240.0.0.1",
    "fd77:3::1",
    "-t 1 fd77:3::1",
    "-t 2 fd77:3::1",
    "-t 3 fd77:3::1",
    "fd77:1::254",
    "fd77:2::254",
    "fd77:2::99",
    "fd81::1",
    "fd82::1",
    "fd83::1",
    "fd84::1",
    "fd85::1",
];

/// A ping by a route that leads back to its origin. After a redirect a kernel sends that host no ICMP error for a
/// second or more, so this is the last one.
const BACK: &str = "10.85.0.1";

/// Those of the pings that netmem, or neither router, answers.
const SILENT: [&str; 8] = [
    "-M do -s 1472 10.89.0.1",
    "10.77.2.255",
    "10.83.0.1",
    "169.254.9.9",
    "240.0.0.1",
    "fd83::1",
    "fd85::1",
    BACK,
];
/// How long an answer to those is waited for, in seconds. For all others the wait is long, so that a late answer does
/// not count as none.
const SILENCE: u64 = 6;

fn pings(h1: &Namespace) -> Vec<Answer> {
    let ask = |words: &str| {
        let seconds = if SILENT.contains(&words) { SILENCE } else { PATIENCE.as_secs() };
        (format!("ping {words}"), ping(h1, &format!("-c 1 -w {seconds} {words}")))
    };
    let one_by_one = SIZES.map(|words| {
        forget_narrow_links(h1);
        ask(words)
    });
    let at_once = thread::scope(|scope| {
        let asking = ELSEWHERE.map(|words| scope.spawn(move || ask(words)));
        asking.map(|asking| asking.join().expect("an answer"))
    });
    one_by_one.into_iter().chain(at_once).chain([ask(BACK)]).collect()
}

/// Makes a host forget the path MTUs that it has learnt.
fn forget_narrow_links(host: &Namespace) {
    host.ip("route flush cache");
    host.ip("-6 route flush cache");
}

/// Returns the result of the first ping that is answered or refused.
fn ping(from: &Namespace, words: &str) -> String {
    let out = from.command("ping").arg("-n").args(words.split_whitespace()).output().expect("ping");
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    let refusal = |line: &str| {
        let (from, why) = line.strip_prefix("From ")?.split_once(" icmp_seq=")?;
        let why = why.split_once(' ')?.1.trim_start_matches("Destination unreachable: ");
        Some(format!("{}: {why}", from.trim_end_matches(':')))
    };
    let answer = |line: &str| {
        let (_, after) = line.split_once("ttl=")?;
        Some(format!("answered, ttl {}", after.split_whitespace().next()?))
    };
    match said.lines().find_map(|line| refusal(line).or_else(|| answer(line))) {
        Some(found) => found + &recorded(&said),
        None => "silence".to_owned(),
    }
}

/// The addresses that routers wrote into the packet on its way there and back.
fn recorded(said: &str) -> String {
    let mut lines =
        said.lines().map(str::trim).skip_while(|line| !line.starts_with("RR:") && !line.starts_with("TS:"));
    let Some(first) = lines.next() else { return String::new() };
    let records = [&first[3..]].into_iter().chain(lines.take_while(|line| !line.is_empty()));
    // Without the times.
    let addresses = records.filter_map(|line| line.split_whitespace().find(|word| word.contains('.')));
    format!(", by {}", addresses.collect::<Vec<_>>().join(", "))
}

/// The hops on the way and the narrowest link.
fn paths(h1: &Namespace) -> Vec<Answer> {
    let mut answers = Vec::new();
    for to in ["10.77.3.1", "fd77:3::1"] {
        for method in ["", "-I ", "-T "] {
            let said = h1.run("traceroute", &format!("-n -q 1 -N 1 -w 10 {method}{to}"));
            let hops = said.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
            answers.push((format!("traceroute {method}{to}"), hops.collect::<Vec<_>>().join(", ")));
        }
        forget_narrow_links(h1);
        let said = h1.run("tracepath", &format!("-n {to}"));
        let resume = said.lines().find_map(|line| line.trim().strip_prefix("Resume: ")).expect("its end");
        answers.push((format!("tracepath {to}"), resume.trim().to_owned()));
    }
    answers
}

/// Transfers by TCP and UDP, there and back.
fn transfers(h1: &Namespace, far: &Namespace) -> Vec<Answer> {
    let mut answers = Vec::new();
    for to in ["10.77.3.1", "fd77:3::1"] {
        for back in [&[][..], &["--reverse"]] {
            let whole = arrives(h1, far, (to, PORT), TRANSFER, back);
            let udp = transfer(
                h1,
                far,
                (to, PORT),
                &[&["-u", "-t", "1", "-b", "20M", "-l", "1200"], back].concat(),
            );
            let some = udp["end"]["sum"]["packets"].as_u64() > udp["end"]["sum"]["lost_packets"].as_u64();
            for (name, fine) in [("TCP", whole), ("UDP", some)] {
                let answer = if fine { "arrives" } else { "does not arrive" };
                let way = if back.is_empty() { "to" } else { "from" };
                answers.push((format!("iperf3 {name} {way} {to}"), answer.to_owned()));
            }
        }
    }
    answers
}

/// A large file by HTTP.
fn downloads(h1: &Namespace, far: &Namespace) -> Vec<Answer> {
    let web = Web::serve(far);
    let ask = |host: &str| {
        let url = format!("http://{host}:{WEB}/file");
        let words = ["--silent", "--show-error", "--fail", "--max-time", "100", "--globoff", &url];
        let out = h1.command("curl").args(words).output().expect("curl");
        let same = out.status.success() && out.stdout == web.file;
        let answer = if same { "the same, byte for byte" } else { "another one" };
        (format!("curl {url}"), answer.to_owned())
    };
    ["10.77.3.1", "[fd77:3::1]"].map(ask).into()
}

/// A web server with one large file. It is killed when dropped.
struct Web {
    folder: PathBuf,
    file: Vec<u8>,
    child: Child,
}

impl Web {
    fn serve(host: &Namespace) -> Web {
        let folder = scratch("web");
        fs::create_dir(&folder).expect("a folder");
        let mut word = 1_u64;
        let noise = || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (word >> 56) as u8
        };
        let file: Vec<u8> = std::iter::repeat_with(noise).take(DOWNLOAD).collect();
        fs::write(folder.join("file"), &file).expect("a file");
        let mut command: Command = host.command("python3");
        command.args(["-m", "http.server", "--bind", "::", "--directory"]).arg(&folder).arg(WEB.to_string());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let web = Web { folder, file, child: command.spawn().expect("python3") };
        let listens = || host.inside(|| std::net::TcpStream::connect(("::1", WEB))).is_ok();
        wait_until("the web server listens", listens);
        web
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}
