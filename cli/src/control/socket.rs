//! The socket in the file system. Only its owner has access from the first moment, and a listening process never
//! loses it.

use crate::args::User;
use crate::failure::Failure;
use crate::log::{self, Level};
use netmem::system::errno::{descriptor_remedy_of, descriptor_remedy_or};
use netmem::system::stream::connect_at_once;
use std::collections::hash_map::RandomState;
use std::env;
use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Returns the path of a run's socket: the given one, else `$NETMEM_CONTROL`, else the first `netmem.sock` on which a process
/// listens, in `$XDG_RUNTIME_DIR`, in `/run` and in `/run/netmem`, where `netmem.service` has it.
///
/// # Errors
/// [`Failure::NotNow`] with what each of them is, if no process listens on any.
pub fn path_of_run(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = given.map(Path::to_owned).or_else(|| named("NETMEM_CONTROL")) {
        return Ok(path);
    }
    let folders = named("XDG_RUNTIME_DIR").into_iter().chain(["/run", "/run/netmem"].map(PathBuf::from));
    first_answering(folders).map_err(Failure::NotNow)
}

/// Returns the first `netmem.sock` in these folders on which a process listens.
fn first_answering(folders: impl Iterator<Item = PathBuf>) -> Result<PathBuf, String> {
    let mut tried = Vec::new();
    for path in folders.map(|folder| folder.join("netmem.sock")) {
        match connect_at_once(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(path),
            Err(error) => match descriptor_remedy_of(&error) {
                "" => tried.push(format!("{} ({error})", path.display())),
                remedy => return Err(format!("{}: {error}{remedy}", path.display())),
            },
        }
    }
    Err(format!(
        "no netmem run is listening on {}: start netmem forward --control PATH as your user, and give --control PATH",
        tried.join(", ")
    ))
}

/// A descriptor that only names a file (open(2)). A socket has no other.
const O_PATH: i32 = 0o10_000_000;
/// Maximum bytes of a path.
const PATH_MAX: usize = 107;

/// A listening socket at a path. Dropping it frees the path.
#[derive(Debug)]
pub struct Socket {
    pub listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket file.
    identity: (u64, u64),
}

impl Socket {
    /// Listens at `path`. `what` names the socket in errors. A socket that no process listens on any more is
    /// replaced.
    ///
    /// # Errors
    /// [`Failure::NotNow`] if another program listens there, or if this process or the host has no descriptor left, else
    /// [`Failure::Input`].
    pub fn bind(path: &Path, what: &str) -> Result<Socket, Failure> {
        let failed = |why: &str, error: io::Error| {
            let remedy = descriptor_remedy_of(&error);
            Failure::of_call(&error, format!("{what} {}: {why}: {error}{remedy}", path.display()))
        };
        clear_stale(path, what)?;
        // The socket is made in a directory that only its owner may enter, and linked from there, which replaces
        // nothing. So it is never accessible to others, and of two processes that start at once one gets an error.
        if path.file_name().is_none() {
            return Err(Failure::Input(format!("{what} {}: give a file name", path.display())));
        }
        // The path and a zero byte must fit into a sockaddr_un.
        if path.as_os_str().len() > PATH_MAX {
            return Err(Failure::Input(format!(
                "{what} {}: the path is too long: give at most {PATH_MAX} bytes",
                path.display()
            )));
        }
        let private = private_beside(path).map_err(|error| match (error.kind(), path.parent()) {
            (ErrorKind::NotFound, Some(folder)) => Failure::Input(format!(
                "{what} {}: there is no folder {}: make it first, or give another path",
                path.display(),
                folder.display()
            )),
            _ => failed("cannot make it", error),
        })?;
        let made = private.join("s");
        let listening = UnixListener::bind(&made).and_then(|listener| {
            fs::set_permissions(&made, Permissions::from_mode(0o600))?;
            // Not of `path`, where another program may have put its own file by then.
            let meta = fs::symlink_metadata(&made)?;
            fs::hard_link(&made, path)?;
            listener.set_nonblocking(true)?;
            Ok(Socket { listener, path: path.into(), identity: (meta.dev(), meta.ino()) })
        });
        // From a directory that was just made. Leftovers do no harm.
        let _ = fs::remove_file(&made);
        let _ = fs::remove_dir(&private);
        listening.map_err(|error| match error.kind() {
            // A program that started at the same time.
            ErrorKind::AlreadyExists => failed("cannot listen", error).for_now(),
            _ => failed("cannot listen", error),
        })
    }

    /// Gives the socket to a user, or prints why it cannot. Another program may have put its own file at the path since, which
    /// stays as it is.
    pub fn give_to(&self, User { user, group }: User) {
        if let Err(error) = self.try_give_to(user, group) {
            let path = self.path.display();
            log::say(Level::Warning, format_args!("netmem: {path} still belongs to root: {error}"));
        }
    }

