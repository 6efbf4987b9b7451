//! The example `files` and a client of quinn over the kernel's sockets, on another host: 100 MiB, unchanged, by one and
//! by eight connections at once, over a clean link and one with faults.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../tests/testbed/mod.rs"]
mod testbed;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::pki_types::{CertificateDer, pem::PemObject};
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, ReadError, ReadToEndError, TokioRuntime, TransportConfig, VarInt,
    rustls,
};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};
use testbed::{Faults, Namespace, PATIENCE, Served, Testbed, Wiring, example, scratch, wait_until};

const FILE: usize = 100 << 20;

/// The bytes of a reply, or why its stream ended.
type Answer = Result<Vec<u8>, ReadToEndError>;

/// A certificate of the name `files.test` and its key, in a directory that is removed when dropped.
struct Identity(PathBuf);

impl Identity {
    fn new() -> Identity {
        let folder = scratch("identity");
        fs::create_dir(&folder).unwrap();
        let identity = Identity(folder);
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=files.test \
                     -addext subjectAltName=DNS:files.test -addext basicConstraints=critical,CA:FALSE";
        let mut command = Command::new("openssl");
        command.args(words.split_whitespace()).arg("-keyout").arg(identity.key());
        let made = command.arg("-out").arg(identity.certificate()).stderr(Stdio::piped()).output().unwrap();
        assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
        identity
    }

    fn certificate(&self) -> PathBuf {
        self.0.join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.0.join("key.pem")
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// The example on an interface of a namespace; killed when dropped.
struct Server(Child, SocketAddr);

impl Server {
    fn start(at: &Namespace, interface: &str, address: &str, file: &Served, identity: &Identity) -> Server {
        Server::start_on(at, interface, address, file, identity, 1)
    }

    /// The same on that many queues.
    fn start_on(
        at: &Namespace,
        interface: &str,
        address: &str,
        file: &Served,
        identity: &Identity,
        queues: usize,
    ) -> Server {
        let mut command = at.command(&example("netmem-quinn", "files").display().to_string());
        command.args([interface, address]).arg(file.path.parent().unwrap());
        command.arg(identity.certificate()).arg(identity.key());
        let server = Server(command.spawn().expect("the example starts"), address.parse().unwrap());
        wait_until("the server has its interface", || at.xdp_sockets() == queues);
        server
    }

    /// Fetches the file that many times at once, by one connection each, and checks it.
    fn fetch(&self, from: &Namespace, at_once: usize, file: &Served, identity: &Identity) {
        let request = format!("GET /{}\r\n", file.path.file_name().unwrap().display());
        for answer in self.ask(from, at_once, &request, identity) {
            let bytes = answer.expect("the file");
            assert!(bytes == file.bytes, "{} bytes came, and not the file's {FILE}", bytes.len());
        }
    }

    /// Sends a request that many times at once, by one connection each. Returns the answers.
    fn ask(&self, from: &Namespace, at_once: usize, request: &str, identity: &Identity) -> Vec<Answer> {
        let any: SocketAddr = if self.1.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
        let sockets: Vec<_> = (0..at_once).map(|_| from.inside(|| UdpSocket::bind(any).unwrap())).collect();
        let config = trusting(identity);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = sockets
                .into_iter()
                .map(|socket| tokio::spawn(answered(socket, self.1, config.clone(), request.to_owned())))
                .collect();
            let mut answers = Vec::new();
            for task in tasks {
                answers.push(task.await.unwrap());
            }
            answers
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).ok();
    }
}

/// A client's trust: only this certificate. It waits as long as a machine may be stopped.
fn trusting(identity: &Identity) -> ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(identity.certificate()).unwrap()).unwrap();
    let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"hq-interop".to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(PATIENCE.try_into().unwrap()));
    transport.keep_alive_interval(Some(Duration::from_secs(5)));
    config.transport_config(Arc::new(transport));
    config
}

async fn answered(socket: UdpSocket, to: SocketAddr, config: ClientConfig, request: String) -> Answer {
    let runtime = Arc::new(TokioRuntime);
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, runtime).unwrap();
    let connection = endpoint.connect_with(config, to, "files.test").unwrap().await.expect("a connection");
    let (mut send, mut reply) = connection.open_bi().await.unwrap();
    send.write_all(request.as_bytes()).await.unwrap();
    send.finish().unwrap();
    let answer = reply.read_to_end(FILE + 1).await;
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    answer
}

#[test]
fn a_hundred_mebibytes_are_fetched_eight_times_at_once_by_quic_while_the_kernel_answers_ping() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["openssl", "ping"]) else { return };
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    let (file, identity) = (Served::new("by-quic", FILE), Identity::new());
    let server = Server::start(&bed.dut, "one", "10.77.0.254:4433", &file, &identity);
    server.fetch(&bed.h1, 1, &file, &identity);
    thread::scope(|scope| {
        scope.spawn(|| server.fetch(&bed.h1, 8, &file, &identity));
        bed.h1.ping("10.77.0.254", 50, "-i 0.02");
    });
}

