//! The forms of all changes. Another process of the same user may have written a journal, and its commands are run with all
//! privileges. So a change of any other form is neither made nor undone.

use super::Change;

/// The commands, by words. INTERFACE and OFFLOAD are the same in a command and in its undo. `up|down` is one of both words.
const COMMANDS: [&str; 6] = [
    "ip link set dev INTERFACE up|down",
    // Only `netmem doctor --qualify` makes this one.
    "ip link set dev INTERFACE mtu NUMBER",
    "ethtool -K INTERFACE OFFLOAD on|off",
    "ethtool -L INTERFACE combined NUMBER",
    "ethtool -L INTERFACE rx NUMBER tx NUMBER",
    "ethtool -G INTERFACE rx NUMBER tx NUMBER",
];

/// The names of offloads, as ethtool(8) takes them.
const OFFLOADS: [&str; 6] = [
    "large-receive-offload",
    "rx-gro-hw",
    "rx-vlan-offload",
    "tx-udp-segmentation",
    "tx-udp_tnl-segmentation",
    "tx-udp_tnl-csum-segmentation",
];

/// The settings: the key by its parts, and the values.
const SETTINGS: [(&str, &str); 6] = [
    ("net.core.bpf_jit_enable", "0|1"),
    ("net.ipv4.conf.INTERFACE.forwarding", "NUMBER"),
    ("net.ipv4.conf.INTERFACE.rp_filter", "0|1|2"),
    ("net.ipv6.conf.INTERFACE.force_forwarding", "NUMBER"),
    ("net.ipv6.conf.INTERFACE.forwarding", "NUMBER"),
    // dist/netmem.service leaves this file writable, and the folder /proc/sys/net.
    ("vm.nr_hugepages", "NUMBER"),
];

/// Names that no interface has, and the folders of /proc/sys that stand for all interfaces.
const NO_INTERFACES: [&str; 4] = [".", "..", "all", "default"];

/// Returns true if the change has one of the forms above, and the change that undoes it has the same form.
pub(super) fn is_known(change: &Change) -> bool {
    match change {
        Change::Setting { key, from, to } => {
            // A slash in a key stands for a dot in a name.
            let parts: Vec<String> = key.split('.').map(|part| part.replace('/', ".")).collect();
            SETTINGS.iter().any(|(form, values)| {
                let form: Vec<&str> = form.split('.').collect();
                fit(&form, &parts, &parts) && is_word(values, from) && is_word(values, to)
            })
        }
        Change::Run { command, undo } => COMMANDS.iter().any(|form| {
            let form: Vec<&str> = form.split(' ').collect();
            fit(&form, command, undo)
        }),
    }
}

/// Returns the interface that a change of a known form is about, if it is about one.
pub(super) fn interface(change: &Change) -> Option<String> {
    if !is_known(change) {
        return None;
    }
    match change {
        Change::Setting { key, .. } => {
            let is_of_one = key.starts_with("net.ipv4.conf.") || key.starts_with("net.ipv6.conf.");
            key.split('.').nth(3).filter(|_| is_of_one).map(|name| name.replace('/', "."))
        }
        // `ethtool -K INTERFACE`, or `ip link set dev INTERFACE`.
        Change::Run { command, .. } => command.get(if command[0] == "ip" { 4 } else { 2 }).cloned(),
    }
}

/// Returns true if both have the form, for the same interface and offload.
fn fit(form: &[&str], one: &[String], other: &[String]) -> bool {
    let are_as_long = [one, other].iter().all(|words| words.len() == form.len());
    are_as_long
        && form.iter().zip(one.iter().zip(other)).all(|(place, (one, other))| match *place {
            "INTERFACE" => one == other && is_interface(one),
            "OFFLOAD" => one == other && OFFLOADS.contains(&one.as_str()),
            place => is_word(place, one) && is_word(place, other),
        })
}

/// Returns true for a word that may stand at this place of a form.
fn is_word(place: &str, word: &str) -> bool {
    match place {
        "NUMBER" => (1..=10).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit()),
        words => words.split('|').any(|one| one == word),
    }
}

