//! Forwards frames received on one interface by the other, over one shared UMEM and without a copy: `redirect eth0
//! eth1`. Needs root; Ctrl-C ends it, and its program then leaves the interfaces.

use netmem::port::xdp::XdpConfig;
use netmem::{
    Batch, Complete, DmaMap, Fill, Memory, MemoryConfig, Pool, PoolConfig, Port, PortState, Rx, Tx, Umem,
    Wake, XdpPort,
};
use std::error::Error;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [one, other] = &names[..] else {
        eprintln!("usage: redirect INTERFACE INTERFACE");
        std::process::exit(2);
    };
    if let Err(error) = redirect(one, other) {
        eprintln!("redirect: {error}");
        std::process::exit(2);
    }
}

fn redirect(one: &str, other: &str) -> Result<(), Box<dyn Error>> {
    let memory = Memory::new(&MemoryConfig::default())?;
    let mut worker = memory.worker()?;
    let config = PoolConfig { frames: 16384, dma: DmaMap::Umem, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut worker, &config)?;
    let umem = Umem::new(&memory);
    let mut open = |name| XdpPort::open(&umem, &mut worker, &pool, name, 0, &XdpConfig::default());
    let mut ports = [open(one)?, open(other)?];
    let mut crossing = [Batch::new(), Batch::new()];
    let mut reported = [PortState::Up, PortState::Up];
    loop {
        for (from, frames) in crossing.iter_mut().enumerate() {
            ports[from].refill(&mut worker, &pool);
            if ports[from].rx(&mut worker, frames) == 0 {
                report(&ports[from], &mut reported[from])?;
            }
            ports[1 - from].tx(&mut worker, frames);
            if !frames.is_empty() {
                ports[1 - from].take_unsendable(frames).free(&mut worker); // offered again, they would block the others
            }
            ports[from].kick();
            let mut sent = Batch::new();
            ports[from].complete(&mut worker, &mut sent);
            sent.free(&mut worker);
        }
    }
}

/// Prints the port's state if it has changed. Returns it as an error if the port will not come up again.
fn report(port: &XdpPort, reported: &mut PortState) -> Result<(), Box<dyn Error>> {
    let state = port.state();
    if port.is_failed() {
        return Err(format!("{} is {state}", port.name()).into());
    }
    if state != *reported {
        eprintln!("redirect: {} is {state}", port.name());
        *reported = state;
    }
    Ok(())
}
