use super::ask::Broker;
use super::carry_out::serve;
use super::channel::Channel;
use super::process::live;
use super::*;
use crate::sys::poor::in_poor_process;
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

fn setup(readable: Vec<PathBuf>) -> Setup {
    Setup {
        interfaces: vec!["a/b".into()],
        readable,
        leaves: Vec::new(),
        peers: vec![PathBuf::from("/nonexistent/peer.sock")],
        neighbour: Box::new(|link, address| match (link, address) {
            (1, address) if address.is_loopback() => Ok(()),
            _ => Err(Errno::NODEV),
        }),
        undo: Box::new(|| Err("it is too late".to_owned())),
    }
}

/// Runs `work` with a broker that is a thread.
fn with_broker<T>(readable: Vec<PathBuf>, work: impl FnOnce(&Broker) -> T) -> T {
    with_broker_of(setup(readable), work)
}

fn with_broker_of<T>(setup: Setup, work: impl FnOnce(&Broker) -> T) -> T {
    let (ours, its) = Channel::pair().expect("a pair of sockets");
    thread::scope(|scope| {
        scope.spawn(move || serve(&its, &setup));
        let broker = Broker::new(ours);
        let done = work(&broker);
        broker.close();
        done
    })
}

fn errno(broker: &Broker, request: &Request) -> Errno {
    broker.ask(request, None, &[]).expect_err("it is refused").errno
}

#[test]
fn a_file_is_opened_only_if_the_broker_was_told_of_it() {
    let path = std::env::temp_dir().join(format!("netmem-broker-{}", std::process::id()));
    std::fs::write(&path, "told").unwrap();
    with_broker(vec![path.clone()], |broker| {
        let (said, mut files) = broker.ask(&Request::Read(path.clone()), None, &[]).unwrap();
        let mut read = String::new();
        File::from(files.remove(0)).read_to_string(&mut read).unwrap();
        assert_eq!((said.len(), files.len(), read.as_str()), (0, 0, "told"));
        for other in ["/etc/shadow", "/etc/hostname", ""] {
            assert_eq!(errno(broker, &Request::Read(other.into())), Errno::ACCESS);
        }
        // The same file by another name is another name.
        let beside = path.parent().unwrap().join(".").join(path.file_name().unwrap());
        let other = format!("{}/../{}", path.parent().unwrap().display(), beside.display());
        assert_eq!(errno(broker, &Request::Read(other.into())), Errno::ACCESS);
        assert_eq!(errno(broker, &Request::Connect("/run/other.sock".into())), Errno::ACCESS);
        assert_eq!(errno(broker, &Request::Connect("/nonexistent/peer.sock".into())), Errno::NOENT);
    });
    std::fs::remove_file(path).unwrap();
}

/// Seen in a review: the broker recorded each file that it opened once more at each reload, without bound.
#[test]
fn a_file_is_recorded_once_however_often_it_is_opened_and_not_by_the_broker() {
    let path = |name: &str| std::env::temp_dir().join(format!("netmem-{name}-{}", std::process::id()));
    let (own, told) = (path("opened-twice"), path("opened-by-broker"));
    [&own, &told].into_iter().for_each(|path| std::fs::write(path, "text").unwrap());
    with_broker(vec![told.clone()], |broker| {
        for _ in 0..3 {
            open_to_read(&own).unwrap();
            broker.ask(&Request::Read(told.clone()), None, &[]).unwrap();
        }
    });
    let recorded = |path: &PathBuf| read_so_far().iter().filter(|one| *one == path).count();
    assert_eq!((recorded(&own), recorded(&told)), (1, 0));
    [own, told].into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
}

#[test]
fn a_refusal_brings_what_the_kernel_said() {
    with_broker(Vec::new(), |broker| {
        assert_eq!(errno(broker, &Request::Tap("a/b".into(), false)), Errno::INVAL);
        // The loopback interface is number 1, and the broker was not given its name.
        assert_eq!(errno(broker, &Request::Tap("lo".into(), false)), Errno::ACCESS);
        assert_eq!(errno(broker, &Request::PacketSocket(1)), Errno::ACCESS);
        assert_eq!(errno(broker, &Request::Promiscuous(1)), Errno::ACCESS);
        let null = File::open("/dev/null").unwrap();
        let attach = broker.ask(&Request::Attach(Hook::Generic, 1), None, &[null.as_fd()]);
        assert_eq!(attach.unwrap_err().errno, Errno::ACCESS);
        let refusal = broker.ask(&Request::Undo, None, &[]).unwrap_err();
        assert_eq!((refusal.errno, refusal.text.as_str()), (Errno::IO, "it is too late"));
    });
}

/// Found in a review: the broker had the kernel ask for neighbours on every interface of the host.
#[test]
fn the_kernel_asks_for_neighbours_only_on_interfaces_that_the_broker_was_told_of() {
    let setup = Setup { interfaces: vec!["lo".into()], ..setup(Vec::new()) };
    with_broker_of(setup, |broker| {
        let neighbour = |link, address: [u8; 4]| Request::Neighbour(link, address.into());
        let (good, other) = (neighbour(1, [127, 0, 0, 1]), neighbour(2, [127, 0, 0, 1]));
        assert!(broker.ask(&good, None, &[]).is_ok());
        assert_eq!(errno(broker, &neighbour(1, [10, 0, 0, 1])), Errno::NODEV, "that is the kernel's");
        assert_eq!(errno(broker, &other), Errno::ACCESS);
        // The broker does not answer a told request, and the next answer belongs to the next request.
        assert_eq!((tell(broker, &other), tell(broker, &good)), (Ok(()), Ok(())));
        // The names of another namespace are no excuse.
        let socket = OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        assert_eq!(broker.ask(&good, Some(&socket), &[]).unwrap_err().errno, Errno::PROTO);
        assert!(broker.ask(&good, None, &[]).is_ok());
    });
}