/// Returns true for the name of an interface. A program could take one that begins with a dash for an option.
fn is_interface(name: &str) -> bool {
    let is_allowed =
        |character: char| !character.is_whitespace() && !character.is_control() && !"/:".contains(character);
    (1..=15).contains(&name.len())
        && name.chars().all(is_allowed)
        && !name.starts_with('-')
        && !NO_INTERFACES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &str, from: &str, to: &str) -> Change {
        Change::Setting { key: key.to_owned(), from: from.to_owned(), to: to.to_owned() }
    }

    #[test]
    fn what_the_rules_and_a_qualification_change_is_known_and_so_is_its_undo() {
        for change in [
            Change::run("ip link set dev eth0 up", "ip link set dev eth0 down"),
            Change::run("ip link set dev enp3s0f0np0 mtu 1500", "ip link set dev enp3s0f0np0 mtu 9000"),
            Change::run("ethtool -K wan_0.7 rx-gro-hw off", "ethtool -K wan_0.7 rx-gro-hw on"),
            Change::run("ethtool -L eth0 combined 4", "ethtool -L eth0 combined 1"),
            Change::run("ethtool -L eth0 rx 4 tx 4", "ethtool -L eth0 rx 1 tx 1"),
            Change::run("ethtool -G eth0 rx 1024 tx 512", "ethtool -G eth0 rx 2040 tx 512"),
            setting("net.core.bpf_jit_enable", "0", "1"),
            setting("net.ipv4.conf.eth0/7.forwarding", "1", "0"),
            setting("net.ipv4.conf.a//b.rp_filter", "1", "2"),
            setting("net.ipv6.conf.eth0.force_forwarding", "1", "0"),
            setting("net.ipv6.conf.eth0.forwarding", "1", "0"),
            setting("net.ipv4.conf.lan#1~old.forwarding", "1", "0"),
            setting("vm.nr_hugepages", "0", "4294967295"),
        ] {
            assert!(is_known(&change) && is_known(&change.reversed()), "{change}");
        }
    }

    #[test]
    fn the_interface_of_a_change_is_the_one_that_it_names() {
        let of = |change: Change| interface(&change);
        assert_eq!(of(Change::run("ip link set dev a.7 up", "ip link set dev a.7 down")), Some("a.7".into()));
        assert_eq!(of(Change::run("ethtool -L a combined 4", "ethtool -L a combined 1")), Some("a".into()));
        assert_eq!(of(setting("net.ipv4.conf.a/7.rp_filter", "1", "2")), Some("a.7".into()));
        assert_eq!(of(setting("net.ipv6.conf.a.force_forwarding", "1", "0")), Some("a".into()));
        assert_eq!(of(setting("net.core.bpf_jit_enable", "0", "1")), None);
        assert_eq!(of(setting("vm.nr_hugepages", "0", "8")), None);
        assert_eq!(of(Change::run("touch a", "rm a")), None);
    }

    /// Found in a review: `--undo` ran any command, and wrote any setting, that stood in the journal.
    #[test]
    fn commands_that_no_rule_makes_are_not_known() {
        let up = "ip link set dev eth0 up";
        for (command, undo) in [
            ("true", "/tmp/evil"),
            (up, "/tmp/evil"),
            (up, "true"),
            (up, "ip link set dev eth1 down"),
            (up, "ip link set dev eth0 down down"),
            (up, "ip link set dev eth0"),
            (up, "/tmp/ip link set dev eth0 down"),
            (up, "ip link del dev eth0"),
            ("ip link set dev eth0 up ", "ip link set dev eth0 down"),
            ("ip link set dev -force up", "ip link set dev -force down"),
            ("ip link set dev eth0/.. up", "ip link set dev eth0/.. down"),
            ("ip link set dev eth0 mtu 1500", "ip link set dev eth0 mtu -1"),
            ("ip link set dev eth0 mtu 1500", "ip link set dev eth0 down"),
            ("ip netns exec x sh", "ip netns exec x sh"),
            ("ip -batch /tmp/x", "ip -batch /tmp/x"),
            ("ethtool -K --debug rx-gro-hw off", "ethtool -K --debug rx-gro-hw on"),
            ("ethtool -K eth0 rx-gro-hw off", "ethtool -K eth0 rx-vlan-offload on"),
            ("ethtool -K eth0 ntuple off", "ethtool -K eth0 ntuple on"),
            ("ethtool -f eth0 firmware", "ethtool -f eth0 firmware"),
            ("ethtool -L eth0 combined four", "ethtool -L eth0 combined 1"),
            ("ethtool -L eth0 combined 12345678901", "ethtool -L eth0 combined 1"),
            ("ethtool -L eth0 combined ", "ethtool -L eth0 combined 1"),
        ] {
            let change = Change::run(command, undo);
            assert!(!is_known(&change) && !is_known(&change.reversed()), "{command}, {undo}");
        }
        assert!(!is_known(&Change::Run { command: Vec::new(), undo: Vec::new() }));
    }

    /// As above.
    #[test]
    fn settings_that_no_rule_makes_are_not_known() {
        for (key, from, to) in [
            ("kernel.core_pattern", "|/tmp/evil", "core"),
            ("kernel.modprobe", "/tmp/evil", "/sbin/modprobe"),
            ("net.core.bpf_jit_enable", "2", "1"),
            ("net.core.bpf_jit_harden", "0", "1"),
            ("net.ipv4.conf.eth0.forwarding", "1\n", "0"),
            ("net.ipv4.conf.eth0.forwarding", "", "0"),
            ("net.ipv4.conf.eth0.rp_filter", "3", "2"),
            ("net.ipv4.conf.all.forwarding", "1", "0"),
            ("net.ipv4.conf.default.rp_filter", "1", "2"),
            ("net.ipv4.conf.//.forwarding", "1", "0"),
            ("net.ipv4.conf./.forwarding", "1", "0"),
            ("net.ipv4.conf..forwarding", "1", "0"),
            ("net.ipv4.conf.//.//.//.kernel.core_pattern", "1", "0"),
            ("net.ipv4.conf.eth0.forwarding.", "1", "0"),
            (".net.ipv4.conf.eth0.forwarding", "1", "0"),
            ("net/ipv4/conf/eth0/forwarding", "1", "0"),
            ("net.ipv6.conf.all.forwarding", "1", "0"),
            ("vm.nr_hugepages", "-1", "0"),
            ("vm.overcommit_memory", "1", "0"),
        ] {
            let change = setting(key, from, to);
            assert!(!is_known(&change) && !is_known(&change.reversed()), "{key}, {from}, {to}");
        }
    }
}
