//! The string of a memif port: its socket, and its options.

use super::options::Keys;
use netmem::port::memif::{MemifConfig, PeerUser, Role, Sealing};
use std::fs::{self, File};
use std::io;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The keys of a memif port. `copy` is an old key for a copying port.
const KEYS: Keys = Keys {
    kind: "memif",
    names: &[
        "role",
        "id",
        "queues",
        "secret",
        "secret-file",
        "mode",
        "group",
        "peer",
        "unsealed",
        "holes",
        "lend",
        "copy",
    ],
    form: "role=client or role=server, id=N, queues=N, secret=TEXT or secret-file=PATH, mode=OCTAL, group=GROUP, peer=UID or \
           peer=any, unsealed=ok or holes=ok or holes=MIB, lend=yes",
};
/// Memory that may be cut may have holes too.
const NO_SEALS_NO_HOLES: &str =
    "memif: unsealed=ok and holes=: give one of them, since unsealed memory may have holes";
/// Maximum number of bytes of a secret, according to the protocol.
const SECRET_MAX: usize = 23;
/// Maximum number of queues ([`MemifConfig::queues`]). Memory is taken for all of them before the port is opened.
const QUEUES_MAX: u16 = 16;

/// What the text behind `memif:` says.
pub struct Memif {
    pub path: PathBuf,
    pub config: MemifConfig,
    /// `lend=yes`. Whether the program lends frames is in [`OpenConfig::lend`](crate::OpenConfig::lend).
    pub lends: bool,
}

/// Parses the text behind `memif:`: the socket, and its options.
///
/// # Errors
/// Returns one line with the form, or with the error of a file that is named.
pub fn memif(text: &str) -> Result<Memif, String> {
    let (path, rest) = text.split_once(',').unwrap_or((text, ""));
    if path.is_empty() {
        return Err("memif: give the path of a socket, as in memif:/run/memif.sock,role=server".into());
    }
    let mut config = MemifConfig::default();
    let (mut given, mut lends) = (Given::default(), false);
    for (key, value) in KEYS.options(rest)? {
        match (key, value) {
            ("role", "client") => config.role = Role::Client,
            ("role", "server") => config.role = Role::Server,
            ("id", number) => {
                config.id = number.parse().map_err(|_| "memif: id=N: give a number from 0")?;
            }
            ("queues", number) => {
                let queues = number.parse::<u16>().ok().filter(|queues| (1..=QUEUES_MAX).contains(queues));
                config.queues = queues.ok_or("memif: queues=N: give a number from 1 to 16")?;
            }
            ("secret" | "secret-file", _) if !config.secret.is_empty() => {
                return Err("memif: two secrets: give secret=TEXT or secret-file=PATH, once".into());
            }
            ("secret", secret) if !secret.is_empty() => config.secret = secret.into(),
            ("secret-file", file) if !file.is_empty() => config.secret = secret_of(Path::new(file))?,
            ("mode", mode) => (given.access, config.access.mode) = (true, mode_of(mode)?),
            ("group", group) => (given.access, config.access.group) = (true, Some(group_of(group)?)),
            ("peer", "any") => config.peer = PeerUser::Any,
            ("peer", user) => {
                let user = user.parse().map_err(|_| "memif: peer=UID: give a user's number, or any")?;
                config.peer = PeerUser::Uid(user);
            }
            ("unsealed", _) if given.holes => return Err(NO_SEALS_NO_HOLES.into()),
            ("holes", _) if config.sealing == Sealing::Trusted => return Err(NO_SEALS_NO_HOLES.into()),
            ("unsealed", "ok") => config.sealing = Sealing::Trusted,
            ("holes", "ok") => (given.holes, config.sealing) = (true, Sealing::HolesAllowed),
            ("holes", number) => (given.holes, config.holes) = (true, holes_of(number)?),
            ("lend", "yes") => lends = true,
            ("lend", "no") => lends = false,
            // The form from the time when lending was the default.
            ("copy", "yes") => given.copy = true,
            other => return Err(KEYS.refuse(other)),
        }
    }
    let memif = Memif { path: path.into(), config, lends };
    check(&memif, &given)?;
    Ok(memif)
}

