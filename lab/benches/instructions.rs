//! How many instructions each hot path takes, held to what is written in `instructions.txt`.
//!
//! Times are noise on a shared machine, instruction counts under callgrind are exact. Each path runs twice, once
//! for `FEW` and once for `MANY` operations; the difference is the path alone, without set-up. The record was made on a
//! processor with AVX2; on one without it frames in bulk take more instructions.
//!
//! ```text
//! cargo bench --bench instructions               compares with the record; exit 1 if a path is off by over 2 %
//! cargo bench --bench instructions -- --record   writes the record again
//! ```

use netmem::forward::{Forwarder, PacketPath};
use netmem::packet::{HeadCache, Packet, Packets, ReadyPackets};
use netmem::page::{BackingPreference, Memory, MemoryConfig, Page};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::mem::{MemConfig, MemPort};
use netmem::port::memif::{Lend, MemifConfig, MemifPort, Role, Sealing};
use netmem::port::{Complete, Fill, Port, PortState, Rx, Tx, Wake};
use netmem::slab::{Cache, CacheConfig, Layer, Object};
use netmem::steer::{Mesh, MeshConfig, Source};
use netmem::sync::Worker;
use netmem_router::Router;
use netmem_traffic::{self as traffic, Traffic};
use std::error::Error;
use std::fmt::Write;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::process::{Command, ExitCode};

const FEW: u64 = 1_000;
const MANY: u64 = 11_000;
/// Share of the recorded count by which a path may differ.
const TOLERANCE: f64 = 0.02;
const BULK: usize = 32;
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");

type Failure = Box<dyn Error>;
type Bytes = MaybeUninit<[u8; 256]>;

/// A path's name, what it does `n` times, and how many pages, objects or frames one time is.
struct Path {
    name: &'static str,
    each: u64,
    run: fn(&Memory, &mut Worker, u64) -> Result<(), Failure>,
}

const PATHS: &[Path] = &[
    Path {
        name: "nothing",
        each: 1,
        run: |_, _, n| {
            (0..n).for_each(|i| {
                black_box(i);
            });
            Ok(())
        },
    },
    Path { name: "page alloc + free, order 0", each: 1, run: pages },
    Path { name: "page alloc + free, order 0, bulk 32, per page", each: BULK as u64, run: pages_in_bulk },
    Path { name: "object of 256 bytes alloc + free", each: 1, run: objects },
    Path {
        name: "object of 256 bytes alloc + free, bulk 32, per object",
        each: BULK as u64,
        run: objects_in_bulk,
    },
    Path { name: "object of 256 bytes alloc + free, cpu_slab", each: 1, run: objects_of_a_cpu_slab },
    Path { name: "frame alloc + free", each: 1, run: frames },
    Path {
        name: "frame alloc, and free by another worker one by one, per frame",
        each: BULK as u64,
        run: frames_freed_elsewhere,
    },
    Path { name: "frame alloc + free, bulk 32, per frame", each: BULK as u64, run: frames_in_bulk },
    Path {
        name: "frame alloc + free, 64 bytes written, bulk 32, per frame",
        each: BULK as u64,
        run: frames_in_bulk_written,
    },
    Path { name: "packet alloc + free, 64 bytes written", each: 1, run: packets },
    Path { name: "packet alloc + free, bulk 32, per packet", each: BULK as u64, run: packets_in_bulk },
    Path { name: "ready packet get + free, 64 bytes written", each: 1, run: pairs },
    Path { name: "ready packet get + free, bulk 32, per packet", each: BULK as u64, run: pairs_in_bulk },
    Path {
        name: "frame to another worker, bulk 32, both sides, per frame",
        each: BULK as u64,
        run: hand_off,
    },
    Path {
        name: "IPv4 frame through a router of mem ports, bulk 32, with both far ends, per frame",
        each: BULK as u64,
        run: |memory, w, n| routed(memory, w, n, None),
    },
    Path {
        name: "IPv4 packet with a head through a router of mem ports, bulk 32, with both far ends, per packet",
        each: BULK as u64,
        run: |memory, w, n| routed(memory, w, n, Some(PacketPath::new(HeadCache::new(memory)?))),
    },
    Path {
        name: "packet over memif and back, lent, bulk 32, both ends, per packet",
        each: BULK as u64,
        run: |memory, w, n| over_memif(memory, w, n, true),
    },
    Path {
        name: "packet over memif and back, copied, bulk 32, both ends, per packet",
        each: BULK as u64,
        run: |memory, w, n| over_memif(memory, w, n, false),
    },
];

