//! The classes of differences, the ones that docs/router.md lists.

use super::outcome::Outcome;
use super::view::{View, options_of};

/// Frames of which netmem and Linux make something different, and what each may make of them.
struct Class {
    what: &'static str,
    kernel: &'static [&'static str],
    netmem: &'static [&'static str],
    is: fn(&View<'_>) -> bool,
}

/// A difference belongs to the first class that the frame is in and that lists both outcomes.
const CLASSES: [Class; 17] = [
    Class {
        what: "several priority tags, or one of a provider (802.1ad)",
        kernel: &[
            "forwarded",
            "answered",
            "1/0",
            "1/1",
            "1/3",
            "2/0",
            "3/0",
            "3/1",
            "3/4",
            "3/13",
            "11/0",
            "12/0",
            "4/0",
            "4/1",
            "4/2",
        ],
        netmem: &["silence"],
        is: |view| view.tags > 1 || view.is_service,
    },
    Class {
        what: "source routes",
        kernel: &["silence", "12/0"],
        netmem: &["3/0", "3/1", "3/4", "3/5", "3/13", "11/0", "12/0", "silence"],
        is: |view| view.has_option(&[131, 137]),
    },
    Class {
        what: "CIPSO (134) and router alert (148) with contents that make no sense",
        kernel: &["12/0"],
        netmem: &["forwarded", "3/0", "3/1", "3/4", "3/13", "11/0", "silence"],
        is: |view| view.has_option(&[134, 148]),
    },
    Class {
        what: "a second option that records the route, or the time",
        kernel: &["12/0"],
        netmem: &["forwarded"],
        is: |view| {
            let number = |of| view.options().iter().filter(|(kind, _)| *kind == of).count();
            number(7) > 1 || number(68) > 1
        },
    },
    Class {
        what: "options that are not as they must be, of packets for which there is another error, or a blackhole",
        kernel: &["12/0", "silence"],
        netmem: &["3/0", "3/1", "3/4", "3/13", "11/0", "silence"],
        is: |view| view.v4().is_some() && view.header() > 20,
    },
    Class {
        what: "fragments that end beyond 65,535 bytes and are longer than the next link carries",
        kernel: &["forwarded"],
        netmem: &["silence"],
        is: |view| {
            view.v4().is_some_and(|packet| {
                let offset = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff;
                let data = usize::from(u16::from_be_bytes([packet[2], packet[3]])) - view.header();
                8 * usize::from(offset) + data > 65_535 - 20
            })
        },
    },
    Class {
        what: "sources of IPv4 that are martians, or everyone on a link",
        kernel: &["forwarded", "3/0", "3/1", "3/4", "3/13", "11/0"],
        netmem: &["silence"],
        is: |view| {
            view.src4().is_some_and(|src| {
                matches!(src, [0 | 127 | 224.., ..] | [169, 254, ..] | [10, 77, 1 | 2, 254 | 255])
            })
        },
    },
    Class {
        what: "destinations of IPv4 that are martians",
        kernel: &["3/0", "11/0"],
        netmem: &["silence"],
        is: |view| view.dst4().is_some_and(|dst| matches!(dst, [0 | 127 | 240.., ..] | [169, 254, ..])),
    },
    Class {
        what: "router advertisements and solicitations (9, 10), and extended echoes (42, 43)",
        kernel: &["silence"],
        netmem: &["3/0", "3/1", "3/4", "3/13", "11/0"],
        is: |view| {
            let kind = view.v4().filter(|packet| packet[9] == 1).and_then(|packet| packet.get(view.header()));
            matches!(kind, Some(9 | 10 | 42 | 43))
        },
    },
    Class {
        what: "sources of IPv6 that are link-local",
        kernel: &["forwarded", "silence", "1/0", "1/1", "3/0", "2/0"],
        netmem: &["1/2"],
        is: |view| view.src6().is_some_and(|src| src[0] == 0xfe && src[1] & 0xc0 == 0x80),
    },
    Class {
        what: "sources of IPv6 that are the router's, `::`, or IPv4-mapped",
        kernel: &["forwarded", "1/0", "1/1", "3/0", "2/0"],
        netmem: &["silence"],
        is: |view| {
            let is_own = |src: &[u8; 16]| src[..2] == [0xfd, 0x77] && src[15] == 0xfe;
            view.src6().is_some_and(|src| is_own(&src) || src == [0; 16] || is_mapped(&src))
        },
    },
    Class {
        what: "destinations of IPv6 that are no host's: `::`, `::1`, or IPv4-mapped",
        kernel: &["1/0", "3/0"],
        netmem: &["silence"],
        is: |view| view.dst6().is_some_and(|dst| dst[..15] == [0; 15] && dst[15] < 2 || is_mapped(&dst)),
    },
    Class {
        what: "destinations of IPv6 that are link-local",
        kernel: &["1/0", "3/0"],
        netmem: &["silence"],
        is: |view| view.dst6().is_some_and(|dst| dst[0] == 0xfe && dst[1] & 0xc0 == 0x80),
    },
    Class {
        what: "hop-by-hop options that are not known, or not as they must be",
        kernel: &["silence", "4/0", "4/1", "4/2"],
        netmem: &["forwarded", "1/0", "1/1", "1/3", "2/0", "3/0", "silence"],
        is: |view| view.next() == Some(0),
    },
    Class {
        what: "errors about extension headers that do not parse",
        kernel: &["1/0", "1/1", "2/0", "3/0"],
        netmem: &["silence"],
        is: |view| matches!(view.next(), Some(0 | 43 | 44 | 51 | 60 | 135 | 139 | 140 | 253 | 254)),
    },
    Class {
        what: "redirects of ICMPv6 that another router has forwarded",
        kernel: &["1/0", "1/1", "2/0", "3/0"],
        netmem: &["silence"],
        is: |view| view.next() == Some(58) && view.v6().is_some_and(|packet| packet.get(40) == Some(&137)),
    },
    Class {
        what: "unreachable routes of IPv6",
        kernel: &["1/0"],
        netmem: &["1/3"],
        is: |view| view.dst6().is_some_and(|dst| dst[..2] == [0xfd, 0x81]),
    },
];

