//! A model of a kernel that dumps its IPv6 routes as Linux does, while routes come and go.

mod links;

use super::{Dumps, Kept, lacks_known_neighbour};
use crate::follower::{Follower, FollowerConfig};
use crate::ipv6_routes;
use crate::pending::PendingEvents;
use crate::port_interface::PortInterface;
use crate::socket::{DumpReply, Received, TRIES};
use crate::translate::LinkState::{self, Down, NoCarrier, Up};
use crate::translate::{Event, NO_LINK, NeighbourState, RouteChange};
use netmem::wire::MacAddr;
use netmem_router::Interface;
use netmem_router::route::{Origin, Resolution, Rib, RibRoute, Target, Via};
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
/// Nodes that a dump has between two checks whether the tree has changed.
const PIECE: usize = 10;
/// The first of the routes that never change. They have even numbers.
const STABLE: u32 = 1_000;
const STABLES: u32 = 100;

fn over(link: u32) -> Target {
    Target::paths(vec![Via::new(link, None)])
}

fn route(number: u32) -> RibRoute {
    let prefix = format!("2001:{number:x}::/32").parse().expect("a prefix");
    RibRoute { prefix, origin: Origin::Main, metric: 1024, target: over(LINK), distinguisher: 0 }
}

fn link(index: u32, state: LinkState) -> Event {
    Event::Link { index, names: vec![format!("d{index}")], state, mac: None, mtu: Some(1500) }
}

/// The kernel's tree, as `fib6_dump_table` walks it, and the event socket.
#[derive(Default)]
struct Kernel {
    routes: BTreeSet<u32>,
    /// The events, with None where events were lost.
    events: VecDeque<Option<(RouteChange, u32)>>,
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
        self.events.push_back(Some((RouteChange::Added, number)));
    }

    fn remove(&mut self, number: u32) {
        assert!(self.routes.remove(&number));
        self.events.push_back(Some((RouteChange::Removed, number)));
    }

    /// Loses the events that have not been read.
    fn lose_events(&mut self) {
        self.events = [None].into();
    }

    /// Reads one datagram.
    fn read(&mut self, events: &mut Vec<Event>) -> Received {
        match self.events.pop_front() {
            None => Received::Empty,
            Some(None) => Received::Overrun,
            Some(Some((change, number))) => {
                events.push(Event::Route(change, route(number)));
                let removes_ipv6_route = change == RouteChange::Removed;
                Received::Datagram { unread: 0, removes_ipv6_route, removed_ipv4: Vec::new() }
            }
        }
    }
}

/// Dumps all routes. Calls `meanwhile` after each piece, with the number of the piece.
fn dump(kernel: &RefCell<Kernel>, mut meanwhile: impl FnMut(&mut Kernel, usize)) -> DumpReply {
    let mut kernel = kernel.borrow_mut();
    let (mut dumped, mut answer) = (0, DumpReply::default());
    let mut left: VecDeque<_> = kernel.routes.iter().copied().collect();
    for piece in 0.. {
        if std::mem::take(&mut kernel.changed) {
            left = kernel.routes.iter().copied().skip(dumped).collect();
        }
        left.retain(|number| kernel.routes.contains(number));
        if left.is_empty() {
            break;
        }
        let of_piece = left.drain(..PIECE.min(left.len()));
        let of_piece: Vec<_> =
            of_piece.map(|number| Event::Route(RouteChange::Added, route(number))).collect();
        dumped += of_piece.len();
        answer.events.extend(of_piece);
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
        let mut pending = PendingEvents::default();
        let mut dumps = 0;
        let asked = ipv6_routes::dump_until_whole(
            || {
                let answer = dump(self.kernel, |kernel, piece| meanwhile(kernel, dumps, piece));
                dumps += 1;
                Ok::<_, Infallible>(answer)
            },
            || {
                Ok(pending
                    .read(1_000, |events| io::Result::Ok(self.kernel.borrow_mut().read(events)))
                    .expect("no error"))
            },
        );
        let Ok(of_ipv6) = asked;
        let is_whole = !of_ipv6.interrupted;
        let links = vec![link(LINK, Up)];
        let dumps = Dumps { links, routes: of_ipv6.events, is_whole, ..Dumps::default() };
        self.follower.apply_dumps(dumps, pending, Instant::now());
        is_whole
    }

    fn known(&self) -> BTreeSet<u32> {
        let number = |name: &str| u32::from_str_radix(name.split(':').nth(1).expect("a number"), 16);
        let lines = self.follower.tables().routes();
        lines.into_iter().map(|line| number(&line.prefix).expect("a number")).collect()
    }
}

/// Makes a follower that has asked for everything without disturbance.
fn following(kernel: &RefCell<Kernel>) -> Following<'_> {
    let (follower, _) = Follower::start(FollowerConfig::default()).expect("rtnetlink");
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
    assert_eq!(following.follower.tables().counters().unsettled, passed_over as u64);
    assert!(following.follower.resync.is_due(Instant::now() + Duration::from_secs(60)));
}

