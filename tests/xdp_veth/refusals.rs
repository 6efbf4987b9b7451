//! Tests of interfaces, queues and rights with which no port can be opened: the reported reason, and that nothing is
//! left behind.

use crate::netns::{in_namespace, ip, veth};
use crate::{bench, open_files, program_on, rings_mapped, small, wait_for};
use netmem::port::xdp::{AttachedBy, Punt, XdpConfig, XdpError, XdpMode, XdpQueues, ZeroCopy};
use netmem::system::bpf::{RedirectProgram, SocketMap};
use netmem::system::netdev::Netdev;
use netmem::system::xdp::Socket;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

#[test]
fn an_interface_that_cannot_be_used_is_refused_with_the_reason() {
    in_namespace("refusals::an_interface_that_cannot_be_used_is_refused_with_the_reason", || {
        veth("a0", "a1", 1);
        let mut here = bench(64);
        let interface = || "a0".to_owned();
        assert_eq!(
            here.open("nosuch0").unwrap_err(),
            XdpError::UnknownInterface { interface: "nosuch0".into() }
        );
        ip("link set dev a0 down");
        assert_eq!(here.open("a0").unwrap_err(), XdpError::InterfaceDown { interface: interface() });
        ip("link set dev a0 up");
        let no_queue = XdpError::NoSuchQueue { interface: interface(), queue: 1, queues: Some(1) };
        assert_eq!(here.open_with("a0", 1, &small()).unwrap_err(), no_queue);
        assert_eq!(program_on("a0"), None);
        here.open("a0").unwrap();
    });
}

#[test]
fn a_queue_or_a_program_slot_that_is_taken_is_refused_and_left_alone() {
    in_namespace("refusals::a_queue_or_a_program_slot_that_is_taken_is_refused_and_left_alone", || {
        veth("a0", "a1", 1);
        let (mut here, mut other) = (bench(64), bench(64));
        let index = Netdev::open("a0").unwrap().index();
        let bound = || XdpError::QueueBound { interface: "a0".into(), queue: 0 };

        let port = here.open("a0").unwrap();
        assert_eq!(here.open("a0").unwrap_err(), bound(), "by a port of the same UMEM");
        assert_eq!(other.open("a0").unwrap_err(), bound(), "by a port of another UMEM");
        assert!(program_on("a0").is_some());
        drop(port);

        let socket = Socket::new().unwrap();
        // SAFETY: no address is ever published on this socket.
        unsafe { socket.register(here.memory.region(), 2048) }.unwrap();
        let rings = socket.rings(&small().rings).unwrap();
        wait_for("the queue to be free again", || socket.bind(index, 0, ZeroCopy::Never, false).ok());
        assert_eq!(here.open("a0").unwrap_err(), bound(), "by a bare socket");
        drop((rings, socket));

        for mode in [XdpMode::Native, XdpMode::Generic] {
            let map = SocketMap::new(1).unwrap();
            let link = RedirectProgram::load(&map, None, false).unwrap().attach(index, mode).unwrap();
            let there = program_on("a0");
            let error = here.open("a0").unwrap_err();
            let XdpError::ProgramAttached { interface, program: Some(program) } = &error else {
                panic!("{mode}: {error}")
            };
            let comm = std::fs::read_to_string("/proc/self/comm").unwrap().trim().to_owned();
            assert_eq!((&interface[..], &program.name[..]), ("a0", "netmem_redirect"));
            assert_eq!(program.holder, Some((std::process::id(), comm)), "{error}");
            assert_eq!(program.attached_by, Some(AttachedBy::Link), "{error}");
            assert!(error.to_string().contains("\"netmem_redirect\" (number "), "{error}");
            assert!(error.to_string().contains("over one Umem"), "this process holds it: {error}");
            assert_eq!(program_on("a0"), there);
            drop(link);
        }
        assert_eq!(program_on("a0"), None);
        assert!(here.pool.ledger().all_freed() && other.pool.ledger().all_freed());
    });
}

