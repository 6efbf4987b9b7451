//! What the control socket shows of a forwarding run, and the keys that turn it.

use crate::control::Record;
use crate::control::board::Board;
use netmem::forward::Forwarder;
use netmem::page::Memory;
use netmem::pool::{Holder, Ledger, Pool, PoolStats};

/// The board of a forwarder over one memory and pool.
pub fn board(memory: &Memory, pool: &Pool, forwarder: &Forwarder) -> Board {
    let mut board = Board::new();
    sections(&mut board, memory, pool, forwarder);
    keys(&mut board, memory, pool);
    board
}

fn sections(board: &mut Board, memory: &Memory, pool: &Pool, forwarder: &Forwarder) {
    let of = pool.clone();
    board.section("pools", move || vec![pool_record(&of)]);
    let ports: Vec<_> =
        forwarder.ports().map(|port| (port.name().to_owned(), port.kind(), port.counters())).collect();
    board.section("ports", move || {
        let record = |(name, kind, counters): &(String, &str, std::sync::Arc<netmem::port::PortCounters>)| {
            Record::default().with("name", name.as_str()).with("kind", *kind).with_all(counters.iter())
        };
        ports.iter().map(record).collect()
    });
    let meters = forwarder.meters();
    board.section("drops", move || {
        let drops = meters.drops.iter().map(|(reason, frames)| (reason.name(), frames));
        vec![Record::default().with("name", "forward").with_all(drops)]
    });
    let meters = forwarder.meters();
    board.section("forward", move || {
        let counters = [
            ("received", meters.received.get()),
            ("transmitted", meters.transmitted.get()),
            ("completed", meters.completed.get()),
            ("passed", meters.passed.get()),
            ("dropped", meters.drops.total()),
            ("held", meters.held.get()),
        ];
        vec![Record::default().with("name", "forward").with_all(counters)]
    });
    let of = pool.clone();
    board.section("holders", move || holder_records(&of));
    let of = memory.clone();
    board.section("pages", move || vec![page_record(&of)]);
}

/// The ledger's places, then the counters under page_pool's names.
fn pool_record(pool: &Pool) -> Record {
    let Ledger { name, total, free, cached, ready, owned, posted, queued, returning } = pool.ledger();
    let places = [
        ("total", total),
        ("free", free),
        ("cached", cached),
        ("ready", ready),
        ("owned", owned),
        ("posted", posted),
        ("queued", queued),
        ("returning", returning),
    ];
    let PoolStats { alloc, recycle, released, failed } = pool.stats();
    let counters = [
        ("alloc_fast", alloc.fast),
        ("alloc_slow", alloc.slow),
        ("alloc_slow_high_order", alloc.slow_high_order),
        ("alloc_empty", alloc.empty),
        ("alloc_refill", alloc.refill),
        ("alloc_waive", alloc.waive),
        ("recycle_cached", recycle.cached),
        ("recycle_cache_full", recycle.cache_full),
        ("recycle_ring", recycle.ring),
        ("recycle_ring_full", recycle.ring_full),
        ("recycle_released_refcnt", recycle.released_refcnt),
        ("released", released),
        ("failed", failed),
        ("mapped_pages", pool.mapped_pages()),
    ];
    let record = Record::default().with("name", name).with_all(places);
    record.with("inflight", pool.inflight()).with_all(counters)
}

/// Who took the frames that are out. None while the pool does not trace: it would not know, and asking takes what its
/// owner has cached.
fn holder_records(pool: &Pool) -> Vec<Record> {
    let holders = if pool.is_traced() { pool.holders() } else { Vec::new() };
    holders.iter().map(holder_record).collect()
}

fn holder_record(holder: &Holder) -> Record {
    let site = holder.site.map_or_else(|| "taken before tracing was on".to_owned(), ToString::to_string);
    let place =
        holder.place.map_or_else(|| "program".to_owned(), |place| format!("{place:?}").to_lowercase());
    Record::default()
        .with("name", site)
        .with("frames", holder.frames)
        .with("place", place)
        .with("oldest_ms", u64::try_from(holder.oldest.as_millis()).unwrap_or(u64::MAX))
}

fn page_record(memory: &Memory) -> Record {
    let stats = memory.stats();
    Record::default().with("name", "memory").with("bytes", memory.bytes()).with_all([
        ("total", stats.total),
        ("free", stats.free),
        ("cached", stats.cached),
        ("allocated", stats.allocated),
        ("missed", stats.missed),
        ("failed", stats.failed),
    ])
}

fn keys(board: &mut Board, memory: &Memory, pool: &Pool) {
    let (of, to) = (memory.clone(), memory.clone());
    board.switch(
        "page.statistics",
        "whether the page counters count",
        move || of.statistics(),
        move |on| to.set_statistics(on),
    );
    let name = pool.name().to_owned();
    let (of, to) = (pool.clone(), pool.clone());
    board.number(
        format!("pool.{name}.frames"),
        (format!("1 to {}", pool.capacity()), "frames", "how many the pool may have"),
        move || of.frames(),
        move |frames| to.resize(frames),
    );
    let (of, to) = (pool.clone(), pool.clone());
    board.number(
        format!("pool.{name}.cache"),
        ("0 to 65536", "frames", "how many the owner's cache holds; a smaller one takes refill down with it"),
        move || of.cache().0,
        move |cache| to.set_cache(cache, to.cache().1.clamp(1, cache.max(1))),
    );
    let (of, to) = (pool.clone(), pool.clone());
    board.switch(
        format!("pool.{name}.trace"),
        "whether frames remember who took them and when; stat holders shows it",
        move || of.is_traced(),
        move |on| to.trace(on),
    );
    let (of, to) = (pool.clone(), pool.clone());
    board.number(
        format!("pool.{name}.refill"),
        ("1 to the cache", "frames", "how many the owner's cache is refilled to"),
        move || of.cache().1,
        move |refill| to.set_cache(to.cache().0, refill),
    );
}
