//! Reports as one page of HTML: nothing external, readable with scripts off, on a telephone and on a screen.
//!
//! [`page`] makes text of reports and does nothing else; [`files`] reads the one and writes the other. [`findings()`] is what
//! the page says, for programs.
//!
//! - `html`: markup in which text cannot become markup. `style.css`: the looks. `number`: figures for people.
//! - `claims`: what the sources say, and what of it holds here. `targets`: what netmem has to reach.
//! - `losses`: where it is slower than a rival; `causes`: why. `noise`: where a run cannot tell.
//! - `experiment`: the part of one report, from `rows`, `ratios`, `machine` and `plot`.

mod causes;
mod claims;
mod experiment;
pub mod files;
mod findings;
mod html;
mod losses;
mod machine;
mod noise;
mod number;
mod page;
mod pick;
mod plot;
mod ratios;
mod rows;
mod summary;
mod targets;

pub use findings::{Findings, findings};
pub use page::page;

#[cfg(test)]
mod tests;
