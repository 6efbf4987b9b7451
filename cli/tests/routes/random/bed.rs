//! The topology, and one frame after the other through it.

use super::Sent;
use super::outcome::{Outcome, comparable};
use crate::frames::Wire;
use crate::router::set;
use crate::testbed::{Testbed, Wiring, host_mac};
use netmem::wire::Ipv4;
use std::{env, fs, process};

/// The router's settings, below `/proc/sys/net`: it answers as often as it is asked, and learns nothing that would change a later
/// answer.
const SETTINGS: [(&str, &str); 22] = [
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/icmp_ratemask", "0"),
    ("ipv6/icmp/ratelimit", "0"),
    ("ipv6/icmp/ratemask", "200"),
    ("ipv6/auto_flowlabels", "0"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/one/rp_filter", "0"),
    ("ipv4/conf/two/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/one/send_redirects", "0"),
    ("ipv4/conf/two/send_redirects", "0"),
    ("ipv4/conf/all/accept_redirects", "0"),
    ("ipv4/conf/one/accept_redirects", "0"),
    ("ipv4/conf/two/accept_redirects", "0"),
    ("ipv6/conf/one/accept_redirects", "0"),
    ("ipv6/conf/two/accept_redirects", "0"),
    ("ipv6/conf/one/accept_ra", "0"),
    ("ipv6/conf/two/accept_ra", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/one/accept_dad", "0"),
    ("ipv6/conf/two/accept_dad", "0"),
];

/// Lays the topology: the router is the kernel.
pub fn lay() -> Option<Testbed> {
    let bed = Testbed::lay(Wiring::Routed, &[])?;
    bed.h1.ip("addr flush dev eth0");
    bed.h2.ip("addr flush dev eth0");
    bed.dut.set_ipv6(true);
    set(&bed.dut, &SETTINGS);
    bed.dut.ip("link set two mtu 1400");
    let file = env::temp_dir().join(format!("netmem-random-{}", process::id()));
    fs::write(&file, commands()).expect("a file of commands");
    bed.dut.ip(&format!("-batch {}", file.display()));
    fs::remove_file(&file).expect("the file is there");
    Some(bed)
}

/// Addresses, neighbours that need not be asked for, and routes.
fn commands() -> String {
    let mut lines = Vec::new();
    for (net, port) in [(1_u8, "one"), (2, "two")] {
        lines.push(format!("addr add 10.77.{net}.254/24 dev {port}"));
        lines.push(format!("addr add fd77:{net}::fe/120 dev {port} nodad"));
        let mac = host_mac(net);
        for last in 0..=255 {
            if last < 254 {
                lines.push(format!("neigh replace 10.77.{net}.{last} lladdr {mac} dev {port}"));
            }
            if last != 0 && last != 254 {
                lines.push(format!("neigh replace fd77:{net}::{last:x} lladdr {mac} dev {port}"));
            }
        }
        let (near, own_mtu) = if net == 1 { ([66, 85], None) } else { ([67, 86], Some(86)) };
        for to in near {
            let mtu = if own_mtu == Some(to) { " mtu 1300" } else { "" };
            lines.push(format!("route add 10.{to}.0.0/16 via 10.77.{net}.1{mtu}"));
            lines.push(format!("route add fd{to}::/16 via fd77:{net}::1{mtu}"));
        }
    }
    for (kind, to) in [("unreachable", 81), ("prohibit", 82), ("blackhole", 83), ("throw", 87)] {
        lines.push(format!("route add {kind} 10.{to}.0.0/16"));
        lines.push(format!("route add {kind} fd{to}::/16"));
    }
    lines.join("\n") + "\n"
}

/// What becomes of each frame.
pub fn answers(bed: &Testbed, sent: &[Sent]) -> Vec<Outcome> {
    let (mut h1, mut h2) = (Wire::of(&bed.h1), Wire::of(&bed.h2));
    // The unsolicited packets of an interface that comes up are over.
    let _: Outcome = outcome(&mut h1, &mut h2, u32::MAX);
    (0..)
        .zip(sent)
        .map(|(number, frame)| {
            h1.send(&frame.bytes);
            outcome(&mut h1, &mut h2, number)
        })
        .collect()
}

/// What came before a mark that goes from h1 to h2, and one that goes back behind it.
fn outcome(h1: &mut Wire, h2: &mut Wire, number: u32) -> Outcome {
    h1.send(&mark(1, number));
    let on = h2.receive_until(|frame| is_mark(frame, number));
    h2.send(&mark(2, number));
    let back = h1.receive_until(|frame| is_mark(frame, number));
    let without = |frames: Vec<Vec<u8>>| {
        frames.into_iter().filter(|frame| !is_mark(frame, number)).filter_map(comparable)
    };
    Outcome { back: without(back).collect(), on: without(on).collect() }
}

/// A frame from one host to the other, of a protocol number for experiments (RFC 3692).
fn mark(host: u8, number: u32) -> Vec<u8> {
    let text = mark_text(number);
    let (src, dst) =
        if host == 1 { ([10, 66, 255, 1], [10, 67, 255, 1]) } else { ([10, 67, 255, 1], [10, 66, 255, 1]) };
    let packet = Ipv4::new(src.into(), dst.into(), 253, 64, text.len() as u16).to_bytes();
    [&[2, 0, 0, 0, host, 0xfe], &[2, 0, 0, 0, host, 1], &[8, 0][..], &packet, &text].concat()
}

fn mark_text(number: u32) -> Vec<u8> {
    [b"a mark of the test: ", &number.to_be_bytes()[..]].concat()
}

fn is_mark(frame: &[u8], number: u32) -> bool {
    frame.ends_with(&mark_text(number)) && frame[23] == 253
}
