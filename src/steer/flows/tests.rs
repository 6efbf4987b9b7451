//! Tests of the choice for a flow whose reader leaves between the look at its lane and its frames.
#![cfg(not(loom))]

use super::{FlowTable, Own};
use crate::pool::Line;
use crate::steer::DEFAULT_KEY;
use crate::steer::consumers::FlowConsumers;
use crate::steer::lane::{Progress, lane};
use crate::steer::outgoing::Outgoing;
use crate::steer::toeplitz::Toeplitz;
use std::sync::Arc;

/// Observed: a worker without a reader counted as done, so the flow moved on in the middle of its batch, past the
/// frames that stayed.
#[test]
fn a_flow_whose_reader_goes_in_the_middle_of_a_batch_moves_on_with_the_next_batch() {
    let ends = [0, 1].map(|reader| lane::<Line>(64, Progress::new(reader, 0)).unwrap());
    let [(to_first, first), (to_second, _second)] = ends;
    let out = [to_first, to_second].map(|lane| Outgoing::new(lane, Arc::default(), None));
    let consumers = FlowConsumers::new(Toeplitz::new(&DEFAULT_KEY), 1);
    let mut flows = FlowTable::new(1);
    let mut choose = |list: u32, closed: u64, ahead: &mut [u32; 3]| {
        let own = Own { worker: 2, direct: true, list };
        flows.choose(7, (&[0, 1], closed), &out, own, ahead, &consumers)
    };
    let mut ahead = [0; 3];
    assert_eq!(choose(1, 0, &mut ahead), 0);
    drop(first);
    assert!((0..63).all(|_| choose(1, 0, &mut ahead) == 0), "the first frame may have stayed");
    assert_eq!(ahead, [64, 0, 0]);
    assert_eq!(choose(2, 1, &mut [0; 3]), 1);
    assert_eq!(flows.moves, 1);
}
