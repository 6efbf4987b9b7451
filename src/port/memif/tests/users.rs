//! Tests of peers that run as other users, and of clients that keep a server waiting.

use super::message::{Init, MESSAGE_LEN, MODE_ETHERNET, Message, Text, VERSION};
use super::*;
use crate::sys::errno::Errno;
use crate::sys::seqpacket::{Connection, Listener, Received};
use crate::sys::user::own_user;
use std::os::unix::fs::MetadataExt;

/// Returns a user that this process does not run as.
fn another() -> u32 {
    own_user() + 1
}

#[test]
fn peers_are_of_the_same_user_unless_another_is_allowed() {
    let path = fresh_path();
    let listener = Listener::new(&path).unwrap();
    let client = Connection::open(&path).unwrap();
    let server = listener.accept().unwrap();
    for connection in [&client, &server] {
        for peer in [PeerUser::Own, PeerUser::Any, PeerUser::Uid(own_user()), PeerUser::Uid(another())] {
            assert_eq!(peer.check(connection), Ok(()), "{peer:?}");
        }
    }
}

/// Does the work as the user `nobody`. Returns None if this process is not root, which alone can change its user.
fn as_another<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let as_nobody = || crate::sys::user::as_user(65534, work);
    (own_user() == 0).then(|| std::thread::scope(|scope| scope.spawn(as_nobody).join().unwrap()))
}

/// Seen: uid 65534 connected to root's server and got HELLO, and a client sent its secret to any program that listened.
#[test]
fn a_peer_of_another_user_is_refused_by_either_end_before_any_message() {
    let path = fresh_path();
    let open = Access { mode: 0o666, group: None };
    let mut server = Side::open(&path, false, &MemifConfig { access: open, ..server_config() });
    let Some(other) = as_another(|| Connection::open(&path)) else {
        assert!(std::env::var_os("NETMEM_NO_SKIP").is_none(), "only root can be another user");
        eprintln!("SKIPPED: only root can be another user");
        return;
    };
    let other = other.unwrap();
    server.idle();
    let mut bytes = [0; MESSAGE_LEN];
    let Received::Message(..) = other.receive(&mut bytes) else { panic!("no word") };
    let Message::Disconnect { reason, .. } = Message::parse(&bytes).unwrap() else { panic!("let in") };
    assert_eq!(
        reason.to_string(),
        "a peer that runs as user 65534 may not connect: allow it by peer=65534 or peer=any"
    );
    assert!(server.reason().contains("runs as user 65534"), "{}", server.reason());
    server.close();

    // A server's user is that of the thread that begins to listen.
    let path = fresh_path();
    let listener = as_another(|| Listener::open(&path, open)).unwrap().unwrap();
    let secret = "sesame".to_owned();
    let client = Side::open(&path, true, &MemifConfig { secret, ..MemifConfig::default() });
    assert!(client.reason().contains("runs as user 65534"), "{}", client.reason());
    let connection = listener.accept().expect("it came");
    assert!(matches!(connection.receive(&mut bytes), Received::End), "and said nothing");
    client.close();
    let allowed = MemifConfig { peer: PeerUser::Uid(65534), ..MemifConfig::default() };
    let client = Side::open(&path, true, &allowed);
    assert!(!client.reason().contains("runs as user"), "{}", client.reason());
    client.close();
}

/// Seen: 0755 under umask 022, and 0777 under umask 000.
#[test]
fn a_servers_socket_has_the_documented_mode() {
    for (access, mode) in [(Access::default(), 0o600), (Access { mode: 0o666, group: None }, 0o666)] {
        let path = fresh_path();
        let server = Side::open(&path, false, &MemifConfig { access, ..server_config() });
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().mode() & 0o7777, mode);
        server.close();
    }
}

/// Seen: a server with `group=kvm`, whose user is not in that group, was said to need a folder that it may write.
#[test]
fn a_group_that_this_user_may_not_give_is_named_with_the_remedy_and_no_socket_is_left() {
    let path = fresh_path();
    // A group that no user belongs to.
    let group = 65_533;
    let open = || {
        let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..MemoryConfig::default() }).unwrap();
        let access = Access { mode: 0o660, group: Some(group) };
        let config = MemifConfig { access, ..server_config() };
        MemifPort::open(&path, &memory, &config).map(drop).unwrap_err()
    };
    // Root may give any group.
    let error = as_another(open).unwrap_or_else(open);
    assert_eq!(error, MemifError::Group { path: path.clone(), group, errno: Errno::PERM });
    let line = error.to_string();
    assert!(line.starts_with(&format!("chown {} to group 65533: ", path.display())), "{line}");
    assert!(line.ends_with("; give a group that this user belongs to, or run as root"), "{line}");
    assert!(std::fs::symlink_metadata(&path).is_err(), "a socket is left");
    let mode = MemifError::Mode { path: "/a".into(), mode: 0o60, errno: Errno::NOENT }.to_string();
    assert!(mode.starts_with("chmod /a to 0060: ") && mode.contains("; mount /proc"), "{mode}");
}