fn pages(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    for _ in 0..n {
        let page = memory.alloc(w, 0).ok_or("no page")?;
        memory.free(w, black_box(page));
    }
    Ok(())
}

fn pages_in_bulk(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let mut pages: [Option<Page>; BULK] = [const { None }; BULK];
    for _ in 0..n {
        if memory.alloc_bulk(w, &mut pages) < BULK {
            return Err("not enough pages".into());
        }
        memory.free_bulk(w, black_box(&mut pages));
    }
    Ok(())
}

fn cache(memory: &Memory) -> Result<Cache<Bytes>, Failure> {
    Ok(Cache::new(memory, &CacheConfig::default())?)
}

fn objects(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    trips(&cache(memory)?, w, n)
}

fn trips(cache: &Cache<Bytes>, w: &mut Worker, n: u64) -> Result<(), Failure> {
    for _ in 0..n {
        let object = cache.alloc(w, Bytes::uninit()).map_err(|_| "no object")?;
        cache.free(w, black_box(object));
    }
    Ok(())
}

/// The active slab's own: what per-object frees are measured against.
fn objects_of_a_cpu_slab(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let config = CacheConfig { layer: Layer::CpuSlab, ..CacheConfig::default() };
    trips(&Cache::new(memory, &config)?, w, n)
}

fn objects_in_bulk(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let cache = cache(memory)?;
    let mut objects: Vec<Object<Bytes>> = Vec::with_capacity(BULK);
    for _ in 0..n {
        if !cache.alloc_bulk(w, BULK, &mut objects, Bytes::uninit) {
            return Err("not enough objects".into());
        }
        cache.free_bulk(w, black_box(&mut objects));
    }
    Ok(())
}

fn frames(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let pool = Pool::new(memory, w, &PoolConfig { frames: 1024, ..PoolConfig::default() })?;
    for _ in 0..n {
        let frame = pool.alloc(w).ok_or("no frame")?;
        pool.free(w, black_box(frame));
    }
    Ok(())
}

/// By both workers in one thread: what is counted is the same.
fn frames_freed_elsewhere(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let pool = Pool::new(memory, w, &PoolConfig { frames: 1024, ..PoolConfig::default() })?;
    let mut elsewhere = memory.worker()?;
    let mut batch = Batch::new();
    for _ in 0..n {
        pool.alloc_burst(w, &mut batch, BULK);
        black_box(&mut batch).drain().for_each(|frame| frame.free(&mut elsewhere));
    }
    Ok(())
}

fn frames_in_bulk(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let pool = Pool::new(memory, w, &PoolConfig { frames: 1024, ..PoolConfig::default() })?;
    let mut batch = Batch::new();
    for _ in 0..n {
        if pool.alloc_burst(w, &mut batch, BULK) < BULK {
            return Err("not enough frames".into());
        }
        black_box(&mut batch).free(w);
    }
    Ok(())
}

fn frames_in_bulk_written(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let pool = Pool::new(memory, w, &PoolConfig { frames: 1024, ..PoolConfig::default() })?;
    let mut batch = Batch::new();
    for _ in 0..n {
        pool.alloc_burst(w, &mut batch, BULK);
        if batch.put_each(64, |_, line| line.fill(7)) < BULK {
            return Err("not enough frames".into());
        }
        black_box(&mut batch).free(w);
    }
    Ok(())
}

/// Heads and frames, which packets are made of.
fn makings(memory: &Memory, w: &mut Worker) -> Result<(Pool, HeadCache), Failure> {
    let config = PoolConfig { frames: 1024, ..PoolConfig::default() };
    Ok((Pool::new(memory, w, &config)?, HeadCache::new(memory)?))
}

fn packets(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let (pool, heads) = makings(memory, w)?;
    for _ in 0..n {
        let frame = pool.alloc(w).ok_or("no frame")?;
        let mut packet = heads.attach(w, frame).map_err(|_| "no head")?;
        write(&mut packet)?;
        heads.free(w, black_box(packet));
    }
    Ok(())
}

