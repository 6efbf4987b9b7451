//! Reports as one page of HTML, without external resources, readable with scripts off, on a telephone and on a
//! screen.
//!
//! [`page`] makes text of reports and does nothing else. [`files`] reads reports and writes the page.
//! [`findings()`] returns the page's contents for programs.
//!
//! - `html`: HTML in which text cannot become markup. `style.css`: the style. `number`: figures for people.
//! - `claims`: the claims of the sources, and whether they hold here. `targets`: netmem's targets.
//! - `losses`: cases in which netmem is slower than a rival; `causes`: the causes. `noise`: cases that a run cannot
//!   decide. `setups`: the ratios of older reports that have too few set-ups.
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
mod setups;
mod summary;
mod targets;

pub use findings::{Findings, findings};
pub(crate) use machine::{does_not_stand, name as machine_name};
pub(crate) use page::best_of_each;
pub use page::page;

#[cfg(test)]
mod tests;
