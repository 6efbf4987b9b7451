//! Random frames of all kinds go through netmem and through the kernel in its place. Each difference must be of a class
//! that docs/router.md lists, and each listed class must be found.
//!
//! ```text
//!   h1 ═══════ one   the router   two ═ 1400 ═══════ h2
//!   10.66/16, 10.77.1/24, 10.85/16                   10.67/16, 10.77.2/24, 10.86/16 (mtu 1300)
//!   fd66::/16, fd77:1::/120, fd85::/16               fd67::/16, fd77:2::/120, fd86::/16 (mtu 1300)
//! ```
//! The hosts have no addresses, so every packet that they receive is a result of h1's packets. `NETMEM_FRAMES` is the
//! number of frames (1,500), `NETMEM_SEED` the seed (1), and `NETMEM_PORTS` the kind of netmem's ports (`xdp`, or
//! `packet`, beside which a kernel could answer).

mod bed;
mod classes;
mod link;
mod outcome;
mod v4;
mod v6;
mod view;

use crate::router::Router;
use bed::{answers, lay};
use std::collections::BTreeMap;
use std::env;

/// Pseudo-random numbers, the same in each run (SplitMix64: Steele, Lea, Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns true once in this number of times.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.byte()).collect()
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A frame of h1's.
struct Sent {
    kind: &'static str,
    bytes: Vec<u8>,
}

/// The kinds of frames. Each is sent as often as the others.
fn frames(number: usize, random: &mut Random) -> Vec<Sent> {
    (0..number).map(|n| frame(n, random)).collect()
}

/// Makes a frame of a kind. Its number is part of its source address, so that each frame has its own source and no rate
/// limit of answers to one source applies.
type Make = fn(usize, &mut Random) -> Vec<u8>;

fn frame(n: usize, random: &mut Random) -> Sent {
    let kinds: Vec<&(&'static str, Make)> = v4::KINDS.iter().chain(&v6::KINDS).chain(&link::KINDS).collect();
    let (kind, make) = kinds[n % kinds.len()];
    Sent { kind, bytes: make(n, random) }
}

fn number(name: &str, usual: u64) -> u64 {
    env::var(name).map_or(usual, |n| n.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

/// Frames among which each class is met.
const ENOUGH: usize = 10_000;

/// The page that names the classes.
const PAGE: &str = include_str!("../../../../docs/router.md");

/// The rows of the page's table of these classes, without the reasons.
fn listed() -> Vec<String> {
    let table = PAGE.split("## Beside Linux").nth(1).expect("the section");
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row.match_indices(" |").nth(2).map_or(row, |(end, _)| &row[..end + 2]).to_owned())
        .collect()
}

#[test]
fn docs_router_md_lists_the_classes_of_differences_that_there_are() {
    assert_eq!(listed(), classes::rows());
}

#[test]
fn random_frames_have_the_same_outcome_by_netmem_and_by_the_kernel_except_for_the_listed_classes() {
    let sent = frames(number("NETMEM_FRAMES", 1500) as usize, &mut Random(number("NETMEM_SEED", 1)));
    let Some(bed) = lay() else { return };
    let kernel = answers(&bed, &sent);
    drop(bed);
    let Some(bed) = lay() else { return };
    let many = "1000000";
    let options =
        ["--icmp-rate", many, "--icmp-burst", many, "--icmp-source-rate", many, "--icmp-source-burst", many];
    let kind = env::var("NETMEM_PORTS").unwrap_or_else(|_| "xdp".to_owned());
    let ports = ["one", "two"].map(|interface| format!("{kind}:{interface}"));
    let router = Router::start_in(bed, ports.each_ref().map(String::as_str), &options);
    let netmem = answers(&router.bed, &sent);
    router.end();
    let (mut found, mut strange) = (BTreeMap::new(), Vec::new());
    for ((Sent { kind, bytes }, kernel), netmem) in sent.iter().zip(&kernel).zip(&netmem) {
        match classes::differences(bytes, kernel, netmem) {
            Ok(classes) => classes.into_iter().for_each(|class| *found.entry(class).or_insert(0) += 1),
            Err(what) => strange.push(format!(
                "{kind}: {what}\n  sent {}\n  by the kernel {kernel:?}\n  by netmem {netmem:?}",
                outcome::hex(bytes)
            )),
        }
    }
    let same = kernel.iter().zip(&netmem).filter(|(kernel, netmem)| kernel == netmem).count();
    println!("{same} of {} frames come to the same; differences: {found:#?}", sent.len());
    let said: String = strange.iter().take(40).map(|line| line.clone() + "\n").collect();
    assert!(strange.is_empty(), "{} differ as no class does:\n{said}", strange.len());
    if sent.len() < ENOUGH {
        return;
    }
    let never: Vec<&str> = classes::names().filter(|name| !found.contains_key(name)).collect();
    assert_eq!(never, [""; 0], "listed, and not met");
}
