//! The broker's end. It carries out each request with the functions that do it in a process with privileges.

use super::ask::{Number, Refusal, TOLD, open_here};
use super::channel::{Channel, Message};
use super::neighbours::Neighbours;
use super::request::{CONTROL, Hook, Leaves, MESSAGE_MAX, MapKind, Redirect, Request};
use super::setup::Setup;
use crate::sys::bpf::{
    AddressMaps, BpfError, IngressProgram, KernelCounts, Punted, QUEUES_MAX, RedirectLink, RedirectProgram,
    Selection, SocketMap, Take, XdpMode, address_map, element_of,
};
use crate::sys::errno::of_io;
use crate::sys::netdev::Netdev;
use crate::sys::netns::{NetworkNamespace, is_here};
use crate::sys::packet::{PacketSocket, PacketSocketError};
use crate::sys::promiscuous::Promiscuous;
use crate::sys::seqpacket::connected;
use crate::sys::tap::{TapQueue, TapQueueError};
use crate::sys::xdp::Socket;
use rustix::fs::{FileType, fstat, major, minor};
use rustix::io::Errno;
use rustix::net::sockopt::socket_domain;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The answer to a request.
type Answer = Result<Message, Refusal>;

/// The flags and the number before a request.
const HEADER: usize = 1 + size_of::<Number>();

/// Answers requests until the other end is closed.
pub(super) fn serve(channel: &Channel, setup: &Setup) {
    let mut neighbours = Neighbours::of(interfaces(setup));
    while let Ok(Some((message, descriptors))) = channel.receive(HEADER + MESSAGE_MAX) {
        let Some((&[flags, ref number @ ..], request)) = message.split_first_chunk::<HEADER>() else {
            continue;
        };
        let answered = descriptors
            .map_err(Refusal::from)
            .and_then(|descriptors| answer(flags & !TOLD, request, descriptors, setup, &mut neighbours));
        let (said, brought) = match answered {
            Ok((said, brought)) => ([&[0], &said[..]].concat(), brought),
            Err(refusal) => (refusal.to_answer(), Vec::new()),
        };
        if flags & TOLD != 0 {
            continue;
        }
        let bytes = [number, &said[..]].concat();
        let brought: Vec<_> = brought.iter().map(AsFd::as_fd).collect();
        // If the process that asked is gone, the next turn sees that.
        let _ = channel.send(&bytes, &brought);
    }
}

/// Reads a request, and carries it out in the network namespace of the socket that came first, if one did.
fn answer(
    has_place: u8,
    bytes: &[u8],
    mut descriptors: Vec<OwnedFd>,
    setup: &Setup,
    neighbours: &mut Neighbours,
) -> Answer {
    if has_place > 1 {
        return Err(Errno::PROTO.into());
    }
    let request = Request::of_bytes(bytes).ok_or(Errno::PROTO)?;
    if descriptors.len() != usize::from(has_place) + request.descriptors() {
        return Err(Errno::PROTO.into());
    }
    if let Request::Neighbour(link, address) = request {
        // The kernel is asked in the broker's own namespace.
        if has_place != 0 {
            return Err(Errno::PROTO.into());
        }
        neighbours.admit(link, Instant::now(), || interfaces(setup))?;
        (setup.neighbour)(link, address)?;
        return done();
    }
    if has_place == 0 {
        return carry_out(&request, descriptors, setup);
    }
    let place = descriptors.remove(0);
    // Only a socket reliably tells its namespace.
    socket_domain(&place)?;
    if is_here(place.as_fd()).map_err(of_io)? {
        return carry_out(&request, descriptors, setup);
    }
    let there = NetworkNamespace::of(place.as_fd()).map_err(of_io)?;
    there.inside(|| carry_out(&request, descriptors, setup)).map_err(of_io)?
}

