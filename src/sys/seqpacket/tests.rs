//! Over real sockets.

use super::*;
use crate::sys::event::Event;
use crate::sys::poor::in_poor_process;
use crate::sys::user::own_user;
use rustix::net::{SocketAddrUnix, bind};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("netmem-{}-{name}", std::process::id()))
}

#[test]
fn messages_travel_whole_with_descriptors_and_the_end_is_seen() {
    let path = path("travel");
    let listener = Listener::new(&path).unwrap();
    assert!(listener.accept().is_none());
    let client = Connection::open(&path).unwrap();
    let server = listener.accept().unwrap();
    let mut room = [0; 8];
    assert!(matches!(server.receive(&mut room), Received::Nothing));
    let event = Event::new().unwrap();
    client.send(b"one", Some(event.as_fd())).unwrap();
    client.send(b"two and more", None).unwrap();
    let Received::Message(3, descriptors) = server.receive(&mut room) else { panic!("no message") };
    rustix::io::write(&descriptors[0], &1_u64.to_ne_bytes()).unwrap();
    assert!(event.clear(), "it is the same event");
    let Received::Message(12, none) = server.receive(&mut room) else { panic!("no message") };
    assert!(none.is_empty(), "longer than the room, and its length is known");
    client.send(b"", None).unwrap();
    client.send(b"last", None).unwrap();
    drop(client);
    for len in [0, 4] {
        let Received::Message(n, _) = server.receive(&mut room) else { panic!("no message") };
        assert_eq!(n, len);
    }
    assert!(matches!(server.receive(&mut room), Received::End));
    assert_eq!(server.send(b"x", None), Err(Errno::PIPE));
    drop(listener);
    assert_eq!(Connection::open(&path).unwrap_err(), Errno::NOENT);
}

/// Found: a peer could send hundreds of descriptors with each of hundreds of messages, and the receiver looked at each.
#[test]
fn more_descriptors_than_expected_are_not_received_and_closed_by_another_thread() {
    let path = path("descriptors");
    let listener = Listener::new(&path).unwrap();
    let client = Connection::open(&path).unwrap();
    let server = listener.accept().unwrap();
    let event = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    send_all(&client, vec![event(), event()]);
    assert!(matches!(server.receive(&mut [0; 8]), Received::Message(4, two) if two.len() == 2));
    let (read, write) = rustix::pipe::pipe().unwrap();
    send_all(&client, vec![event(), event(), write]);
    assert!(matches!(server.receive(&mut [0; 8]), Received::UnknownDescriptor));
    drop(server);
    assert_eq!(rustix::io::read(&read, &mut [0]), Ok(0), "the end of the pipe is closed at last");
}

/// Found: a peer whose descriptor did not fit into this process was blamed for it, by an error without the remedy.
#[test]
fn a_process_that_is_out_of_descriptors_blames_no_peer() {
    let test = "a_process_that_is_out_of_descriptors_blames_no_peer";
    in_poor_process(module_path!(), test, || {
        let path = path("out-of-descriptors");
        let listener = Listener::new(&path).unwrap();
        let client = Connection::open(&path).unwrap();
        let server = listener.accept().unwrap();
        let event = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
        client.send(b"one", Some(event().unwrap().as_fd())).unwrap();
        let all: Vec<_> = std::iter::from_fn(|| event().ok()).collect();
        assert!(!all.is_empty() && matches!(server.receive(&mut [0; 8]), Received::NoRoom));
        assert!(matches!(server.receive(&mut [0; 8]), Received::End));
    });
}

/// Found in a review: the descriptors that were looked at first took the room of those that were received.
#[test]
fn a_message_needs_no_more_room_than_for_its_own_descriptors() {
    let test = "a_message_needs_no_more_room_than_for_its_own_descriptors";
    in_poor_process(module_path!(), test, || {
        let path = path("one-descriptor-left");
        let listener = Listener::new(&path).unwrap();
        let client = Connection::open(&path).unwrap();
        let server = listener.accept().unwrap();
        let event = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
        client.send(b"one", Some(event().unwrap().as_fd())).unwrap();
        let mut all: Vec<_> = std::iter::from_fn(|| event().ok()).collect();
        all.pop();
        assert!(matches!(server.receive(&mut [0; 8]), Received::Message(3, one) if one.len() == 1));
    });
}

/// Found: the close of a pipe waits for a writer, which a peer can hold up.
#[test]
fn a_pipe_is_not_received() {
    let path = path("pipe");
    let listener = Listener::new(&path).unwrap();
    let client = Connection::open(&path).unwrap();
    let server = listener.accept().unwrap();
    send_all(&client, vec![rustix::pipe::pipe().unwrap().0]);
    assert!(matches!(server.receive(&mut [0; 8]), Received::UnknownDescriptor));
}

