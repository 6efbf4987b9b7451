//! `netmem forward` with memif ports: between two netmem processes.

#![allow(clippy::unwrap_used)]

mod netmem;
mod test_frames;
mod onlooker;

use ::netmem::system::event::Event;
use ::netmem::system::memif::{AddRegion, AddRing, Init, MODE_ETHERNET, Message, Text, VERSION};
use ::netmem::system::seqpacket::{Connection, Received};
use netmem::{
    PATIENCE, child_of, dropped, listens, number, output, ports, start, stderr, stdout, wait_until,
};
use onlooker::Onlooker;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::HashSet;
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};
use test_frames::{Folder, every_type, frames, giants, packets, pcap, pcap_at_intervals};

fn forward(words: &str) -> Child {
    start(&format!("forward --mode cross-connect --json --ring 256 {words}"))
}

/// Ends the run. Returns its output, and its standard error.
fn end(child: Child) -> (Value, String) {
    kill_process(Pid::from_child(&child), Signal::INT).expect("it can be signalled");
    let out = child.wait_with_output().expect("it ends");
    let (said, complaint) = (stdout(&out), stderr(&out));
    (serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}{complaint}")), complaint)
}

fn filled(file: &Path) -> bool {
    fs::read(file).is_ok_and(|bytes| packets(&bytes).len() >= frames().len())
}

/// Sends frames of every type to a peer, in lots that its rings have room for: each comes once, as it was and in its turn,
/// whenever either is given a core.
fn every_type_through_memif(name: &str, options: &str) {
    const RING: usize = 16384;
    let folder = Folder::new(name);
    let (types, output, socket) = (every_type(), folder.path("out.pcap"), folder.path("memif.sock"));
    let forward = |words: &str| start(&format!("forward --mode cross-connect --json --ring {RING} {words}"));
    let receiver = forward(&format!(
        "--port memif:{},role=server,holes=ok --port pcap:out={}",
        socket.display(),
        output.display()
    ));
    wait_until("no process listens", || listens(&socket));
    let header = pcap(&[]).len();
    let mut size = header;
    for lot in types.chunks(RING / 2) {
        let lot = pcap(lot);
        size += lot.len() - header;
        let input = folder.write("in.pcap", &lot);
        let sender = forward(&format!(
            "--port pcap:in={} --port memif:{}{options}",
            input.display(),
            socket.display()
        ));
        let come = || fs::metadata(&output).is_ok_and(|file| file.len() >= size as u64);
        wait_until("types are missing", come);
        assert_eq!(end(sender).1, "");
    }
    end(receiver);
    assert!(packets(&fs::read(&output).expect("the file that was seen")) == types, "not as they were");
}

#[test]
fn frames_of_every_type_go_byte_for_byte_lent_and_copied() {
    every_type_through_memif("memif-types-lent", ",lend=yes");
    every_type_through_memif("memif-types-apart", ",lend=yes,peer=any");
    every_type_through_memif("memif-types-copied", "");
}

/// Sends frames of all lengths from a process at the `first` end of a memif socket to a process at the other end, again
/// and again until each has come. Asserts that both print nothing else about them.
fn giants_through_memif(name: &str, frame_size: &str, most: usize, [from, to]: [&str; 2]) {
    let folder = Folder::new(name);
    let frames: HashSet<Vec<u8>> = frames().into_iter().chain(giants(most)).collect();
    let all: Vec<Vec<u8>> = frames.iter().cloned().collect();
    let input = folder.write("in.pcap", &pcap_at_intervals(&all, 100));
    let (output, socket) = (folder.path("out.pcap"), folder.path("memif.sock"));
    let end_of = |file: String, role: &str| {
        forward(&format!("--frame-size {frame_size} --port {file} --port memif:{},{role}", socket.display()))
    };
    let receiver = end_of(format!("pcap:out={}", output.display()), to);
    let sender = end_of(format!("pcap:in={},speed=recorded,loop=0", input.display()), from);
    let mut come = HashSet::new();
    wait_until("giants are missing", || {
        thread::sleep(Duration::from_millis(100));
        come = packets(&fs::read(&output).unwrap_or_default()).into_iter().collect();
        come.len() >= frames.len()
    });
    let (sender, receiver) = (end(sender).0, end(receiver).0);
    assert!(come == frames, "not as they were: {:?}", come.difference(&frames).next().map(Vec::len));
    assert_eq!(
        ["rx_too_long", "bad_descriptor"].map(|name| ports(&receiver, name) + ports(&sender, name)),
        [0, 0]
    );
}