fn carry_out(request: &Request, descriptors: Vec<OwnedFd>, setup: &Setup) -> Answer {
    match request {
        // Any socket of a namespace answers for its interfaces. This kind reaches no other host.
        Request::NetdevSocket => {
            one(socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
        }
        Request::XdpSocket => one(Socket::new().map_err(|error| error.errno)?),
        Request::PacketSocket(interface) => {
            check_interface(*interface, setup)?;
            one(PacketSocket::open(*interface)?)
        }
        Request::Promiscuous(interface) => {
            check_interface(*interface, setup)?;
            one(Promiscuous::new(*interface)?)
        }
        Request::Tap(name, several) => {
            if !setup.interfaces.contains(name) {
                return Err(Errno::ACCESS.into());
            }
            one(TapQueue::open(name, *several)?)
        }
        Request::TapPlace => {
            let [queue] = exactly(descriptors)?;
            check_tap(&queue)?;
            let netdev: Netdev = TapQueue::from(queue).interface()?;
            Ok((netdev.name().as_bytes().to_vec(), vec![netdev.into_socket()]))
        }
        Request::Read(path) => one(open_here(told(path, &setup.readable)?).map_err(of_io)?),
        Request::Connect(path) => one(connected(told(path, &setup.peers)?)?),
        Request::Undo => {
            (setup.undo)().map_err(|text| Refusal { errno: Errno::IO, step: 0, text })?;
            done()
        }
        in_bpf => by_bpf(in_bpf, descriptors, setup),
    }
}

/// Carries out requests for bpf(2): programs, maps, links.
fn by_bpf(request: &Request, descriptors: Vec<OwnedFd>, setup: &Setup) -> Answer {
    match request {
        Request::Map(MapKind::Sockets(queues) | MapKind::Counts(queues)) if *queues > QUEUES_MAX => {
            Err(Errno::TOOBIG.into())
        }
        Request::Map(MapKind::Sockets(queues)) => one(SocketMap::new(*queues)?),
        Request::Map(MapKind::Counts(queues)) => one(KernelCounts::new(*queues)?),
        Request::Map(kind) => one(address_map(*kind)?),
        Request::Redirect(redirect) => self::redirect(redirect, descriptors),
        Request::Ingress => {
            let [v4, v6] = exactly(descriptors)?;
            one(IngressProgram::load(&AddressMaps::given(v4, v6)?)?)
        }
        Request::Attach(hook, interface) => {
            check_interface(*interface, setup)?;
            attach(*hook, *interface, descriptors)
        }
        Request::Replace => {
            let [link, program] = exactly(descriptors)?;
            // The mode is not used here.
            RedirectLink::given(link, XdpMode::Native).replace(&program.into())?;
            done()
        }
        Request::IsDetached => {
            let [link] = exactly(descriptors)?;
            Ok((vec![u8::from(RedirectLink::given(link, XdpMode::Native).is_detached())], Vec::new()))
        }
        Request::Element(element) => {
            let (map, socket) = (descriptors.first().ok_or(Errno::PROTO)?, descriptors.get(1));
            let socket: Option<BorrowedFd<'_>> = socket.map(AsFd::as_fd);
            Ok((element_of(map.as_fd(), element, socket)?, Vec::new()))
        }
        _ => Err(Errno::PROTO.into()),
    }
}

/// Loads the redirect program over the maps that came.
fn redirect(redirect: &Redirect, descriptors: Vec<OwnedFd>) -> Answer {
    let Redirect { leaves, several } = redirect;
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next().ok_or(Errno::PROTO);
    let sockets = SocketMap::given(next()?)?;
    let Some(Leaves { punt, take }) = leaves else {
        return one(RedirectProgram::load(&sockets, None, *several)?);
    };
    let counts = KernelCounts::given(next()?)?;
    let own = if *punt == CONTROL { Some(AddressMaps::given(next()?, next()?)?) } else { None };
    let punted = match (punt, &own) {
        (_, Some(own)) => Punted::Control(own),
        (0, None) => Punted::Nothing,
        _ => Punted::Neighbours,
    };
    let take = take.as_ref().map(|(rules, mac)| rules.parse::<Take>().map(|take| (take, *mac)));
    let take = take.transpose().map_err(|_| Errno::INVAL)?;
    let take = take.as_ref().map(|(take, mac)| (take, *mac));
    one(RedirectProgram::load(&sockets, Some(&Selection { punted, take, counts: &counts }), *several)?)
}

fn attach(hook: Hook, interface: u32, descriptors: Vec<OwnedFd>) -> Answer {
    let [program] = exactly(descriptors)?;
    match hook {
        Hook::Native => one(RedirectProgram::from(program).attach(interface, XdpMode::Native)?),
        Hook::Generic => one(RedirectProgram::from(program).attach(interface, XdpMode::Generic)?),
        Hook::Ingress => one(IngressProgram::from(program).attach(interface)?),
    }
}

/// Returns the numbers of the interfaces in this thread's network namespace whose names the broker was given.
fn interfaces(setup: &Setup) -> Vec<u32> {
    let number = |name: &String| Netdev::open(name).ok().map(|netdev| netdev.index());
    setup.interfaces.iter().filter_map(number).collect()
}

/// Refuses an interface in this thread's network namespace whose name the broker was not given.
fn check_interface(index: u32, setup: &Setup) -> Result<(), Errno> {
    if interfaces(setup).contains(&index) { Ok(()) } else { Err(Errno::ACCESS) }
}

/// The device number of /dev/net/tun (Documentation/admin-guide/devices.txt).
const TUN: (u32, u32) = (10, 200);

/// Refuses a descriptor that is not a TAP queue: a process that answers for its own file may return any number as a
/// descriptor. A name alone could be that of another file in a mount namespace of its own.
fn check_tap(queue: &OwnedFd) -> Result<(), Errno> {
    let name = fs::read_link(format!("/proc/self/fd/{}", queue.as_raw_fd()));
    let is_named = name.is_ok_and(|name| name == Path::new("/dev/net/tun"));
    if is_named && is_tun(queue)? { Ok(()) } else { Err(Errno::BADFD) }
}

/// Returns whether a descriptor is of the device that makes TAP queues.
fn is_tun(file: impl AsFd) -> Result<bool, Errno> {
    let stat = fstat(file)?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    Ok(is_device && (major(stat.st_rdev), minor(stat.st_rdev)) == TUN)
}

/// Returns `path` if it is one of those that the broker was given.
fn told<'a>(path: &Path, of: &'a [PathBuf]) -> Result<&'a Path, Errno> {
    of.iter().find(|one| *one == path).map(PathBuf::as_path).ok_or(Errno::ACCESS)
}