/// Found: the socket's access depended on the umask, and a umask of 000 let every user connect.
#[test]
fn a_socket_has_the_mode_that_is_asked_for_and_none_of_the_umask() {
    let path = path("mode");
    for mode in [0o600, 0o660, 0o666, 0o622] {
        let _listener = Listener::open(&path, Access { mode, group: None }).unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o7777, mode, "{mode:o}");
    }
    let _listener = Listener::new(&path).unwrap();
    assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn a_peer_is_known_by_its_user_at_both_ends() {
    let path = path("user");
    let listener = Listener::new(&path).unwrap();
    let client = Connection::open(&path).unwrap();
    let server = listener.accept().unwrap();
    assert_eq!([client.peer_user(), server.peer_user()], [Ok(own_user()); 2]);
}

/// One end of a connection whose last close waits for ten minutes, because the other end takes nothing.
fn lingering() -> (OwnedFd, [OwnedFd; 2]) {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
    use std::net::{TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    set_socket_send_buffer_size(&stream, 4096).unwrap();
    let (other, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(600))).unwrap();
    stream.set_nonblocking(true).unwrap();
    while std::io::Write::write(&mut &stream, &[0; 65536]).is_ok() {}
    (stream.into(), [listener.into(), other.into()])
}

/// Sends descriptors, and keeps none of them.
fn send_all(from: &Connection, descriptors: Vec<OwnedFd>) {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
    sendmsg(from.socket(), &[IoSlice::new(b"here")], &mut control, SendFlags::NOSIGNAL).unwrap();
}

#[test]
fn a_descriptor_whose_close_waits_is_not_waited_for_received_unread_or_never_accepted() {
    let event = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    let mut others = Vec::new();
    for (case, before) in [("alone", 0), ("behind another", 1)] {
        let path = path(&format!("linger-{before}"));
        let listener = Listener::new(&path).unwrap();
        let clients = [(); 3].map(|()| Connection::open(&path).unwrap());
        for client in &clients {
            let (stream, other) = lingering();
            others.push(other);
            client.send(b"", None).unwrap();
            send_all(client, (0..before).map(|_| event()).chain([stream]).collect());
        }
        let done = done.clone();
        std::thread::spawn(move || {
            let (received, unread) = (listener.accept().unwrap(), listener.accept().unwrap());
            assert!(matches!(received.receive(&mut [0; 8]), Received::Message(0, _)));
            assert!(matches!(received.receive(&mut [0; 8]), Received::UnknownDescriptor));
            assert!(matches!(received.receive(&mut [0; 8]), Received::End));
            drop((received, unread, listener));
            done.send(case).unwrap();
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(case), "it waits");
        drop(clients);
    }
    // Only now are the other ends closed, which resets the streams and ends their lingering.
    drop(others);
}

/// Seen on paper: what such peers have sent was closed with the listener, by the thread that dropped it.
#[test]
fn a_listener_that_can_accept_nobody_is_dropped_without_waiting_for_what_they_sent() {
    let test = "a_listener_that_can_accept_nobody_is_dropped_without_waiting_for_what_they_sent";
    in_poor_process(module_path!(), test, || {
        let path = path("poor-drop");
        let listener = Listener::new(&path).unwrap();
        let client = Connection::open(&path).unwrap();
        let (stream, _far_end) = lingering();
        send_all(&client, vec![stream]);
        let event = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).ok();
        let _all: Vec<_> = std::iter::from_fn(event).collect();
        assert!(listener.accept().is_none() && listener.failure() == Some(Errno::MFILE));
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(listener);
            done.send(()).unwrap();
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(()), "it waits");
    });
}

/// Waits for a peer that has connected.
fn accepted(listener: &Listener) -> Connection {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < until, "no peer is accepted");
        match listener.accept() {
            Some(connection) => break connection,
            None => std::thread::yield_now(),
        }
    }
}

/// Number of connections whose peer sends a descriptor whose close waits, after which there is no new peer.
const HOSTILE: usize = 64;