/// Makes each bpf(2) with BPF_MAP_UPDATE_ELEM of this thread fail with ENOMEM, until the thread ends.
///
/// Source: seccomp(2), `linux/seccomp.h`.
fn forbid_map_updates() {
    const BPF_MAP_UPDATE_ELEM: u32 = 2;
    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOMEM as u32;
    // Of struct seccomp_data: the number of the call at 0, its first argument at 16 (its lower half: little endian).
    let load = |offset| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: offset };
    let unless_equal = |value, jf| libc::sock_filter { code: 0x15, jt: 0, jf, k: value };
    let end = |what| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: what };
    let mut filter = [
        load(0),
        unless_equal(libc::SYS_bpf as u32, 3),
        load(16),
        unless_equal(BPF_MAP_UPDATE_ELEM, 1),
        end(REFUSE),
        end(ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter and what points to it outlive the call, which copies them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn frames_in_the_fill_ring_return_to_their_pool_when_the_program_cannot_get_the_socket() {
    in_namespace(
        "refusals::frames_in_the_fill_ring_return_to_their_pool_when_the_program_cannot_get_the_socket",
        || {
            veth("a0", "a1", 1);
            let mut here = bench(256);
            let before = open_files();
            // In the child process of this test, and for this thread alone.
            forbid_map_updates();
            let error = here.open("a0").unwrap_err();
            assert!(matches!(error, XdpError::Refused { .. }), "{error}");
            assert!(error.to_string().contains("put socket into XSKMAP"), "{error}");
            assert_eq!((program_on("a0"), open_files(), rings_mapped()), (None, before, 0));
            assert!(here.pool.ledger().all_freed(), "{:?}", here.pool.ledger());
        },
    );
}

/// Takes capabilities away from this thread. They come back when the guard is dropped.
pub struct Without(CapabilitySet);

impl Without {
    pub fn these(taken: CapabilitySet) -> Without {
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(taken);
        set_capabilities(None, sets).unwrap();
        Without(taken)
    }
}

impl Drop for Without {
    fn drop(&mut self) {
        let mut sets = capabilities(None).unwrap();
        sets.effective.insert(self.0);
        set_capabilities(None, sets).unwrap();
    }
}

#[test]
fn a_missing_capability_is_named_and_with_the_three_it_works() {
    in_namespace("refusals::a_missing_capability_is_named_and_with_the_three_it_works", || {
        veth("a0", "a1", 1);
        let mut here = bench(64);
        for (taken, name) in [
            (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
            (CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN, "CAP_NET_ADMIN"),
            (CapabilitySet::BPF | CapabilitySet::SYS_ADMIN, "CAP_BPF"),
        ] {
            let without = Without::these(taken);
            let error = here.open("a0").unwrap_err();
            let XdpError::NotPermitted { missing, .. } = &error else { panic!("{error}") };
            assert_eq!(*missing, [name]);
            assert!(error.to_string().contains(&format!("missing {name}: ")), "{error}");
            drop(without);
            assert_eq!(program_on("a0"), None);
        }
        let three = CapabilitySet::NET_RAW | CapabilitySet::NET_ADMIN | CapabilitySet::BPF;
        let without = Without::these(capabilities(None).unwrap().effective - three);
        here.open("a0").unwrap();
        let control = XdpConfig { punt: Punt::Control, ..small() };
        wait_for("the pages to be locked no more", || here.open_with("a0", 0, &control).ok());
        drop(without);
        let _without = Without::these(CapabilitySet::NET_ADMIN | CapabilitySet::BPF);
        here.open("a0").expect("CAP_SYS_ADMIN stands in for both");
    });
}

#[test]
fn a_small_limit_on_locked_memory_is_refused_with_the_numbers() {
    in_namespace("refusals::a_small_limit_on_locked_memory_is_refused_with_the_numbers", || {
        use rustix::process::{Resource, Rlimit, setrlimit};
        veth("a0", "a1", 1);
        let mut here = bench(64);
        let _without = Without::these(CapabilitySet::IPC_LOCK);
        let limit = Rlimit { current: Some(64 << 10), maximum: Some(64 << 10) };
        setrlimit(Resource::Memlock, limit).unwrap();
        let error = here.open("a0").unwrap_err();
        let expected = XdpError::LockedMemory { interface: "a0".into(), needed: 8192, limit: Some(64) };
        assert_eq!(error, expected);
        assert!(error.to_string().contains("CAP_IPC_LOCK"), "{error}");
    });
}

/// Seen: the second queue, which only received, was left out without a word, or the port of all queues was refused by
/// the number of one.
#[test]
fn all_queues_of_an_interface_that_receives_by_more_than_it_sends_by_are_refused_with_the_remedy() {
    const TEST: &str = "refusals::all_queues_of_an_interface_that_receives_by_more_than_it_sends_by_are_refused_with_the_remedy";
    in_namespace(TEST, || {
        veth("a0", "a1", 2);
        assert_eq!(XdpQueues::all_of("a0"), Ok(vec![0, 1]));
        ip("link del a0");
        ip("link add a0 numrxqueues 2 numtxqueues 1 type veth peer name a1");
        let refused = XdpQueues::all_of("a0").unwrap_err();
        assert_eq!(refused, XdpError::UnpairedQueues { interface: "a0".into(), rx: 2, tx: 1 });
        assert_eq!(XdpQueues::all_of("lo"), Err(XdpError::UncountedQueues { interface: "lo".into() }));
    });
}
