//! Arguments that conflict. COLD.

use crate::args::{ForwardArgs, ModeArg};
use crate::failure::Failure;

/// Rejects arguments for a router if there is none.
pub fn check_mode(args: &ForwardArgs) -> Result<(), Failure> {
    let routes = (!args.route.is_empty()).then_some("--route");
    let flag = routes.or(args.routes.map(|_| "--routes")).or(args.router.given());
    match flag {
        Some(flag) if args.mode != ModeArg::Ip => {
            let name = args.mode.name();
            refuse(format!("{flag} is for --mode ip: leave it out, or leave --mode {name} out"))
        }
        _ => Ok(()),
    }
}

/// Rejects a configuration without a port, unless an option of the built-in generator is given. A full disk or a failed
/// template may leave an empty file, and a service with it would end with success.
pub fn check_config(args: &ForwardArgs) -> Result<(), Failure> {
    let numbers = args.worker_args.generators.or(args.flows).or(args.size);
    let generates = numbers.is_some() || args.packets.is_some() || args.pause.is_some();
    match &args.config {
        Some(file) if args.port.is_empty() && !generates => refuse(format!(
            "--config {}: there is no port in the file: add port = [\"packet:eth0\", \"packet:eth1\"] with your interfaces, or \
             give --flows 1 for the built-in generator",
            file.display()
        )),
        _ => Ok(()),
    }
}

/// Rejects guard pages in memory that the kernel is to pin.
pub fn check_guard(args: &ForwardArgs) -> Result<(), Failure> {
    match args.port.iter().find(|port| port.xdp().is_some()) {
        Some(port) if args.hardening.guard => refuse(format!(
            "--hardening with guard and --port {port}: the kernel pins all memory of an xdp port, so no page of it can be inaccessible; \
             give --hardening random,clear,canary"
        )),
        _ => Ok(()),
    }
}

/// Rejects ready packets if frames go to other workers: frames leave their heads behind for that.
pub fn check_ready_packets(args: &ForwardArgs) -> Result<(), Failure> {
    if args.packet_args.ready_packets.is_some() && args.worker_args.share.steer.is_some() {
        return refuse(
            "--ready-packets with --steer: frames travel to other workers without their heads, so that no packet would stay \
             together; leave --ready-packets out, or leave --steer out",
        );
    }
    Ok(())
}

/// Returns the failure with this reason.
pub fn refuse<T>(reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Input(reason.into()))
}
