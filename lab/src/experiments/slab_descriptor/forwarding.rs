//! The effect on forwarding: the router of `forward-bulk-free`, with a head for every packet. The head is allocated
//! from a cache in each form and freed a few hundred packets later.

use std::cell::RefCell;
use std::sync::Mutex;

use netmem::limits::BATCH_MAX;
use netmem::packet::{HeadCache, HeadCacheConfig, HeadCacheMode, Packet};
use netmem::page::Memory;
use netmem::pool::{Frame, Pool, PoolConfig};
use netmem::sync::Worker;

use super::form::{ALL, DEFAULT, FORMS, Form};
use super::question::asked;
use super::scene::Scene;
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::experiments::check_all_freed;
use crate::experiments::relay::PACKET_BYTES;
use crate::experiments::router::{FarSide, Fate, Router, Setup};
use crate::json::params;
use crate::method::poll::{PollLoop, PollSampler, Shape};
use crate::method::round::{Label, Series, Variant};
use crate::metric::Metric;

/// Slots of each ring of the ports.
const RING: usize = 2_048;

/// Packets of a window.
const WINDOW: u64 = 1_536;

/// Heads that are allocated at the same time: as many as packets wait in a transmit ring.
const IN_FLIGHT: usize = 512;

/// Forms of one size of descriptor.
const WORDS: usize = 4;

/// A router over one memory, and a carousel for each form of its descriptors.
struct Stage<'a> {
    worker: &'a RefCell<Worker>,
    router: RefCell<Router>,
    far: Mutex<FarSide>,
    pool: Pool,
}

/// Measures forwarding without heads and with heads in every form.
pub(super) fn run(scene: &Scene<'_>, bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&peer_core) = bench.cores.get(1) else {
        bench.note("no rows of forwarding: the device needs one core and its far side another");
        return Ok(());
    };
    let stages: Vec<Stage<'_>> =
        FORMS.chunks(WORDS).map(|forms| Stage::new(scene, forms[0])).collect::<Result<_, _>>()?;
    let has = |form: Form| move |forms: &[Form]| forms[0].descriptor == form.descriptor;
    let stage = |form: Form| &stages[FORMS.chunks(WORDS).position(has(form)).unwrap_or(0)];
    // The last is the default layer, which has no form of a word.
    let of = |place: usize| stage(ALL.get(place).copied().unwrap_or(DEFAULT));
    let mut carousels: Vec<Carousel> = Vec::new();
    for form in ALL {
        // Without an array above the cache, so that every head reaches the compared code.
        let config =
            HeadCacheConfig { cache: form.config(), mode: HeadCacheMode::Each, ..HeadCacheConfig::default() };
        let heads = HeadCache::with(scene.memory(form), &config).map_err(SetUpError::at("heads"))?;
        carousels.push(Carousel::new(stage(form), heads)?);
    }
    let heads = HeadCache::new(scene.memory(DEFAULT)).map_err(SetUpError::at("heads"))?;
    carousels.push(Carousel::new(stage(DEFAULT), heads)?);

    let mut variants: Vec<Box<dyn Variant + '_>> = Vec::new();
    for (place, carousel) in carousels.iter_mut().enumerate() {
        let label = label(ALL.get(place).copied(), true);
        variants.push(poll_loop(scene, label, peer_core, of(place), Some(carousel)));
    }
    variants.push(poll_loop(scene, label(None, false), peer_core, of(ALL.len()), None));
    let mut comparisons: Vec<Comparison> =
        asked(&ALL).into_iter().map(|(_, comparison)| comparison).collect();
    comparisons.iter_mut().for_each(|comparison| comparison.metric = Metric::NsPerPacket);
    let limit = ALL.len() + 1;
    for a in ALL.iter().position(|&form| form == DEFAULT).into_iter().chain([ALL.len()]) {
        comparisons.push(Comparison { a, b: limit, metric: Metric::NsPerPacket });
    }
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Cross, scene.effort);
    drop(variants);

    rows(bench, &series);
    for (place, carousel) in carousels.into_iter().enumerate() {
        carousel.settle(of(place), &series[place].label.variant, bench);
    }
    for (stage, forms) in stages.into_iter().zip(FORMS.chunks(WORDS)) {
        stage.settle(&format!("netmem/{}", forms[0].descriptor_name()), bench);
    }
    Ok(())
}

impl<'a> Stage<'a> {
    fn new(scene: &'a Scene<'_>, form: Form) -> Result<Self, SetUpError> {
        let (memory, worker): (&Memory, _) = (scene.memory(form), scene.worker(form));
        // One for each word form, and one more: of the default layer, or with the lock's cold lines.
        let frames = (WORDS + 1) * (IN_FLIGHT + 1);
        let config = PoolConfig { name: "heads".to_owned(), frames, ..PoolConfig::default() };
        let pool = Pool::new(memory, &mut worker.borrow_mut(), &config).map_err(SetUpError::at("pool"))?;
        let setup = Setup::frames(RING, Fate::Routed);
        let (router, far) = Router::new(memory, &mut worker.borrow_mut(), &setup)?;
        Ok(Self { worker, router: RefCell::new(router), far: Mutex::new(far), pool })
    }

