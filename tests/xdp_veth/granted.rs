//! Grants of several queues.

use super::*;
use netmem::port::xdp::{XdpError, XdpGrant, XdpModePreference, XdpQueues};

fn grant(queues: &[u32]) -> Result<XdpGrant, XdpError> {
    XdpGrant::new("a0", queues, XdpModePreference::default(), &"udp:7".parse().unwrap())
}

#[test]
fn a_grant_of_several_queues_is_split_and_its_program_goes_with_the_last_port() {
    const TEST: &str = "granted::a_grant_of_several_queues_is_split_and_its_program_goes_with_the_last_port";
    in_namespace(TEST, || {
        veth("a0", "a1", 4);
        let Bench { umem, mut w, pool, .. } = bench(256);
        let mut first = grant(&[0, 1, 2, 3]).unwrap();
        assert!(first.split_off(&[3, 4]).is_none() && first.split_off(&[]).is_none());
        let second = first.split_off(&[3, 1]).unwrap();
        assert_eq!((first.queues(), second.queues()), (vec![0, 2], vec![1, 3]));
        let first = XdpQueues::open_granted(&umem, &mut w, &pool, first, &small()).unwrap();
        let second = XdpQueues::open_granted(&umem, &mut w, &pool, second, &small()).unwrap();
        assert_eq!((first.name(), second.name()), ("xdp:a0:0,2", "xdp:a0:1,3"));
        drop(first);
        assert!(program_on("a0").is_some() && second.state() == PortState::Up);
        drop(second);
        assert!(program_on("a0").is_none() && pool.ledger().all_freed(), "{:?}", pool.ledger());
    });
}

#[test]
fn a_grant_has_one_queue_or_more_each_once_and_a_port_of_one_queue_takes_one() {
    const TEST: &str = "granted::a_grant_has_one_queue_or_more_each_once_and_a_port_of_one_queue_takes_one";
    in_namespace(TEST, || {
        veth("a0", "a1", 2);
        let Bench { umem, mut w, pool, .. } = bench(256);
        let interface = || "a0".to_owned();
        assert_eq!(grant(&[]).unwrap_err(), XdpError::NoQueues { interface: interface() });
        let error = grant(&[1, 1]).unwrap_err();
        assert_eq!(error, XdpError::GrantedQueues { interface: interface(), queues: vec![1, 1] });
        assert!(
            error.to_string().starts_with("a grant of 2 queues of a0: it has 1 to 128, each once"),
            "{error}"
        );
        let many: Vec<u32> = (0..129).collect();
        assert!(matches!(grant(&many), Err(XdpError::GrantedQueues { .. })));
        let error = grant(&[0, 2]).unwrap_err();
        assert!(matches!(error, XdpError::NoSuchQueue { queue: 2, .. }), "{error}");

        let both = grant(&[0, 1]).unwrap();
        let error = XdpPort::open_granted(&umem, &mut w, &pool, both, &small()).unwrap_err();
        assert_eq!(error, XdpError::GrantedQueues { interface: interface(), queues: vec![0, 1] });
        assert!(program_on("a0").is_none(), "the refused grant is gone");
        let mut taken = grant(&[0]).unwrap();
        let one = taken.split_off(&[0]).unwrap();
        let error = XdpQueues::open_granted(&umem, &mut w, &pool, taken, &small()).unwrap_err();
        assert_eq!(error, XdpError::NoQueues { interface: interface() });
        drop(XdpPort::open_granted(&umem, &mut w, &pool, one, &small()).unwrap());
        assert!(program_on("a0").is_none() && pool.ledger().all_freed());
    });
}