#[test]
fn the_first_dump_without_a_removal_replaces_all_routes() {
    let kernel = Kernel::new((1..STABLE / 2).chain(stable()));
    let mut following = following(&kernel);
    // An event that was not received. Its route would be kept.
    kernel.borrow_mut().remove(3);
    kernel.borrow_mut().events.clear();
    let mut dumps = 0;
    let is_whole = following.resync(|kernel, dump, _| {
        dumps = dumps.max(dump + 1);
        if dump < 2 {
            churn(kernel);
        }
    });
    assert_eq!((is_whole, dumps), (true, 3));
    assert_eq!(following.known(), kernel.borrow().routes);
    assert_eq!(following.follower.tables().counters().unsettled, 0);
}

#[test]
fn routes_that_are_added_during_a_dump_cause_no_further_dump() {
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
fn a_route_whose_removal_was_lost_is_kept_until_a_dump_without_a_removal() {
    let kernel = Kernel::new((1..STABLE / 2).chain(stable()));
    let mut following = following(&kernel);
    let gone = STABLE + 50;
    kernel.borrow_mut().remove(gone);
    kernel.borrow_mut().lose_events();
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
fn events_before_a_loss_are_not_applied_to_a_newer_dump() {
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
            kernel.lose_events();
        }
        _ => {}
    });
    assert!(is_whole);
    assert_eq!(following.known(), kernel.borrow().routes);
    assert_eq!(following.follower.tables().counters().overruns, 1);
}

fn ipv6_kept() -> Kept {
    Kept { ipv6: true, ..Kept::default() }
}

#[test]
fn the_kernels_ipv6_routes_over_links_that_are_not_down_are_kept_and_other_routes_are_not() {
    let mut rib = Rib::default();
    let over_link = |number, link| RibRoute { target: over(link), ..route(number) };
    let (up, without_carrier, down, gone) = (LINK, 8, 9, 10);
    let kept_ones = [over_link(1, up), over_link(2, without_carrier), over_link(3, NO_LINK)];
    let others = [
        over_link(4, down),
        over_link(5, gone),
        RibRoute { origin: Origin::Static, ..route(6) },
        RibRoute { prefix: "10.1.0.0/16".parse().expect("a prefix"), ..route(7) },
    ];
    let blackhole = RibRoute { target: Target::Blackhole, ..route(8) };
    kept_ones.iter().chain(&others).chain([&blackhole]).for_each(|route| assert!(rib.insert(route)));
    let links = HashMap::from([(up, Up), (without_carrier, NoCarrier), (down, Down)]);
    let [one, two, three] = kept_ones;
    assert_eq!(ipv6_kept().routes(&rib, &links), [one, two, three, blackhole]);
}

/// Found by reasoning: while every dump of IPv6 routes was disturbed, a route with several paths was dropped as a whole
/// when one of its links was down or gone.
#[test]
fn a_route_with_several_paths_is_kept_without_those_whose_links_are_down_or_gone() {
    let mut rib = Rib::default();
    let via = |link| Via::new(link, None).with_weight(3);
    let over = |links: &[u32]| {
        let target = Target::paths(links.iter().copied().map(via).collect());
        RibRoute { target, ..route(1) }
    };
    let (down, gone) = (9, 10);
    assert!(rib.insert(&over(&[down, LINK, gone, OTHER])));
    let links = HashMap::from([(LINK, Up), (OTHER, NoCarrier), (down, Down)]);
    assert_eq!(ipv6_kept().routes(&rib, &links), [over(&[LINK, OTHER])]);
}

/// Applies events that came in one turn.
fn apply(follower: &mut Follower, events: Vec<Event>) {
    let mut pending = PendingEvents::default();
    pending.events.extend(events);
    follower.apply_events(pending);
}

/// Found by reasoning: a dump passed over a neighbour that the kernel counted as reachable. The kernel was asked for it
/// and had nothing new to report. So packets to the neighbour were dropped for up to 30 s.
#[test]
fn a_known_neighbour_behind_a_port_that_a_dump_lacks_causes_another_dump() {
    let mut rib = Rib::new([(LINK, 0)]);
    let mac = MacAddr::new([2, 0, 0, 0, 0, 1]);
    let [known, silent] = [1, 2].map(|last| std::net::IpAddr::from([10, 0, 0, last]));
    rib.set_neighbour(LINK, silent, Resolution::Failed);
    rib.set_neighbour(OTHER, known, Resolution::Known(mac));
    assert!(!lacks_known_neighbour(&rib, &[]), "none is known behind a port");
    rib.set_neighbour(LINK, known, Resolution::Known(mac));
    let of = |link| Event::Neighbour { link, address: known, state: NeighbourState::Stale(mac) };
    assert!(lacks_known_neighbour(&rib, &[]) && lacks_known_neighbour(&rib, &[of(OTHER)]));
    assert!(!lacks_known_neighbour(&rib, &[of(OTHER), of(LINK)]));
}

