//! Requests to the broker, as bytes. Arriving bytes are not trusted: they are read whole or not at all.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Maximum number of bytes of a request or an answer: the rules of a port, or a verifier's log.
pub const MESSAGE_MAX: usize = 64 << 10;
/// Maximum number of bytes of a key or a value of a map.
pub const ELEMENT_MAX: usize = 32;
/// The number of control traffic, which needs the own addresses.
pub const CONTROL: u8 = 1;
/// Maximum number of bytes of a name or a path.
const NAME_MAX: usize = 4096;

/// One operation that needs privileges, or that the system calls allowed to a worker do not suffice for. Its
/// descriptors come with it, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A socket that answers questions about interfaces. Answer: the socket.
    NetdevSocket,
    /// A socket of AF_XDP that is not bound. Answer: the socket.
    XdpSocket,
    /// A packet socket of the interface of that number. Answer: the socket.
    PacketSocket(u32),
    /// A packet socket that has the interface of that number receive frames to all addresses. Answer: the socket.
    Promiscuous(u32),
    /// A queue of the TAP interface of that name, with several queues or one. Answer: the queue.
    Tap(String, bool),
    /// The current place of the interface of a TAP queue. Descriptor: the queue. Answer: a socket of its namespace, and
    /// its name.
    TapPlace,
    /// An empty map of the redirect program. Answer: the map.
    Map(MapKind),
    /// The loaded redirect program. Descriptors: the map of sockets, the map of counts if there is one, the maps of own
    /// addresses if control traffic is left. Answer: the program.
    Redirect(Redirect),
    /// The loaded program of an interface's ingress. Descriptors: the maps of own addresses. Answer: the program.
    Ingress,
    /// Attaches a program to the interface of that number. Descriptor: the program. Answer: the link.
    Attach(Hook, u32),
    /// Replaces an attached program. Descriptors: the link, the program.
    Replace,
    /// Whether a link is on no interface any more. Descriptor: the link. Answer: a byte, 1 if so.
    IsDetached,
    /// Reads or changes a map. Descriptors: the map, and the socket that is the value in a map of sockets. Answer: the
    /// value, if it is read.
    Element(Element),
    /// Makes the kernel use a neighbour on the link of that number: it resolves a neighbour that it does not know.
    Neighbour(u32, IpAddr),
    /// Opens a file that the broker was given at its start. Answer: the file.
    Read(PathBuf),
    /// Connects to a socket that the broker was given at its start. Answer: the connection.
    Connect(PathBuf),
    /// Restores the host's settings that were changed for this run.
    Undo,
}

/// The kind of map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// From receive queue to socket, for this many queues.
    Sockets(u32),
    /// Frames left to the kernel, for this many queues.
    Counts(u32),
    /// Own addresses of IPv4.
    AddressesV4,
    /// Own addresses of IPv6.
    AddressesV6,
}

/// A redirect program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The frames that it leaves to the kernel; None for no frames.
    pub leaves: Option<Leaves>,
    /// Whether a driver may give it packets that lie in several buffers.
    pub several: bool,
}

/// The frames that a redirect program leaves to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaves {
    /// What it punts: 0 nothing, 1 control traffic, 2 ARP and IPv6 neighbour discovery.
    pub punt: u8,
    /// The rules of the only packets that are taken of the rest, in their text form, and the MAC address of the
    /// station.
    pub take: Option<(String, [u8; 6])>,
}

/// The place at which a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// XDP, in the driver.
    Native,
    /// XDP, in the stack.
    Generic,
    /// The stack's ingress.
    Ingress,
}

/// One element of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The operation.
    pub action: Action,
    /// The key.
    pub key: Vec<u8>,
    /// The value of an update, or as many zeros as it has bytes.
    pub value: Vec<u8>,
}

/// The operation on an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads the element.
    Get,
    /// Makes or changes the element.
    Insert,
    /// Changes the element if it exists.
    Replace,
    /// Removes the element.
    Remove,
}

impl Request {
    /// The number of descriptors that come with the request.
    pub fn descriptors(&self) -> usize {
        match self {
            Request::TapPlace | Request::Attach(..) | Request::IsDetached => 1,
            Request::Ingress | Request::Replace => 2,
            Request::Redirect(redirect) => match &redirect.leaves {
                None => 1,
                Some(Leaves { punt: CONTROL, .. }) => 4,
                Some(_) => 2,
            },
            // In a map of sockets the socket comes too.
            Request::Element(Element { action: Action::Insert | Action::Replace, key, value })
                if key.len() == 4 && value.len() == 4 =>
            {
                2
            }
            Request::Element(_) => 1,
            _ => 0,
        }
    }

