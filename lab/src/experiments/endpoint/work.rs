//! The requests and their answers.

/// The work of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// They send the request back.
    Echo,
    /// They answer a question with the address of its name.
    Dns,
}

/// Bytes of a request to an echo server.
const ECHO: usize = 64;

/// The requested name in wire format, and its address.
const NAME: &[u8] = b"\x03www\x07example\x04test\x00";
const ADDRESS: [u8; 4] = [192, 0, 2, 80];

/// A DNS header, and the fields after a question's name: type A, class IN.
const HEADER: usize = 12;
const A_IN: [u8; 4] = [0, 1, 0, 1];

/// The answer's record: the question's name again, type A, class IN, 300 seconds, four bytes.
const RECORD: [u8; 12] = [0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4];

/// Maximum number of bytes by which an answer exceeds its request.
pub(super) const LONGER: usize = RECORD.len() + ADDRESS.len();

/// Maximum bytes of a request or answer.
pub(super) const MOST: usize = 128;

impl Work {
    pub(super) fn name(self) -> &'static str {
        match self {
            Work::Echo => "echo",
            Work::Dns => "dns",
        }
    }

    /// Returns the server's UDP port.
    pub(super) fn port(self) -> u16 {
        match self {
            Work::Echo => 7,
            Work::Dns => 53,
        }
    }

    /// Returns request number `id`.
    pub(super) fn request(self, id: u16) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        match self {
            Work::Echo => (0..ECHO as u8)
                .map(|at| if at.is_multiple_of(2) { high } else { low }.wrapping_add(at))
                .collect(),
            Work::Dns => {
                let header = [high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
                [&header, NAME, &A_IN].concat()
            }
        }
    }

    /// Returns the answer to request number `id`.
    pub(super) fn expected(self, id: u16) -> Vec<u8> {
        let request = self.request(id);
        match self {
            Work::Echo => request,
            Work::Dns => {
                let mut answer = [&request[..], &RECORD, &ADDRESS].concat();
                (answer[2], answer[3], answer[7]) = (0x85, 0, 1);
                answer
            }
        }
    }

    /// Returns the number of the request that an answer belongs to, or None if it is not an answer.
    pub(super) fn id(self, answer: &[u8]) -> Option<u16> {
        let &[high, low, ..] = answer else { return None };
        Some(u16::from_be_bytes(match self {
            Work::Echo => [high, low.wrapping_sub(1)],
            Work::Dns => [high, low],
        }))
    }

    /// Turns the first `len` bytes of `room` into their answer, which may be [longer](LONGER). Returns its length,
    /// or None if they are not a request.
    pub(super) fn answer(self, room: &mut [u8], len: usize) -> Option<usize> {
        match self {
            Work::Echo => Some(len),
            Work::Dns => {
                let question = room.get(..len)?.get(HEADER..)?;
                let is_asked = question.strip_prefix(NAME)? == A_IN.as_slice();
                let is_query = room[2] & 0xf8 == 0 && room[4..6] == [0, 1];
                let end = len + LONGER;
                let record = room.get_mut(len..end).filter(|_| is_asked && is_query)?;
                record[..RECORD.len()].copy_from_slice(&RECORD);
                record[RECORD.len()..].copy_from_slice(&ADDRESS);
                (room[2], room[3], room[7]) = (0x84 | room[2] & 1, 0, 1);
                Some(end)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_answered_with_what_is_expected_of_its_number() {
        for work in [Work::Echo, Work::Dns] {
            for id in [0, 1, 255, 256, 0x1234, u16::MAX] {
                let mut room = work.request(id);
                let len = room.len();
                room.resize(len + LONGER, 0xee);
                let end = work.answer(&mut room, len).unwrap();
                assert_eq!(room[..end], work.expected(id), "{work:?} {id}");
                assert_eq!(work.id(&room[..end]), Some(id));
                assert!(end <= MOST);
            }
        }
    }

    #[test]
    fn a_datagram_that_is_not_a_query_is_not_answered() {
        let mut answer = Work::Dns.expected(7);
        let len = answer.len();
        answer.resize(len + LONGER, 0);
        assert_eq!(Work::Dns.answer(&mut answer, len), None);
        assert_eq!(Work::Dns.answer(&mut [0; 64], 5), None);
        let mut cut = Work::Dns.request(7);
        let len = cut.len();
        assert_eq!(Work::Dns.answer(&mut cut, len), None, "no room");
    }
}
