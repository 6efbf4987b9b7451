//! HTTP/1.1 beside the kernel: `http eth0 192.0.2.1 FILE` answers each GET to port 80 of a kernel address with the
//! file, over smoltcp and AF_XDP. The kernel answers ping, ARP and all other ports. Needs root; Ctrl-C ends it.

use netmem::port::xdp::{XdpConfig, XdpQueues};
use netmem::{DmaMap, Memory, MemoryConfig, Pool, PoolConfig, Umem};
use netmem_smoltcp::PortDevice;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};
use std::error::Error;
use std::net::IpAddr;

const CLIENTS: usize = 32;
/// Maximum time that a client may be silent.
const PATIENCE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, address, file] = &words[..] else { return Err("usage: http INTERFACE ADDRESS FILE".into()) };
    let (address, file): (IpAddr, Vec<u8>) = (address.parse()?, std::fs::read(file)?);
    let memory = Memory::new(&MemoryConfig::default())?;
    let mut w = memory.worker()?;
    let config = PoolConfig { frames: 16384, dma: DmaMap::Umem, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut w, &config)?;
    let config = XdpConfig { take: Some(format!("tcp:80@{address}").parse()?), ..XdpConfig::default() };
    // A card spreads flows over its queues.
    let queues = XdpQueues::all_of(name)?;
    let port = XdpQueues::open(&Umem::new(&memory), &mut w, &pool, name, &queues, &config)?;
    let mut device = PortDevice::beside_kernel(Box::new(port), w, &pool, 1500)?;

    let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut device, Instant::now());
    // All destinations are on the link: packets go to the station from which the client's came.
    interface.update_ip_addrs(|all| all.push(IpCidr::new(address.into(), 0)).expect("room for one"));
    let mut sockets = SocketSet::new(vec![]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::new(&mut sockets)).collect();
    while !device.port().is_failed() {
        interface.poll(Instant::now(), &mut device, &mut sockets);
        device.flush();
        let mut moved = 0;
        for client in &mut clients {
            moved += client.serve(sockets.get_mut(client.socket), &file);
        }
        if moved == 0 {
            device.wait(interface.poll_delay(Instant::now(), &sockets).map(Into::into));
        }
    }
    Err(format!("{name} is {}", device.port().state()).into())
}

/// A client: its request, and how much of the answer it has received.
struct Client {
    socket: SocketHandle,
    request: Vec<u8>,
    given: usize,
}

impl Client {
    fn new(sockets: &mut SocketSet) -> Client {
        let buffer = |bytes| SocketBuffer::new(vec![0; bytes]);
        let mut socket = Socket::new(buffer(16 << 10), buffer(1 << 20));
        socket.set_congestion_control(CongestionControl::Cubic);
        socket.set_timeout(Some(PATIENCE));
        Client { socket: sockets.add(socket), request: Vec::new(), given: 0 }
    }

    /// Reads and answers as far as possible now. Returns the number of bytes.
    fn serve(&mut self, socket: &mut Socket, file: &[u8]) -> usize {
        // The server closes first, so each socket would be in TIME-WAIT for ten seconds, and no client could connect
        // meanwhile after `CLIENTS` requests. The last poll acknowledged the client's FIN. No poll comes between `abort`
        // and `listen`, so no RST is sent. If the acknowledgement is lost, the FIN comes again and gets an RST, which
        // only ends the client's own wait.
        if matches!(socket.state(), State::Closed | State::TimeWait) {
            (self.request, self.given) = (Vec::new(), 0);
            socket.abort();
            socket.listen(80).expect("a closed socket listens");
        }
        let asked =
            socket.recv(|bytes| (bytes.len(), self.request.extend_from_slice(bytes))).map_or(0, |()| 0);
        let is_whole = self.request.ends_with(b"\r\n\r\n");
        if self.request.len() > 8192 || is_whole && !self.request.starts_with(b"GET ") {
            socket.abort();
        }
        if !is_whole || !socket.may_send() {
            return asked;
        }
        let header =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", file.len());
        let rest = match self.given.checked_sub(header.len()) {
            None => &header.as_bytes()[self.given..],
            Some(at) => &file[at..],
        };
        let given = socket.send_slice(rest).unwrap_or(0);
        self.given += given;
        if self.given == header.len() + file.len() {
            socket.close();
        }
        asked + given
    }
}