    /// Converts the request to bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Bytes(Vec::new());
        match self {
            Request::NetdevSocket => to.byte(0),
            Request::XdpSocket => to.byte(1),
            Request::PacketSocket(interface) => to.byte(2).number(*interface),
            Request::Tap(name, several) => to.byte(3).byte(u8::from(*several)).text(name.as_bytes()),
            Request::TapPlace => to.byte(4),
            Request::Map(MapKind::Sockets(queues)) => to.byte(5).byte(0).number(*queues),
            Request::Map(MapKind::Counts(queues)) => to.byte(5).byte(1).number(*queues),
            Request::Map(MapKind::AddressesV4) => to.byte(5).byte(2).number(0),
            Request::Map(MapKind::AddressesV6) => to.byte(5).byte(3).number(0),
            Request::Redirect(Redirect { leaves, several }) => {
                to.byte(6).byte(u8::from(*several)).byte(u8::from(leaves.is_some()));
                let Some(Leaves { punt, take }) = leaves else { return to.0 };
                to.byte(*punt).byte(u8::from(take.is_some()));
                let Some((rules, mac)) = take else { return to.0 };
                to.bytes(mac).text(rules.as_bytes())
            }
            Request::Ingress => to.byte(7),
            Request::Attach(hook, interface) => to.byte(8).byte(*hook as u8).number(*interface),
            Request::Replace => to.byte(9),
            Request::IsDetached => to.byte(10),
            Request::Element(Element { action, key, value }) => {
                to.byte(11).byte(*action as u8).text(key).text(value)
            }
            Request::Neighbour(link, IpAddr::V4(address)) => {
                to.byte(12).number(*link).text(&address.octets())
            }
            Request::Neighbour(link, IpAddr::V6(address)) => {
                to.byte(12).number(*link).text(&address.octets())
            }
            Request::Read(path) => to.byte(13).path(path),
            Request::Connect(path) => to.byte(14).path(path),
            Request::Undo => to.byte(15),
            Request::Promiscuous(interface) => to.byte(16).number(*interface),
        };
        to.0
    }

    /// Reads a request. Returns None if the bytes are not a request, or are more than one.
    pub fn of_bytes(bytes: &[u8]) -> Option<Request> {
        let mut from = Reader(bytes);
        let request = match from.byte()? {
            0 => Request::NetdevSocket,
            1 => Request::XdpSocket,
            2 => Request::PacketSocket(from.number()?),
            3 => {
                let several = from.flag()?;
                Request::Tap(from.string(NAME_MAX)?, several)
            }
            4 => Request::TapPlace,
            5 => Request::Map(match (from.byte()?, from.number()?) {
                (0, queues) => MapKind::Sockets(queues),
                (1, queues) => MapKind::Counts(queues),
                (2, 0) => MapKind::AddressesV4,
                (3, 0) => MapKind::AddressesV6,
                _ => return None,
            }),
            6 => Request::Redirect(from.redirect()?),
            7 => Request::Ingress,
            8 => {
                let hook = match from.byte()? {
                    0 => Hook::Native,
                    1 => Hook::Generic,
                    2 => Hook::Ingress,
                    _ => return None,
                };
                Request::Attach(hook, from.number()?)
            }
            9 => Request::Replace,
            10 => Request::IsDetached,
            11 => Request::Element(from.element()?),
            12 => {
                let link = from.number()?;
                let address = from.text(16)?;
                let v4 = <[u8; 4]>::try_from(address).map(IpAddr::from);
                Request::Neighbour(
                    link,
                    v4.or_else(|_| <[u8; 16]>::try_from(address).map(IpAddr::from)).ok()?,
                )
            }
            13 => Request::Read(from.path()?),
            14 => Request::Connect(from.path()?),
            15 => Request::Undo,
            16 => Request::Promiscuous(from.number()?),
            _ => return None,
        };
        from.0.is_empty().then_some(request)
    }
}

/// Appends values.
struct Bytes(Vec<u8>);

