//! Bad input: one clear line with the remedy, exit code 2, and nothing on standard output.

#[path = "../netmem/mod.rs"]
mod netmem;
mod ports;

use netmem::{output, stderr, stdout};

/// Asserts that the command line is refused with exactly this line.
#[track_caller]
fn refused(words: &str, line: &str) {
    let out = output(words);
    assert_eq!(stderr(&out), format!("error: {line}\n"), "netmem {words}");
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(2), ""), "netmem {words}");
}

/// Asserts that each value of an option of `netmem forward` is refused with this remedy.
#[track_caller]
fn refused_values(option: &str, placeholder: &str, values: &[&str], remedy: &str) {
    for value in values {
        refused(
            &format!("forward {option} {value}"),
            &format!(
                "invalid value '{value}' for '{option} <{placeholder}>': {remedy} (see netmem forward --help)"
            ),
        );
    }
}

const XDP: &str = "forward --port xdp:nosuch0 --port xdp:nosuch1";

#[test]
fn zero_negative_and_absurd_numbers_are_refused_with_the_range() {
    let absurd = "99999999999999999999999";
    let whole = |range: &str| format!("give a whole number from {range}");
    refused_values(
        "--size",
        "BYTES",
        &["0", "-64", "63", "29117", "1.5", "big", absurd],
        &whole("64 to 29116"),
    );
    refused_values("--flows", "N", &["0", "-1", "65535", absurd], &whole("1 to 65534"));
    refused_values("--packets", "N", &["0", "-1", "1000000000001", absurd], &whole("1 to 1000000000000"));
    refused_values("--frames", "N", &["0", "-1", "63", "1048577", absurd], &whole("64 to 1048576"));
    refused_values("--workers", "N", &["0", "-1", "64", "1.5", "many", absurd], &whole("1 to 63"));
    let powers = "give a power of two from 2 to 65536";
    refused_values("--ring", "N", &["0", "-2", "1", "100", "131072", absurd], powers);
    let frames = "give a power of two from 2048 to 32768";
    refused_values(
        "--frame-size",
        "BYTES",
        &["0", "-2048", "1024", "9018", "65536", "jumbo", absurd],
        frames,
    );
    let seconds = "give a number of seconds above 0 and up to 604800 (a week)";
    refused_values("--seconds", "S", &["0", "-1", "-0.5", "604801", "1e99", "nan", "ten", absurd], seconds);
}

#[test]
fn sizes_of_frames_and_packets_that_do_not_fit_are_refused_with_those_that_do() {
    refused(
        "forward --size 9018",
        "--size 9018 with --frame-size 2048: give at most 1514, or --frame-size 16384",
    );
    refused(
        "gen --port pcap:out=/nonexistent/a --size 64x7,7229 --frame-size 8192",
        "--size 7229 with --frame-size 8192: give at most 7228, or --frame-size 16384",
    );
    let many = "--frames 131072 with --frame-size 32768 are more than 2 GiB: give at most 65536";
    refused("forward --frames 131072 --frame-size 32768", many);
    refused("sink --port pcap:in=a --frames 131072 --frame-size 32768", many);
}

#[test]
fn files_that_cannot_be_read_or_written_or_are_used_twice_are_refused() {
    refused(
        "forward --port pcap:in=/nonexistent/a --port pcap:out=/nonexistent/b --mode cross-connect",
        "open /nonexistent/a: No such file or directory (os error 2): check the path and its permissions",
    );
    refused(
        "forward --port pcap:in=/dev/null --port pcap:out=/nonexistent/b --mode cross-connect",
        "/dev/null: not a pcap file: it has 0 bytes, the header alone has 24",
    );
    refused(
        "forward --port pcap:out=/nonexistent/b --port pcap:in=a,out=/nonexistent/b --mode cross-connect",
        "/nonexistent/b would be written twice: give each port and each trace its own file",
    );
    refused(
        "forward --workers 2 --port pcap:in=a --port pcap:in=b --mode cross-connect",
        "--workers 2: --port pcap:in=a has one queue: leave --workers out",
    );
}

