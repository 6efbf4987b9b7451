//! Requests to the kernel over netlink, and the attributes of its answers. Nothing in the answers is trusted.
//!
//! Source: netlink(7), `linux/genetlink.h`.

use netlink_packet_core::{NetlinkBuffer, NlaBuffer, NlasIterator};
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::{self, Timeout};
use std::io;
use std::time::{Duration, Instant};

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const DUMP: u16 = 0x300;
/// Types of messages that end an answer.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Bytes of `struct nlmsghdr` and `struct genlmsghdr`.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
/// The controller of generic families, with its request and answer.
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// The maximum size of a datagram of the kernel.
const DATAGRAM: usize = 1 << 16;
/// The maximum pause within an answer of the kernel.
const ANSWER: Duration = Duration::from_secs(10);

/// The extent of a request: one object, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    One,
    All,
}

/// A connection to one netlink protocol of the kernel.
pub struct Asker {
    socket: Socket,
}

impl Asker {
    pub fn new(protocol: isize) -> io::Result<Asker> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER))?;
        Ok(Asker { socket })
    }

    /// Returns the bodies of the messages in the kernel's answer.
    ///
    /// # Errors
    /// The kernel's error, or that the answer stopped in the middle.
    pub fn ask(&self, kind: u16, extent: Extent, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let flags = REQUEST | if extent == Extent::All { DUMP } else { ACKNOWLEDGE };
        let mut request = vec![0; HEADER];
        request.extend_from_slice(body);
        let length = request.len() as u32;
        let mut header = NetlinkBuffer::new(&mut request);
        header.set_length(length);
        header.set_message_type(kind);
        header.set_flags(flags);
        self.socket.send_to(&request, &SocketAddr::new(0, 0), 0)?;
        self.answer()
    }

    fn answer(&self) -> io::Result<Vec<Vec<u8>>> {
        let (mut bodies, mut datagram) = (Vec::new(), Vec::with_capacity(DATAGRAM));
        let begun = Instant::now();
        loop {
            datagram.clear();
            let (_, sender) = self.socket.recv_from(&mut datagram, 0)?;
            // A datagram of another program. Other programs may write to this socket too.
            if sender.port_number() != 0 {
                if begun.elapsed() > ANSWER {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                continue;
            }
            if let Some(end) = read(&datagram, &mut bodies) {
                return end.map(|()| bodies);
            }
        }
    }
}

/// Reads a datagram's messages. Returns the result of the answer if the datagram ends it.
fn read(mut datagram: &[u8], bodies: &mut Vec<Vec<u8>>) -> Option<io::Result<()>> {
    while let Ok(message) = NetlinkBuffer::new_checked(datagram) {
        match message.message_type() {
            DONE => return Some(Ok(())),
            ERROR => {
                let code = message.payload().first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                let refused = || io::Error::from_raw_os_error(code.wrapping_neg());
                return Some(if code == 0 { Ok(()) } else { Err(refused()) });
            }
            _ => bodies.push(message.payload().to_vec()),
        }
        let length = (message.length() as usize).next_multiple_of(4).max(HEADER);
        datagram = datagram.get(length..).unwrap_or_default();
    }
    None
}

/// A family of generic netlink.
pub struct Family {
    asker: Asker,
    id: u16,
}

impl Family {
    /// # Errors
    /// `ENOENT` if the kernel has no such family.
    pub fn find(name: &str) -> io::Result<Family> {
        let asker = Asker::new(netlink_sys::protocols::NETLINK_GENERIC)?;
        let mut text = name.as_bytes().to_vec();
        text.push(0);
        let body = [&generic(GET_FAMILY)[..], &attribute(FAMILY_NAME, &text)].concat();
        let answers = asker.ask(CONTROLLER, Extent::One, &body)?;
        let id = answers.first().and_then(|answer| answer.get(GENERIC_HEADER..));
        let id = id.and_then(|attributes| number(find(attributes, FAMILY_ID)?));
        let id = id.and_then(|id| u16::try_from(id).ok());
        Ok(Family { asker, id: id.ok_or(io::ErrorKind::InvalidData)? })
    }