fn exactly<const N: usize>(descriptors: Vec<OwnedFd>) -> Result<[OwnedFd; N], Errno> {
    descriptors.try_into().map_err(|_| Errno::PROTO)
}

fn one(descriptor: impl Into<OwnedFd>) -> Answer {
    Ok((Vec::new(), vec![descriptor.into()]))
}

fn done() -> Answer {
    Ok((Vec::new(), Vec::new()))
}

impl From<BpfError> for Refusal {
    fn from(error: BpfError) -> Refusal {
        Refusal { errno: error.errno, step: 0, text: error.log }
    }
}

impl From<PacketSocketError> for Refusal {
    fn from(PacketSocketError { step, errno }: PacketSocketError) -> Refusal {
        Refusal { errno, step: step as u8, text: String::new() }
    }
}

impl From<TapQueueError> for Refusal {
    fn from(TapQueueError { step, errno }: TapQueueError) -> Refusal {
        Refusal { errno, step: step as u8, text: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_tap_queue_is_known_by_its_device_and_not_by_a_name_alone() {
        for other in ["/dev/null", "/proc/self/exe", "/proc/self"] {
            let file = File::open(other).unwrap();
            assert_eq!(is_tun(&file), Ok(false), "{other}");
            assert_eq!(check_tap(&file.into()), Err(Errno::BADFD), "{other}");
        }
        // Where any user may open it: a host without the device has no TAP queues.
        if let Ok(tun) = File::open("/dev/net/tun") {
            assert_eq!((is_tun(&tun), check_tap(&tun.into())), (Ok(true), Ok(())));
        }
    }
}
