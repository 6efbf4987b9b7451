//! The cost of the reverse path check: the product's router decides about frames with the check and without it.

use std::hint::black_box;
use std::net::IpAddr;

use netmem::forward::{Decide, Verdict};
use netmem::steer::Source;
use netmem::wire::{Ethernet, Ipv4, Ipv6, MacAddr, ethernet, ipv4};
use netmem_router::route::Fib;
use netmem_router::{Interface, ReversePath, Router};

use super::{Family, WINDOW, label};
use crate::bench::{Bench, Comparison, Cores, Effort};
use crate::method::round::Variant;
use crate::method::window::OpLoop;
use crate::metric::Metric;

/// Bytes of a frame: the smallest of Ethernet.
const FRAME: usize = 60;
const HOPS: u8 = 64;
const ROUTER: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 0xfe]);
const HOST: MacAddr = MacAddr::new([2, 0, 0, 0, 0, 1]);
const CHECKS: [ReversePath; 3] = [ReversePath::Off, ReversePath::Loose, ReversePath::Strict];

/// Returns a frame between two addresses whose routes lead to stations.
fn frame(src: IpAddr, dst: IpAddr) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    let (ethertype, header) = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let payload = FRAME - ethernet::HEADER_LEN - ipv4::HEADER_LEN;
            (ethernet::IPV4, Ipv4::new(src, dst, ipv4::UDP, HOPS, payload as u16).to_bytes().to_vec())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let payload = FRAME - ethernet::HEADER_LEN - netmem::wire::ipv6::HEADER_LEN;
            (ethernet::IPV6, Ipv6::new(src, dst, ipv4::UDP, HOPS, payload as u16).to_bytes().to_vec())
        }
        _ => unreachable!("a table has one family"),
    };
    frame[..ethernet::HEADER_LEN].copy_from_slice(&Ethernet::new(ROUTER, HOST, ethertype).to_bytes());
    frame[ethernet::HEADER_LEN..][..header.len()].copy_from_slice(&header);
    frame
}

/// Returns the router with this check at its only port.
fn router(fib: &Fib, check: ReversePath) -> Router {
    let mut fib = fib.clone();
    fib.interfaces = vec![Interface { mac: ROUTER, mtu: 1500 }];
    // Without a check at any port the list is empty, as in the program.
    fib.reverse_path = if check == ReversePath::Off { Vec::new() } else { vec![check] };
    Router::new(fib.into())
}

/// Measures a row for each check, over a table whose routes to `ends` lead to stations.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    (family, routes): (Family, usize),
    fib: &Fib,
    ends: &[IpAddr],
    effort: Effort,
) {
    let sources = ends.iter().cycle().skip(ends.len() / 2);
    let frames: Vec<_> = sources.zip(ends).map(|(src, dst)| frame(*src, *dst)).collect();
    if frames.is_empty() {
        return;
    }
    let mut routers = CHECKS.map(|check| router(fib, check));
    let dropped = routers.iter_mut().map(|router| {
        let leaves = |frame: &&[u8; FRAME]| {
            router.decide(Source::default(), &mut (**frame).clone()) == Verdict::Redirect(0)
        };
        frames.len() - frames.iter().filter(leaves).count()
    });
    let dropped: usize = dropped.sum();
    let name = format!("{}: each frame leaves, whatever is asked of its source", family.name());
    bench.check(&name, dropped == 0, format!("{dropped} of {} do not", CHECKS.len() * frames.len()));
    let clock = bench.clock;
    let frames = &frames[..];
    let variants = routers.iter_mut().zip(CHECKS).map(|(router, check)| -> Box<dyn Variant + '_> {
        let mut label = label("netmem", family, routes, "frame, decided about");
        label.params.insert("reverse_path".to_owned(), check.to_string().into());
        let mut at = 0;
        let body = move |ops| {
            for _ in 0..ops {
                at = if at + 1 == frames.len() { 0 } else { at + 1 };
                // The decision decrements the TTL.
                let mut frame = frames[at];
                black_box(router.decide(Source::default(), &mut frame));
            }
        };
        Box::new(OpLoop::fixed(WINDOW, label, &clock, Box::new(body)))
    });
    let mut variants: Vec<_> = variants.collect();
    let metric = Metric::NsPerOp;
    let comparisons = [1, 2].map(|b| Comparison { a: 0, b, metric });
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Same, effort);
    drop(variants);
    series.iter().for_each(|series| bench.row(series, metric, None));
}
