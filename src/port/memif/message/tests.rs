//! Tests of messages, byte by byte.

use super::*;

/// One of each kind.
fn each() -> Vec<Message> {
    let hello = Hello {
        name: Text::new("a server"),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 255,
        max_ring_to_client: 3,
        max_ring_to_server: 4,
        max_log2_ring_size: 14,
    };
    let init = Init {
        version: VERSION,
        id: 0x0102_0304,
        mode: MODE_ETHERNET,
        secret: Text::new("open sesame"),
        name: Text::new("a client"),
    };
    let ring =
        AddRing { to_server: true, index: 1, region: 2, offset: 4096, log2_size: 10, private_header: 8 };
    vec![
        Message::Ack,
        Message::Hello(hello),
        Message::Init(init),
        Message::AddRegion(AddRegion { index: 1, size: 1 << 40 }),
        Message::AddRing(ring),
        Message::AddRing(AddRing { to_server: false, ..ring }),
        Message::Connect(Text::new("here")),
        Message::Connected(Text::new("there")),
        Message::Disconnect { code: 7, reason: Text::new("enough") },
    ]
}

#[test]
fn each_message_is_read_as_it_was_written() {
    for message in each() {
        assert_eq!(Message::parse(&message.bytes()), Ok(message));
    }
}

#[test]
#[cfg(target_endian = "little")]
fn fields_lie_where_the_protocol_has_them() {
    let messages = each();
    let hello = messages[1].bytes();
    assert_eq!((&hello[..2], &hello[2..11]), (&[2, 0][..], &b"a server\0"[..]));
    assert_eq!(hello[34..45], [0, 2, 0, 2, 255, 0, 3, 0, 4, 0, 14]);
    let init = messages[2].bytes();
    assert_eq!((&init[..9], &init[9..20]), (&[3, 0, 0, 2, 4, 3, 2, 1, 0][..], &b"open sesame"[..]));
    assert_eq!(&init[33..42], b"a client\0");
    assert_eq!(messages[3].bytes()[..12], [4, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(messages[4].bytes()[..15], [5, 0, 1, 0, 1, 0, 2, 0, 0, 16, 0, 0, 10, 8, 0]);
    assert_eq!(messages[5].bytes()[..4], [5, 0, 0, 0]);
    assert_eq!((messages[6].bytes()[0], messages[7].bytes()[0]), (6, 7));
    assert_eq!(messages[8].bytes()[..12], *b"\x08\0\x07\0\0\0enough");
    assert!(messages[8].bytes()[12..].iter().all(|&byte| byte == 0), "nothing of ours leaks behind a field");
}

#[test]
fn a_message_of_any_other_length_is_refused() {
    for message in each() {
        let long = [message.bytes(), message.bytes()].concat();
        for len in (0..=2 * MESSAGE_LEN).filter(|&len| len != MESSAGE_LEN) {
            assert_eq!(Message::parse(&long[..len]), Err(MessageError::Length(len)));
        }
    }
}

#[test]
fn every_type_outside_the_protocol_is_refused() {
    for kind in (0..=u16::MAX).filter(|kind| !(ACK..=DISCONNECT).contains(kind)) {
        let mut bytes = [0xff; MESSAGE_LEN];
        bytes[..2].copy_from_slice(&kind.to_ne_bytes());
        assert_eq!(Message::parse(&bytes), Err(MessageError::Type(kind)));
    }
}

#[test]
fn a_text_ends_at_its_zero_byte_or_its_room_and_prints_nothing_that_disturbs() {
    assert_eq!(Text::<4>([b'a'; 4]).to_string(), "aaaa");
    assert_eq!(Text::<4>(*b"a\0bc").to_string(), "a");
    assert_eq!(Text::<8>(*b"\x1b[2J\n\xff\0\0").to_string(), "?[2J?\u{fffd}");
    assert_eq!(Text::<4>::new("abcdef").as_bytes(), b"abc");
    assert_eq!(Text::<4>::new("abä").as_bytes(), b"ab", "no half a character");
}
