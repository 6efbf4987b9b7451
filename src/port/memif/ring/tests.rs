//! Tests of the two ends of one ring, with correct and hostile indices.

use super::*;

struct Bench {
    memory: Arc<SharedMemory>,
    client: Lending,
    server: Serving,
}

fn bench(log2_size: u8) -> Bench {
    let memory = SharedMemory::new("test", 64 + ring_bytes(log2_size)).unwrap();
    let client = Lending::new(&memory, 64, log2_size).unwrap();
    let server = Serving::new(&memory, 64, log2_size).unwrap();
    Bench { memory, client, server }
}

fn said(number: u32) -> Descriptor {
    Descriptor { next: number % 2 == 1, region: 7, len: number, offset: !number }
}

#[test]
fn slots_travel_to_the_server_and_back_far_past_where_indices_wrap() {
    let Bench { memory: _memory, mut client, mut server } = bench(3);
    let (mut lent, mut served, mut taken) = (0, 0, 0);
    for round in 0..60_000 {
        let n = client.room().min(1 + round % 8);
        for i in 0..n {
            client.write(client.next_at(i), said(lent + i));
        }
        client.lend(n);
        lent += n;
        let ready = server.ready().unwrap();
        assert_eq!(ready, lent - served);
        let n = ready.min(1 + round % 3);
        for i in 0..n {
            let position = server.ready_at(i);
            assert_eq!(server.read(position), said(served + i));
            server.write(position, said(!(served + i)));
        }
        server.give_back(n);
        served += n;
        let back = client.returned().unwrap();
        assert_eq!(back, served - taken);
        for i in 0..back {
            assert_eq!(client.read(client.returned_at(i)), said(!(taken + i)));
        }
        client.take_back(back);
        taken += back;
    }
    assert!(taken > 1 << 16);
}

#[test]
fn the_layout_is_the_protocols() {
    let Bench { memory, mut client, mut server } = bench(4);
    client.write(client.next_at(0), Descriptor { next: true, region: 2, len: 3, offset: 4 });
    client.lend(1);
    assert_eq!(server.ready(), Ok(1));
    server.give_back(1);
    server.wake.want(false);
    let mut bytes = [0; 64 + 128 + 16];
    assert!(memory.read(0, &mut bytes));
    let word = |at: usize| u16::from_ne_bytes([bytes[64 + at], bytes[65 + at]]);
    assert_eq!(bytes[64..68], 0x3E31F20_u32.to_ne_bytes());
    assert_eq!([word(4), word(6), word(64)], [1, 1, 1], "flags, head, tail");
    let fields = [word(128), word(130), word(132), word(134), word(136), word(138), word(140)];
    assert_eq!(fields, [1, 2, 3, 0, 4, 0, 0]);
}

#[test]
fn no_index_that_a_peer_can_write_lets_more_be_read_than_there_is() {
    for index in 0..=u16::MAX {
        let Bench { memory, mut client, mut server } = bench(3);
        client.lend(5);
        assert_eq!(server.ready(), Ok(5));
        server.give_back(2);
        memory.word(64 + HEAD_AT).unwrap().store_release(index);
        match server.ready() {
            Ok(n) => assert!(n == index.wrapping_sub(2).into() && n <= 8, "head {index}: {n}"),
            Err(_) => assert!(!(5..=10).contains(&index), "head {index}"),
        }
        memory.word(64 + TAIL_AT).unwrap().store_release(index);
        match client.returned() {
            Ok(n) => assert!(n == index.into() && n <= 5, "tail {index}: {n}"),
            Err(_) => assert!(index > 5, "tail {index}"),
        }
    }
}

#[test]
fn an_index_that_steps_back_is_invalid() {
    let Bench { memory, mut client, mut server } = bench(3);
    client.lend(5);
    assert_eq!(server.ready(), Ok(5));
    server.give_back(3);
    assert_eq!(client.returned(), Ok(3));
    client.take_back(3);
    memory.word(64 + TAIL_AT).unwrap().store_release(2);
    assert!(client.returned().is_err());
    memory.word(64 + HEAD_AT).unwrap().store_release(4);
    assert!(server.ready().is_err());
}

#[test]
fn a_ring_that_does_not_lie_inside_or_has_no_cookie_is_refused() {
    let memory = SharedMemory::new("test", 4096).unwrap();
    assert!(Serving::new(&memory, 0, 4).is_none(), "no cookie");
    assert!(Lending::new(&memory, 0, 4).is_some());
    assert!(Serving::new(&memory, 0, 4).is_some());
    for (offset, log2_size) in
        [(8, 0), (1, 0), (4096, 0), (4096 - 128, 0), (0, 8), (0, 15), (0, 255), (u64::MAX - 15, 1)]
    {
        assert!(Lending::new(&memory, offset, log2_size).is_none(), "{offset} {log2_size}");
        memory.write(offset, &COOKIE.to_ne_bytes());
        assert!(Serving::new(&memory, offset, log2_size).is_none(), "{offset} {log2_size}");
    }
}
