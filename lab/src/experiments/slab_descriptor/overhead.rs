//! The memory of descriptors for each GiB that they describe.

use netmem::page::Memory;

use super::form::FORMS;
use crate::bench::Bench;
use crate::json::{Published, params};
use crate::method::round::Label;
use crate::metric::Metric;

const GIB: f64 = (1u64 << 30) as f64;

/// The source's page structure, for each page of 4 KiB.
const SOURCE: [(&str, f64); 2] = [("56", 56.0), ("64", 64.0)];

/// Reports a row for each size, in the order of `memories`. The forms are ordered by descriptor.
pub(super) fn rows(bench: &mut Bench<'_>, memories: &[Memory; 3]) {
    for (memory, forms) in memories.iter().zip(FORMS.chunks(FORMS.len() / memories.len())) {
        let Some(name) = forms.first().map(|form| form.descriptor_name()) else { continue };
        let bytes = memory.descriptor_bytes() as f64 / memory.bytes() as f64 * GIB;
        let params = params([("work", "page".into()), ("descriptor", name.into()), ("per", "GiB".into())]);
        let label = Label { variant: format!("netmem/{name}"), params };
        bench.figure(label, Metric::Bytes, bytes, published(name));
    }
}

fn published(name: &str) -> Option<Published> {
    let (_, bytes) = SOURCE.into_iter().find(|&(of, _)| of == name)?;
    let of = format!("Linux, struct page of {bytes} bytes for each page of 4096");
    Some(Published { value: bytes / 4096.0 * GIB, unit: "bytes".to_owned(), of })
}