/// Returns the reason of the last DISCONNECT that this client was sent.
fn told(client: &Connection) -> String {
    let mut bytes = [0; MESSAGE_LEN];
    let mut last = String::new();
    while let Received::Message(..) = client.receive(&mut bytes) {
        if let Message::Disconnect { reason, .. } = Message::parse(&bytes).unwrap() {
            last = reason.to_string();
        }
    }
    last
}

/// Connects a client while `others` are connected, which came before it. Returns whether they were still connected
/// then. The server gives them up after seconds, which a machine that stands still may take.
fn gets_in_beside(others: impl Fn(&Path) -> Vec<Connection>) -> bool {
    let path = fresh_path();
    let mut server = Side::server_of_lenders(&path);
    let others = others(&path);
    server.idle();
    let mut honest = Side::client(&path, true);
    until(&mut server, &mut honest, |server, honest| server.is_up() && honest.is_up());
    server.close();
    honest.close();
    others.iter().all(|other| told(other) == "somebody is connected already")
}

/// Seen: a silent client held the only slot for five seconds, and then its next connection did.
#[test]
fn a_client_gets_in_while_a_silent_one_is_connected() {
    let silent = |path: &Path| vec![Connection::open(path).unwrap()];
    assert!((0..10).any(|_| gets_in_beside(silent)), "only when the silent one was given up");
}

#[test]
fn a_client_gets_in_while_one_that_has_stopped_half_way_is_connected() {
    let half_way = |path: &Path| {
        let (secret, name) = (Text::default(), Text::new("half way"));
        let init = Message::Init(Init { version: VERSION, id: 0, mode: MODE_ETHERNET, secret, name });
        let client = Connection::open(path).unwrap();
        client.send(&init.bytes(), None).unwrap();
        vec![client]
    };
    assert!((0..10).any(|_| gets_in_beside(half_way)), "only when the other was given up");
}

/// More silent clients than the server admits at once connect again and again for a while.
#[test]
fn a_client_gets_in_though_silent_ones_come_again_and_again() {
    let path = fresh_path();
    let (mut server, mut honest) = (Side::server_of_lenders(&path), Side::client(&path, true));
    let mut silent = Vec::new();
    until(&mut server, &mut honest, |server, honest| {
        if silent.len() < 200 {
            silent.extend(Connection::open(&path));
        }
        server.is_up() && honest.is_up()
    });
    server.close();
    honest.close();
}

/// Seen: the server refused the fifth client because a client was connected already, although none was.
#[test]
fn a_client_that_comes_while_four_others_talk_hears_that_they_do() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    // One that has said nothing for a while, as on a machine that stands still, gives way.
    let is_told = (0..20).any(|_| {
        let clients: Vec<_> = (0..5).map(|_| Connection::open(&path).unwrap()).collect();
        (0..8).for_each(|_| server.idle());
        told(&clients[4]) == "four other clients are connecting: try again"
    });
    assert!(is_told, "{}", server.reason());
    assert!(server.reason().contains("four other clients"), "{}", server.reason());
    server.close();
}

/// Seen: while clients came that failed at once, no other client was heard.
#[test]
fn a_client_gets_in_while_others_come_and_go_with_every_look() {
    let path = fresh_path();
    let (mut server, mut honest) = (Side::server_of_lenders(&path), Side::client(&path, true));
    until(&mut server, &mut honest, |server, honest| {
        drop(Connection::open(&path));
        server.is_up() && honest.is_up()
    });
    server.close();
    honest.close();
}

/// Seen: its connection ended without a word.
#[test]
fn a_client_that_has_not_offered_everything_hears_that_the_port_closes() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    let client = Connection::open(&path).unwrap();
    let mut bytes = [0; MESSAGE_LEN];
    while !matches!(client.receive(&mut bytes), Received::Message(..)) {
        server.idle();
    }
    server.close();
    assert!(matches!(client.receive(&mut bytes), Received::Message(..)));
    assert!(matches!(Message::parse(&bytes), Ok(Message::Disconnect { .. })));
}
