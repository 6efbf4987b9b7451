//! A model of a kernel that dumps its IPv6 routes as Linux does, while routes come and go.

use super::{Told, kept, misses_any};
use crate::follower::{Follower, Setup};
use crate::heard::Heard;
use crate::ipv6_routes;
use crate::socket::{Answer, Received, TRIES};
use crate::translate::{Event, NO_LINK, RouteChange, Signal, State};
use netmem::wire::MacAddr;
use netmem_router::route::{Link, Origin, Rib, RibRoute, Target, Via};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The link of all routes of the model.
const LINK: u32 = 7;
/// The link of other routes.
const OTHER: u32 = 8;
/// Nodes that a dump tells between two checks whether the tree has changed.
const PIECE: usize = 10;
/// The first of the routes that never change. They have even numbers.
const STABLE: u32 = 1_000;
const STABLES: u32 = 100;

fn over(link: u32) -> Target {
    Target::paths(vec![Via { link, address: None, weight: 1, mtu: None, source: None }])
}

fn route(number: u32) -> RibRoute {
    let prefix = format!("2001:{number:x}::/32").parse().expect("a prefix");
    RibRoute { prefix, origin: Origin::Main, metric: 1024, target: over(LINK), distinguisher: 0 }
}

fn link(index: u32, signal: Signal) -> Event {
    Event::Link { index, names: vec![format!("d{index}")], signal, mac: None, mtu: 1500 }
}

/// The kernel's tree, as `fib6_dump_table` walks it, and the event socket.
#[derive(Default)]
struct Kernel {
    routes: BTreeSet<u32>,
    /// The events, with None where events were lost.
    said: VecDeque<Option<(RouteChange, u32)>>,
    /// A route was added since the last check of the walk.
    changed: bool,
}

impl Kernel {
    fn new(routes: impl IntoIterator<Item = u32>) -> RefCell<Kernel> {
        RefCell::new(Kernel { routes: routes.into_iter().collect(), ..Kernel::default() })
    }

    fn add(&mut self, number: u32) {
        self.changed = true;
        assert!(self.routes.insert(number));
        self.said.push_back(Some((RouteChange::Added, number)));
    }

    fn remove(&mut self, number: u32) {
        assert!(self.routes.remove(&number));
        self.said.push_back(Some((RouteChange::Removed, number)));
    }

    /// Loses the events that have not been read.
    fn lose(&mut self) {
        self.said = [None].into();
    }

    /// Reads one datagram.
    fn read(&mut self, events: &mut Vec<Event>) -> Received {
        match self.said.pop_front() {
            None => Received::Nothing,
            Some(None) => Received::TooMuch,
            Some(Some((change, number))) => {
                events.push(Event::Route(change, route(number)));
                Received::Some { unread: 0, removes_ipv6_route: change == RouteChange::Removed }
            }
        }
    }
}

/// Dumps all routes. Calls `meanwhile` after each piece, with the number of the piece.
fn dump(kernel: &RefCell<Kernel>, mut meanwhile: impl FnMut(&mut Kernel, usize)) -> Answer {
    let mut kernel = kernel.borrow_mut();
    let (mut told, mut answer) = (0, Answer::default());
    let mut left: VecDeque<_> = kernel.routes.iter().copied().collect();
    for piece in 0.. {
        if std::mem::take(&mut kernel.changed) {
            left = kernel.routes.iter().copied().skip(told).collect();
        }
        left.retain(|number| kernel.routes.contains(number));
        if left.is_empty() {
            break;
        }
        let of_piece = left.drain(..PIECE.min(left.len()));
        let of_piece: Vec<_> =
            of_piece.map(|number| Event::Route(RouteChange::Added, route(number))).collect();
        told += of_piece.len();
        answer.said.extend(of_piece);
        meanwhile(&mut kernel, piece);
    }
    answer
}

/// A follower that knows this state of the kernel, and a link that is up.
struct Following<'a> {
    kernel: &'a RefCell<Kernel>,
    follower: Follower,
}