#[test]
fn an_interface_that_does_not_exist_is_named() {
    let line = "interface nosuch0 does not exist: `ip link` lists those of this network namespace";
    refused(&format!("{XDP} --mode cross-connect"), line);
    refused(&format!("{XDP} --route 10.0.0.0/8,1,02:00:00:00:00:02"), line);
    refused("forward --port packet:nosuch0 --port pcap:out=/dev/null --mode cross-connect", line);
    refused(
        "forward --port xdp:averyveryverylongname --port xdp:b --mode cross-connect",
        &line.replace("nosuch0", "averyveryverylongname"),
    );
}

#[test]
fn a_malformed_route_is_refused_with_the_part_that_is_wrong() {
    for (route, remedy) in [
        (
            "10.0.2.0/24",
            "route \"10.0.2.0/24\": write PREFIX,port,mac, as in 10.0.2.0/24,1,02:00:00:00:00:02",
        ),
        (
            "10.0.2/24,1,02:00:00:00:00:02",
            "route prefix \"10.0.2/24\": write a network and its length, as in 10.0.2.0/24 or fd00:2::/64",
        ),
        (
            "10.0.2.1/24,1,02:00:00:00:00:02",
            "route prefix \"10.0.2.1/24\" has bits set behind its length: write 10.0.2.0/24",
        ),
        (
            "10.0.2.0/24,-1,02:00:00:00:00:02",
            "route port \"-1\": write the number of a --port in the order given, from 0 to 255",
        ),
        (
            "10.0.2.0/24,1,02:00",
            "route mac \"02:00\": write six pairs of hex digits, as in 02:00:00:00:00:02",
        ),
        (
            "10.0.2.0/24,1,ff:ff:ff:ff:ff:ff",
            "route mac ff:ff:ff:ff:ff:ff is a multicast address: write the next hop's own, whose first byte is even",
        ),
    ] {
        refused(
            &format!("{XDP} --route {route}"),
            &format!(
                "invalid value '{route}' for '--route <PREFIX,PORT,MAC>': {remedy} (see netmem forward --help)"
            ),
        );
    }
}

/// Seen: they were taken, and never forwarded a packet.
#[test]
fn routes_to_addresses_to_which_nothing_is_forwarded_are_refused() {
    let refused_as = |prefix: &str, why: &str| {
        let line = format!("--route for {prefix} has no effect: packets to {why}");
        refused(&format!("{XDP} --route {prefix},1,02:00:00:00:00:02"), &line);
    };
    for (prefix, what) in [
        ("224.0.0.0/4", "multicast"),
        ("239.1.2.3/32", "multicast"),
        ("169.254.0.0/16", "link-local"),
        ("255.255.255.255/32", "broadcast"),
        ("ff02::/16", "multicast"),
        ("fe80::/10", "link-local"),
        ("::1/128", "unspecified and loopback"),
        ("::ffff:10.0.0.0/104", "IPv4-mapped"),
    ] {
        refused_as(prefix, &format!("{what} addresses are not forwarded; leave it out"));
    }
    for (prefix, net) in
        [("127.0.0.0/16", "127.0.0.0/8"), ("0.0.0.0/8", "0.0.0.0/8"), ("240.0.0.0/4", "240.0.0.0/4")]
    {
        refused_as(prefix, &format!("{net} are not forwarded; leave it out, or give --martians forward"));
    }
}