/// Returns the text of a port with `secret=…` in place of its secrets, for messages that others read. The text need not be that of
/// a port.
pub fn without_secrets(text: &str) -> String {
    let shown = |part| if str::starts_with(part, "secret=") { "secret=…" } else { part };
    text.split(',').map(shown).collect::<Vec<_>>().join(",")
}

/// Which options were given that no field of [`Memif`] tells from a default.
#[derive(Default)]
struct Given {
    /// `copy=yes`.
    copy: bool,
    /// `mode=` or `group=`.
    access: bool,
    /// `holes=`.
    holes: bool,
}

/// Checks options against each other.
///
/// # Errors
/// Returns one line with the remedy.
fn check(memif: &Memif, given: &Given) -> Result<(), String> {
    let Memif { path, config, lends } = memif;
    if given.copy && *lends {
        return Err("memif: copy=yes and lend=yes: leave one out; without lend=yes, bytes are copied".into());
    }
    if given.holes && config.sealing == Sealing::Required && config.role == Role::Client {
        return Err("memif: holes=no and holes=MIB are for role=server: a client makes the memory, and writes all of it"
            .into());
    }
    if *lends && config.role == Role::Server {
        return Err(
            "memif: lend=yes is for role=client: a server copies from and to its client's memory".into()
        );
    }
    if path.as_os_str().as_bytes().starts_with(b"@") && given.access {
        return Err("memif: mode= and group= are for a socket in the file system: every user can connect to an abstract one \
                    (@NAME), and peer= limits the users"
            .into());
    }
    if given.access && config.role == Role::Client {
        return Err(
            "memif: mode= and group= are for role=server: a client opens the socket that its server has made"
                .into(),
        );
    }
    Ok(())
}

/// The bytes of holes that a server fills, from a number of MiB, or none.
fn holes_of(mebibytes: &str) -> Result<u64, String> {
    if mebibytes == "no" {
        return Ok(0);
    }
    let bytes = mebibytes.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << 20));
    bytes.ok_or_else(|| "memif: holes=MIB: give a number of MiB, no, or ok, as in holes=256".into())
}

/// The permission bits of a server's socket.
fn mode_of(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| mode & !0o777 == 0)
        .ok_or_else(|| format!("memif: mode={text}: give permissions in octal, as in mode=0660"))
}

/// Parses a group: its number, or its name in /etc/group.
fn group_of(text: &str) -> Result<u32, String> {
    let groups = || fs::read_to_string("/etc/group").unwrap_or_default();
    let named = |groups: String| {
        let mut of = groups.lines().filter_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(text)).then(|| fields.nth(1)?.parse().ok())?
        });
        of.next()
    };
    // For the kernel the last number stands for the group that the socket has.
    let group = text.parse().ok().or_else(|| named(groups())).filter(|&group| group != u32::MAX);
    group.ok_or_else(|| format!("memif: group={text}: no such group in /etc/group: give its name or number"))
}

/// The function that opens files with secrets; [`File::open`] if none was set.
static OPEN: OnceLock<fn(&Path) -> io::Result<File>> = OnceLock::new();

/// From now on, opens the files named in port strings (`secret-file=`) by `open`. It is for programs that may no longer
/// open them when a configuration is read again. Only the first call has an effect.
pub fn open_files_by(open: fn(&Path) -> io::Result<File>) {
    // An earlier function stays.
    let _ = OPEN.set(open);
}

/// Prints a line about a port; standard error, unless [`warn_by`] has set another function.
static WARN: OnceLock<fn(&str)> = OnceLock::new();

/// Makes `warn` print all later lines about ports, for a program that must not wait for a reader of standard error. Only the first
/// call has an effect.
pub fn warn_by(warn: fn(&str)) {
    // A function that was set stays.
    let _ = WARN.set(warn);
}