impl Following<'_> {
    /// Runs a resync and calls `meanwhile` during the dump of that number. Returns true if the dump that was used
    /// was whole.
    fn resync(&mut self, mut meanwhile: impl FnMut(&mut Kernel, usize, usize)) -> bool {
        let mut heard = Heard::default();
        let mut dumps = 0;
        let asked = ipv6_routes::ask(
            || {
                let answer = dump(self.kernel, |kernel, piece| meanwhile(kernel, dumps, piece));
                dumps += 1;
                Ok::<_, Infallible>(answer)
            },
            || {
                Ok(heard
                    .read(1_000, |events| io::Result::Ok(self.kernel.borrow_mut().read(events)))
                    .expect("no error"))
            },
        );
        let Ok(of_ipv6) = asked;
        let is_whole = !of_ipv6.interrupted;
        let links = vec![link(LINK, Signal::Up)];
        let told = Told { links, routes: of_ipv6.said, is_whole, ..Told::default() };
        self.follower.learn(told, heard, Instant::now());
        is_whole
    }

    fn known(&self) -> BTreeSet<u32> {
        let number = |name: &str| u32::from_str_radix(name.split(':').nth(1).expect("a number"), 16);
        let lines = self.follower.listing().routes();
        lines.into_iter().map(|line| number(&line.prefix).expect("a number")).collect()
    }
}

/// Makes a follower that has asked for everything without disturbance.
fn following(kernel: &RefCell<Kernel>) -> Following<'_> {
    let (follower, _) = Follower::start(Setup::default()).expect("rtnetlink");
    let mut following = Following { kernel, follower };
    assert!(following.resync(|_, _, _| {}));
    assert_eq!(following.known(), kernel.borrow().routes);
    following
}

fn stable() -> impl Iterator<Item = u32> {
    (0..STABLES).map(|n| STABLE + 2 * n)
}

/// Removes a route before the stable ones and adds one behind them, as a routing daemon does.
fn churn(kernel: &mut Kernel) {
    let first = *kernel.routes.first().expect("a route");
    if first < STABLE {
        kernel.remove(first);
        let last = *kernel.routes.last().expect("a route");
        kernel.add(last + 1);
    }
}

fn all_stable(known: &BTreeSet<u32>) -> Vec<u32> {
    stable().filter(|number| !known.contains(number)).collect()
}

/// Seen: with 63,000 IPv6 routes, a hundred removed and added a second, and flaps of an unrelated link, 27 routes
/// that never changed were missing permanently.
#[test]
fn routes_that_never_change_stay_known_while_others_come_and_go_during_each_dump() {
    let kernel = Kernel::new((1..STABLE / 2).chain(stable()));
    let mut following = following(&kernel);
    let mut passed_over = 0;
    for _ in 0..3 {
        let is_whole = following.resync(|kernel, _, _| churn(kernel));
        passed_over += usize::from(!is_whole);
        let known = following.known();
        assert_eq!((all_stable(&known), &known), (Vec::new(), &kernel.borrow().routes));
    }
    assert!(passed_over > 0, "the routes did not change during each dump");
    assert_eq!(following.follower.listing().counters().unsettled, passed_over as u64);
    assert!(following.follower.resync.is_due(Instant::now() + std::time::Duration::from_secs(60)));
}

#[test]
fn a_dump_is_taken_alone_as_soon_as_one_is_not_disturbed() {
    let kernel = Kernel::new((1..STABLE / 2).chain(stable()));
    let mut following = following(&kernel);
    // An event that was not received. Its route would be kept.
    kernel.borrow_mut().remove(3);
    kernel.borrow_mut().said.clear();
    let mut dumps = 0;
    let is_whole = following.resync(|kernel, dump, _| {
        dumps = dumps.max(dump + 1);
        if dump < 2 {
            churn(kernel);
        }
    });
    assert_eq!((is_whole, dumps), (true, 3));
    assert_eq!(following.known(), kernel.borrow().routes);
    assert_eq!(following.follower.listing().counters().unsettled, 0);
}