/// Whether an address of IPv6 is an IPv4-mapped one.
fn is_mapped(address: &[u8; 16]) -> bool {
    address[..10] == [0; 10] && address[10..12] == [0xff; 2]
}

/// What differs in frames that are the same otherwise: what each has.
const FIELDS: [[&str; 3]; 10] = [
    ["DF of errors of IPv4", "clear", "set"],
    ["ECN of errors of IPv4", "its upper bit is that of the packet", "0"],
    ["options of the packet, in its error", "come back", "do not"],
    [
        "source address of errors",
        "of the link that the packet came in by",
        "of the link that the error leaves by",
    ],
    ["pointer of 12/0", "to an option's type", "to the byte that is wrong"],
    ["MTU of 2/0", "the link's, of what is longer than that", "the route's"],
    ["what stands behind the end of options", "cleared", "as it was"],
    [
        "address beside a time that is recorded",
        "of the link that the packet came in by",
        "of the link that it leaves by",
    ],
    ["routes and times recorded in the packet that an error quotes", "with the router's", "as it came"],
    ["hop limit of the packet that a 2/0 about a route's MTU quotes", "one less", "as it came"],
];

/// Returns the classes and fields in which the two outcomes differ, or an error with the difference if no class lists
/// it.
pub fn differences(sent: &[u8], kernel: &Outcome, netmem: &Outcome) -> Result<Vec<&'static str>, String> {
    let (words, others) = (kernel.words(sent), netmem.words(sent));
    let is_alike = kernel.back.len() == netmem.back.len() && kernel.on.len() == netmem.on.len();
    if words != others || !is_alike {
        let view = View::of(sent);
        let has_both = |class: &&Class| {
            class.kernel.contains(&words.as_str()) && class.netmem.contains(&others.as_str())
        };
        let class = CLASSES.iter().filter(|class| (class.is)(&view)).find(has_both);
        return class.map(|class| vec![class.what]).ok_or(format!("{words} | {others}"));
    }
    let mut found = Vec::new();
    for (kernel, netmem) in kernel.frames().zip(netmem.frames()).filter(|(kernel, netmem)| kernel != netmem) {
        found.extend(fields(kernel, netmem).ok_or(format!("{words}: other bytes"))?);
    }
    Ok(found)
}

/// Returns the differences between two frames. Returns None if they differ in anything that [`FIELDS`] does not list.
fn fields(kernel: &[u8], netmem: &[u8]) -> Option<Vec<&'static str>> {
    let (kernel, netmem) = (View::of(kernel), View::of(netmem));
    match (kernel.error(), kernel.v4()) {
        (Some(_), Some(packet)) => fields_v4(packet, netmem.v4()?),
        (Some((kind, _)), None) => fields_v6(kind, kernel.v6()?, netmem.v6()?),
        (None, _) => options_of_forwarded(&kernel, &netmem),
    }
}

