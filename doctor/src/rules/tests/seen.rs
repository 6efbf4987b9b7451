//! Faults of the rules themselves that were seen.

use super::{changes, combined, eth0, good_host, packet, place, queues, rules, soft, tap, wanted, xdp};
use crate::finding::{Finding, Findings, Harm};
use crate::host::{Host, QueueCounts, RingSizes};
use crate::rules::findings;
use crate::wanted::{Wanted, WantedPort};
use netmem::port::xdp::XdpModePreference;

/// Returns the findings on a good host after this change of it and of the plan.
pub(super) fn after(change: impl Fn(&mut Host, &mut Wanted)) -> Vec<Finding> {
    let (mut host, mut wanted) = (good_host(), wanted());
    change(&mut host, &mut wanted);
    findings(&host, &wanted)
}

/// Returns the only finding.
#[track_caller]
pub(super) fn one(found: Vec<Finding>) -> Finding {
    let [finding] = &found[..] else { panic!("{found:?}") };
    finding.clone()
}

/// Seen with a default size of 1 GiB: `--fix` reserved pages of 1 GiB, and `--undo` took those of another program.
#[test]
fn huge_pages_are_reserved_only_where_the_setting_counts_pages_of_2_mib() {
    let found = |size: u64, setting: &str| {
        one(after(|host, _| {
            host.memory.transparent = "never".into();
            (host.memory.huge_total, host.memory.huge_size) = (8 << 20, size);
            host.settings.insert("vm.nr_hugepages".into(), setting.into());
        }))
    };
    let change = found(2 << 20, "4").change.expect("a change");
    assert_eq!(change.to_string(), "sysctl -w vm.nr_hugepages=36");
    for (size, setting) in [(1 << 30, "4"), (2 << 20, "3"), (0, "4")] {
        let finding = found(size, setting);
        assert_eq!((finding.rule, finding.change), ("huge-pages", None));
        assert_eq!(finding.remedy, "echo 36 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
    }
}

/// Seen: the change failed, so a run with `--fix` did not start.
#[test]
fn an_offload_that_the_driver_keeps_on_is_reported_without_a_change() {
    for (rule, offload) in [("lro", "rx-lro"), ("gro-hw", "rx-gro-hw"), ("vlan-tags", "rx-vlan-hw-parse")] {
        let finding = one(after(|host, _| {
            host.interfaces.insert("eth0.7".into(), soft("vlan", Some("eth0")));
            let its = eth0(host);
            its.offloads = [offload.to_owned()].into();
            its.fixed_offloads = its.offloads.clone();
            if rule != "vlan-tags" {
                host.interfaces.remove("eth0.7");
            }
        }));
        assert_eq!((finding.rule, &finding.change), (rule, &None));
        assert!(finding.remedy.contains(&format!("({offload} is fixed in ethtool -k eth0)")), "{finding}");
    }
}

/// Seen: `--undo` set both numbers to the smaller one.
#[test]
fn queues_that_receive_and_send_get_their_own_numbers_back() {
    let change = |counts: QueueCounts| {
        let finding = one(after(|host, wanted| {
            eth0(host).queues = Some(counts);
            place(wanted).queues = Some(6);
        }));
        let change = finding.change.expect("a change");
        assert!(change.has_known_form() && change.reversed().has_known_form(), "{change}");
        (change.to_string(), change.reversed().to_string())
    };
    let pair = |to: &str, back: &str| (to.to_owned(), back.to_owned());
    let apart = |rx: u32, tx: u32| QueueCounts { now: rx.min(tx), most: 8, rx, tx, ..QueueCounts::default() };
    assert_eq!(change(apart(8, 4)), pair("ethtool -L eth0 rx 8 tx 6", "ethtool -L eth0 rx 8 tx 4"));
    assert_eq!(change(apart(2, 3)), pair("ethtool -L eth0 rx 6 tx 6", "ethtool -L eth0 rx 2 tx 3"));
    let mixed = QueueCounts { now: 4, rx: 3, tx: 1, ..combined(3) };
    assert_eq!(change(mixed), pair("ethtool -L eth0 combined 5", "ethtool -L eth0 combined 3"));
    let saved = |is_combined| QueueCounts { now: 2, most: 8, is_combined, ..QueueCounts::default() };
    assert_eq!(change(saved(true)), pair("ethtool -L eth0 combined 6", "ethtool -L eth0 combined 2"));
    assert_eq!(change(saved(false)), pair("ethtool -L eth0 rx 6 tx 6", "ethtool -L eth0 rx 2 tx 2"));
}

/// Seen: they were reported as a failure, though a port then copies its packets. Generic mode has no zero copy.
#[test]
fn rings_that_are_no_powers_of_two_make_a_port_slow_except_in_generic_mode() {
    let found = |mode: XdpModePreference| {
        after(|host, wanted| {
            eth0(host).rings = Some(RingSizes { rx: 2040, tx: 512 });
            place(wanted).mode = mode;
        })
    };
    assert_eq!(rules(&found(XdpModePreference::Native)), [("rings", Harm::Slow)]);
    assert_eq!(found(XdpModePreference::Generic), []);
}

/// Found by reasoning: nothing was found, and the run with `queues=all` did not start.
#[test]
fn a_port_of_all_queues_needs_one_for_each_worker_and_an_interface_that_says_how_many_it_has() {
    let found = |queues: Option<QueueCounts>, workers: usize| {
        after(|host, wanted| {
            eth0(host).queues = queues;
            place(wanted).queues = None;
            wanted.workers = workers;
        })
    };
    assert_eq!((found(Some(combined(2)), 1), found(Some(combined(2)), 2)), (vec![], vec![]));
    let few = one(found(Some(combined(2)), 3));
    assert_eq!((few.rule, few.harm), ("queues", Harm::Fails));
    assert_eq!(few.what, "its 2 queues are too few for 3 workers, which need one each");
    assert_eq!(few.remedy, "ethtool -L eth0 combined 3");
    let unknown = one(found(None, 1));
    assert_eq!((unknown.rule, unknown.harm), ("queues", Harm::Fails));
    assert_eq!(unknown.what, "the port takes all queues, and eth0 does not say how many it has");
    let unasked = after(|host, wanted| {
        (eth0(host).queues, eth0(host).offloads) = (None, Default::default());
        place(wanted).queues = None;
    });
    assert_eq!(unasked, []);
}

/// Seen: `ethtool -L eth0 combined 1` was offered to a port on queue 3, and removes that queue.
#[test]
fn queues_are_removed_only_behind_those_that_ports_take() {
    let remedy = |numbers: &[u32]| {
        one(after(|host, wanted| {
            eth0(host).queues = Some(combined(4));
            queues(wanted, numbers);
        }))
        .remedy
    };
    assert_eq!(remedy(&[1]), "xdp:eth0,queues=all, or ethtool -L eth0 combined 2");
    assert_eq!(remedy(&[2]), "xdp:eth0,queues=all, or move its ports to the first queues");
    let alone = one(after(|host, wanted| {
        eth0(host).queues = Some(combined(4));
        place(wanted).queue = 3;
    }));
    assert_eq!(alone.remedy, "xdp:eth0,queues=all, or move its ports to the first queues");
}

/// Seen: free huge pages were added to the other free memory, although a region uses only one of the two.
#[test]
fn frames_must_fit_into_small_pages_or_into_huge_pages() {
    const MIB: u64 = 1 << 20;
    let found = |small: u64, huge: u64, left: Option<u64>| {
        after(|host, wanted| {
            (host.memory.available, host.memory.huge_free) = (small * MIB, huge * MIB);
            host.memory.group_left = left.map(|left| left * MIB);
            wanted.memory = 64 * MIB;
        })
    };
    assert_eq!(rules(&found(40, 40, None)), [("memory", Harm::Fails)]);
    assert_eq!((found(64, 0, None), found(1, 64, None), found(1, 64, Some(1))), (vec![], vec![], vec![]));
    // Seen: in a container, the run was killed.
    let limited = one(found(8192, 0, Some(63)));
    assert_eq!((limited.rule, limited.harm), ("memory", Harm::Fails));
    assert!(
        limited.what.ends_with("63 MiB are available within memory.max of its control group"),
        "{limited}"
    );
    assert_eq!(found(8192, 0, Some(64)), []);
}

/// Seen: in a container, the workers stood still for a part of each period.
#[test]
fn workers_need_the_time_of_as_many_cores_as_they_are() {
    let found = |workers: usize, limit: u64| {
        after(|host, wanted| (wanted.workers, host.cores.group_thousandths) = (workers, Some(limit)))
    };
    assert_eq!((found(1, 1000), found(3, 3500)), (vec![], vec![]));
    let finding = one(found(3, 1500));
    assert_eq!((finding.rule, finding.harm), ("cores", Harm::Slow));
    assert!(
        finding.what.contains("1.50 cores") && finding.remedy.starts_with("give --workers 1, or "),
        "{finding}"
    );
    assert!(one(found(1, 500)).remedy.starts_with("raise that limit"));
    assert!(one(found(9, 8000)).what.contains("share 4 cores"), "there are fewer cores than time");
}

/// Seen: nothing was found on the interfaces of an Open vSwitch.
#[test]
fn a_member_of_any_interface_that_takes_its_packets_is_reported() {
    let found = |kind: &str, is_partial: bool| {
        after(|host, wanted| {
            host.interfaces.insert("upper0".into(), soft(kind, None));
            eth0(host).controller = Some("upper0".into());
            place(wanted).is_partial = is_partial;
        })
    };
    for kind in ["openvswitch", "batadv"] {
        let finding = one(found(kind, false));
        assert_eq!((finding.rule, finding.harm), ("member", Harm::Loses));
        let what =
            format!("it is a member of the {kind} interface upper0, which will receive nothing from it");
        assert_eq!(finding.what, what);
        assert_eq!(found(kind, true), []);
    }
    assert_eq!(found("vrf", false), []);
    let beside = after(|host, wanted| {
        host.interfaces.insert("ovs-system".into(), soft("openvswitch", None));
        eth0(host).controller = Some("ovs-system".into());
        wanted.ports[0] = packet("eth0");
    });
    assert!(one(beside).what.ends_with("which may forward its packets too"));
}

/// Seen: a run on one queue of two forwarded half of the packets that its rules drop, and nothing was said.
#[test]
fn queues_without_a_port_are_reported_at_start_and_that_the_kernel_forwards_their_packets() {
    let what = |forwarding: &str, wants: fn(&mut Wanted)| {
        one(after(|host, wanted| {
            eth0(host).queues = Some(combined(2));
            host.settings.insert("net.ipv4.conf.eth0.forwarding".into(), forwarding.into());
            wants(wanted);
        }))
        .what
    };
    let by_kernel = "no port takes 1 of its 2 queues: packets that arrive there go to the kernel";
    assert_eq!(what("0", |_| ()), by_kernel);
    let past = format!("{by_kernel}, which forwards them past the dataplane's rules and checks");
    assert_eq!(what("1", |_| ()), past);
    assert_eq!(what("1", |wanted| wanted.forwards = false), by_kernel);
    let (mut host, mut found) = (good_host(), Findings::default());
    eth0(&mut host).queues = Some(combined(2));
    super::super::queues::left(&host, &wanted(), &mut found);
    assert_eq!(rules(&found.sorted()), [("other-queues", Harm::Loses)]);
}

/// Seen: a server took its packets of one queue of eight. The kernel refused the clients of the other seven, and nothing was
/// found.
#[test]
fn a_server_that_leaves_out_queues_is_reported() {
    let found = |queues: u32| {
        after(|host, wanted| {
            place(wanted).is_partial = true;
            eth0(host).queues = Some(combined(queues));
        })
    };
    assert_eq!(found(1), []);
    let finding = one(found(8));
    assert_eq!((finding.rule, finding.harm), ("other-queues", Harm::Loses));
    assert!(finding.what.contains("7 of its 8 queues: the kernel refuses clients"), "{finding}");
    assert!(finding.remedy.contains("queues=all"), "{finding}");
}

/// Seen: nothing was found below a MACsec interface.
#[test]
fn a_macsec_interface_on_top_receives_nothing() {
    let found = after(|host, _| {
        host.interfaces.insert("macsec0".into(), soft("macsec", Some("eth0")));
    });
    assert_eq!((rules(&found), changes(&found)), (vec![("on-top", Harm::Loses)], vec![]));
}

/// Found in a review: for packet:enp3s0, an altname of eth0, the value 0 was assumed and not read: `--fix` set the
/// filter to 2, and `--undo` wrote 0.
#[test]
fn a_filter_whose_value_was_not_read_is_not_changed() {
    let found = |own: Option<&str>| {
        let mut all = after(|host, wanted| {
            eth0(host).other_names.push("enp3s0".into());
            place(wanted).interface = "enp3s0".into();
            host.settings.insert("net.ipv4.conf.all.rp_filter".into(), "1".into());
            host.settings.insert("net.ipv4.conf.eth1.rp_filter".into(), "2".into());
            host.settings.remove("net.ipv4.conf.eth0.rp_filter");
            let key = "net.ipv4.conf.eth0.rp_filter".to_owned();
            host.settings.extend(own.map(|own| (key, own.to_owned())));
        });
        // The altname itself is reported too.
        all.retain(|finding| finding.rule == "rp-filter");
        all
    };
    assert_eq!((found(None), found(Some("2"))), (vec![], vec![]));
    for own in ["0", "1"] {
        let change = one(found(Some(own))).change.expect("a change");
        assert_eq!(change.reversed().to_string(), format!("sysctl -w net.ipv4.conf.eth0.rp_filter={own}"));
    }
}

/// Found by reasoning: a change of a setting that does not exist yet, so a run with `--fix` did not start.
#[test]
fn the_filter_of_a_tap_interface_that_is_to_be_made_is_reported_without_a_change() {
    let found = |of_new: &str| {
        after(|host, wanted| {
            let settings = [("all", "1"), ("default", of_new), ("eth1", "2")];
            let key = |name: &str| format!("net.ipv4.conf.{name}.rp_filter");
            host.settings.extend(settings.map(|(name, value)| (key(name), value.to_owned())));
            wanted.ports.push(tap("tap0"));
        })
    };
    let finding = one(found("0"));
    assert_eq!((finding.rule, finding.about.as_str(), &finding.change), ("rp-filter", "tap:tap0", &None));
    assert_eq!(finding.remedy, "sysctl -w net.ipv4.conf.default.rp_filter=2 before the interface is made");
    assert_eq!(found("2"), []);
}

/// Found in a review, for a virtual machine under `taskset -c 2-4`, with workers on cores 3 and 4: an interrupt on core
/// 0 counted as far from the card, and was to be moved to core 2.
#[test]
fn interrupts_of_a_card_on_an_unknown_node_are_in_place_on_each_core_without_a_worker() {
    let found = |on: &[u32], isolated: &[u32]| {
        after(|host, wanted| {
            host.interfaces.values_mut().for_each(|card| card.node = None);
            host.interfaces.get_mut("eth1").unwrap().interrupts.clear();
            eth0(host).interrupts = [(33, on.to_vec())].into();
            host.cores.allowed = vec![2, 3, 4];
            host.cores.online = (0..6).collect();
            host.cores.isolated = isolated.to_vec();
            host.cores.governors.clear();
            (wanted.workers, wanted.cores) = (2, vec![3, 4]);
        })
    };
    for right in [&[0][..], &[2], &[5], &[3, 5], &[]] {
        assert_eq!(found(right, &[2, 3, 4]), [], "{right:?}");
    }
    let finding = one(found(&[3, 4], &[2, 3, 4]));
    assert_eq!(finding.what, "the card's interrupt 33 run on cores 3 and 4, which have workers");
    assert!(finding.remedy.starts_with("echo 0,1,5 > /proc/irq/33/smp_affinity_list"), "{finding}");
    assert!(one(found(&[3], &[])).remedy.starts_with("echo 0,1,2,5 > "));
    assert_eq!(found(&[3], &[0, 1, 2, 3, 4, 5]), [], "no core is free");
}

/// Seen: a card had more receive than transmit queues. A port of all queues left out the last ones, the kernel refused the
/// clients whose packets arrived there, and nothing was found.
#[test]
fn receive_queues_without_a_transmit_queue_are_reported() {
    let found = |[rx, tx, combined]: [u32; 3], queues: Option<u32>| {
        after(|host, wanted| {
            (place(wanted).is_partial, place(wanted).queues) = (true, queues);
            let now = rx.min(tx) + combined;
            let is_combined = combined > 0;
            eth0(host).queues = Some(QueueCounts { now, most: 8, is_combined, rx, tx, combined });
        })
    };
    assert_eq!((found([4, 4, 0], None), found([2, 4, 0], None)), (vec![], vec![]));
    for (numbers, taken, harm, remedy) in [
        ([6, 4, 0], None, Harm::Fails, "ethtool -L eth0 rx 4 tx 4"),
        ([6, 4, 0], Some(4), Harm::Loses, "ethtool -L eth0 rx 4 tx 4"),
        ([2, 0, 4], Some(4), Harm::Loses, "ethtool -L eth0 rx 0 tx 0"),
    ] {
        let finding = one(found(numbers, taken));
        assert_eq!((finding.rule, finding.harm, &finding.remedy[..]), ("other-queues", harm, remedy));
        let what = "2 of its 6 receive queues have no transmit queue, so that no port takes them: the kernel refuses";
        assert!(finding.what.starts_with(what), "{finding}");
    }
}

/// Found in a review: `ethtool -K bond0 large-receive-offload off` turned LRO off on all members, and its undo did not turn it on.
#[test]
fn lro_of_a_bond_is_that_of_its_members_and_each_gets_a_change_of_its_own() {
    let (mut host, mut wanted) = (good_host(), wanted());
    let upper = |kind: &str, link: Option<&str>| {
        let mut upper = soft(kind, link);
        upper.offloads.insert("rx-lro".into());
        upper
    };
    host.interfaces.insert("bond0".into(), upper("bond", None));
    host.interfaces.insert("bond0.7".into(), upper("vlan", Some("bond0")));
    for name in ["eth0", "eth1"] {
        host.interfaces.get_mut(name).unwrap().controller = Some("bond0".into());
    }
    wanted.ports = vec![packet("bond0"), packet("bond0.7")];
    let lro = |host: &Host| {
        let all = findings(host, &wanted).into_iter().filter(|finding| finding.rule == "lro");
        all.collect::<Vec<_>>()
    };
    assert_eq!(lro(&host), [], "no member merges packets");
    for name in ["eth0", "eth1"] {
        host.interfaces.get_mut(name).unwrap().offloads.insert("rx-lro".into());
    }
    let off = |name: &str| format!("ethtool -K {name} large-receive-offload off");
    let found = lro(&host);
    assert_eq!(changes(&found), [off("eth0"), off("eth1")]);
    assert!(found.len() == 4 && found[1].what.starts_with("the card eth1 below it merges"), "{found:?}");
    // As a saved host may be.
    host.interfaces.insert("bond0".into(), upper("vlan", Some("bond0.7")));
    assert_eq!(lro(&host), []);
}

/// Found in a review: the rule was silent about MTU 3400, which ice and i40e refuse, and named 3498 as the remedy.
#[test]
fn the_mtu_of_native_mode_is_one_that_most_drivers_take() {
    let found = |mtu: u32| {
        after(|host, wanted| (eth0(host).mtu, wanted.longest) = (mtu, 9018))
            .into_iter()
            .find(|finding| finding.rule == "native-mtu")
    };
    assert!(found(3000).is_none());
    let required = |mtu: u32| {
        let found = after(|host, wanted| {
            (eth0(host).mtu, wanted.longest) = (mtu, 9018);
            place(wanted).mode = XdpModePreference::Native;
        });
        found.into_iter().find(|finding| finding.rule == "native-mtu").map(|finding| finding.harm)
    };
    assert_eq!([3000, 3001, 3498].map(required), [None, Some(Harm::Slow), Some(Harm::Slow)]);
    assert_eq!(required(3499), Some(Harm::Fails));
    let finding = found(3001).unwrap();
    assert!(finding.remedy.starts_with("ip link set dev eth0 mtu 3000,"), "{finding}");
    assert!(finding.what.contains("the limit of most is between 3000 and 3498"), "{finding}");
}

/// Found in a review: "run it as root" was said to root of a container.
#[test]
fn root_of_a_user_namespace_is_told_to_leave_it() {
    let found = after(|host, _| {
        host.process.in_user_namespace = true;
        host.process.capabilities.retain(|name| name.starts_with("CAP_NET_"));
    });
    assert_eq!(rules(&found), [("capabilities", Harm::Fails), ("locked-memory", Harm::Fails)]);
    assert!(found[0].what.ends_with("lacks CAP_BPF: what it has in its user namespace does not count"));
    assert!(found[0].remedy.starts_with("outside of the user namespace"), "{}", found[0]);
    assert!(!found[1].remedy.contains("CAP_IPC_LOCK"), "{}", found[1]);
}

/// Found in a review: a container that lacks only CAP_NET_RAW was told that capabilities do not count there.
#[test]
fn a_container_that_lacks_a_capability_for_the_network_is_told_to_get_it() {
    let found = after(|host, wanted| {
        host.process.in_user_namespace = true;
        host.process.capabilities.clear();
        (wanted.ports, wanted.kernel_routes) = (vec![packet("eth0")], false);
    });
    let finding = found.iter().find(|finding| finding.rule == "capabilities").unwrap();
    assert!(finding.what.ends_with("this process lacks CAP_NET_RAW"), "{finding}");
    assert_eq!(finding.remedy, "start the container with --cap-add NET_RAW");
}

/// Seen: with packet ports alone nothing was found, and no neighbour was.
#[test]
fn a_router_that_follows_the_kernels_routes_needs_the_capability_to_ask_for_neighbours() {
    let found = |kernel_routes, ports: fn() -> Vec<WantedPort>| {
        after(|host, wanted| {
            host.process.capabilities.remove("CAP_NET_ADMIN");
            (wanted.ports, wanted.kernel_routes) = (ports(), kernel_routes);
        })
    };
    let finding = one(found(true, || vec![packet("eth0")]));
    assert_eq!((finding.rule, finding.harm), ("capabilities", Harm::Fails));
    assert!(
        finding.what.contains("lacks CAP_NET_ADMIN, by which a router with --routes kernel asks"),
        "{finding}"
    );
    assert_eq!(found(false, || vec![packet("eth0")]), []);
    assert_eq!(found(true, Vec::new), []);
}

/// Found in a review: a controller without a kind, which is itself hardware, was not seen.
#[test]
fn a_virtual_function_below_a_card_is_its_member_and_the_card_gets_its_packets_from_it() {
    let lines = |port: fn(&str) -> WantedPort, name: &str, driver: Option<&str>| {
        let found = after(|host, wanted| {
            host.interfaces.get_mut("eth1").unwrap().controller = Some("eth0".into());
            eth0(host).driver = driver.map(str::to_owned);
            wanted.ports = vec![port(name)];
        });
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let member = &lines(xdp, "eth1", Some("hv_netvsc"))[0];
    let what = "it is a member of the hv_netvsc interface eth0, which will receive nothing from it";
    assert!(member.contains(what), "{member}");
    assert!(member.contains("by another interface than eth0") && !member.contains("nomaster"), "{member}");
    assert!(lines(xdp, "eth1", None)[0].contains("a member of the hardware interface eth0"));
    let above = &lines(xdp, "eth0", Some("hv_netvsc"))[0];
    let what = "it is hv_netvsc with members: packets that arrive on their queues do not come to its own";
    assert!(above.contains(what) && above.ends_with(": take xdp:eth1"), "{above}");
    assert_eq!(lines(packet, "eth0", Some("hv_netvsc")), Vec::<String>::new());
}

#[test]
fn ports_of_a_dsa_switch_are_on_top_of_its_conduit() {
    let found = after(|host, _| {
        host.interfaces.insert("lan1".into(), soft("dsa", Some("eth0")));
    });
    assert_eq!(rules(&found), [("on-top", Harm::Loses)]);
}