#[test]
fn what_is_no_request_is_refused_and_the_next_one_is_answered() {
    with_broker(Vec::new(), |broker| {
        let file = OwnedFd::from(File::open("/dev/null").unwrap());
        let strange = [
            (Request::NetdevSocket, vec![file.as_fd()]),
            (Request::TapPlace, vec![]),
            (Request::Replace, vec![file.as_fd()]),
            (Request::IsDetached, vec![file.as_fd(), file.as_fd()]),
        ];
        for (request, descriptors) in strange {
            let refusal = broker.ask(&request, None, &descriptors).unwrap_err();
            assert_eq!(refusal.errno, Errno::PROTO, "{request:?} with {} descriptors", descriptors.len());
        }
        // A file is not a map, a link, a queue or a namespace.
        let element = Element { action: Action::Get, key: vec![0; 4], value: vec![0; 8] };
        for request in [Request::Element(element), Request::TapPlace] {
            assert!(broker.ask(&request, None, &[file.as_fd()]).is_err(), "{request:?}");
        }
        assert!(broker.ask(&Request::NetdevSocket, Some(&file), &[]).is_err());
        let (_, sockets) = broker.ask(&Request::NetdevSocket, None, &[]).unwrap();
        assert_eq!(sockets.len(), 1);
    });
}

#[test]
fn one_that_is_gone_is_known_to_be_and_says_so_to_whoever_asks() {
    let (ours, its) = Channel::pair().expect("a pair of sockets");
    let broker = Broker::new(ours);
    assert!(!broker.is_gone());
    drop(its);
    assert!(broker.is_gone());
    assert_eq!(errno(&broker, &Request::NetdevSocket), Errno::PIPE);
}

/// Seen: after one answer that came late, the broker was taken for gone, and undid what was fixed for ports that still
/// carried packets.
#[test]
fn an_answer_that_comes_too_late_is_discarded_and_the_next_request_gets_its_own() {
    let (ours, its) = Channel::pair().expect("a pair of sockets");
    ours.set_patience(Duration::from_millis(1)).unwrap();
    let same = Channel(ours.0.try_clone().unwrap());
    let broker = Broker::new(ours);
    assert_eq!(errno(&broker, &Request::NetdevSocket), Errno::TIMEDOUT);
    assert!(!broker.is_gone());
    same.set_patience(Duration::from_secs(120)).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || serve(&its, &setup(Vec::new())));
        let refusal = broker.ask(&Request::Undo, None, &[]).unwrap_err();
        assert_eq!((refusal.errno, refusal.text.as_str()), (Errno::IO, "it is too late"));
        let (_, sockets) = broker.ask(&Request::NetdevSocket, None, &[]).unwrap();
        assert_eq!((sockets.len(), broker.is_gone()), (1, false));
        broker.close();
    });
}

/// Seen: a message whose descriptor did not fit into the process was taken for the broker's end, and ended the broker.
#[test]
fn a_process_without_room_for_a_descriptor_says_so_and_the_next_request_is_answered() {
    let test = "a_process_without_room_for_a_descriptor_says_so_and_the_next_request_is_answered";
    in_poor_process(module_path!(), test, || {
        let file = OwnedFd::from(File::open("/dev/null").unwrap());
        let no_room = || std::iter::from_fn(|| file.try_clone().ok()).collect::<Vec<_>>();
        with_broker(Vec::new(), |broker| {
            let all = no_room();
            let refusal = broker.ask(&Request::IsDetached, None, &[file.as_fd()]).unwrap_err();
            assert_eq!(refusal.errno, Errno::MFILE, "the broker has no room");
            drop(all);
            assert!(broker.ask(&Request::NetdevSocket, None, &[]).is_ok());
        });
        let (ours, its) = Channel::pair().expect("a pair of sockets");
        let broker = Broker::new(ours);
        for number in 1..=2_u32 {
            its.send(&[&number.to_ne_bytes()[..], &[0]].concat(), &[file.as_fd()]).unwrap();
        }
        let all = no_room();
        assert_eq!((errno(&broker, &Request::NetdevSocket), broker.is_gone()), (Errno::MFILE, false));
        drop(all);
        assert_eq!(broker.ask(&Request::NetdevSocket, None, &[]).unwrap().1.len(), 1);
    });
}

/// Seen in a review: a broker that could not give up its privileges served with all of them.
#[test]
fn a_broker_that_cannot_give_up_what_it_does_not_need_serves_nothing() {
    let (ours, its) = Channel::pair().expect("a pair of sockets");
    let setup = setup(Vec::new());
    thread::scope(|scope| {
        let lived = scope.spawn(|| {
            let its = its;
            live(&its, &setup, || false, || panic!("it has nothing to end"))
        });
        assert!(!lived.join().expect("it ends"));
    });
    let broker = Broker::new(ours);
    assert!(broker.ask(&Request::Undo, None, &[]).is_err(), "it has ended");
}