    fn try_give_to(&self, user: u32, group: u32) -> io::Result<()> {
        // The descriptor names the same file, whatever the path leads to later.
        let held = OpenOptions::new().read(true).custom_flags(O_PATH).open(&self.path)?;
        let meta = held.metadata()?;
        if (meta.dev(), meta.ino()) != self.identity {
            return Err(io::Error::other("another program has put another file at this path"));
        }
        chown(format!("/proc/self/fd/{}", held.as_raw_fd()), Some(user), Some(group))
    }
}

/// Makes a new directory beside `path` that only its owner may enter. Its name cannot be guessed, so no one can
/// create it first.
fn private_beside(path: &Path) -> io::Result<PathBuf> {
    loop {
        // From the system's random numbers, like the keys of every hash map.
        let chance = RandomState::new().build_hasher().finish();
        let private = path.with_file_name(format!(".netmem-{chance:016x}"));
        match DirBuilder::new().mode(0o700).create(&private) {
            Ok(()) => {
                // The umask may have removed permissions that the owner needs.
                if fs::symlink_metadata(&private)?.mode() & 0o777 != 0o700 {
                    fs::set_permissions(&private, Permissions::from_mode(0o700))?;
                }
                return Ok(private);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes a socket that no process listens on. Any other file at `path` is an error.
fn clear_stale(path: &Path, what: &str) -> Result<(), Failure> {
    let at = path.display();
    let input = |why: String| Err(Failure::Input(format!("{what} {at}: {why}")));
    // That program may end.
    let not_now = |why: &str| {
        Err(Failure::NotNow(format!("{what} {at}: {why}: give another path, or end that program")))
    };
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return input(error.to_string()),
    };
    if !meta.file_type().is_socket() {
        return input("this file is not a socket: give another path".to_owned());
    }
    let connected = connect_to_existing(path, &meta).map(drop);
    match connected.map_err(|error| (error.kind(), error)) {
        Err((ErrorKind::ConnectionRefused, _)) => {
            // Another program may have put its own file there since.
            let is_it = |now: Metadata| (now.dev(), now.ino()) == (meta.dev(), meta.ino());
            if !fs::symlink_metadata(path).is_ok_and(is_it) {
                return not_now("another program has just made a socket there");
            }
            fs::remove_file(path).or_else(|error| input(format!("cannot replace it: {error}")))
        }
        // A program that listens but accepts no connection has the path too.
        Ok(()) | Err((ErrorKind::WouldBlock, _)) => not_now("another program listens there"),
        Err((_, error)) => {
            let remedy = descriptor_remedy_or(&error, ": give another path");
            Err(Failure::of_call(&error, format!("{what} {at}: {error}{remedy}")))
        }
    }
}

/// Connects to the existing socket. A socket of another user, as `--user` leaves behind, refuses a root without CAP_DAC_OVERRIDE,
/// such as that of a service. A process that may change owners of files takes the socket for the time of the connection. If a process
/// listens on the socket, its owner is restored.
fn connect_to_existing(path: &Path, meta: &Metadata) -> io::Result<UnixStream> {
    let connected = connect_at_once(path);
    if !connected.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        return connected;
    }
    // The descriptor names the same socket, whatever the path leads to later.
    let Ok(held) = OpenOptions::new().read(true).custom_flags(O_PATH).open(path) else { return connected };
    let itself = format!("/proc/self/fd/{}", held.as_raw_fd());
    let is_it = |held: Metadata| (held.dev(), held.ino()) == (meta.dev(), meta.ino());
    let give_to = |user| chown(&itself, Some(user), None);
    let is_taken = || fs::metadata("/proc/self").and_then(|ours| give_to(ours.uid())).is_ok();
    if !held.metadata().is_ok_and(is_it) || !is_taken() {
        return connected;
    }
    let again = connect_at_once(Path::new(&itself));
    if !again.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
        // It belonged to that user a moment ago.
        let _ = give_to(meta.uid());
    }
    again
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another process may have put its own file there since.
        let ours =
            fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Returns a directory of this test alone.
    fn place(name: &str) -> PathBuf {
        let place = env::temp_dir().join(format!("netmem-socket-{}-{name}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        place
    }

    /// Seen: the socket of a run that was killed hid the service's, and where none was, the error named a folder that nobody had
    /// configured.
    #[test]
    fn a_client_takes_the_first_socket_on_which_a_run_listens_and_names_all_places_if_none_does() {
        let place = place("first");
        let folders = ["session", "run", "service"].map(|name| place.join(name));
        let taken = || first_answering(folders.iter().cloned());
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let none = taken().unwrap_err();
        assert!(folders.iter().all(|folder| none.contains(&*folder.to_string_lossy())), "{none}");
        let sockets: Vec<_> = folders.iter().rev().map(|folder| folder.join("netmem.sock")).collect();
        let mut listening: Vec<_> = sockets
            .iter()
            .map(|path| {
                let listener = UnixListener::bind(path).unwrap();
                assert_eq!(taken().as_ref(), Ok(path));
                listener
            })
            .collect();
        // The files of the others stay.
        for path in sockets[..2].iter().rev() {
            listening.pop();
            assert_eq!(taken().as_ref(), Ok(path));
        }
        listening.clear();
        assert!(taken().unwrap_err().contains("refused"));
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_socket_is_accessible_to_its_owner_only_and_is_removed_when_it_is_dropped() {
        let place = place("own");
        let path = place.join("c");
        let socket = Socket::bind(&path, "control socket").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1, "nothing beside it");
        let refused = Socket::bind(&path, "control socket").unwrap_err();
        assert!(refused.lines()[0].contains("another program listens"), "{refused:?}");
        drop(socket);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        fs::remove_dir(place).unwrap();
    }

    #[test]
    fn a_stale_one_is_replaced_and_anything_else_is_left_alone() {
        let place = place("stale");
        let path = place.join("c");
        drop(UnixListener::bind(&path).unwrap());
        drop(Socket::bind(&path, "control socket").unwrap());
        fs::write(&path, "mine").unwrap();
        let refused = Socket::bind(&path, "control socket").unwrap_err();
        assert!(refused.lines()[0].contains("not a socket"), "{refused:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        assert!(Socket::bind(&place.join("none").join("c"), "control socket").is_err());
        fs::remove_file(&path).unwrap();
        fs::remove_dir(place).unwrap();
    }

    /// A listener at this path that accepts nobody and has no room for one more. Connections that are closed keep their room.
    pub fn full_listener(path: &Path) -> UnixListener {
        let listener = UnixListener::bind(path).unwrap();
        let full = loop {
            if let Err(error) = connect_at_once(path) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        listener
    }

    /// Seen: the start of a run waited without end and without a line.
    #[test]
    fn a_listener_that_accepts_nobody_is_another_program_that_listens_and_is_not_waited_for() {
        let place = place("full");
        let path = place.join("netmem.sock");
        let _full = full_listener(&path);
        let refused = Socket::bind(&path, "control socket").unwrap_err();
        assert!(
            refused.lines()[0]
                .ends_with("another program listens there: give another path, or end that program")
        );
        assert_eq!(first_answering([place.clone()].into_iter()), Ok(path.clone()));
        fs::remove_dir_all(place).unwrap();
    }

    /// Seen: "cannot make it: File exists", when another user had made directories with all the next names.
    #[test]
    fn names_that_others_have_made_beside_a_socket_prevent_no_listening() {
        let place = place("squatted");
        let path = place.join("c");
        let squatted = place.join(format!("c.{}", std::process::id()));
        fs::create_dir(&squatted).unwrap();
        drop(Socket::bind(&path, "control socket").unwrap());
        let names: Vec<_> = (0..2).map(|_| private_beside(&path).unwrap()).collect();
        assert_ne!(names[0], names[1]);
        for name in names {
            assert_eq!(fs::metadata(&name).unwrap().permissions().mode() & 0o777, 0o700);
        }
        fs::remove_dir_all(place).unwrap();
    }

    /// Found in a review: with `--user`, root gave away whatever had the socket's name by then.
    #[test]
    fn a_file_that_another_process_put_in_a_sockets_place_is_not_given_to_the_user() {
        let place = place("given");
        let (path, theirs) = (place.join("c"), place.join("theirs"));
        let own = fs::metadata("/proc/self").unwrap();
        // Root alone gives files to others.
        let (user, group) = if own.uid() == 0 { (65_534, 65_534) } else { (own.uid(), own.gid()) };
        let socket = Socket::bind(&path, "control socket").unwrap();
        let owner = |path: &Path| fs::symlink_metadata(path).map(|meta| (meta.uid(), meta.gid())).unwrap();
        socket.try_give_to(user, group).unwrap();
        assert_eq!(owner(&path), (user, group));
        fs::write(&theirs, "").unwrap();
        let before = owner(&theirs);
        fs::remove_file(&path).unwrap();
        for is_link in [false, true] {
            if is_link { symlink(&theirs, &path) } else { fs::hard_link(&theirs, &path) }.unwrap();
            let refused = socket.try_give_to(user, group).unwrap_err().to_string();
            assert!(refused.contains("another file"), "{refused}");
            assert_eq!((owner(&theirs), owner(&path)), (before, before));
            fs::remove_file(&path).unwrap();
        }
        assert!(socket.try_give_to(user, group).is_err(), "there is nothing");
        drop(socket);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_socket_that_another_process_replaced_is_not_removed() {
        let place = place("other");
        let path = place.join("c");
        let socket = Socket::bind(&path, "control socket").unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        drop(socket);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
        fs::remove_dir(place).unwrap();
    }
}