#[test]
fn quic_goes_by_ipv6_too() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["openssl"]) else { return };
    [&bed.h1, &bed.dut].iter().for_each(|namespace| namespace.set_ipv6(true));
    bed.dut.ip("addr add fd77::254/64 dev one nodad");
    bed.h1.ip("addr add fd77::1/64 dev eth0 nodad");
    let (file, identity) = (Served::new("by-quic-by-ipv6", FILE), Identity::new());
    let server = Server::start(&bed.dut, "one", "[fd77::254]:4433", &file, &identity);
    server.fetch(&bed.h1, 2, &file, &identity);
}

/// Seen: the example had only the first queue, and the kernel refused the clients of the others.
#[test]
fn clients_of_all_queues_are_served() {
    let Some(bed) = Testbed::lay_with_queues(Wiring::Bridged, 2, &["openssl"]) else { return };
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    let (file, identity) = (Served::new("by-quic-on-queues", 4096), Identity::new());
    let server = Server::start_on(&bed.dut, "one", "10.77.0.254:4433", &file, &identity, 2);
    server.fetch(&bed.h1, 16, &file, &identity);
}

/// Seen: the rule of a server of all addresses was for `0.0.0.0` alone, and it received nothing.
#[test]
fn a_server_of_all_addresses_is_reached_at_each() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["openssl"]) else { return };
    let (file, identity) = (Served::new("by-quic-at-any", 4096), Identity::new());
    let mut server = Server::start(&bed.dut, "one", "0.0.0.0:4433", &file, &identity);
    for address in ["10.77.0.254", "10.77.0.253"] {
        bed.dut.ip(&format!("addr add {address}/24 dev one"));
        server.1.set_ip(address.parse().unwrap());
        server.fetch(&bed.h1, 1, &file, &identity);
    }
}

/// Seen: a server at `[::]` was of IPv6 alone, and clients of IPv4 ended by their time limit.
#[test]
fn a_server_of_both_families_is_reached_at_both() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["openssl"]) else { return };
    [&bed.h1, &bed.dut].iter().for_each(|namespace| namespace.set_ipv6(true));
    bed.dut.ip("addr add fd77::254/64 dev one nodad");
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    bed.h1.ip("addr add fd77::1/64 dev eth0 nodad");
    let (file, identity) = (Served::new("by-quic-at-both-families", 4096), Identity::new());
    let mut server = Server::start(&bed.dut, "one", "[::]:4433", &file, &identity);
    for address in ["fd77::254", "10.77.0.254"] {
        server.1.set_ip(address.parse().unwrap());
        server.fetch(&bed.h1, 1, &file, &identity);
    }
}

#[test]
fn quic_transfers_a_file_whole_over_a_link_that_loses_duplicates_and_delays() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["openssl"]) else { return };
    let (file, identity) = (Served::new("by-quic-with-faults", FILE), Identity::new());
    thread::scope(|scope| {
        let faults = Faults::begin(&bed, scope);
        let server = Server::start(&bed.h2, "eth0", "10.77.0.2:4433", &file, &identity);
        server.fetch(&bed.h1, 1, &file, &identity);
        server.fetch(&bed.h1, 8, &file, &identity);
        faults.assert_of_each_kind(10);
    });
}

/// Seen: the server finished the stream, and the client took no bytes for the whole file.
#[test]
fn the_answer_to_a_request_that_is_too_long_is_reset() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["openssl"]) else { return };
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    let (file, identity) = (Served::new("by-quic-small", 4096), Identity::new());
    let server = Server::start(&bed.dut, "one", "10.77.0.254:4433", &file, &identity);
    let answers = server.ask(&bed.h1, 1, &format!("GET /{}\r\n", "x".repeat(5000)), &identity);
    let reset = ReadToEndError::Read(ReadError::Reset(VarInt::from_u32(1)));
    assert_eq!(answers, [Err(reset)]);
}

/// Found in a review: a symbolic link in the folder was followed, and the server is root.
#[test]
fn a_file_outside_of_the_folder_is_not_served() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["openssl"]) else { return };
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    let (outside, identity) = (Served::new("by-quic-outside", 4096), Identity::new());
    let folder = scratch("by-quic-folder");
    fs::create_dir(&folder).unwrap();
    let within = Served { path: folder.join("within"), bytes: vec![7; 64] };
    fs::write(&within.path, &within.bytes).unwrap();
    std::os::unix::fs::symlink("within", folder.join("link")).unwrap();
    std::os::unix::fs::symlink(&outside.path, folder.join("way-out")).unwrap();
    let server = Server::start(&bed.dut, "one", "10.77.0.254:4433", &within, &identity);
    let name = outside.path.file_name().unwrap().display();
    let answer =
        |path: &str| server.ask(&bed.h1, 1, &format!("GET /{path}\r\n"), &identity).remove(0).unwrap();
    assert_eq!(answer("within"), within.bytes);
    assert_eq!(answer("link"), within.bytes);
    for path in ["way-out", &format!("../{name}"), &outside.path.display().to_string(), "", "."] {
        assert_eq!(answer(path), b"no such file\n", "{path}");
    }
    fs::remove_dir_all(folder).unwrap();
}
