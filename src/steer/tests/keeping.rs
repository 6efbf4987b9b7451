//! Tests that frames that do not fit stay with their sender, in order, and that no frame is dropped unless asked for.

use super::*;
use crate::steer::counters::HandOffDrops;

const NONE: HandOffDrops = HandOffDrops { inbox_full: 0, flow_limit: 0, inbox_gone: 0 };

/// Observed: a pipeline of two workers with the usual settings lost 75.7 % of its frames, all of one flow, to a flow
/// limit.
#[test]
fn frames_of_one_flow_handed_off_to_a_slow_worker_all_arrive_or_stay() {
    for (inbox, flow_limit) in [(1024, None), (64, None), (64, Some(FlowLimitConfig::default()))] {
        let mut rig = rig(&MeshConfig { inbox, flow_limit, ..MeshConfig::default() });
        let (mut arrived, mut stayed, mut next) = (Vec::new(), Vec::new(), 0);
        for round in 0..crate::rounds::rounds(400) {
            let fresh = 64 - stayed.len() as u32;
            let offered =
                std::mem::take(&mut stayed).into_iter().chain(run(1, next, fresh)).collect::<Vec<_>>();
            next += fresh;
            let room = rig.workers[0].outbox.room(1);
            stayed = rig.hand_off(0, 1, offered);
            assert_eq!(stayed.len(), 64_usize.saturating_sub(room), "as room said");
            rig.flush(0);
            if round % 3 == 0 {
                arrived.extend(rig.take(1).into_iter().flat_map(|(_, taken)| taken));
            }
        }
        arrived.extend(rig.take_all(1));
        arrived.extend(stayed);
        assert_eq!(arrived, run(1, 0, next).collect::<Vec<_>>(), "each once, in order");
        assert_eq!(rig.mesh.stats()[1].drops, NONE);
        assert!(rig.pool.ledger().all_freed());
    }
}

#[test]
fn what_is_steered_to_a_full_inbox_stays_in_order_and_the_others_go_on() {
    let mut rig = rig(&MeshConfig { inbox: 64, ..steering(3, "map=rx0:0,1,2") });
    // Enough flows that all three workers get some.
    let offer = |rig: &mut Rig, number, stayed: Vec<(u32, u32)>| {
        let new = (0..40).map(|flow| (flow, number)).take(64 - stayed.len());
        rig.offer(0, FROM, stayed.into_iter().chain(new))
    };
    let (mut stayed, mut kept, mut at_two, mut offered) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for number in 0..8 {
        offered += 40.min(64 - stayed.len());
        let [own, rest] = offer(&mut rig, number, stayed);
        (stayed, kept) = (rest, [kept, own].concat());
        rig.flush(0);
        at_two.extend(rig.take_all(2));
    }
    assert!(!stayed.is_empty() && rig.workers[0].outbox.room(1) == 0, "{stayed:?}");
    let at_one = [rig.take_all(1), stayed].concat();
    for frames in [&kept, &at_two, &at_one] {
        let in_order = |flow| frames.iter().filter(|frame| frame.0 == flow).is_sorted();
        assert!(!frames.is_empty() && (0..40).all(in_order), "{frames:?}");
    }
    assert_eq!(kept.len() + at_two.len() + at_one.len(), offered);
    assert!(rig.mesh.stats().iter().all(|stats| stats.drops == NONE));
}

#[test]
fn a_worker_s_own_frames_stay_where_their_batch_has_no_room() {
    let mut rig = rig(&steering(2, "none"));
    let mut batch = frames(&rig.pool, &mut rig.workers[0].w, run(1, 4, 64));
    let mut own = frames(&rig.pool, &mut rig.workers[0].w, run(1, 0, 4));
    let At { w, outbox, .. } = &mut rig.workers[0];
    assert_eq!(outbox.steer(w, FROM, &mut batch, &mut own), 60);
    assert_eq!([read(&own), read(&batch)], [run(1, 0, 64).collect::<Vec<_>>(), run(1, 64, 4).collect()]);
    assert_eq!(rig.mesh.stats()[0].kept, 60);
}

