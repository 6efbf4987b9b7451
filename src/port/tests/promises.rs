//! The promises of all ports ([`port::conformance`](crate::port::conformance)), over sequences of calls that shrink if
//! one fails. `tests/promises.rs` checks the ports that need an interface.

use crate::page::Memory;
use crate::port::Port;
use crate::port::conformance::{BadFrame, Fixture, Peer, Step, run};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Number of frames of the pool.
const FRAMES: usize = 256;

/// Returns a memory that a peer can map, with a pool of that many frames.
pub fn shared_fixture(frames: usize) -> Fixture {
    // SAFETY: both ends of the ports are on this thread, and no frame is read while the other end writes.
    #[allow(unsafe_code)]
    let memory = unsafe { Memory::shared(&Fixture::config()) };
    Fixture::over(memory.unwrap(), frames)
}

fn step() -> impl Strategy<Value = Step> {
    let odd = || prop_oneof![3 => Just(0), 1 => any::<u64>()];
    let kind = prop_oneof![Just(BadFrame::Short), Just(BadFrame::Foreign)];
    prop_oneof![
        (0_usize..40).prop_map(Step::Deliver),
        (0_usize..80).prop_map(Step::Refill),
        (0_usize..65, odd()).prop_map(|(n, odd)| Step::Fill(n, odd)),
        Just(Step::Rx),
        (0_usize..65, kind, odd()).prop_map(|(n, kind, odd)| Step::Tx(n, kind, odd)),
        Just(Step::Collect),
        Just(Step::Complete),
        Just(Step::Kick),
        Just(Step::Free),
    ]
}

/// Checks the promises on the ports that `open` opens, a new one for each sequence, with its peer.
///
/// # Panics
/// Panics if a promise is broken.
pub fn are_kept(mut open: impl FnMut(&mut Fixture) -> (Box<dyn Port>, Box<dyn Peer>)) {
    let mut runner = TestRunner::new(ProptestConfig { cases: 48, ..ProptestConfig::default() });
    let steps = proptest::collection::vec(step(), 1..60);
    // A port may be opened only once at a time, hence the cell.
    let open = std::cell::RefCell::new(&mut open);
    runner
        .run(&steps, |steps| {
            let mut fixture = shared_fixture(FRAMES);
            let (port, peer) = open.borrow_mut()(&mut fixture);
            run(fixture, port, peer, &steps);
            Ok(())
        })
        .unwrap();
}