#[test]
fn what_is_only_added_passes_nothing_over_and_has_nobody_ask_again() {
    let kernel = Kernel::new(stable());
    let mut following = following(&kernel);
    let is_whole = following.resync(|kernel, dump, piece| {
        assert_eq!(dump, 0);
        if piece < 5 {
            kernel.add(piece as u32 + 1);
            kernel.add(STABLE + 2 * piece as u32 + 1);
        }
    });
    assert!(is_whole);
    assert_eq!(following.known(), kernel.borrow().routes);
}

#[test]
fn a_route_that_went_unheard_is_kept_while_every_dump_is_disturbed_and_gone_with_the_first_that_is_not() {
    let kernel = Kernel::new((1..STABLE / 2).chain(stable()));
    let mut following = following(&kernel);
    let gone = STABLE + 50;
    kernel.borrow_mut().remove(gone);
    kernel.borrow_mut().lose();
    let mut dumps = 0;
    let is_whole = following.resync(|kernel, dump, _| {
        dumps = dumps.max(dump + 1);
        churn(kernel);
    });
    assert_eq!((is_whole, dumps), (false, TRIES + 1));
    let known = following.known();
    assert!(known.contains(&gone));
    assert!(kernel.borrow().routes.is_subset(&known));
    assert!(following.resync(|_, _, _| {}));
    assert_eq!(following.known(), kernel.borrow().routes);
}

/// A removal that undoes an addition may be among the lost events.
#[test]
fn what_was_said_before_events_were_lost_is_not_done_to_what_was_told_after() {
    let kernel = Kernel::new((1..STABLE / 2).chain(stable()));
    let mut following = following(&kernel);
    let (came, went) = (STABLE + 1, STABLE + 20);
    let is_whole = following.resync(|kernel, dump, piece| match (dump, piece) {
        (0, 0) => {
            kernel.add(came);
            kernel.remove(went);
        }
        (1, 0) => {
            kernel.remove(came);
            kernel.add(went);
            kernel.lose();
        }
        _ => {}
    });
    assert!(is_whole);
    assert_eq!(following.known(), kernel.borrow().routes);
    assert_eq!(following.follower.listing().counters().overruns, 1);
}

#[test]
fn of_routes_known_before_those_are_kept_that_are_of_ipv6_the_kernels_and_over_a_link_that_is_not_down() {
    let mut rib = Rib::default();
    let over_link = |number, link| RibRoute { target: over(link), ..route(number) };
    let (up, without_carrier, down, gone) = (LINK, 8, 9, 10);
    let kept_ones = [over_link(1, up), over_link(2, without_carrier), over_link(3, NO_LINK)];
    let others = [
        over_link(4, down),
        over_link(5, gone),
        RibRoute { origin: Origin::Given, ..route(6) },
        RibRoute { prefix: "10.1.0.0/16".parse().expect("a prefix"), ..route(7) },
    ];
    let blackhole = RibRoute { target: Target::Blackhole, ..route(8) };
    kept_ones.iter().chain(&others).chain([&blackhole]).for_each(|route| assert!(rib.insert(route)));
    let links = HashMap::from([(up, Signal::Up), (without_carrier, Signal::NoCarrier), (down, Signal::Down)]);
    let [one, two, three] = kept_ones;
    assert_eq!(kept(&rib, &links), [one, two, three, blackhole]);
}

/// Found by reasoning: while every dump of IPv6 routes was disturbed, a route with several paths was dropped as a whole
/// when one of its links was down or gone.
#[test]
fn a_route_with_several_paths_is_kept_without_those_whose_links_are_down_or_gone() {
    let mut rib = Rib::default();
    let via = |link| Via { link, address: None, weight: 3, mtu: None, source: None };
    let over = |links: &[u32]| {
        let target = Target::paths(links.iter().copied().map(via).collect());
        RibRoute { target, ..route(1) }
    };
    let (down, gone) = (9, 10);
    assert!(rib.insert(&over(&[down, LINK, gone, OTHER])));
    let links = HashMap::from([(LINK, Signal::Up), (OTHER, Signal::NoCarrier), (down, Signal::Down)]);
    assert_eq!(kept(&rib, &links), [over(&[LINK, OTHER])]);
}