#[test]
fn impossible_own_addresses_are_refused() {
    let route = "--route 10.0.2.0/24,1,02:00:00:00:00:02";
    let refused_with_remedy = |address: &str| {
        let (head, remedy) = match address {
            "127.0.0.1/8,0" => {
                ("address 127.0.0.1/8", "write one of a single host, which others can send to")
            }
            _ => ("", "write ADDRESS/LENGTH,port, as in 10.0.2.254/24,1"),
        };
        let head = if head.is_empty() { format!("address {address:?}") } else { head.to_owned() };
        refused(
            &format!("{XDP} {route} --address {address}"),
            &format!(
                "invalid value '{address}' for '--address <ADDRESS/LENGTH,PORT>': {head}: {remedy} (see netmem forward --help)"
            ),
        );
    };
    ["10.0.2.254", "10.0.2.254/24", "10.0.2.254/33,1", "127.0.0.1/8,0"]
        .into_iter()
        .for_each(refused_with_remedy);
    let own = "--address 10.0.2.254/24,1";
    refused(
        &format!("{XDP} {route} --address 10.0.2.254/24,2"),
        "address 10.0.2.254/24,2: there are 2 ports, numbered from 0",
    );
    refused(&format!("{XDP} {route} {own} {own}"), "--address 10.0.2.254 is given twice: leave one out");
    let own_link = "--address fe80::1/64,1 --address fe80::1/10,1";
    refused(&format!("{XDP} {route} {own_link}"), "--address fe80::1 is given twice: leave one out");
    for host in ["10.0.2.254", "10.0.2.255"] {
        refused(
            &format!("{XDP} {own} --route {host}/32,1,02:00:00:00:00:02"),
            &format!("--route for {host}/32 has no effect beside --address 10.0.2.254/24,1: leave one out"),
        );
    }
    let line = "--address is for --route: with --routes kernel the kernel's addresses are followed";
    refused(&format!("{XDP} --routes kernel {own}"), line);
    refused(
        &format!("forward {own}"),
        "--address needs --port: the hosts on the two mem ports send only packets that can be forwarded",
    );
    refused_values("--icmp-rate", "N", &["-1", "1000001", "many"], "give a whole number from 0 to 1000000");
    refused_values("--icmp-burst", "N", &["0", "-1", "1000001"], "give a whole number from 1 to 1000000");
    refused_values("--icmp-source-rate", "N", &["-1", "many"], "give a whole number from 0 to 1000000");
    refused_values("--icmp-source-burst", "N", &["0"], "give a whole number from 1 to 1000000");
    refused("forward --reverse-path strict,2", "--reverse-path strict,2: there are 2 ports, numbered from 0");
    let xdp = |check: &str| format!("{XDP} --route 10.0.2.0/24,1,02:00:00:00:00:02 --reverse-path {check}");
    refused(
        &xdp("strict,eth7"),
        "--reverse-path: no --port has the interface eth7: the ports have nosuch0, nosuch1; or give a port's number, from 0",
    );
}

#[test]
fn router_options_are_refused_in_another_mode() {
    for flag in [
        "--route 10.0.2.0/24,1,02:00:00:00:00:02",
        "--routes kernel",
        "--routes static",
        "--address 10.0.2.254/24,1",
        "--martians drop",
        "--martians forward",
        "--source-routes drop",
        "--icmp-rate 1000",
        "--icmp-burst 7",
        "--icmp-source-rate 100",
        "--icmp-source-burst 7",
        "--reverse-path off",
    ] {
        let name = flag.split(' ').next().unwrap();
        for mode in ["cross-connect", "reflect", "drop", "pass"] {
            let line = format!("{name} is for --mode ip: leave it out, or leave --mode {mode} out");
            refused(&format!("forward --mode {mode} {flag}"), &line);
            refused(&format!("{XDP} --mode {mode} {flag}"), &line);
        }
    }
}

