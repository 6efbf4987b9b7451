//! The forms: a descriptor's size combined with the method that changes a slab's word.

use netmem::page::DescriptorSize;
use netmem::slab::{CacheConfig, Layer, WordForm};

/// One of the twelve combinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) descriptor: DescriptorSize,
    pub(super) word: WordForm,
}

/// The forms, descriptor by descriptor.
pub(super) const FORMS: [Form; 12] = {
    use DescriptorSize::{Bytes56, Bytes64, Compact};
    use WordForm::{Lock, LockInterrupts, Packed, Wide};
    let descriptors = [Bytes56, Bytes64, Compact];
    let words = [Lock, LockInterrupts, Wide, Packed];
    let mut forms = [Form { descriptor: Compact, word: Packed }; 12];
    let mut place = 0;
    while place < forms.len() {
        forms[place] =
            Form { descriptor: descriptors[place / words.len()], word: words[place % words.len()] };
        place += 1;
    }
    forms
};

/// The lock that is compared with the double compare-and-swap. It also touches the further lines of disabled
/// interrupts, after they have left the core's own caches. It is only one form, in the descriptor of the source's
/// question.
pub(super) const COLD_LOCK: Form =
    Form { descriptor: DescriptorSize::Bytes64, word: WordForm::LockInterruptsCold };

/// Every form: those of [`FORMS`], and then the one that has cold lines.
pub(super) const ALL: [Form; 13] = {
    let mut all = [COLD_LOCK; 13];
    let mut place = 0;
    while place < FORMS.len() {
        all[place] = FORMS[place];
        place += 1;
    }
    all
};

/// The source's kernel before its change: 64 bytes, changed by a 128-bit CAS.
pub(super) const VANILLA: Form = Form { descriptor: DescriptorSize::Bytes64, word: WordForm::Wide };

/// The source's kernel after it: 56 bytes, with the pair aligned inside.
pub(super) const PATCHED: Form = Form { descriptor: DescriptorSize::Bytes56, word: WordForm::Wide };

/// The two sizes of descriptor with a lock instead of a compare-and-swap.
pub(super) const LOCKED: [Form; 2] = [
    Form { descriptor: DescriptorSize::Bytes56, word: WordForm::Lock },
    Form { descriptor: DescriptorSize::Bytes64, word: WordForm::Lock },
];

/// The product's default, in the layer of the source.
pub(super) const DEFAULT: Form = Form { descriptor: DescriptorSize::Compact, word: WordForm::Packed };

impl Form {
    /// Returns the name of the rows. The bare name `netmem` belongs to the default layer, which uses none of these
    /// forms.
    pub(super) fn variant(self) -> String {
        format!("netmem/{}-{}", self.descriptor_name(), self.word_name())
    }

    pub(super) fn descriptor_name(self) -> &'static str {
        match self.descriptor {
            DescriptorSize::Bytes56 => "56",
            DescriptorSize::Bytes64 => "64",
            DescriptorSize::Compact => "compact",
        }
    }

    pub(super) fn word_name(self) -> &'static str {
        match self.word {
            WordForm::Lock => "lock",
            WordForm::LockInterrupts => "lock-interrupts",
            WordForm::LockInterruptsCold => "lock-interrupts-cold",
            WordForm::Wide => "cas128",
            WordForm::Packed => "cas64",
        }
    }

    /// Returns a cache of the layer that the source measured, whose slabs' words have this form. It is not merged.
    pub(super) fn config(self) -> CacheConfig {
        CacheConfig {
            name: self.variant(),
            layer: Layer::CpuSlab,
            word: self.word,
            merge: false,
            ..CacheConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn thirteen_forms_have_thirteen_names() {
        let names: BTreeSet<String> = ALL.iter().map(|form| form.variant()).collect();
        assert_eq!(names.len(), 13);
        assert!(
            names.contains("netmem/compact-cas64") && names.contains("netmem/56-lock-interrupts"),
            "{names:?}"
        );
        assert_eq!([FORMS[6], FORMS[2], FORMS[11]], [VANILLA, PATCHED, DEFAULT]);
        assert_eq!(LOCKED.map(Form::variant), ["netmem/56-lock", "netmem/64-lock"]);
    }
}