/// Learns a default route over `LINK`, another over `OTHER`, and a route over both.
fn learn_two_uplinks(follower: &mut Follower, signal: Signal) {
    let via = |link: &u32| Via { link: *link, address: None, weight: 1, mtu: None, source: None };
    let route = |(prefix, metric, links): (&str, u32, &[u32])| {
        let target = Target::paths(links.iter().map(via).collect());
        let prefix = prefix.parse().expect("a prefix");
        let route = RibRoute { prefix, origin: Origin::Main, metric, target, distinguisher: 0 };
        Event::Route(RouteChange::Added, route)
    };
    let all: [(&str, u32, &[u32]); 3] =
        [("0.0.0.0/0", 0, &[LINK]), ("0.0.0.0/0", 100, &[OTHER]), ("10.2.0.0/16", 0, &[LINK, OTHER])];
    let links = vec![link(LINK, signal), link(OTHER, Signal::Up)];
    let told =
        Told { links, routes: all.into_iter().map(route).collect(), is_whole: true, ..Told::default() };
    follower.learn(told, Heard::default(), Instant::now());
}

/// Applies events that came in one turn.
fn note(follower: &mut Follower, events: Vec<Event>) {
    let mut heard = Heard::default();
    heard.events.extend(events);
    follower.note(heard);
}

fn lines(follower: &Follower) -> Vec<String> {
    let lines = follower.listing().routes().into_iter();
    lines.map(|line| format!("{} {}", line.prefix, line.paths)).collect()
}

/// Found by reasoning: with a large table, the first uplink was set down shortly after a resync. The kernel reports no
/// IPv4 route as removed, and packets went to the dead link until the next resync, although there was another route.
#[test]
fn routes_over_a_link_that_went_down_give_way_to_others_before_the_next_resync() {
    let (mut follower, _) = Follower::start(Setup::default()).expect("rtnetlink");
    for event in [link(LINK, Signal::Down), Event::LinkGone(LINK)] {
        learn_two_uplinks(&mut follower, Signal::Up);
        assert_eq!(lines(&follower).len(), 3);
        let resyncs = follower.listing().counters().resyncs;
        note(&mut follower, vec![event]);
        assert_eq!(lines(&follower), ["0.0.0.0/0 dev d8 weight 1", "10.2.0.0/16 dev d8 weight 1"]);
        assert_eq!(follower.listing().counters().resyncs, resyncs);
        let later = Instant::now() + std::time::Duration::from_secs(60);
        assert!(follower.resync.is_due(later), "a resync confirms it");
    }
}

#[test]
fn a_route_that_came_after_its_link_was_down_and_up_again_stays() {
    let (mut follower, _) = Follower::start(Setup::default()).expect("rtnetlink");
    learn_two_uplinks(&mut follower, Signal::Up);
    let again = RibRoute { prefix: "10.3.0.0/16".parse().expect("a prefix"), ..route(1) };
    let again = Event::Route(RouteChange::Added, again);
    note(&mut follower, vec![link(LINK, Signal::Down), link(LINK, Signal::Up), again]);
    let both = "10.2.0.0/16 dev d7 weight 1; dev d8 weight 1";
    assert_eq!(lines(&follower), ["0.0.0.0/0 dev d8 weight 1", both, "10.3.0.0/16 dev d7 weight 1"]);
}

/// The paths of the route over both links.
fn paths_of_both(follower: &Follower) -> String {
    let lines = lines(follower).into_iter();
    lines.filter_map(|line| line.strip_prefix("10.2.0.0/16 ").map(str::to_owned)).collect()
}