fn packets_in_bulk(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let (pool, heads) = makings(memory, w)?;
    let (mut frames, mut packets) = (Batch::new(), Packets::new());
    for _ in 0..n {
        pool.alloc_burst(w, &mut frames, BULK);
        if heads.attach_burst(w, &mut frames, &mut packets) < BULK {
            return Err("not enough packets".into());
        }
        heads.free_bulk(w, black_box(&mut packets));
    }
    Ok(())
}

fn pairs(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let (pool, heads) = makings(memory, w)?;
    let pairs = ReadyPackets::new(&pool, &heads, ReadyPackets::MAX);
    for _ in 0..n {
        let mut packet = pairs.get(w).ok_or("no packet")?;
        write(&mut packet)?;
        pairs.free(w, black_box(packet));
    }
    Ok(())
}

fn pairs_in_bulk(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let (pool, heads) = makings(memory, w)?;
    let pairs = ReadyPackets::new(&pool, &heads, ReadyPackets::MAX);
    let mut packets = Packets::new();
    for _ in 0..n {
        if pairs.get_burst(w, &mut packets, BULK) < BULK {
            return Err("not enough packets".into());
        }
        pairs.free_bulk(w, black_box(&mut packets));
    }
    Ok(())
}

/// Both workers' sides in one thread, by one token: what is counted is the same.
fn hand_off(memory: &Memory, w: &mut Worker, n: u64) -> Result<(), Failure> {
    let pool = Pool::new(memory, w, &PoolConfig { frames: 1024, ..PoolConfig::default() })?;
    let (_, mut ends) = Mesh::new(&MeshConfig::default())?;
    let (Some((_, mut inbox)), Some((mut outbox, _))) = (ends.pop(), ends.pop()) else {
        return Err("no two workers".into());
    };
    let (mut batch, to) = (Batch::new(), inbox.worker());
    pool.alloc_burst(w, &mut batch, BULK);
    for _ in 0..n {
        let taken = outbox.hand_off(w, to, Source::default(), &mut batch);
        outbox.flush(w);
        if inbox.take(w, black_box(&mut batch)).is_none() || taken < BULK || batch.len() < BULK {
            return Err("not all frames arrived".into());
        }
    }
    batch.free(w);
    Ok(())
}

/// All that a frame costs on its way, or a packet where there is a path for those: a round of a forwarder, and its generator and sink.
fn routed(memory: &Memory, w: &mut Worker, n: u64, path: Option<PacketPath>) -> Result<(), Failure> {
    let pool = Pool::new(memory, w, &PoolConfig { frames: 1024, ..PoolConfig::default() })?;
    let ring = MemConfig::default();
    let ((a, mut near), (b, mut far)) = (MemPort::pair("0", &ring)?, MemPort::pair("1", &ring)?);
    let ports: Vec<Box<dyn Port>> = vec![Box::new(a), Box::new(b)];
    let mut forwarder = Forwarder::new(ports, pool, Box::new(Router::new(traffic::router().into())))?;
    path.into_iter().for_each(|path| forwarder.set_packet_path(path));
    let mut traffic = Traffic::new(1, 64)?;
    forwarder.poll(w);
    for _ in 0..n {
        let delivered = near.deliver(BULK, |room| traffic.write(room));
        forwarder.poll(w);
        let left = far.collect(BULK, |data| _ = black_box(data[0]));
        if delivered < BULK || left < BULK {
            return Err("not all frames were forwarded".into());
        }
    }
    Ok(())
}