#[test]
fn giants_go_byte_for_byte_from_and_to_a_client_lent_and_copied() {
    let (lends, copies, server) = ("role=client,lend=yes", "role=client", "role=server,holes=ok");
    giants_through_memif("giants-lent", "16384", 14_528, [lends, server]);
    giants_through_memif("giants-apart", "16384", 14_528, ["role=client,lend=yes,peer=any", server]);
    giants_through_memif("giants-lent-back", "16384", 14_528, [server, lends]);
    giants_through_memif("giants-copied", "32768", 29_120, [copies, server]);
    giants_through_memif("giants-copied-back", "4096", 3584, [server, copies]);
}

/// Sends frames of every kind from a file through memif to a file of another process. Returns the sender's and the receiver's
/// reports.
fn through_memif(name: &str, receiver: &str, sender: &str) -> [Value; 2] {
    let folder = Folder::new(name);
    let (input, output) = (folder.write("in.pcap", &pcap(&frames())), folder.path("out.pcap"));
    let socket = folder.path("memif.sock");
    let memif = |options: &str| format!("--port memif:{},{options}", socket.display());
    let (input, file) = (format!("--port pcap:in={}", input.display()), output.clone());
    let output = format!("--port pcap:out={}", output.display());
    let receiver = forward(&format!("{} {output}", memif(receiver)));
    wait_until("no process listens", || listens(&socket));
    let sender = forward(&format!("{input} {}", memif(sender)));
    wait_until("frames are missing", || filled(&file));
    let (sent, nothing) = end(sender);
    assert_eq!(nothing, "");
    wait_until("frames are missing at the end", || filled(&file));
    let (received, complaint) = end(receiver);
    assert!(complaint.is_empty() || complaint.contains("is down: the peer"), "{complaint}");
    // Queues keep no order between them.
    let mut sorted = [packets(&fs::read(&file).expect("the file that was seen")), frames()];
    sorted.iter_mut().for_each(|packets| packets.sort());
    assert_eq!(sorted[0], sorted[1]);
    [sent, received]
}

#[test]
fn frames_of_every_kind_go_byte_for_byte_from_a_client_that_lends_its_frames() {
    let [sent, received] = through_memif("memif-lent", "role=server,holes=ok", "role=client,lend=yes");
    let n = frames().len() as u64;
    assert_eq!((number(&sent, "transmitted"), number(&received, "received")), (n, n));
    assert_eq!(sent["ports"][1]["detail"], "client, lends its frames");
    assert_eq!((&sent["ports"][1]["copied"], &received["ports"][0]["copied"]), (&0.into(), &n.into()));
    assert_eq!(ports(&received, "bad_descriptor") + ports(&sent, "bad_descriptor"), 0);
}

#[test]
fn frames_of_every_kind_go_byte_for_byte_from_a_client_that_copies_over_several_queues() {
    let options = "id=3,queues=2,secret=sesame";
    let [sent, received] =
        through_memif("memif-copied", &format!("role=server,{options}"), &format!("role=client,{options}"));
    let n = frames().len() as u64;
    assert_eq!(sent["ports"][1]["detail"], "client, copies");
    assert_eq!((&sent["ports"][1]["copied"], &received["ports"][0]["copied"]), (&n.into(), &n.into()));
}

#[test]
fn packets_with_heads_are_copied_for_a_peer_that_could_write_them() {
    let folder = Folder::new("memif-heads");
    let socket = folder.path("memif.sock");
    let server = forward(&format!(
        "--port memif:{},role=server,holes=ok --port pcap:out={}",
        socket.display(),
        folder.path("out").display()
    ));
    wait_until("no process listens", || listens(&socket));
    let other = folder.path("other");
    let client = forward(&format!(
        "--path full --port memif:{},lend=yes --port pcap:out={}",
        socket.display(),
        other.display()
    ));
    wait_until("the client does not forward", || fs::metadata(&other).is_ok_and(|file| file.len() > 0));
    let (client, _) = end(client);
    assert_eq!(client["ports"][0]["detail"], "client, copies");
    end(server);
}

