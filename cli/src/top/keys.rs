//! Parses the bytes that a terminal sends into keys.

/// A key with a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A printable character of ASCII.
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
}

const ESCAPE: u8 = 0x1b;
/// Maximum bytes of an escape sequence. No key sends a longer one.
const SEQUENCE_MAX: usize = 16;

/// Returns the keys of these bytes, and the number of bytes used. The bytes left may be the beginning of a
/// sequence. Pass them again with the bytes that follow or, if none follow, with `is_all`: then a lone escape is a
/// key.
pub fn keys(bytes: &[u8], is_all: bool) -> (Vec<Key>, usize) {
    let (mut keys, mut at) = (Vec::new(), 0);
    while let Some((key, len)) = first(&bytes[at..], is_all) {
        keys.extend(key);
        at += len;
    }
    (keys, at)
}

/// Returns the first key, if it is known, and its length. Returns None if more bytes are needed.
fn first(bytes: &[u8], is_all: bool) -> Option<(Option<Key>, usize)> {
    let key = match *bytes.first()? {
        ESCAPE => return sequence(bytes, is_all),
        b'\r' | b'\n' => Some(Key::Enter),
        0x03 => Some(Key::Interrupt),
        0x1a => Some(Key::Suspend),
        0x08 | 0x7f => Some(Key::Backspace),
        byte @ b' '..=b'~' => Some(Key::Char(char::from(byte))),
        _ => None,
    };
    Some((key, 1))
}

/// Parses a key that begins with an escape: alone, or as CSI (`ESC [`) and SS3 (`ESC O`) up to their final byte.
fn sequence(bytes: &[u8], is_all: bool) -> Option<(Option<Key>, usize)> {
    match bytes.get(1) {
        None => is_all.then_some((Some(Key::Escape), 1)),
        Some(b'[' | b'O') => {
            let body = &bytes[2..bytes.len().min(SEQUENCE_MAX)];
            match body.iter().position(|byte| !matches!(byte, b'0'..=b'?')) {
                Some(end) => Some((named(&body[..=end]), end + 3)),
                None if is_all || bytes.len() >= SEQUENCE_MAX => Some((None, body.len() + 2)),
                None => None,
            }
        }
        Some(_) => Some((Some(Key::Escape), 1)),
    }
}

/// Returns the key with a sequence's parameters and final byte.
fn named(sequence: &[u8]) -> Option<Key> {
    match sequence {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        b"H" | b"1~" | b"7~" => Some(Key::Home),
        b"F" | b"4~" | b"8~" => Some(Key::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_keys_and_those_of_no_key_are_passed_over() {
        for (bytes, wanted) in [
            (&b"q/a"[..], vec![Key::Char('q'), Key::Char('/'), Key::Char('a')]),
            (b"\x03\x1a\r\n\x7f\x08", {
                use Key::{Backspace, Enter, Interrupt, Suspend};
                vec![Interrupt, Suspend, Enter, Enter, Backspace, Backspace]
            }),
            (b"\x1b[A\x1bOB\x1b[5~\x1b[6~", vec![Key::Up, Key::Down, Key::PageUp, Key::PageDown]),
            (b"\x1b[H\x1b[4~\x1bOH\x1b[F", vec![Key::Home, Key::End, Key::Home, Key::End]),
            (b"\x1b[1;5Cx\x1b[200~", vec![Key::Char('x')]),
            (b"\x00\xc3\xa9\xffs", vec![Key::Char('s')]),
            (b"\x1bq", vec![Key::Escape, Key::Char('q')]),
            (b"\x1b\x1b[A", vec![Key::Escape, Key::Up]),
        ] {
            assert_eq!(keys(bytes, false), (wanted, bytes.len()), "{bytes:?}");
        }
    }

    #[test]
    fn a_sequence_that_is_split_over_reads_waits_for_its_end() {
        let whole = b"a\x1b[5~b";
        for split in 0..whole.len() {
            let (mut read, used) = keys(&whole[..split], false);
            let mut rest = whole[used..split].to_vec();
            rest.extend_from_slice(&whole[split..]);
            let (more, last) = keys(&rest, false);
            read.extend(more);
            assert_eq!(read, [Key::Char('a'), Key::PageUp, Key::Char('b')], "{split}");
            assert_eq!(used + last, whole.len());
        }
    }

    #[test]
    fn an_escape_that_nothing_follows_is_a_key() {
        assert_eq!(keys(b"\x1b", false), (vec![], 0));
        assert_eq!(keys(b"\x1b", true), (vec![Key::Escape], 1));
        assert_eq!(keys(b"\x1b[5", true), (vec![], 3), "half a sequence is none");
    }

    /// An invalid sequence takes no memory without limit, and does not block later keys.
    #[test]
    fn a_sequence_without_an_end_is_given_up() {
        let mut bytes = b"\x1b[".to_vec();
        bytes.extend([b'1'; 30]);
        bytes.extend(b"q");
        let (read, used) = keys(&bytes, false);
        assert_eq!((read.last(), used), (Some(&Key::Char('q')), bytes.len()));
        for first in 0..=255 {
            for second in 0..=255 {
                let bytes = [first, second];
                assert!(keys(&bytes, true).1 == 2, "{bytes:?}");
            }
        }
    }
}