/// Reads the secret in a file, without the end of its line. Prints a warning if everybody can read the file.
fn secret_of(path: &Path) -> Result<String, String> {
    let at = path.display();
    let failed = |error| format!("memif: secret-file={at}: {error}");
    let file = OPEN.get().map_or_else(|| File::open(path), |open| open(path)).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode();
    let mut bytes = Vec::new();
    // One more than a secret with its line end, so that a longer one is detected.
    file.take(SECRET_MAX as u64 + 2).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    let fits = !bytes.is_empty() && bytes.len() <= SECRET_MAX && !bytes.contains(&0);
    let secret = String::from_utf8(bytes).ok().filter(|_| fits).ok_or_else(|| {
        format!("memif: secret-file={at}: it has no secret of 1 to {SECRET_MAX} bytes of text on one line")
    })?;
    if mode & 0o004 != 0 {
        let line = format!("netmem: memif: every user can read the secret in {at}: chmod o-r {at}");
        WARN.get().map_or_else(|| eprintln!("{line}"), |warn| warn(&line));
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceSpec, port_spec};
    use netmem::port::memif::Access;

    fn of(text: &str) -> (std::path::PathBuf, MemifConfig) {
        match port_spec(text).unwrap().device {
            DeviceSpec::Memif { path, config, .. } => (path, config),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_memif_port_is_a_socket_and_how_it_is_used() {
        assert_eq!(of("memif:/run/a.sock"), ("/run/a.sock".into(), MemifConfig::default()));
        let config = MemifConfig {
            role: Role::Server,
            id: 7,
            queues: 2,
            secret: "sesame".into(),
            sealing: Sealing::Trusted,
            peer: PeerUser::Uid(1000),
            access: Access { mode: 0o660, group: Some(0) },
            ..MemifConfig::default()
        };
        let all = "memif:a,role=server,id=7,queues=2,secret=sesame,unsealed=ok,copy=yes,peer=1000,mode=0660,group=root";
        assert_eq!(of(all), ("a".into(), config));
        assert_eq!(of("memif:a,peer=any").1.peer, PeerUser::Any);
        let holes = |said| {
            let config = of(&format!("memif:a,holes={said},role=server")).1;
            (config.sealing, config.holes >> 20)
        };
        assert_eq!(holes("no"), (Sealing::Required, 0));
        assert_eq!(holes("256"), (Sealing::Required, 256));
        assert_eq!(holes("ok").0, Sealing::HolesAllowed);
        assert_eq!(of("memif:a,holes=ok").1.sealing, Sealing::HolesAllowed);
        let (client, server) = (port_spec("memif:a").unwrap(), port_spec("memif:a,role=server").unwrap());
        assert!(!client.has_one_queue() && server.has_one_queue());
    }

    /// Observed: a client lent all frames of the process to any program that listened, unless copy=yes.
    #[test]
    fn frames_are_copied_unless_it_says_lend() {
        let lends = |text| port_spec(text).unwrap().lends();
        for copies in
            ["memif:a", "memif:a,role=server", "memif:a,copy=yes", "memif:a,lend=no", "fault:/memif:a"]
        {
            assert!(!lends(copies), "{copies}");
        }
        assert!(lends("memif:a,lend=yes") && lends("fault:/memif:a,lend=yes,role=client"));
    }

    /// Found in a review: the error line of a port in a configuration file that only its owner may read had the secret, and
    /// went to the journal.
    #[test]
    fn a_secret_is_not_printed() {
        let secret =
            |secret: &str| port_spec(&format!("fault:/memif:a,role=server,secret={secret},id=3")).unwrap();
        let spec = secret("sesame");
        assert_eq!(spec.to_string(), "fault:/memif:a,role=server,secret=…,id=3");
        assert!(!format!("{spec:?}").contains("sesame"), "{spec:?}");
        assert!(spec == secret("sesame") && spec != secret("simsim"));
    }

    #[test]
    fn a_secret_of_a_file_is_its_line_and_one_that_is_none_is_refused() {
        let path = std::env::temp_dir().join(format!("netmem-secret-{}", std::process::id()));
        let secret = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let read = secret_of(&path);
            fs::remove_file(&path).unwrap();
            read
        };
        for (bytes, means) in [
            (&b"sesame"[..], "sesame"),
            (b"sesame\n", "sesame"),
            (b"open sesame\n\n", "open sesame\n"),
            (b"twenty-three bytes of it", ""),
            (b"twenty-three bytes it is", ""),
            (b"twenty-three bytes is it\n", ""),
            (b"twenty-two bytes it is\n", "twenty-two bytes it is"),
            (b"and twenty-three it is.\n", "and twenty-three it is."),
            (b"and twenty-three it is.\n\n", ""),
            (b"", ""),
            (b"\n", ""),
            (b"a\0b", ""),
            (b"\xff", ""),
        ] {
            match secret(bytes) {
                Ok(read) => assert_eq!(read, means, "{bytes:?}"),
                Err(why) => assert!(means.is_empty() && why.contains("1 to 23 bytes"), "{bytes:?}: {why}"),
            }
        }
        assert!(secret_of(&path).unwrap_err().contains("No such file"));
    }

    /// Seen: a client with `mode=0660,group=x` had neither, and no line said so.
    #[test]
    fn a_client_has_no_socket_that_could_have_a_mode_or_a_group() {
        for option in ["mode=0660", "mode=0600", "group=0", "mode=0660,group=0"] {
            for role in ["", ",role=client"] {
                let error = port_spec(&format!("memif:a,{option}{role}")).unwrap_err();
                assert!(error.contains("mode= and group= are for role=server"), "{option}{role}: {error}");
            }
            assert!(port_spec(&format!("memif:a,role=server,{option}")).is_ok(), "{option}");
            let error = port_spec(&format!("memif:@a,role=server,{option}")).unwrap_err();
            assert!(error.contains("in the file system"), "{option}: {error}");
        }
    }

    #[test]
    fn a_port_has_from_one_queue_to_sixteen() {
        assert_eq!(["1", "16"].map(|n| of(&format!("memif:a,queues={n}")).1.queues), [1, 16]);
        for n in ["0", "17", "65536", "-1", "x"] {
            let error = port_spec(&format!("memif:a,queues={n}")).unwrap_err();
            assert!(error.contains("from 1 to 16"), "{n}: {error}");
        }
    }

    #[test]
    fn a_contradictory_or_malformed_memif_port_is_refused_with_the_form() {
        for (bad, remedy) in [
            ("memif:a,secret=x,secret-file=/dev/null", "two secrets"),
            ("memif:@a,role=server,mode=0660", "in the file system"),
            ("memif:a,mode=999", "in octal"),
            ("memif:a,mode=7777", "in octal"),
            ("memif:a,group=no such group", "no such group"),
            ("memif:a,peer=", "a user's number"),
            ("memif:a,peer=root", "a user's number"),
            ("memif:a,copy=yes,lend=yes", "leave one out"),
            ("memif:a,role=server,unsealed=ok,holes=no", "give one of them"),
            ("memif:a,role=server,holes=no,holes=no", "twice"),
            ("memif:a,holes=no", "for role=server"),
            ("memif:a,role=server,holes=yes", "a number of MiB, no, or ok"),
            ("memif:a,role=server,holes=99999999999999", "a number of MiB, no, or ok"),
            ("memif:a,role=server,lend=yes", "role=client"),
            ("memif:a,copy=no", "lend=yes"),
            ("memif:a,lend=maybe", "lend=yes"),
        ] {
            let error = port_spec(bad).unwrap_err();
            assert!(error.contains(remedy), "{bad}: {error}");
        }
    }
}