/// Forwards some packets from file to file, and others to a peer by a port with these `options`. Returns whether the peer can see the
/// former, once it has seen its own, and the report.
fn sees_others(name: &str, words: &str, options: &str) -> (bool, Value) {
    let folder = Folder::new(name);
    let (of_others, of_its_own) = ([0xa5; 100], [0x5a; 100]);
    let (socket, output) = (folder.path("memif.sock"), folder.path("out.pcap"));
    let input = |name: &str, bytes: [u8; 100]| {
        let file = folder.write(name, &pcap_at_intervals(&vec![bytes.to_vec(); 100], 100));
        format!("pcap:in={},speed=recorded,loop=0", file.display())
    };
    let mut onlooker = Onlooker::listen(&socket);
    let client = forward(&format!(
        "{words} --port {} --port pcap:out={} --port {} --port memif:{},{options}",
        input("others.pcap", of_others),
        output.display(),
        input("own.pcap", of_its_own),
        socket.display(),
    ));
    onlooker.meet(PATIENCE);
    wait_until("its own do not come", || onlooker.sees(&of_its_own));
    wait_until("those of others do not pass", || fs::metadata(&output).is_ok_and(|file| file.len() > 9999));
    let sees = onlooker.sees(&of_others);
    (sees, end(client).0)
}

#[test]
fn a_peer_of_another_user_is_lent_frames_and_sees_no_other_ports_packets() {
    // A peer of the same user, which is lent all frames, finds the bytes that are searched for.
    assert!(sees_others("memif-together", "", "lend=yes").0);
    for (name, words) in
        [("frames", ""), ("full", "--path full"), ("pairs", "--path full --ready-packets 64")]
    {
        let (sees, report) = sees_others(&format!("memif-apart-{name}"), words, "lend=yes,peer=any");
        assert_eq!(report["ports"][3]["detail"], "client, lends frames of a pool of its own", "{words}");
        assert!(!sees, "{words}");
        let pools: Vec<_> = report["pools"].as_array().unwrap().iter().map(|pool| &pool["name"]).collect();
        assert_eq!(pools, ["rx", "lent3"]);
        assert!(report["pools"].as_array().unwrap().iter().all(|pool| pool["balanced"] == true), "{report}");
    }
}

/// Seen: a client lent all frames of its process, unless an option made it copy.
#[test]
fn a_client_copies_without_lend_and_sends_the_secret_of_a_file() {
    let folder = Folder::new("memif-defaults");
    let secret = folder.write("secret", b"open sesame\n");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let with = |role: &str| format!("role={role},secret-file={}", secret.display());
    let [sent, received] = through_memif("memif-secret", &with("server"), &with("client"));
    assert_eq!(sent["ports"][1]["detail"], "client, copies");
    let n = frames().len() as u64;
    assert_eq!((&sent["ports"][1]["copied"], &received["ports"][0]["copied"]), (&n.into(), &n.into()));
    // A file that every user can read is reported.
    fs::set_permissions(&secret, Permissions::from_mode(0o644)).unwrap();
    let said = forward(&format!(
        "--seconds 0.1 --port memif:{},{} --port pcap:out={}",
        folder.path("nobody").display(),
        with("client"),
        folder.path("nothing").display()
    ));
    let said = String::from_utf8_lossy(&said.wait_with_output().unwrap().stderr).into_owned();
    assert_eq!(said.matches("every user can read the secret in").count(), 1, "{said}");
}

/// Seen: a server's socket was 0755 under umask 022 and 0777 under umask 000.
#[test]
fn the_sockets_of_a_run_have_the_documented_mode_with_any_umask() {
    for umask in ["000", "022", "077", "777"] {
        for (option, mode) in [("", 0o600), (",mode=0660", 0o660)] {
            let folder = Folder::new(&format!("memif-umask-{umask}-{mode:o}"));
            let (memif, control) = (folder.path("memif"), folder.path("control"));
            let run = format!(
                "umask {umask}; exec {} forward --mode drop --seconds 100 --port memif:{},role=server{option} \
                 --port pcap:out={} --control {}",
                env!("CARGO_BIN_EXE_netmem"),
                memif.display(),
                folder.path("out").display(),
                control.display()
            );
            let mut command = Command::new("sh");
            command.args(["-c", &run]).stdout(Stdio::null()).stderr(Stdio::null());
            let mut run = child_of(&mut command).spawn().expect("sh(1)");
            let mode_of =
                |path: &Path| fs::symlink_metadata(path).map(|file| file.permissions().mode() & 0o7777);
            wait_until("no sockets", || listens(&memif) && control.exists());
            let modes = [mode_of(&memif), mode_of(&control)].map(Result::unwrap);
            run.kill().and_then(|()| run.wait()).expect("it ends");
            assert_eq!(modes, [mode, 0o600], "umask {umask}: {modes:?}");
        }
    }
}

/// A client by hand, whose memory is a file that it can cut: two rings of eight slots, and packets behind.
struct Hand {
    connection: Connection,
    memory: File,
}

impl Hand {
    const BYTES: u64 = 16 << 10;
    const PACKETS: u32 = 4096;