#[test]
fn what_is_handed_off_to_a_worker_without_an_inbox_stays_and_the_sender_can_tell() {
    let mut rig = rig(&steering(3, "map=rx0:1"));
    assert!(rig.workers[0].outbox.has_reader(1));
    assert_eq!(rig.hand_off(0, 1, run(1, 0, 5)), []);
    rig.flush(0);
    assert_eq!(rig.hand_off(0, 1, run(1, 5, 5)), []);
    rig.workers[1].inbox = None;
    let outbox = &mut rig.workers[0].outbox;
    assert_eq!((outbox.has_reader(1), outbox.room(1), outbox.room(2)), (false, 0, 1024));
    assert_eq!(rig.hand_off(0, 1, run(1, 10, 5)), run(1, 10, 5).collect::<Vec<_>>());
    assert_eq!(rig.offer(0, FROM, run(1, 10, 5))[1], run(1, 10, 5).collect::<Vec<_>>());
    rig.flush(0);
    let stats = rig.mesh.stats()[1];
    assert_eq!(
        (stats.lost, stats.drops),
        (5, HandOffDrops { inbox_gone: 5, ..NONE }),
        "sent, and listed, before it went"
    );
    // A caller that does not want to keep them asks for drops.
    rig.steer(0, run(1, 10, 5));
    assert_eq!(rig.mesh.stats()[1].drops.inbox_gone, 10);
    assert!(rig.pool.ledger().all_freed());
}

#[test]
fn an_heir_s_inbox_has_the_room_that_the_one_it_inherited_had() {
    let mut rig = rig(&MeshConfig { inbox: 64, ..steering(3, "none") });
    assert_eq!(rig.hand_off(0, 1, run(1, 0, 60)), []);
    rig.flush(0);
    rig.workers[1].inbox.take().unwrap().hand_over(2).unwrap();
    assert_eq!((rig.workers[0].outbox.has_reader(1), rig.workers[0].outbox.room(1)), (true, 4));
    assert_eq!(rig.hand_off(0, 1, run(1, 60, 6)), run(1, 64, 2).collect::<Vec<_>>());
    rig.flush(0);
    assert_eq!(rig.take_all(2), run(1, 0, 64).collect::<Vec<_>>());
}

#[test]
fn frames_for_the_worker_itself_may_be_handed_off_like_any_and_come_back_in_order() {
    let mut rig = rig(&MeshConfig { inbox: 64, ..steering(2, "none") });
    assert_eq!(rig.hand_off(0, 0, run(1, 0, 64)), []);
    assert_eq!(rig.hand_off(0, 0, run(1, 64, 1)), [(1, 64)]);
    // Later frames do not overtake them.
    assert_eq!(rig.offer(0, FROM, run(1, 64, 1)), [vec![], vec![(1, 64)]]);
    rig.flush(0);
    assert_eq!(rig.take_all(0), run(1, 0, 64).collect::<Vec<_>>());
    assert_eq!(rig.offer(0, FROM, run(1, 64, 1)), [vec![(1, 64)], vec![]]);
}

#[test]
fn a_flow_limit_that_was_asked_for_holds_what_is_steered_and_not_what_is_handed_off() {
    let flow_limit = Some(FlowLimitConfig { history: 16, buckets: 64 });
    let mut rig = rig(&MeshConfig { inbox: 256, flow_limit, ..steering(2, "map=rx0:1") });
    for round in 0..4 {
        // Neighbours on one list, of one source and one flow.
        assert_eq!(rig.hand_off(0, 1, run(1, 64 * round, 32)), []);
        assert_eq!(rig.offer(0, FROM, run(1, 64 * round + 32, 32))[1], []);
        rig.flush(0);
    }
    let stats = rig.mesh.stats()[1];
    let taken = rig.take_all(1);
    let handed_off = taken.iter().filter(|(_, number)| number % 64 < 32).count();
    assert_eq!((handed_off, stats.drops), (128, HandOffDrops { flow_limit: stats.drops.flow_limit, ..NONE }));
    assert!(stats.drops.flow_limit > 0 && taken.len() as u64 + stats.drops.flow_limit == 256, "{stats:?}");
    assert!(taken.is_sorted());
}

#[test]
fn frames_of_a_flow_that_stayed_go_first_to_its_next_worker_after_the_reader_of_the_old_one_has_gone() {
    let mut rig = rig(&MeshConfig { inbox: 64, ..steering(3, "flow=0,2") });
    assert_eq!(rig.offer(1, FROM, run(1, 0, 60)), [vec![], vec![]]);
    rig.flush(1);
    let [own, stayed] = rig.offer(1, FROM, run(1, 60, 20));
    assert_eq!((own, &stayed), (vec![], &run(1, 64, 16).collect::<Vec<_>>()), "worker 0 takes nothing");
    rig.workers[0].inbox = None;
    assert_eq!(rig.offer(1, FROM, stayed.into_iter().chain(run(1, 80, 40))), [vec![], vec![]]);
    rig.flush(1);
    assert_eq!(rig.take_all(2), run(1, 64, 56).collect::<Vec<_>>());
    let stats = rig.mesh.stats();
    assert_eq!(
        (stats[0].lost, stats[0].drops, stats[2].drops),
        (60, HandOffDrops { inbox_gone: 4, ..NONE }, NONE)
    );
    assert_eq!(stats[1].flow_moves, 1);
    assert!(rig.pool.ledger().all_freed());
}