/// Between two errors of IPv4.
fn fields_v4(kernel: &[u8], netmem: &[u8]) -> Option<Vec<&'static str>> {
    let header = 4 * usize::from(kernel[0] & 15);
    let (said, other) = (&kernel[header..], &netmem[20..]);
    let mut found = Vec::new();
    let mut differs = |at: usize, does: bool| {
        if does {
            found.push(FIELDS[at][0])
        }
    };
    differs(0, kernel[6] & 0x40 == 0 && netmem[6] & 0x40 != 0);
    differs(1, kernel[1] != netmem[1] && kernel[1] & !2 == netmem[1]);
    differs(2, header > 20);
    differs(3, kernel[12..16] != netmem[12..16]);
    differs(4, said[0] == 12 && said[4] != other[4]);
    // All else: not lengths and checksums, which follow from it.
    let is_same = kernel[1] & !2 == netmem[1] & !2
        && kernel[6..10][1..] == netmem[6..10][1..]
        && kernel[16..20] == netmem[16..20]
        && said[..2] == other[..2]
        && (said[4] == other[4] || said[0] == 12)
        && said[5..8] == other[5..8]
        && (said.len() == other.len() || header > 20 && said.len() < other.len());
    let quotes = is_same.then(|| header_options(&said[8..], &other[8..], FIELDS[8][0]))?;
    quotes.map(|quotes| found.into_iter().chain(quotes).collect())
}

/// Returns the differences in the options of packets that are otherwise the same, up to the end of the first one.
/// Returns None if anything else differs.
fn header_options(kernel: &[u8], netmem: &[u8], recorded: &'static str) -> Option<Vec<&'static str>> {
    let options = options_of(kernel);
    let header = 4 * usize::from(kernel.first()? & 15);
    let end = options.iter().find(|(kind, _)| *kind == 0).map_or(header, |(_, at)| *at);
    let is_recorded = |at: usize| {
        let before = options.iter().rfind(|(_, begin)| *begin <= at);
        before.is_some_and(|(kind, _)| matches!(kind, 7 | 68)) && at < header
    };
    let mut found = Vec::new();
    for at in (0..kernel.len()).filter(|at| kernel.get(*at) != netmem.get(*at)) {
        found.push(match at {
            _ if (end..header).contains(&at) && kernel[at] == 0 => FIELDS[6][0],
            _ if is_recorded(at) => recorded,
            _ => return None,
        });
    }
    found.dedup();
    Some(found)
}

/// Between two errors of IPv6.
fn fields_v6(kind: u8, kernel: &[u8], netmem: &[u8]) -> Option<Vec<&'static str>> {
    let mut found = Vec::new();
    let mut differs = |at: usize, does: bool| {
        if does {
            found.push(FIELDS[at][0])
        }
    };
    differs(3, kernel[8..24] != netmem[8..24]);
    let is_one_less = kind == 2 && kernel[48 + 7].wrapping_add(1) == netmem[48 + 7];
    differs(9, is_one_less);
    differs(
        5,
        kind == 2 && kernel[44..48] == 1400_u32.to_be_bytes() && netmem[44..48] == 1300_u32.to_be_bytes(),
    );
    let is_same = kernel[..8] == netmem[..8]
        && kernel[24..42] == netmem[24..42]
        && (kernel[44..48] == netmem[44..48] || kind == 2)
        && kernel[48..48 + 7] == netmem[48..48 + 7]
        && (kernel[48 + 7] == netmem[48 + 7] || is_one_less)
        && kernel[48 + 8..] == netmem[48 + 8..];
    (is_same && !found.is_empty()).then_some(found)
}

/// Between two packets that were forwarded.
fn options_of_forwarded(kernel: &View<'_>, netmem: &View<'_>) -> Option<Vec<&'static str>> {
    let (one, other) = (kernel.v4()?, netmem.v4()?);
    let found = header_options(one, other, FIELDS[7][0])?;
    (one.len() == other.len() && !found.is_empty()).then_some(found)
}

/// The rows of the table that docs/router.md has of them, without the reasons.
pub fn rows() -> Vec<String> {
    let classes = CLASSES.iter().map(|class| {
        format!("| {} | {} | {} |", class.what, class.kernel.join(", "), class.netmem.join(", "))
    });
    classes
        .chain(FIELDS.iter().map(|[what, kernel, netmem]| format!("| {what} | {kernel} | {netmem} |")))
        .collect()
}

/// What each row is about.
pub fn names() -> impl Iterator<Item = &'static str> {
    CLASSES.iter().map(|class| class.what).chain(FIELDS.iter().map(|[what, ..]| *what))
}