/// Seen: the failure was applied a second time after the answers, and the neighbour, which had been asked for again,
/// counted as silent for another second.
#[test]
fn a_neighbours_failure_between_dumps_ends_no_newer_request() {
    let (mut follower, _) = Follower::start(FollowerConfig::default()).expect("rtnetlink");
    let (address, state) = (IpAddr::from([10, 0, 0, 7]), NeighbourState::Failed);
    let key = (LINK, address);
    assert!(follower.requests.add(key, Instant::now()));
    let mut events = vec![Event::Neighbour { link: LINK, address, state }];
    follower.apply_urgent(&mut events);
    let later = Instant::now() + Duration::from_secs(10);
    assert!(!follower.requests.add(key, later), "silent");
    assert_eq!(follower.requests.due(later, |_| true).expired, [key]);
    assert!(follower.requests.add(key, later));
    events.into_iter().for_each(|event| follower.apply_event(event));
    assert!(follower.requests.failed(key, later), "it is still asked for");
}

/// Found by reading: a message of a wireless driver has no MTU, which counted as 0 bytes. All tables were dumped twice with each
/// of them, and twice again with the next message that has the MTU.
#[test]
fn a_message_about_a_link_without_its_mtu_changes_neither_the_mtu_nor_causes_a_resync() {
    let port = Interface { mac: MacAddr::default(), mtu: 900 };
    let ports = vec![(port, PortInterface::RouterEnd("wlan7".to_owned()))];
    let config = FollowerConfig { ports, ..FollowerConfig::default() };
    let (mut follower, mut fib) = Follower::start(config).expect("rtnetlink");
    let mac = MacAddr::new([2, 0, 0, 0, 0, 1]);
    let message = |names: &[&str], mac, mtu| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Event::Link { index: LINK, names, state: Up, mac, mtu }
    };
    let mut is = |follower: &mut Follower, mtu| {
        follower.publish();
        fib.refresh();
        assert_eq!(fib.fib().interfaces, [Interface { mac, mtu }]);
        let is_due = follower.resync.is_due(Instant::now() + Duration::from_secs(60));
        follower.resync.settle(Instant::now(), Instant::now());
        is_due
    };
    apply(&mut follower, vec![message(&["w", "wlan7"], Some(mac), Some(1500))]);
    assert!(is(&mut follower, 1500), "a new link");
    apply(&mut follower, vec![message(&["w"], None, None), message(&["w"], Some(mac), None)]);
    assert!(!is(&mut follower, 1500));
    apply(&mut follower, vec![message(&["w", "wlan7"], Some(mac), Some(1500))]);
    assert!(!is(&mut follower, 1500));
    apply(&mut follower, vec![message(&["w", "wlan7"], Some(mac), Some(1400))]);
    assert!(is(&mut follower, 1400));
}

/// Found by reading: a neighbour was asked for after the dump of neighbours, which had an earlier failure of it. The failure
/// ended the request, and packets to a neighbour that answered were dropped for a second.
#[test]
fn a_neighbours_failure_in_a_dump_ends_no_newer_request() {
    let (mut follower, _) = Follower::start(FollowerConfig::default()).expect("rtnetlink");
    let (address, state) = (IpAddr::from([10, 0, 0, 7]), NeighbourState::Failed);
    let key = (LINK, address);
    assert!(follower.requests.add(key, Instant::now()));
    let neighbours = vec![Event::Neighbour { link: LINK, address, state }];
    let dumps = Dumps { neighbours, is_whole: true, ..Dumps::default() };
    follower.apply_dumps(dumps, PendingEvents::default(), Instant::now());
    assert_eq!(follower.state().rib.neighbour(LINK, address), Resolution::Unknown);
    assert!(follower.requests.failed(key, Instant::now()), "it is still asked for");
}

/// Seen in a namespace: frames waited for a neighbour that the administrator had set with the MAC address of a group, and the
/// request for it removed `permanent` from its entry.
#[test]
fn a_neighbour_whose_entry_belongs_to_others_is_not_asked_for_while_it_exists() {
    let (mut follower, _) = Follower::start(FollowerConfig::default()).expect("rtnetlink");
    let (address, now) = (IpAddr::from([10, 0, 0, 7]), Instant::now());
    let key = (LINK, address);
    let event = |state| Event::Neighbour { link: LINK, address, state };
    for (state, known) in
        [(NeighbourState::Unusable, Resolution::Failed), (NeighbourState::Awaited, Resolution::Unknown)]
    {
        assert!(follower.requests.add(key, now));
        apply(&mut follower, vec![event(state)]);
        assert_eq!(follower.state().rib.neighbour(LINK, address), known);
        assert!(!follower.requests.add(key, now + Duration::from_secs(10)));
        let due = follower.requests.due(now + Duration::from_secs(20), |_| true);
        assert_eq!((due.timed_out, due.ask), (vec![], vec![]));
        // A dump does not have it any more.
        follower.apply_dumps(Dumps { is_whole: true, ..Dumps::default() }, PendingEvents::default(), now);
        assert_eq!(follower.state().rib.neighbour(LINK, address), Resolution::Unknown);
        assert!(follower.requests.add(key, now + Duration::from_secs(30)));
        follower.requests.resolved(key, false);
    }
}