/// Found: no other port of the process got a peer any more, and a peer that had ended and started again was not accepted.
#[test]
fn clients_that_send_descriptors_whose_close_waits_keep_no_client_from_another_listener() {
    let (attacked, other) = (path("attacked"), path("not-attacked"));
    let (attacked, other) = (Listener::new(&attacked).unwrap(), Listener::new(&other).unwrap());
    let mut far_ends = Vec::new();
    for _ in 0..HOSTILE {
        let client = Connection::open(&attacked.path).unwrap();
        let (stream, far_end) = lingering();
        far_ends.push(far_end);
        send_all(&client, vec![stream]);
        // Two descriptors of the stream are left each time. The close of the last one waits. Until the other one is
        // closed it counts as well, so this one may have to wait.
        let server = accepted(&attacked);
        assert!(matches!(server.receive(&mut [0; 8]), Received::UnknownDescriptor));
    }
    let _clients = [&attacked, &other].map(|listener| Connection::open(&listener.path).unwrap());
    assert!(attacked.accept().is_none() && attacked.refuses_peers() && !other.refuses_peers());
    drop(accepted(&other));
    // The streams are reset, and the closes end.
    drop(far_ends);
    drop(accepted(&attacked));
}

/// Found: as above, and no port of the process connected to its server.
#[test]
fn servers_that_send_descriptors_whose_close_waits_keep_no_other_port_from_its_server() {
    let listener = Listener::new(&path("hostile-server")).unwrap();
    let (attacked, other) = (Unclosed::default(), Unclosed::default());
    let connect = |unclosed: &Unclosed| Connection::open_counted(&listener.path, unclosed);
    let until = Instant::now() + Duration::from_secs(60);
    let mut far_ends = Vec::new();
    while far_ends.len() < HOSTILE {
        assert!(Instant::now() < until, "it does not connect");
        // Refused for a moment, as above.
        let Ok(client) = connect(&attacked) else { continue };
        let (stream, far_end) = lingering();
        far_ends.push(far_end);
        send_all(&accepted(&listener), vec![stream]);
        assert!(matches!(client.receive(&mut [0; 8]), Received::UnknownDescriptor));
    }
    assert_eq!(connect(&attacked).unwrap_err(), Errno::TOOMANYREFS);
    connect(&other).unwrap();
    drop(far_ends);
    while connect(&attacked).is_err() {
        assert!(Instant::now() < until, "what is closed counts no longer");
        std::thread::yield_now();
    }
}

#[test]
fn a_path_that_somebody_else_has_made_his_own_stays() {
    let path = path("taken");
    let first = Listener::new(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let second = Listener::new(&path).unwrap();
    drop(first);
    Connection::open(&path).unwrap();
    drop(second);
    assert!(!path.exists());
}

#[test]
fn a_dead_socket_is_replaced_and_a_live_one_or_a_file_is_not() {
    let path = path("replaced");
    let dead = new().unwrap();
    bind(&dead, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    drop(dead);
    let listener = Listener::new(&path).unwrap();
    assert_eq!(Listener::new(&path).unwrap_err(), Errno::ADDRINUSE);
    drop(listener);
    fs::write(&path, "precious").unwrap();
    assert_eq!(Listener::new(&path).unwrap_err(), Errno::ADDRINUSE);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
}

/// Found in a review: of two that replaced a dead socket, one removed the live one of the other, and no peer found it.
#[test]
fn of_two_that_replace_a_dead_socket_at_once_none_listens_where_no_peer_finds_it() {
    let path = path("at-once");
    for _ in 0..300 {
        let dead = new().unwrap();
        bind(&dead, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        drop(dead);
        let start = Barrier::new(2);
        let open = || {
            start.wait();
            Listener::new(&path)
        };
        let opened =
            thread::scope(|scope| [(); 2].map(|()| scope.spawn(open)).map(|one| one.join().unwrap()));
        let mut listening = opened.iter().flatten();
        assert_eq!(listening.next().unwrap().made, socket_at(&path));
        assert!(listening.next().is_none());
    }
}

/// Found: DPDK's memif listens at an abstract name by default, and no peer could connect to it.
#[test]
fn an_abstract_name_is_listened_at_without_a_file_and_by_one_alone() {
    let name = PathBuf::from(format!("@/tmp/netmem-{}-abstract", std::process::id()));
    assert_eq!(Connection::open(&name).unwrap_err(), Errno::CONNREFUSED);
    let listener = Listener::new(&name).unwrap();
    assert_eq!(Listener::new(&name).unwrap_err(), Errno::ADDRINUSE);
    let client = Connection::open(&name).unwrap();
    let server = listener.accept().unwrap();
    client.send(b"one", None).unwrap();
    assert!(matches!(server.receive(&mut [0; 8]), Received::Message(3, _)));
    let text = fs::read_to_string("/proc/net/unix").unwrap();
    let listed = name.to_str().unwrap();
    assert!(text.lines().any(|line| line.ends_with(listed)), "{listed}, and no zero behind it");
    assert!(!Path::new(&listed[1..]).exists());
    drop(listener);
    assert_eq!(Connection::open(&name).unwrap_err(), Errno::CONNREFUSED);
}