/// Found by reasoning: with a large table, the links of a route's two paths flapped one after the other. The kernel
/// reports no path that it uses again, so the first one was missing until the next resync. When the second one was
/// taken out, the whole route was gone.
#[test]
fn the_paths_of_a_route_come_back_with_their_links_before_the_next_resync() {
    let (mut follower, _) = Follower::start(Setup::default()).expect("rtnetlink");
    learn_two_uplinks(&mut follower, Signal::Up);
    let both = "dev d7 weight 1; dev d8 weight 1";
    let resyncs = follower.listing().counters().resyncs;
    for (index, signal, left) in [
        (LINK, Signal::Down, "dev d8 weight 1"),
        (LINK, Signal::NoCarrier, "dev d8 weight 1"),
        (LINK, Signal::Up, both),
        (OTHER, Signal::Down, "dev d7 weight 1"),
        (OTHER, Signal::Up, both),
        (LINK, Signal::Down, "dev d8 weight 1"),
        (OTHER, Signal::Down, ""),
        (LINK, Signal::Up, ""),
    ] {
        note(&mut follower, vec![link(index, signal)]);
        assert_eq!(paths_of_both(&follower), left, "{index} {signal:?}");
    }
    assert_eq!(follower.listing().counters().resyncs, resyncs);
}

#[test]
fn a_path_comes_back_with_its_link_also_between_dumps_and_after_resyncs_while_the_link_was_down() {
    let (mut follower, _) = Follower::start(Setup::default()).expect("rtnetlink");
    learn_two_uplinks(&mut follower, Signal::Up);
    note(&mut follower, vec![link(LINK, Signal::Down)]);
    (0..2).for_each(|_| learn_two_uplinks(&mut follower, Signal::Down));
    assert_eq!(paths_of_both(&follower), "dev d8 weight 1");
    follower.take_at_once(&mut [link(LINK, Signal::Up)]);
    assert_eq!(paths_of_both(&follower), "dev d7 weight 1; dev d8 weight 1");
    // The answers of that dump have the link as down. The event is applied again behind them.
    learn_two_uplinks(&mut follower, Signal::Down);
    assert_eq!(paths_of_both(&follower), "dev d8 weight 1");
    note(&mut follower, vec![link(LINK, Signal::Up)]);
    assert_eq!(paths_of_both(&follower), "dev d7 weight 1; dev d8 weight 1");
    follower.take_at_once(&mut [link(OTHER, Signal::Down)]);
    assert_eq!(paths_of_both(&follower), "dev d7 weight 1");
}

#[test]
fn the_paths_over_a_link_that_is_gone_do_not_come_back_with_another_link_of_its_number() {
    let (mut follower, _) = Follower::start(Setup::default()).expect("rtnetlink");
    learn_two_uplinks(&mut follower, Signal::Up);
    note(&mut follower, vec![link(LINK, Signal::Down), Event::LinkGone(LINK)]);
    note(&mut follower, vec![link(LINK, Signal::Down), link(LINK, Signal::Up)]);
    assert_eq!(paths_of_both(&follower), "dev d8 weight 1");
}

/// A route that was replaced, next-hop objects that went with the link, or events that were lost.
#[test]
fn a_path_does_not_come_back_if_its_route_may_have_changed_meanwhile() {
    let prefix = "10.2.0.0/16".parse().expect("a prefix");
    let replaced = RibRoute { prefix, metric: 0, target: over(OTHER), ..route(1) };
    let (mut follower, _) = Follower::start(Setup::default()).expect("rtnetlink");
    for (event, lost) in
        [(Some(Event::Route(RouteChange::Replaced, replaced)), 0), (Some(Event::Unsaid), 0), (None, 1)]
    {
        learn_two_uplinks(&mut follower, Signal::Up);
        note(&mut follower, vec![link(LINK, Signal::Down)]);
        let mut heard = Heard::default();
        heard.events.extend(event);
        heard.overruns += lost;
        follower.note(heard);
        note(&mut follower, vec![link(LINK, Signal::Up)]);
        assert_eq!(paths_of_both(&follower), "dev d8 weight 1");
    }
    learn_two_uplinks(&mut follower, Signal::Up);
    note(&mut follower, vec![link(LINK, Signal::Down), Event::Unsaid, link(LINK, Signal::Up)]);
    assert_eq!(paths_of_both(&follower), "dev d8 weight 1");
}