/// A server over `memory`, and a client over one that it can lend frames of.
fn over_memif(memory: &Memory, w: &mut Worker, n: u64, zero_copy: bool) -> Result<(), Failure> {
    // SAFETY: no peer has its file.
    let lent = unsafe { Memory::shared(&small()) }?;
    let mut lender = lent.worker()?;
    let config = PoolConfig { frames: 1024, ..PoolConfig::default() };
    let pools = [Pool::new(memory, w, &config)?, Pool::new(&lent, &mut lender, &config)?];
    let path = std::env::temp_dir().join(format!("netmem-instructions-{}", std::process::id()));
    // SAFETY: both ends are here, and neither writes while a reference to a frame's bytes is alive.
    let lend = zero_copy.then(|| unsafe { Lend::to_trusted_peers() });
    let config = MemifConfig { lend, ring: 64, sealing: Sealing::HolesAllowed, ..MemifConfig::default() };
    let mut server = MemifPort::open(&path, memory, &MemifConfig { role: Role::Server, ..config.clone() })?;
    let mut client = MemifPort::open(&path, &lent, &config)?;
    while [server.state(), client.state()] != [PortState::Up, PortState::Up] {
        server.kick();
        client.kick();
    }
    let mut batch = Batch::new();
    for _ in 0..n {
        server.refill(w, &pools[0]);
        client.refill(&mut lender, &pools[1]);
        pools[1].alloc_burst(&mut lender, &mut batch, BULK);
        batch.put_each(64, |_, _| ());
        client.tx(&mut lender, &mut batch);
        server.rx(w, &mut batch);
        server.tx(w, &mut batch);
        if client.rx(&mut lender, &mut batch) < BULK {
            return Err("not all packets came back".into());
        }
        client.complete(&mut lender, &mut batch);
        batch.free(&mut lender);
        server.complete(w, &mut batch);
        batch.free(w);
    }
    Ok(())
}

fn write(packet: &mut Packet) -> Result<(), Failure> {
    packet.put(64)?.fill(7);
    Ok(())
}

fn main() -> ExitCode {
    // cargo itself adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let done = match &arguments[..] {
        [] => compare(),
        [record] if record == "--record" => write_record(),
        [path, n] => run(path, n),
        _ => Err("give no argument, or --record".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A memory that is set up in little time.
fn small() -> MemoryConfig {
    MemoryConfig { bytes: 8 << 20, workers: 2, backing: BackingPreference::Small, ..MemoryConfig::default() }
}

/// What runs under callgrind: one path, `n` times.
fn run(name: &str, n: &str) -> Result<(), Failure> {
    let path = PATHS.iter().find(|path| path.name == name).ok_or("no such path")?;
    let memory = Memory::new(&small())?;
    let mut worker = memory.worker()?;
    (path.run)(&memory, &mut worker, n.parse()?)
}

/// Instructions of one page, object or frame on this path.
fn count(path: &Path) -> Result<f64, Failure> {
    let [few, many] = [FEW, MANY].map(|n| collected(path.name, n));
    Ok((many? - few?) as f64 / ((MANY - FEW) * path.each) as f64)
}

/// Instructions that the whole process takes, by callgrind.
fn collected(name: &str, n: u64) -> Result<u64, Failure> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([name, &n.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error} (apt-get install valgrind)"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    match collected {
        Some((_, count)) if output.status.success() => Ok(count.trim().parse()?),
        _ => Err(format!("{name} under valgrind: {}\n{said}", output.status).into()),
    }
}

fn write_record() -> Result<(), Failure> {
    let mut record = String::new();
    for path in PATHS {
        writeln!(record, "{:8.1}  {}", count(path)?, path.name)?;
    }
    print!("{record}");
    Ok(std::fs::write(RECORD, record)?)
}

fn compare() -> Result<(), Failure> {
    let text = std::fs::read_to_string(RECORD)?;
    let mut off = 0;
    for path in PATHS {
        let recorded =
            text.lines().filter_map(|line| line.trim().split_once("  ")).find(|(_, name)| *name == path.name);
        let recorded: f64 =
            recorded.ok_or_else(|| format!("no record of {:?}: run with --record", path.name))?.0.parse()?;
        let counted = count(path)?;
        let apart = counted / recorded - 1.0;
        let verdict = if apart.abs() <= TOLERANCE { "" } else { "  OFF THE RECORD" };
        off += usize::from(!verdict.is_empty());
        println!(
            "{counted:8.1}  ({:+.1} % of the recorded {recorded:.1})  {}{verdict}",
            apart * 100.0,
            path.name
        );
    }
    if off > 0 {
        return Err(format!(
            "{off} paths are off the record by more than {:.0} %: find out why, then --record",
            TOLERANCE * 100.0
        )
        .into());
    }
    Ok(())
}
