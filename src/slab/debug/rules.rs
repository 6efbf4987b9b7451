//! Debug options as text, in the spelling of the kernel's `slab_debug=`.

use super::DebugOptions;
use std::str::FromStr;

/// Which caches get which debug, read from a text such as `FZ;FZPU,packet_head,kmalloc-*;-,timer`.
///
/// Semicolons separate blocks. A block is letters, then names of caches, each behind a comma; `*` at the end of a name
/// matches anything. Letters: `F` sanity checks, `Z` red zones, `P` poison, `U` call sites. No letter means all four,
/// `-` means none. A block with names is for these caches only, a block without names for all others. The last block
/// that matches decides (kernel document "Short users guide for SLUB").
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DebugRules {
    blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    options: DebugOptions,
    /// The names of the caches. Empty for all caches.
    names: Vec<String>,
}

/// An error in a text of debug rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DebugRulesError {
    /// The letter is not a debug option.
    #[error(
        "'{letter}' in '{block}' is no debug option: give F (sanity), Z (red zone), P (poison), U (call sites) or -"
    )]
    Letter {
        /// The letter.
        letter: char,
        /// The block that contains the letter.
        block: String,
    },
    /// `-` with other letters.
    #[error("'-' in '{block}' switches everything off: give it alone, or leave it out")]
    NotAlone {
        /// The block.
        block: String,
    },
    /// A comma without a name behind it.
    #[error("a name is missing in '{block}': give one behind each comma")]
    NoName {
        /// The block.
        block: String,
    },
    /// A star that is not at the end of a name.
    #[error("'{name}': a star stands for the rest of a name, give it at the end")]
    Star {
        /// The name.
        name: String,
    },
}

impl DebugRules {
    /// The options for a cache of this name.
    pub fn of(&self, cache: &str) -> DebugOptions {
        let last = |named: bool| {
            self.blocks.iter().rev().find(|block| block.names.is_empty() != named && block.fits(cache))
        };
        last(true).or_else(|| last(false)).map_or_else(DebugOptions::default, |block| block.options)
    }
}

impl FromStr for DebugRules {
    type Err = DebugRulesError;

    /// Reads the rules. The empty text requests all options on all caches, as it does in the kernel.
    ///
    /// # Errors
    /// [`DebugRulesError`], which names the block and the valid form.
    fn from_str(text: &str) -> Result<DebugRules, DebugRulesError> {
        let blocks = text.split(';').map(Block::parse).collect::<Result<_, _>>()?;
        Ok(DebugRules { blocks })
    }
}

impl Block {
    fn fits(&self, cache: &str) -> bool {
        let fits = |name: &String| match name.strip_suffix('*') {
            Some(begin) => cache.starts_with(begin),
            None => cache == name,
        };
        self.names.is_empty() || self.names.iter().any(fits)
    }

    fn parse(block: &str) -> Result<Block, DebugRulesError> {
        let (letters, names) = match block.split_once(',') {
            Some((letters, names)) => {
                (letters, names.split(',').map(|name| name.trim().to_owned()).collect())
            }
            None => (block, Vec::new()),
        };
        if names.iter().any(String::is_empty) {
            return Err(DebugRulesError::NoName { block: block.into() });
        }
        if let Some(name) = names.iter().find(|name| name.trim_end_matches('*').contains('*')) {
            return Err(DebugRulesError::Star { name: name.clone() });
        }
        Ok(Block { options: Block::options(letters.trim(), block)?, names })
    }

    fn options(letters: &str, block: &str) -> Result<DebugOptions, DebugRulesError> {
        match letters {
            "" => return Ok(DebugOptions::ALL),
            "-" => return Ok(DebugOptions::default()),
            _ => {}
        }
        let mut options = DebugOptions::default();
        for letter in letters.chars() {
            match letter.to_ascii_uppercase() {
                'F' => options.sanity = true,
                'Z' => options.red_zone = true,
                'P' => options.poison = true,
                'U' => options.store_user = true,
                '-' => return Err(DebugRulesError::NotAlone { block: block.into() }),
                _ => return Err(DebugRulesError::Letter { letter, block: block.into() }),
            }
        }
        Ok(options)
    }
}

impl std::fmt::Display for DebugOptions {
    /// The letters that [`DebugRules`] reads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letters = [(self.sanity, 'F'), (self.red_zone, 'Z'), (self.poison, 'P'), (self.store_user, 'U')];
        letters.iter().filter(|(chosen, _)| *chosen).try_for_each(|(_, letter)| write!(f, "{letter}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> DebugRules {
        text.parse().unwrap()
    }

    fn error(text: &str) -> String {
        text.parse::<DebugRules>().unwrap_err().to_string()
    }

    #[test]
    fn letters_choose_options_and_no_letter_chooses_all() {
        let fz = DebugOptions { sanity: true, red_zone: true, ..DebugOptions::default() };
        let pu = DebugOptions { poison: true, store_user: true, ..DebugOptions::default() };
        assert_eq!((rules("FZ").of("any"), rules("up").of("any")), (fz, pu));
        assert_eq!((rules("").of("any"), rules("FZPU").of("any")), (DebugOptions::ALL, DebugOptions::ALL));
        assert_eq!(rules("-").of("any"), DebugOptions::default());
        assert_eq!(DebugRules::default().of("any"), DebugOptions::default(), "no rules, no debug");
    }

    #[test]
    fn a_block_with_names_is_for_these_caches_only_and_beats_one_without() {
        let rules = rules("-,timer;F;,packet_head, kmalloc-*;Z,kmalloc-64");
        let f = DebugOptions { sanity: true, ..DebugOptions::default() };
        let z = DebugOptions { red_zone: true, ..DebugOptions::default() };
        assert_eq!((rules.of("other"), rules.of("timer")), (f, DebugOptions::default()));
        assert_eq!((rules.of("packet_head"), rules.of("kmalloc-8")), (DebugOptions::ALL, DebugOptions::ALL));
        assert_eq!((rules.of("packet_heads"), rules.of("kmalloc-64")), (f, z), "the last block that fits");
    }

    #[test]
    fn what_cannot_be_read_is_named_with_what_would_be_right() {
        assert_eq!(
            error("F;ZT,timer"),
            "'T' in 'ZT,timer' is no debug option: give F (sanity), Z (red zone), P (poison), U (call sites) or -"
        );
        assert_eq!(error("F-"), "'-' in 'F-' switches everything off: give it alone, or leave it out");
        assert_eq!(error("F,a,,b"), "a name is missing in 'F,a,,b': give one behind each comma");
        assert_eq!(error("F,"), "a name is missing in 'F,': give one behind each comma");
        assert_eq!(error("F,a*b"), "'a*b': a star stands for the rest of a name, give it at the end");
    }
}