/// The place is that of the first key that the line names and the file has.
#[test]
fn keys_that_do_not_fit_together_are_refused_with_their_line() {
    let file = std::env::temp_dir().join(format!("netmem-bad-input-{}.toml", std::process::id()));
    let path = file.display().to_string();
    let xdp = "port = [\"xdp:nosuch0\", \"xdp:nosuch1\"]\n";
    for (text, typed, place, line) in [
        (
            "mode = 'drop'\nmartians = 'drop'\n",
            "",
            2,
            "--martians is for --mode ip: leave it out, or leave --mode drop out",
        ),
        (
            "\nicmp-rate = 7\n",
            "--mode drop",
            2,
            "--icmp-rate is for --mode ip: leave it out, or leave --mode drop out",
        ),
        (
            "mode = 'drop'\n",
            "--icmp-burst 7",
            1,
            "--icmp-burst is for --mode ip: leave it out, or leave --mode drop out",
        ),
        (
            "\n\nsource-routes = 'drop'\nmode = 'pass'\n",
            "",
            3,
            "--source-routes is for --mode ip: leave it out, or leave --mode pass out",
        ),
        (
            "mode = 'drop'\naddress = ['10.0.2.254/24,1']\n",
            "",
            2,
            "--address is for --mode ip: leave it out, or leave --mode drop out",
        ),
        (
            "packets = 1\nseconds = 2\n",
            "",
            1,
            "the argument '--packets <N>' cannot be used with '--seconds <S>' (see netmem forward --help)",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        refused(&format!("forward --config {path} {typed}"), &format!("{path}:{place}: {line}"));
    }
    std::fs::write(&file, format!("{xdp}route = [\"10.0.2.0/24,2,02:00:00:00:00:02\"]\n")).unwrap();
    let line = "route port 2: there are 2 ports, numbered from 0";
    refused(&format!("forward --config {path}"), &format!("{path}:2: {line}"));
    let own = "address = ['10.0.2.254/24,1']";
    let route = "10.0.2.254/32,1,02:00:00:00:00:02";
    std::fs::write(&file, format!("{xdp}\n{own}")).unwrap();
    let line = "--route for 10.0.2.254/32 has no effect beside --address 10.0.2.254/24,1: leave one out";
    refused(&format!("forward --config {path} --route {route}"), &format!("{path}:3: {line}"));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn routes_that_lead_nowhere_are_refused() {
    let route = "--route 10.0.2.0/24,1,02:00:00:00:00:02";
    refused(
        &format!("{XDP} --route 10.0.2.0/24,2,02:00:00:00:00:02"),
        "route port 2: there are 2 ports, numbered from 0",
    );
    refused(&format!("{XDP} {route} {route}"), "--route for 10.0.2.0/24 is given twice: leave one out");
    refused(
        &format!("forward {route}"),
        "--route needs --port: the routes of the two mem ports are built in",
    );
    refused(
        &format!("{XDP} {route} --mode cross-connect"),
        "--route is for --mode ip: leave it out, or leave --mode cross-connect out",
    );
    refused(
        XDP,
        "--mode ip without a --route would drop every packet: give --route PREFIX,PORT,MAC, or --routes kernel, or --mode cross-connect",
    );
}

#[test]
fn generator_options_are_refused_with_real_ports_and_the_reverse() {
    for (option, remedy) in [
        ("--packets 7", "use --seconds S, or end it with Ctrl-C"),
        ("--flows 7", "leave it out, or leave --port out"),
        ("--size 64", "leave it out, or leave --port out"),
        ("--pause off", "leave it out, or leave --port out"),
    ] {
        let name = option.split(' ').next().unwrap();
        refused(
            &format!("{XDP} --mode cross-connect {option}"),
            &format!("{name} is for the built-in generator, and --port is given: {remedy}"),
        );
    }
    refused(
        "forward --xdp-mode native",
        "--xdp-mode needs --port xdp:IFNAME: the built-in mem ports have no such mode",
    );
    refused(
        "forward --packets 5 --seconds 1",
        "the argument '--packets <N>' cannot be used with '--seconds <S>' (see netmem forward --help)",
    );
}

#[test]
fn unknown_and_missing_arguments_are_reported_in_one_line() {
    let see = "(see netmem forward --help)";
    let values = |right: &str| format!("[possible values: {right}] {see}");
    refused(
        "forward --mode bridge",
        &format!(
            "invalid value 'bridge' for '--mode <MODE>' {}",
            values("ip, cross-connect, reflect, drop, pass")
        ),
    );
    refused(
        "forward --xdp-mode x",
        &format!("invalid value 'x' for '--xdp-mode <MODE>' {}", values("auto, native, generic")),
    );
    refused(
        "forward --pause maybe",
        &format!("invalid value 'maybe' for '--pause <WHEN>' {}", values("on, off")),
    );
    refused("forward --flows", &format!("a value is required for '--flows <N>' but none was supplied {see}"));
    refused("forward now", &format!("unexpected argument 'now' found {see}"));
    refused(
        "forward --jsn",
        &format!("unexpected argument '--jsn' found; tip: a similar argument exists: '--json' {see}"),
    );
    refused("frobnicate", "unrecognized subcommand 'frobnicate' (see netmem --help)");
    #[cfg(feature = "lab")]
    refused(
        "lab run",
        "the following required arguments were not provided: <NAME>... (see netmem lab run --help)",
    );
}

#[test]
fn malformed_rules_and_packet_options_are_refused_with_the_form() {
    let form = "no action \"reject\": begin with accept, drop or pass, as in drop,proto=udp,dport=53";
    refused_values("--rule", "RULE", &["reject"], form);
    let range = "dport=9-1: give a port, or two with - between, the lower first, as 1000-2000";
    refused_values("--rule", "RULE", &["drop,dport=9-1"], range);
    let portless =
        "dport beside proto=1, which has no ports: give proto=tcp, proto=udp or no proto, or leave dport out";
    refused_values("--rule", "RULE", &["drop,proto=icmp,dport=1900"], portless);
    let heads = "write SIZE/REFILL/FREE, as in 128/32/32, SIZE up to 4096 and the others up to SIZE, or 0";
    refused_values("--ready-heads", "SIZE/REFILL/FREE", &["64", "16/32/8", "a/b/c"], heads);
    let pairs = "give a whole number from 0 to 65536";
    refused_values("--ready-packets", "MAX", &["-1", "65537", "many"], pairs);
    refused_values("--local-queue", "N", &["-1", "1048577"], "give a whole number from 0 to 1048576");
}

#[test]
fn options_that_do_not_fit_the_path_or_the_mode_are_refused() {
    refused("forward --rule drop,proto=udp", "--rule needs --path full: the fast path has no filter");
    for words in ["--local-queue 5", "--local-queue-seconds 1 --path full --rule drop"] {
        refused(
            &format!("forward {words}"),
            "--local-queue is for passed frames: give --mode pass, or --path full and a --rule pass,...",
        );
    }
    refused(
        "forward --mode pass --local-queue 64 --frames 64",
        "--local-queue and --mirror keep 64 frames of 64: none is left for reception, so keep fewer",
    );
    refused(
        &format!("{XDP} --mode drop --route 10.0.0.0/8,0,02:00:00:00:00:01"),
        "--route is for --mode ip: leave it out, or leave --mode drop out",
    );
}

#[test]
fn unknown_parts_of_hardening_and_parts_that_do_not_fit_the_ports_are_refused() {
    let form = "give guard, random, clear and canary with commas between, or all, or off";
    refused_values("--hardening", "PARTS", &["on", "guard,guard", "all,clear"], form);
    for parts in ["all", "guard"] {
        refused(
            &format!("{XDP} --mode drop --hardening {parts}"),
            "--hardening with guard and --port xdp:nosuch0: the kernel pins all memory of an xdp port, so no page of it can be \
             inaccessible; give --hardening random,clear,canary",
        );
    }
}

/// Seen: the user was ignored, and the run went on as root with all capabilities.
#[test]
fn a_user_without_a_sandbox_is_refused_since_it_would_not_change() {
    let line =
        "--user with --no-sandbox: without the sandbox the user does not change; leave one of them out";
    for command in ["forward", "gen --port packet:nosuch0", "sink --port packet:nosuch0"] {
        refused(&format!("{command} --user 65534:65534 --no-sandbox"), line);
    }
    let file = std::env::temp_dir().join(format!("netmem-bad-user-{}", std::process::id()));
    std::fs::write(&file, "user = \"65534:65534\"\n").unwrap();
    let path = file.display();
    refused(&format!("forward --config {path} --no-sandbox"), &format!("{path}:1: {line}"));
    std::fs::remove_file(&file).unwrap();
}

/// Seen: ready packets were never used, and no message said so. Only their counter `missed` increased.
#[test]
fn ready_packets_that_steering_would_take_apart_are_refused() {
    for options in ["--path full --ready-packets 50", "--ready-packets 0"] {
        refused(
            &format!("forward --workers 2 --generators 1 --steer hash=1 {options}"),
            "--ready-packets with --steer: frames travel to other workers without their heads, so that no packet would \
             stay together; leave --ready-packets out, or leave --steer out",
        );
    }
}

/// Seen: a rule for the second port with in=2 was accepted, and let everything through.
#[test]
fn a_rule_for_a_port_that_is_not_there_is_refused() {
    let line = "--rule drop,in=2: there is no such port: 2 ports are numbered from 0 to 1";
    refused("forward --path full --rule accept,in=1 --rule drop,in=2", line);
    refused(
        "forward --mode cross-connect --port pcap:in=a --port pcap:in=b --path full --rule drop,in=2",
        line,
    );
}