/// Found by reasoning: since Linux 6.9 nothing prevents a dump between the event that a link is up and the use of its
/// paths. The dump had them as dead, and they stayed missing.
#[test]
fn after_a_link_came_up_all_is_asked_for_and_asked_for_again_when_the_kernel_is_done() {
    let (mut follower, _) = Follower::start(Setup::default()).expect("rtnetlink");
    let later = Instant::now() + Duration::from_secs(60);
    learn_two_uplinks(&mut follower, Signal::Down);
    // With the links of this machine, which are gone now.
    follower.resync.is_due(later);
    learn_two_uplinks(&mut follower, Signal::Down);
    assert!(!follower.resync.is_due(later));
    note(&mut follower, vec![link(LINK, Signal::Up)]);
    learn_two_uplinks(&mut follower, Signal::Up);
    assert!(follower.resync.is_due(later), "once more");
    learn_two_uplinks(&mut follower, Signal::Up);
    assert!(!follower.resync.is_due(later));
}

/// Since Linux 6.9 nothing prevents a dump between the event of a link and the removal of its routes.
#[test]
fn routes_that_a_dump_still_has_over_a_link_that_is_down_are_left_out() {
    let (mut follower, _) = Follower::start(Setup::default()).expect("rtnetlink");
    learn_two_uplinks(&mut follower, Signal::Down);
    assert_eq!(lines(&follower), ["0.0.0.0/0 dev d8 weight 1", "10.2.0.0/16 dev d8 weight 1"]);
}

/// Found by reasoning: a dump passed over a neighbour that the kernel counted as reachable. The kernel was asked for it
/// and had nothing new to report. So packets to the neighbour were dropped for up to 30 s.
#[test]
fn a_known_neighbour_behind_a_port_that_a_dump_lacks_is_looked_for_in_another_dump() {
    let mut rib = Rib::new([(LINK, 0)]);
    let mac = MacAddr::new([2, 0, 0, 0, 0, 1]);
    let [known, silent] = [1, 2].map(|last| std::net::IpAddr::from([10, 0, 0, last]));
    rib.set_neighbour(LINK, silent, Link::Silent);
    rib.set_neighbour(OTHER, known, Link::Known(mac));
    assert!(!misses_any(&rib, &[]), "none is known behind a port");
    rib.set_neighbour(LINK, known, Link::Known(mac));
    let of = |link| Event::Neighbour { link, address: known, state: State::Stale(mac) };
    assert!(misses_any(&rib, &[]) && misses_any(&rib, &[of(OTHER)]));
    assert!(!misses_any(&rib, &[of(OTHER), of(LINK)]));
}

/// Seen: the failure was applied a second time after the answers, and the neighbour, which had been asked for again,
/// counted as silent for another second.
#[test]
fn a_failure_between_dumps_ends_no_newer_request() {
    let (mut follower, _) = Follower::start(Setup::default()).expect("rtnetlink");
    let (address, state) = (IpAddr::from([10, 0, 0, 7]), State::Failed);
    let key = (LINK, address);
    assert!(follower.asking.want(key, Instant::now()));
    let mut events = vec![Event::Neighbour { link: LINK, address, state }];
    follower.take_at_once(&mut events);
    let later = Instant::now() + Duration::from_secs(10);
    assert!(!follower.asking.want(key, later), "silent");
    assert_eq!(follower.asking.due(later, |_| true).forgotten, [key]);
    assert!(follower.asking.want(key, later));
    events.into_iter().for_each(|event| follower.take(event));
    assert!(follower.asking.failed(key, later), "it is still asked for");
}
