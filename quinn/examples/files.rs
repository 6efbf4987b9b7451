//! A QUIC file server on an interface that the kernel goes on using. `files eth0 192.0.2.1:443 FOLDER CERT.pem KEY.pem`
//! serves the files of FOLDER to clients of `hq-interop`, HTTP/0.9 over QUIC: `GET /name` on a stream for each request.
//! Needs root; Ctrl-C ends it.

use netmem::port::xdp::{Take, XdpConfig, XdpQueues};
use netmem::{DmaMap, Memory, MemoryConfig, Pool, PoolConfig, Umem};
use netmem_quinn::PortSocket;
use netmem_tokio::AsyncPort;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use quinn::{Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, ServerConfig, TokioRuntime, rustls};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::error::Error;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Maximum number of bytes of a request.
const REQUEST_MAX: usize = 4096;

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&words).await {
        eprintln!("files: {error}");
        std::process::exit(2);
    }
}

async fn run(words: &[String]) -> Result<(), Box<dyn Error>> {
    let [interface, address, folder, certificate, key] = words else {
        return Err("usage: files INTERFACE ADDRESS:PORT FOLDER CERT.pem KEY.pem".into());
    };
    let folder = Arc::new(File::open(folder).map_err(|error| format!("{folder}: {error}"))?);
    let address = address.parse().map_err(|_| format!("{address}: not ADDRESS:PORT"))?;
    let config = tls(certificate, key)?;
    let socket = Arc::new(socket(interface, address)?);
    let runtime = Arc::new(TokioRuntime);
    let (settings, own) = (EndpointConfig::default(), socket.clone());
    let endpoint = Endpoint::new_with_abstract_socket(settings, Some(config), own, runtime)?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(serve(incoming, Arc::clone(&folder)));
    }
    // Its port is down for good.
    Err(format!("{interface} is {}", socket.state()).into())
}

fn tls(certificate: &str, key: &str) -> Result<ServerConfig, Box<dyn Error>> {
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|error| format!("{certificate}: {error}"))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| format!("{key}: {error}"))?;
    let mut tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![b"hq-interop".to_vec()];
    Ok(ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?)))
}

fn socket(interface: &str, address: SocketAddr) -> Result<PortSocket, Box<dyn Error>> {
    // A card spreads flows over its queues. Each has slots for 2,048 frames to receive and as many to send.
    let queues = XdpQueues::all_of(interface)?;
    let frames = 4096 * queues.len();
    let memory = Memory::new(&MemoryConfig { bytes: 2 * frames * 2048, ..MemoryConfig::default() })?;
    let mut worker = memory.worker()?;
    let pool_config = PoolConfig { frames, dma: DmaMap::Umem, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut worker, &pool_config)?;
    // 0.0.0.0 stands for all addresses of IPv4, and [::] for all addresses.
    let of = match address.ip() {
        IpAddr::V6(ip) if ip.is_unspecified() => String::new(),
        IpAddr::V4(ip) if ip.is_unspecified() => format!("@{ip}/0"),
        ip => format!("@{ip}"),
    };
    let take: Take = format!("udp:{}{of}", address.port()).parse()?;
    let xdp_config = XdpConfig { take: Some(take), ..XdpConfig::default() };
    let port = XdpQueues::open(&Umem::new(&memory), &mut worker, &pool, interface, &queues, &xdp_config)?;
    Ok(PortSocket::new(AsyncPort::new(Box::new(port), worker, pool)?, address)?)
}

/// Answers all requests of a connection, each in a task of its own.
async fn serve(incoming: Incoming, folder: Arc<File>) {
    let Ok(connection) = incoming.await else { return };
    while let Ok((reply, request)) = connection.accept_bi().await {
        let folder = Arc::clone(&folder);
        tokio::spawn(async move {
            if let Err(error) = answer(reply, request, folder).await {
                eprintln!("files: {error}");
            }
        });
    }
}

/// Answers a request. A failed answer is reset: if its stream were dropped, it would be finished, and the client would
/// take what it has for the whole file.
async fn answer(mut reply: SendStream, request: RecvStream, folder: Arc<File>) -> Result<(), Box<dyn Error>> {
    if let Err(error) = send_file(&mut reply, request, folder).await {
        // The client may have stopped the stream itself.
        reply.reset(1_u32.into()).ok();
        return Err(error);
    }
    reply.finish()?;
    Ok(())
}

async fn send_file(
    reply: &mut SendStream,
    mut request: RecvStream,
    folder: Arc<File>,
) -> Result<(), Box<dyn Error>> {
    let request = request.read_to_end(REQUEST_MAX).await?;
    let Some(file) = spawn_blocking(move || wanted(&request, &folder)).await? else {
        return Ok(reply.write_all(b"no such file\n").await?);
    };
    tokio::io::copy(&mut tokio::fs::File::from_std(file), reply).await?;
    Ok(())
}

/// Opens the file that a request names. Returns None for an invalid request, and if the folder has no such file. The kernel
/// refuses every path that leaves the folder, also by a symbolic link.
fn wanted(request: &[u8], folder: &File) -> Option<File> {
    let name = str::from_utf8(request).ok()?.strip_prefix("GET /")?.trim_end();
    // A FIFO is not waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(openat2(folder, name, flags, Mode::empty(), within).ok()?);
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}