    /// One that is connected.
    fn connected(folder: &Folder, socket: &Path) -> Hand {
        let memory = folder.path("memory");
        let memory = File::options().read(true).write(true).create(true).truncate(true).open(memory).unwrap();
        memory.set_len(Hand::BYTES).unwrap();
        let hand = Hand { connection: Connection::open(socket).expect("a process listens"), memory };
        let event = Event::new().expect("an eventfd");
        let ring = |to_server, offset: u32| {
            hand.write(offset.into(), &0x3e3_1f20_u32.to_ne_bytes());
            let (log2_size, private_header) = (3, 0);
            Message::AddRing(AddRing { to_server, index: 0, region: 0, offset, log2_size, private_header })
        };
        let (secret, name) = (Text::default(), Text::new("scissors"));
        let (init, region) = (
            Init { version: VERSION, id: 0, mode: MODE_ETHERNET, secret, name },
            AddRegion { index: 0, size: Hand::BYTES },
        );
        let said = [Message::Init(init), Message::AddRegion(region), ring(true, 0), ring(false, 1024)];
        for message in said.into_iter().chain([Message::Connect(name)]) {
            hand.receive();
            let descriptor = match message {
                Message::AddRegion(_) => Some(hand.memory.as_fd()),
                Message::AddRing(_) => Some(event.as_fd()),
                _ => None,
            };
            hand.connection.send(&message.bytes(), descriptor).expect("the server hears");
        }
        assert!(matches!(hand.receive(), Message::Connected(_)));
        hand
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    /// Returns the server's next message.
    fn receive(&self) -> Message {
        let (mut bytes, begun) = ([0; 128], Instant::now());
        loop {
            match self.connection.receive(&mut bytes) {
                Received::Message(..) => return Message::parse(&bytes).expect("a message"),
                Received::Nothing => thread::sleep(Duration::from_millis(1)),
                Received::End | Received::UnknownDescriptor | Received::NoRoom => {
                    panic!("the server hung up")
                }
            }
            assert!(begun.elapsed() < PATIENCE, "the server says nothing");
        }
    }

    /// Sends 60 bytes as its `n`-th packet, whatever lies there.
    fn send(&self, n: u16) {
        // No flags, region 0.
        let slot = [[0; 4], 60_u32.to_ne_bytes(), Hand::PACKETS.to_ne_bytes(), [0; 4]].concat();
        self.write(128 + 16 * u64::from(n - 1), &slot);
        self.write(6, &n.to_ne_bytes());
    }
}

#[test]
fn a_client_that_cuts_its_memory_takes_the_port_down_and_the_next_ones_packets_come() {
    let folder = Folder::new("memif-cut");
    let (socket, file) = (folder.path("memif.sock"), folder.path("out.pcap"));
    let server = forward(&format!(
        "--port memif:{},role=server,unsealed=ok --port pcap:out={}",
        socket.display(),
        file.display()
    ));
    wait_until("no process listens", || listens(&socket));
    let come = || fs::read(&file).map_or(0, |bytes| packets(&bytes).len());
    // All of it, or the packets alone.
    for (cuts, left) in [(1_u8, 0), (2, u64::from(Hand::PACKETS))] {
        let hand = Hand::connected(&folder, &socket);
        hand.write(Hand::PACKETS.into(), &[cuts; 60]);
        hand.send(1);
        let sent = || fs::read(&file).is_ok_and(|bytes| packets(&bytes).contains(&vec![cuts; 60]));
        wait_until("the packet does not come", sent);
        hand.memory.set_len(left).expect("it is not sealed");
        if left > 0 {
            // Another one, whose bytes are gone.
            hand.send(2);
        }
        let Message::Disconnect { reason, .. } = hand.receive() else { panic!("the server goes on") };
        assert!(reason.to_string().contains("region 0: the peer took pages of the memory away"), "{reason}");
    }
    let before = come();
    let sent = output(&format!("gen --port memif:{} --count 200", socket.display()));
    assert!(sent.status.success(), "{sent:?}");
    wait_until("the next one's packets do not come", || come() >= before + 200);
    let (report, complaint) = end(server);
    // As the port was found from time to time.
    let states = [
        "is down: the peer ended it",
        "is down: region 0: the peer took pages of the memory",
        "is down: no peer has connected",
        "is up",
    ];
    let known = |line: &str| states.iter().any(|state| line.contains(state));
    assert!(complaint.lines().all(known), "{complaint}");
    let pools = report["pools"].as_array().expect("pools");
    assert!(pools.iter().all(|pool| pool["balanced"] == true), "{report}");
    let (received, gone) = (number(&report, "received"), number(&report, "transmitted") + dropped(&report));
    assert_eq!(received, gone, "{report}");
}

/// Seen: for a socket of another user, the run reported that no process listened there, and advised to use an abstract
/// one.
#[test]
fn a_socket_that_may_not_be_opened_is_not_reported_as_absent() {
    let folder = Folder::new("memif-forbidden");
    let socket = folder.path("memif.sock");
    let server = start(&format!("sink --port memif:{},role=server", socket.display()));
    wait_until("no process listens", || listens(&socket));
    fs::set_permissions(&socket, Permissions::from_mode(0o0)).unwrap();
    // Root could still open the socket by CAP_DAC_OVERRIDE, and gives that up. Any other user owns the socket.
    let mut sender = Command::new("env");
    if rustix::process::geteuid().is_root() {
        sender.args(["setpriv", "--bounding-set=-dac_override"]);
    }
    sender.arg(env!("CARGO_BIN_EXE_netmem")).args(["gen", "--wait", "1", "--port"]);
    let refused = child_of(sender.arg(format!("memif:{}", socket.display()))).output().unwrap();
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && complaint.contains("may not be opened by this user"), "{complaint}");
    end_quietly(server);
}

