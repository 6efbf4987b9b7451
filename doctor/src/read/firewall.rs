//! What the kernel does to the packets that it forwards or that are its own, and a dataplane beside it does not: filters and
//! NAT.
//!
//! Source: `linux/netfilter/nf_tables.h`, `linux/netfilter/nfnetlink.h`, and `net/netfilter/x_tables.c` of Linux.

use super::netlink::{Asker, Extent, find, text};
use netlink_sys::protocols::NETLINK_NETFILTER;
use std::collections::BTreeSet;
use std::{fs, io};

/// NFT_MSG_GETCHAIN of the subsystem of nf_tables.
const GET_CHAIN: u16 = 10 << 8 | 4;
/// Bytes of `struct nfgenmsg`, which begins with the family.
const HEADER: usize = 4;
/// The families whose chains see forwarded packets.
const FAMILIES: [(u8, &str); 3] = [(1, "inet"), (2, "ip"), (10, "ip6")];
/// Attributes of a chain, and of its hook. A chain that is not a base chain has no hook.
const TABLE: u16 = 1;
const NAME: u16 = 3;
const HOOK: u16 = 4;
const POLICY: u16 = 5;
const USE: u16 = 6;
const TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const DROP: u32 = 0;
/// Hooks (NF_INET_…).
const PREROUTING: u32 = 0;
const INPUT: u32 = 1;
const FORWARD: u32 = 2;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;
/// The error of a kernel without nf_tables, beside those that mean "no such protocol".
const NO_SUBSYSTEM: i32 = 22;
const NO_PROTOCOL: i32 = 93;

/// The chains of nf_tables that filter or translate packets, as `nft list` names them, and the tables of the older iptables.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Firewall {
    /// Those for packets that the kernel forwards.
    pub forwarded: BTreeSet<String>,
    /// Those for packets to and from this host.
    pub own: BTreeSet<String>,
}

/// The packets of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Those that the kernel forwards.
    Forwarded,
    /// Those to and from this host.
    Own,
}

/// Returns the chains and tables.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN.
pub fn firewall() -> io::Result<Firewall> {
    let forwarded: BTreeSet<String> = ["ip", "ip6"].iter().flat_map(|family| tables(family)).collect();
    let own = forwarded.iter().filter(|table| table.ends_with(" filter")).cloned().collect();
    let mut found = Firewall { forwarded, own };
    let answers =
        Asker::new(NETLINK_NETFILTER).and_then(|asker| asker.ask(GET_CHAIN, Extent::All, &[0; HEADER]));
    match answers {
        Ok(chains) => {
            for (way, name) in chains.iter().filter_map(|body| chain(body)) {
                match way {
                    Way::Forwarded => found.forwarded.insert(name),
                    Way::Own => found.own.insert(name),
                };
            }
        }
        Err(error) if matches!(error.raw_os_error(), Some(NO_SUBSYSTEM | NO_PROTOCOL)) => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// Returns the name of a chain, and whether it is for packets that the kernel forwards or for those of this host. None if packets
/// leave it as they came: it has another hook, or accepts all without a rule. A base chain is used by its rules only
/// (`NFTA_CHAIN_USE`).
fn chain(body: &[u8]) -> Option<(Way, String)> {
    let family = *body.first()?;
    let (_, family) = FAMILIES.iter().find(|(number, _)| *number == family)?;
    let attributes = body.get(HEADER..)?;
    let hook = find(attributes, HOOK).and_then(|hook| word(find(hook, HOOK_NUMBER)?))?;
    let of = |kind| find(attributes, kind).map(text).unwrap_or_default();
    let way = match hook {
        FORWARD => Way::Forwarded,
        PREROUTING | POSTROUTING if of(TYPE) == "nat" => Way::Forwarded,
        INPUT | OUTPUT => Way::Own,
        _ => return None,
    };
    let number = |kind| find(attributes, kind).and_then(word);
    // A kernel that does not say how often it is used may have rules there.
    let acts = number(POLICY) == Some(DROP) || number(USE) != Some(0);
    acts.then(|| (way, format!("nftables {family} {} {}", of(TABLE), of(NAME))))
}

/// Reads a number in network byte order, as those of nf_tables are.
fn word(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns the tables of the older iptables. Their rules cannot be read without a private interface of the kernel, and there is no
/// table before a command has asked for it.
fn tables(family: &str) -> Vec<String> {
    let names =
        fs::read_to_string(format!("/proc/thread-self/net/{family}_tables_names")).unwrap_or_default();
    names.lines().map(|name| format!("{family}tables {name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::netlink::{attribute, nested};
    use super::*;

    /// A chain of this family with a hook, a policy, a number of rules and a type.
    fn body(family: u8, hook: Option<u32>, policy: u32, rules: u32, kind: &str) -> Vec<u8> {
        let zeroed = |name: &str| format!("{name}\0").into_bytes();
        let mut bytes = vec![family, 0, 0, 0];
        bytes.extend(attribute(TABLE, &zeroed("fw")));
        bytes.extend(attribute(NAME, &zeroed("f")));
        if let Some(hook) = hook {
            bytes.extend(nested(HOOK, &attribute(HOOK_NUMBER, &hook.to_be_bytes())));
            bytes.extend(attribute(POLICY, &policy.to_be_bytes()));
            bytes.extend(attribute(TYPE, &zeroed(kind)));
        }
        bytes.extend(attribute(USE, &rules.to_be_bytes()));
        bytes
    }

    #[test]
    fn a_chain_counts_if_it_can_change_the_fate_of_a_packet() {
        let (accept, ingress) = (1, 5);
        let found = |family, hook, policy, rules, kind| chain(&body(family, hook, policy, rules, kind));
        let named = |family: &str| Some((Way::Forwarded, format!("nftables {family} fw f")));
        let own = |family: &str| Some((Way::Own, format!("nftables {family} fw f")));
        assert_eq!(found(1, Some(INPUT), DROP, 4, "filter"), own("inet"));
        assert_eq!(found(10, Some(OUTPUT), accept, 1, "filter"), own("ip6"));
        assert_eq!(found(1, Some(FORWARD), DROP, 0, "filter"), named("inet"));
        assert_eq!(found(2, Some(FORWARD), accept, 3, "filter"), named("ip"));
        assert_eq!(found(10, Some(POSTROUTING), accept, 1, "nat"), named("ip6"));
        assert_eq!(found(2, Some(PREROUTING), accept, 1, "nat"), named("ip"));
        for (family, hook, policy, rules, kind) in [
            (1, Some(FORWARD), accept, 0, "filter"),
            (2, Some(POSTROUTING), accept, 0, "nat"),
            (1, Some(INPUT), accept, 0, "filter"),
            // That of docs/router.md, which keeps copies from the kernel.
            (1, Some(PREROUTING), accept, 1, "filter"),
            (5, Some(ingress), DROP, 1, "filter"),
            (1, None, DROP, 9, ""),
        ] {
            let found = found(family, hook, policy, rules, kind);
            assert_eq!(found, None, "{family} {hook:?} {rules} {kind}");
        }
        assert_eq!([chain(&[]), chain(&[1]), chain(&[1, 0, 0, 0, 200, 0, 4, 0])], [None, None, None]);
    }
}
