//! The texts that published the experiments' measurements, by the keys of `docs/sources.md`.

/// A text that published figures.
#[derive(Debug)]
pub struct Source {
    /// Its key: author, two digits of the year, one word.
    pub key: &'static str,
    /// Author, year, title and place of publication, in one line.
    pub citation: &'static str,
    /// A link to the text, or to the list archive that finds it by its subject. Empty if there is none.
    pub link: &'static str,
}

/// Bulk free at transmit completion.
pub(crate) const BULK: Source = Source {
    key: "brouer15-bulk",
    citation: "Brouer and Duyck, 2015: Network stack, first user of SLAB/kmem_cache bulk free API (linux-mm)",
    link: "https://lore.kernel.org/all/?q=s:%22first+user+of+SLAB%2Fkmem_cache+bulk+free+API%22",
};

/// Lists of packets handed to another core.
pub(crate) const HAND_OFF: Source = Source {
    key: "zhang09-handoff",
    citation: "Zhang Yanmin, 2009: hand off skb list to other cpu to submit to upperlayer (linux-kernel)",
    link: "https://lore.kernel.org/all/?q=s:%22hand+off+skb+list+to+other+cpu%22",
};

/// A smaller page descriptor.
pub(crate) const PAGE: Source = Source {
    key: "hansen14-page",
    citation: "Hansen and Morton, 2014: re-shrink 'struct page' when SLUB is on (linux-kernel)",
    link: "https://lore.kernel.org/all/?q=s:%22re-shrink+%27struct+page%27+when+SLUB+is+on%22",
};

/// Ready pairs of mbuf and cluster.
pub(crate) const MBUF: Source = Source {
    key: "rizzo02-mbuf",
    citation: "Rizzo, 2002: Mbuf allocator performance (freebsd-net)",
    link: "https://mail-archive.FreeBSD.org/cgi/mid.cgi?20020702001050.B2250",
};

/// What the page allocator costs a packet.
pub(crate) const PAGES: Source = Source {
    key: "brouer17-pages",
    citation: "Brouer, 2017: Memory vs. Networking, provoking and fixing memory bottlenecks (LSF/MM summit)",
    link: "https://people.netfilter.org/hawk/presentations/MM-summit2017/MM-summit2017-JesperBrouer.pdf",
};

/// What became of bulk free in Linux.
pub(crate) const FREELIST: Source = Source {
    key: "brouer15-freelist",
    citation: "Brouer, 2015: slub, optimize bulk slowpath free by detached freelist (Linux 4.4, commit d0ecd894e3d5)",
    link: "https://git.kernel.org/torvalds/c/d0ecd894e3d5f768a84403b34019c4a7daa05882",
};

/// What became of the hand-off in Linux.
pub(crate) const CPUMAP: Source = Source {
    key: "brouer19-cpumap",
    citation: "Brouer, 2019: CPUMAP optimizations (notes of the xdp-project)",
    link: "https://github.com/xdp-project/xdp-project/blob/main/areas/cpumap/cpumap02-optimizations.org",
};

/// What became of bulk calls for pages in Linux.
pub(crate) const ARRAYS: Source = Source {
    key: "brouer21-arrays",
    citation: "Brouer, 2021: Re: Introduce a bulk order-0 page allocator, v5 (netdev)",
    link: "https://lore.kernel.org/all/20210322130446.0a505db0@carbon/",
};

/// What became of recycling in Linux.
pub(crate) const POOL: Source = Source {
    key: "brouer25-pool",
    citation: "Brouer, 2025: Re: fix two bugs related to page_pool, v7 (netdev)",
    link: "https://lore.kernel.org/all/3c8e4f86-87e2-470d-84d8-86c70b3e2fcc@kernel.org/",
};

/// No text: the experiment is netmem's own.
pub(crate) const NONE: Source =
    Source { key: "none", citation: "none: an experiment of netmem's own", link: "" };

const ALL: [&Source; 10] =
    [&BULK, &HAND_OFF, &PAGE, &MBUF, &PAGES, &FREELIST, &CPUMAP, &ARRAYS, &POOL, &NONE];

/// Returns the citation of the text with this key, or the key itself if there is no such text, as in a report of
/// another version.
pub fn citation(key: &str) -> String {
    match ALL.iter().find(|source| source.key == key) {
        Some(source) if source.key == NONE.key => source.citation.to_owned(),
        Some(source) => format!("[{key}] {}", source.citation),
        None => key.to_owned(),
    }
}

/// Returns the link of the text with this key, or `None` if there is no such text.
pub(crate) fn link(key: &str) -> Option<&'static str> {
    ALL.iter().find(|source| source.key == key).map(|source| source.link).filter(|link| !link.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_its_section_in_the_page_of_sources() {
        let page = include_str!("../../docs/sources.md");
        for source in ALL.iter().filter(|source| source.key != NONE.key) {
            assert!(page.contains(&format!("## [{}]\n", source.key)), "{}", source.key);
            assert!(page.contains(&format!("<{}>", source.link)), "{}", source.key);
            assert_eq!(citation(source.key), format!("[{}] {}", source.key, source.citation));
        }
    }

    #[test]
    fn a_key_of_another_version_stands_for_itself() {
        assert_eq!(citation("knuth73-buddy"), "knuth73-buddy");
        assert_eq!(citation("none"), NONE.citation);
        assert_eq!((link("knuth73-buddy"), link("none")), (None, None));
        assert_eq!(link("rizzo02-mbuf"), Some(MBUF.link));
    }
}