/// Seen: a run stood still for 20 s without a word, since a server refused its port.
#[test]
fn a_run_reports_what_it_waits_for_before_it_begins() {
    let folder = Folder::new("memif-refusing");
    let socket = folder.path("memif.sock");
    let server = start(&format!("sink --port memif:{},role=server,secret=sesame", socket.display()));
    wait_until("no process listens", || listens(&socket));
    let other = folder.path("other.sock");
    let words = format!("--port memif:{} --port memif:{},role=server", socket.display(), other.display());
    // It says what it knows after a second, by when the server may not have answered.
    wait_until("it does not say that the secret is wrong", || {
        let mut run = forward(&words);
        let mut said = BufReader::new(run.stderr.take().unwrap()).lines();
        let line = said.next().expect("it says something").unwrap();
        kill_process(Pid::from_child(&run), Signal::INT).unwrap();
        said.for_each(drop);
        assert!(run.wait().unwrap().success(), "{line}");
        line.contains("up to 20 s: the peer ended it: wrong secret")
    });
    end_quietly(server);
}

fn end_quietly(server: Child) {
    kill_process(Pid::from_child(&server), Signal::INT).unwrap();
    assert!(server.wait_with_output().unwrap().status.success());
}

fn kill(mut child: Child) {
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
}

/// Kills either of two forwarders, again and again, while a stream runs through both.
fn stream_survives(name: &str, options: &str) {
    let folder = Folder::new(name);
    let (begin, middle, file) = (folder.path("begin.sock"), folder.path("middle.sock"), folder.path("out"));
    let (begin, middle) = (begin.display(), middle.display());
    let first = || forward(&format!("--port memif:{begin},role=server --port memif:{middle}{options}"));
    let server = format!("memif:{middle},role=server,holes=ok");
    let second = || forward(&format!("--port {server} --port pcap:out={}", file.display()));
    let size = || fs::metadata(&file).map_or(0, |file| file.len());
    let mut forwarders = (first(), second());
    let stream = start(&format!("gen --port memif:{begin} --rate 5000 --seconds 600 --wait 100 --json"));
    for round in 0..6 {
        let before = size();
        wait_until("nothing comes through", || size() > before + (16 << 10));
        if round % 2 == 0 {
            kill(forwarders.0);
            forwarders.0 = first();
        } else {
            kill(forwarders.1);
            fs::remove_file(&file).expect("what it wrote");
            forwarders.1 = second();
        }
    }
    let before = size();
    wait_until("nothing comes through at the end", || size() > before + (16 << 10));
    let (stream, _) = end(stream);
    let reports = [end(forwarders.0).0, end(forwarders.1).0];
    for report in &reports {
        let pools = report["pools"].as_array().expect("pools");
        assert!(pools.iter().all(|pool| pool["balanced"] == true), "{report}");
        let (received, gone) = (number(report, "received"), number(report, "transmitted") + dropped(report));
        assert_eq!((received, ports(report, "bad_descriptor")), (gone, 0), "{report}");
    }
    assert_eq!(number(&stream["ports"][0], "tx"), number(&stream["ports"][0], "completed"), "{stream}");
}

#[test]
fn a_stream_goes_on_if_either_of_two_forwarders_is_killed_with_lent_frames() {
    stream_survives("killed-lent", ",lend=yes");
    stream_survives("killed-apart", ",lend=yes,peer=any");
}

#[test]
fn a_stream_goes_on_if_either_of_two_forwarders_is_killed_with_copied_frames() {
    stream_survives("killed-copied", "");
}