impl Bytes {
    fn byte(&mut self, byte: u8) -> &mut Bytes {
        self.bytes(&[byte])
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Bytes {
        self.0.extend_from_slice(bytes);
        self
    }

    fn number(&mut self, number: u32) -> &mut Bytes {
        self.bytes(&number.to_ne_bytes())
    }

    /// Appends a text with its length in front.
    fn text(&mut self, text: &[u8]) -> &mut Bytes {
        self.number(text.len() as u32).bytes(text)
    }

    fn path(&mut self, path: &Path) -> &mut Bytes {
        self.text(path.as_os_str().as_encoded_bytes())
    }
}

/// Takes values from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*number))
    }

    fn text(&mut self, most: usize) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok().filter(|len| *len <= most)?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text)
    }

    fn string(&mut self, most: usize) -> Option<String> {
        self.text(most).and_then(|text| String::from_utf8(text.to_vec()).ok())
    }

    fn path(&mut self) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStringExt;
        self.text(NAME_MAX).map(|text| std::ffi::OsString::from_vec(text.to_vec()).into())
    }

    fn redirect(&mut self) -> Option<Redirect> {
        let several = self.flag()?;
        if !self.flag()? {
            return Some(Redirect { leaves: None, several });
        }
        let punt = self.byte().filter(|punt| *punt <= 2)?;
        let take = match self.flag()? {
            false => None,
            true => {
                let (mac, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                Some((self.string(MESSAGE_MAX)?, *mac))
            }
        };
        Some(Redirect { leaves: Some(Leaves { punt, take }), several })
    }

    fn element(&mut self) -> Option<Element> {
        let action = match self.byte()? {
            0 => Action::Get,
            1 => Action::Insert,
            2 => Action::Replace,
            3 => Action::Remove,
            _ => return None,
        };
        let (key, value) = (self.text(ELEMENT_MAX)?.to_vec(), self.text(ELEMENT_MAX)?.to_vec());
        Some(Element { action, key, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Request> {
        let leaves = |punt, take: Option<&str>| {
            let take = take.map(|rules| (rules.to_owned(), [2, 0, 0, 0, 0, 9]));
            Request::Redirect(Redirect { leaves: Some(Leaves { punt, take }), several: true })
        };
        let element = |action, key: &[u8], value: &[u8]| {
            Request::Element(Element { action, key: key.to_vec(), value: value.to_vec() })
        };
        vec![
            Request::NetdevSocket,
            Request::XdpSocket,
            Request::PacketSocket(7),
            Request::Promiscuous(7),
            Request::Tap("tap0".into(), true),
            Request::TapPlace,
            Request::Map(MapKind::Sockets(1024)),
            Request::Map(MapKind::Counts(1)),
            Request::Map(MapKind::AddressesV4),
            Request::Map(MapKind::AddressesV6),
            Request::Redirect(Redirect { leaves: None, several: false }),
            leaves(0, Some("udp:53+tcp:53")),
            leaves(1, None),
            leaves(2, None),
            Request::Ingress,
            Request::Attach(Hook::Native, 3),
            Request::Attach(Hook::Generic, u32::MAX),
            Request::Attach(Hook::Ingress, 0),
            Request::Replace,
            Request::IsDetached,
            element(Action::Get, &[0; 4], &[0; 8]),
            element(Action::Insert, &[0; 4], &[0; 4]),
            element(Action::Replace, &[0; 4], &[0; 4]),
            element(Action::Remove, &[0; 20], &[]),
            Request::Neighbour(2, IpAddr::from([192, 0, 2, 1])),
            Request::Neighbour(2, IpAddr::from([7; 16])),
            Request::Read("/etc/netmem.toml".into()),
            Request::Connect("/run/vpp/memif.sock".into()),
            Request::Undo,
        ]
    }

    #[test]
    fn every_request_is_read_as_it_was_written() {
        for request in all() {
            assert_eq!(Request::of_bytes(&request.to_bytes()), Some(request));
        }
    }

    #[test]
    fn what_is_cut_short_or_goes_on_is_no_request() {
        for request in all() {
            let bytes = request.to_bytes();
            for len in 0..bytes.len() {
                let read = Request::of_bytes(&bytes[..len]);
                assert_eq!(read, None, "{len} bytes of {request:?}");
            }
            assert_eq!(Request::of_bytes(&[&bytes[..], &[0]].concat()), None, "{request:?} and a byte");
        }
    }

    #[test]
    fn lengths_and_numbers_beyond_their_bounds_are_no_request() {
        let long = Element { action: Action::Get, key: vec![0; ELEMENT_MAX + 1], value: Vec::new() };
        let path = PathBuf::from("x".repeat(NAME_MAX + 1));
        let leaves = Some(Leaves { punt: 3, take: None });
        for request in [
            Request::Element(long),
            Request::Read(path),
            Request::Redirect(Redirect { leaves, several: false }),
        ] {
            assert_eq!(Request::of_bytes(&request.to_bytes()), None, "{request:?}");
        }
        for bytes in [&[][..], &[16], &[255], &[8, 3, 0, 0, 0, 0], &[11, 4, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(Request::of_bytes(bytes), None, "{bytes:?}");
        }
    }
}