    /// Returns the attributes of the one answer to a command.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn ask(&self, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
        let body = [&generic(command)[..], attributes].concat();
        let answers = self.asker.ask(self.id, Extent::One, &body)?;
        let answer = answers.into_iter().next().ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(answer.get(GENERIC_HEADER..).unwrap_or_default().to_vec())
    }
}

/// `struct genlmsghdr` of version 1.
fn generic(command: u8) -> [u8; GENERIC_HEADER] {
    [command, 1, 0, 0]
}

/// Returns an attribute with its padding.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    let mut header = NlaBuffer::new(&mut bytes);
    header.set_kind(kind);
    header.set_length((4 + value.len()) as u16);
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns an attribute that contains others. It has the flag for that, without which ethtool's family rejects it.
pub fn nested(kind: u16, within: &[u8]) -> Vec<u8> {
    let mut bytes = attribute(kind, within);
    NlaBuffer::new(&mut bytes).set_nested_flag();
    bytes
}

/// Iterates over the type and value of each attribute.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let whole = NlasIterator::new(bytes).map_while(Result::ok);
    whole.map(|one| {
        let length = usize::from(one.length());
        (one.kind(), one.into_inner().get(4..length).unwrap_or_default())
    })
}

/// Returns the value of the first attribute of this type.
pub fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(its, value)| (its == kind).then_some(value))
}

/// Returns a number of 1, 2, 4 or 8 bytes in native byte order.
pub fn number(value: &[u8]) -> Option<u64> {
    Some(match *value {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        _ => u64::from_ne_bytes(value.try_into().ok()?),
    })
}

/// Returns a string, up to its NUL byte.
pub fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written_and_a_torn_one_ends_them() {
        let mut bytes = attribute(3, b"eth0\0");
        assert_eq!(bytes.len(), 12);
        bytes.extend(nested(5, &attribute(1, &7_u32.to_ne_bytes())));
        assert_eq!(bytes[12..16], [12, 0, 5, 0x80]);
        assert_eq!(text(find(&bytes, 3).unwrap()), "eth0");
        assert_eq!(find(find(&bytes, 5).unwrap(), 1).and_then(number), Some(7));
        bytes.extend([200, 0, 9, 0]);
        assert_eq!(attributes(&bytes).count(), 2);
        assert_eq!(find(&bytes, 9), None);
    }

    #[test]
    fn an_answer_ends_where_the_kernel_says_so_or_refuses() {
        let message = |kind: u16, body: &[u8]| {
            let mut bytes = vec![0; HEADER];
            bytes.extend_from_slice(body);
            let length = bytes.len() as u32;
            let mut header = NetlinkBuffer::new(&mut bytes);
            header.set_length(length);
            header.set_message_type(kind);
            bytes
        };
        let mut bodies = Vec::new();
        assert!(read(&message(40, &[1; 4]), &mut bodies).is_none());
        assert!(read(&[message(40, &[2; 4]), message(DONE, &[0; 4])].concat(), &mut bodies).unwrap().is_ok());
        assert_eq!(bodies, [[1; 4], [2; 4]]);
        let refused = read(&message(ERROR, &(-2_i32).to_ne_bytes()), &mut bodies).unwrap().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
        assert!(read(&message(ERROR, &0_i32.to_ne_bytes()), &mut bodies).unwrap().is_ok());
    }

    #[test]
    fn the_controller_knows_itself_and_no_family_of_another_name() {
        assert_eq!(Family::find("nlctrl").unwrap().id, CONTROLLER);
        assert_eq!(Family::find("netmem-none").err().unwrap().kind(), io::ErrorKind::NotFound);
    }
}