    fn settle(self, variant: &str, bench: &mut Bench<'_>) {
        let far = self.far.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.router.into_inner().settle(far, &mut self.worker.borrow_mut(), variant, bench);
        check_all_freed(bench, &format!("{variant}: frames with heads"), &self.pool);
    }
}

fn poll_loop<'a>(
    scene: &'a Scene<'_>,
    label: Label,
    core: usize,
    stage: &'a Stage<'_>,
    mut carousel: Option<&'a mut Carousel>,
) -> Box<dyn Variant + 'a> {
    let shape = Shape { burst: BATCH_MAX, packets: WINDOW, waits: false };
    let poll = move || {
        let worker = &mut stage.worker.borrow_mut();
        let found = stage.router.borrow_mut().poll(worker);
        if let Some(carousel) = &mut carousel {
            carousel.turn(worker, found);
        }
        found
    };
    let far = &stage.far;
    let peer = || {
        if let Ok(mut far) = far.lock() {
            far.turn();
        }
    };
    let sampler = PollSampler::new(&scene.clock, shape);
    Box::new(PollLoop::new(label, sampler, Some(core), Box::new(poll), Box::new(peer)))
}

/// Packets in flight, each with its head. A packet completes after all the others.
struct Carousel {
    heads: HeadCache,
    packets: Vec<Packet>,
    /// The frame for the next head.
    spare: Option<Frame>,
    next: usize,
    refused: u64,
}

impl Carousel {
    fn new(stage: &Stage<'_>, heads: HeadCache) -> Result<Self, SetUpError> {
        let worker = &mut stage.worker.borrow_mut();
        let full = |_| SetUpError { step: "heads", cause: "no memory for a head".to_owned() };
        let empty = || SetUpError { step: "frames", cause: "the pool has too few".to_owned() };
        let mut packets = Vec::with_capacity(IN_FLIGHT);
        for _ in 0..IN_FLIGHT {
            let frame = stage.pool.alloc(worker).ok_or_else(empty)?;
            packets.push(heads.attach(worker, frame).map_err(full)?);
        }
        let spare = Some(stage.pool.alloc(worker).ok_or_else(empty)?);
        Ok(Self { heads, packets, spare, next: 0, refused: 0 })
    }

    /// Gives `count` packets a head, and frees the heads of the same number of packets that have been in flight for
    /// longest.
    fn turn(&mut self, w: &mut Worker, count: usize) {
        for _ in 0..count {
            let Some(frame) = self.spare.take() else { return };
            self.spare = match self.heads.attach(w, frame) {
                Ok(young) => {
                    let place = self.next;
                    self.next = (place + 1) % IN_FLIGHT;
                    let old = std::mem::replace(&mut self.packets[place], young);
                    self.heads.detach(w, old).ok()
                }
                Err(frame) => {
                    self.refused += 1;
                    Some(frame)
                }
            };
        }
    }

    fn settle(self, stage: &Stage<'_>, variant: &str, bench: &mut Bench<'_>) {
        let worker = &mut stage.worker.borrow_mut();
        let Self { heads, packets, spare, refused, .. } = self;
        let whole = packets.len() == IN_FLIGHT && spare.is_some();
        packets.into_iter().for_each(|packet| heads.free(worker, packet));
        spare.into_iter().for_each(|frame| frame.free(worker));
        bench.check(
            &format!("{variant}: every packet had its head"),
            whole && refused == 0,
            format!("{refused} heads refused"),
        );
    }
}

fn rows(bench: &mut Bench<'_>, series: &[Series]) {
    for one in series {
        bench.row(one, Metric::NsPerPacket, None);
    }
    bench.check_generator(series);
    bench.note(
        "forwarding: the product's forwarder carries frames and needs no heads; these rows attach one to each \
         packet (packet::HeadCache) and detach it 512 packets later; `netmem` has heads by default settings, which \
         change no slab's word, and `limit` has none. The lines of `netmem/64-lock-interrupts` are as warm as forwarding \
         leaves them; those of `netmem/64-lock-interrupts-cold` are cold whatever it does",
    );
}

/// Returns the label of a form's rows, of those of the default layer, or of those without heads.
fn label(form: Option<Form>, heads: bool) -> Label {
    let mut params = params([
        ("work", "forward".into()),
        ("burst", BATCH_MAX.into()),
        ("cores", "cross".into()),
        ("bytes", PACKET_BYTES.into()),
        ("touch", true.into()),
        ("heads", heads.into()),
    ]);
    if heads {
        params.insert("layer".to_owned(), if form.is_some() { "cpu_slab" } else { "sheaf" }.into());
    }
    if let Some(form) = form {
        params.insert("descriptor".to_owned(), form.descriptor_name().into());
        params.insert("word".to_owned(), form.word_name().into());
    }
    let bare = if heads { "netmem" } else { "limit" };
    Label { variant: form.map_or_else(|| bare.to_owned(), Form::variant), params }
}
