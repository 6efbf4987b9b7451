//! Ports.

use super::{refused, refused_values};

#[test]
fn ports_of_an_unknown_kind_or_form_are_refused_with_the_form() {
    let port = "KIND:NAME";
    let kinds = "unknown kind of port in \"veth:0\": write xdp:IFNAME[:QUEUE][,queues=...][,kernel=...][,take=...], memif:PATH, packet:IFNAME, tap:IFNAME or pcap:in=FILE,out=FILE";
    refused_values("--port", port, &["veth:0"], kinds);
    let meant = "give the kind of port too: did you mean packet:eth0 or xdp:eth0?";
    refused_values("--port", port, &["eth0"], meant);
    refused_values(
        "--port",
        port,
        &["XDP:eth0"],
        "unknown kind of port in \"XDP:eth0\": did you mean xdp:...?",
    );
    let form = "write xdp:IFNAME or xdp:IFNAME:QUEUE, as in xdp:eth0:1";
    refused_values("--port", port, &["xdp", "xdp:", "xdp:eth0:1:2"], form);
    let queue = "the queue must be a number from 0, as in xdp:eth0:1";
    refused_values("--port", port, &["xdp:eth0:first", "xdp:eth0:-1", "xdp:eth0:"], queue);
    refused_values(
        "--port",
        port,
        &["mem:0"],
        "mem ports have no string: netmem forward has two if it is given no port, and other programs make theirs \
         (MemPort::pair)",
    );
}

/// Seen: a port with a mistake in it was shown whole, with its secret, on standard error.
#[test]
fn the_secret_of_a_refused_port_is_not_shown() {
    let opened = "secret=open-sesame";
    let shown = |option: &str, port: &str, line: &str| {
        let hidden = port.replace(opened, "secret=…");
        format!("invalid value '{hidden}' for '{option}': {line}")
    };
    let mode =
        "memif: mode= and group= are for role=server: a client opens the socket that its server has made";
    let kind = "unknown kind of port in \"MEMIF:/m.sock,secret=…\": did you mean memif:...?";
    for (command, port, line) in [
        ("forward", "memif:/m.sock,secret=open-sesame,role=client,mode=660", mode),
        ("gen --dst 192.0.2.1", "fault:seed=1/memif:/m.sock,mode=660,role=client,secret=open-sesame", mode),
        ("sink", "MEMIF:/m.sock,secret=open-sesame", kind),
    ] {
        let line = shown("--port <KIND:NAME>", port, line);
        let help = command.split(' ').next().unwrap();
        refused(&format!("{command} --port {port}"), &format!("{line} (see netmem {help} --help)"));
    }
    let grant = "give xdp:IFNAME,queues=all,take=RULES or xdp:IFNAME:QUEUE,take=RULES: queues of which some packets are taken";
    let line = shown("--port <PORT>", "memif:/m.sock,secret=open-sesame", grant);
    refused(
        "grant --port memif:/m.sock,secret=open-sesame --to /run/x.sock",
        &format!("{line} (see netmem grant --help)"),
    );
}

#[test]
fn ports_that_do_not_fit_together_are_refused() {
    refused(
        "forward --port xdp:nosuch0",
        "only one --port, xdp:nosuch0: give two or more, or none for two mem ports",
    );
    refused(
        "forward --mode cross-connect --port xdp:nosuch0:1 --port xdp:nosuch0:1",
        "--port xdp:nosuch0:1 is given twice: name another interface or queue",
    );
    refused(
        "forward --mode cross-connect --port xdp:nosuch0 --port xdp:nosuch0:0",
        "--port xdp:nosuch0 is given twice: name another interface or queue",
    );
    refused(
        "forward --mode cross-connect --workers 3 --port xdp:nosuch0:2 --port xdp:nosuch0",
        "--port xdp:nosuch0 and xdp:nosuch0:2: with 3 workers they take 3 and 3 queues, and some are the same; \
         leave more queues between them, or give fewer --workers or queues",
    );
    refused(
        "forward --routes kernel --reverse-path strict --port xdp:nosuch0 --port xdp:nosuch0:1 --port xdp:nosuch1",
        "--port xdp:nosuch0 and xdp:nosuch0:1: with --mode ip an interface has one port; leave one out, or give \
         xdp:nosuch0,queues=N for several of its queues",
    );
    let cross = "forward --mode cross-connect --port xdp:nosuch0 --port xdp:nosuch0:1";
    refused(cross, "interface nosuch0 does not exist: `ip link` lists those of this network namespace");
    refused(
        "forward --mode cross-connect --port xdp:nosuch0 --port xdp:nosuch1 --port xdp:nosuch2",
        "3 times --port: --mode cross-connect joins pairs, give an even number",
    );
}
