//! Over real sockets.

use super::*;
use crate::sys::event::Event;
use rustix::net::SocketAddrUnix;
use std::time::Duration;

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
    use std::net::{TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
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
