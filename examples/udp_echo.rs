//! A UDP echo on an interface that the kernel goes on using. `udp_echo eth0 7` sends datagrams to port 7 back in the
//! frame that carried them, and the kernel has all other packets. It sleeps while none comes. Needs root; Ctrl-C ends
//! it, and leaves nothing behind. Without privileges, `udp_echo /run/echo.sock 7` if `netmem grant` listens there for a
//! port that takes `udp:7`.

use netmem::limits::BATCH_MAX;
use netmem::port::xdp::{Take, TakeRule, XdpConfig, XdpGrant, XdpQueues};
use netmem::wire::{Datagram, ipv4};
use netmem::{Batch, DmaMap, Memory, MemoryConfig, Pool, PoolConfig, Port, PortState, Umem, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::error::Error;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(interface), Some(Ok(port))) = (words.first(), words.get(1).map(|port| port.parse())) else {
        eprintln!("usage: udp_echo INTERFACE PORT");
        std::process::exit(2);
    };
    if let Err(error) = serve(interface, port) {
        eprintln!("udp_echo: {error}");
        std::process::exit(2);
    }
}

fn serve(interface: &str, port: u16) -> Result<(), Box<dyn Error>> {
    let is_granted = interface.starts_with(['/', '@']);
    // Without privileges, the amount that any user may lock by default: 8 MiB.
    let (bytes, frames) = if is_granted { (6 << 20, 2048) } else { (64 << 20, 16384) };
    let memory = Memory::new(&MemoryConfig { bytes, ..MemoryConfig::default() })?;
    let mut worker = memory.worker()?;
    let config = PoolConfig { frames, dma: DmaMap::Umem, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut worker, &config)?;
    let rule = TakeRule { protocol: Some(ipv4::UDP), port: Some(port), to: None };
    let config = XdpConfig { take: Some(Take::new([rule])?), ..XdpConfig::default() };
    let umem = Umem::new(&memory);
    let mut port: Box<dyn Port> = if is_granted {
        let grant = XdpGrant::ask(interface.as_ref())?;
        Box::new(XdpQueues::open_granted(&umem, &mut worker, &pool, grant, &config)?)
    } else {
        // A card spreads flows over its queues.
        let queues = XdpQueues::all_of(interface)?;
        Box::new(XdpQueues::open(&umem, &mut worker, &pool, interface, &queues, &config)?)
    };
    let (mut frames, mut reported) = (Batch::new(), PortState::Up);
    loop {
        let moved = round(&mut *port, &mut worker, &pool, &mut frames);
        if moved == 0 && frames.is_empty() {
            report(&*port, is_granted, &mut reported)?;
            sleep(&mut *port)?;
        }
    }
}

/// Prints the port's state if it has changed. Returns it as an error if the port will not come up again.
fn report(port: &dyn Port, is_granted: bool, reported: &mut PortState) -> Result<(), Box<dyn Error>> {
    let state = port.state();
    if port.is_failed() {
        return Err(format!("{} is {state}", port.name()).into());
    }
    // The interface is gone, and the grant with it.
    if is_granted && port.wakeup_fd().is_none() {
        return Err(format!("{} is {state}; start again for another grant", port.name()).into());
    }
    if state != *reported {
        eprintln!("udp_echo: {} is {state}", port.name());
        *reported = state;
    }
    Ok(())
}

/// Receives, answers and sends once. Returns the number of frames moved. Frames without room in the ring stay in
/// `frames`, unless the link is down.
fn round(port: &mut dyn Port, w: &mut Worker, pool: &Pool, frames: &mut Batch) -> usize {
    port.refill(w, pool);
    let mut moved = 0;
    if frames.is_empty() {
        moved += port.rx(w, frames);
        let mut is_echo = [false; BATCH_MAX];
        // One from the service's own port is not answered: two echo services would answer each other without end.
        let turn = |data: &mut [u8]| {
            Datagram::swap_endpoints(data).is_ok_and(|was| was.src.port() != was.dst.port())
        };
        frames.each_data_mut(4, |i, data| is_echo[i] = turn(data));
        let mut verdicts = is_echo.into_iter();
        frames.retain(w, |_| verdicts.next() == Some(true));
    }
    port.tx(w, frames);
    if !frames.is_empty() {
        port.take_unsendable(frames).free(w); // offered again, they would block the others
        if port.state() != PortState::Up {
            frames.free(w); // answers that waited for the link would keep this loop awake
        }
    }
    port.kick();
    let mut sent = Batch::new();
    moved += port.complete(w, &mut sent);
    sent.free(w);
    moved
}

/// Sleeps until there may be frames to receive: arms the port, checks once more, and sleeps.
fn sleep(port: &mut dyn Port) -> Result<(), Box<dyn Error>> {
    if !port.arm() {
        let at_most = Timespec { tv_sec: 0, tv_nsec: 50_000_000 }; // events that wake no thread are checked then
        match port.wakeup_fd() {
            Some(fd) => drop(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&at_most))),
            None => std::thread::sleep(at_most.try_into()?), // the interface is gone for now
        }
    }
    port.disarm();
    Ok(())
}
