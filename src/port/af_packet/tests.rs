//! Tests that need no interface of their own. The other tests run between namespaces (`tests/links.rs`).

use super::{AfPacketConfig, AfPacketError, AfPacketPort};

#[test]
fn an_interface_that_is_not_there_is_named() {
    for name in ["nosuch0", "", "a-name-of-more-than-fifteen-bytes"] {
        let error = AfPacketPort::open(name, &AfPacketConfig::default()).unwrap_err();
        assert_eq!(error, AfPacketError::UnknownInterface(name.into()));
        assert!(error.to_string().contains("`ip link`"));
    }
}

#[test]
fn an_interface_without_ethernet_frames_is_refused() {
    let error = AfPacketPort::open("lo", &AfPacketConfig::default()).unwrap_err().to_string();
    assert!(error.contains("lo is not an Ethernet interface"), "{error}");
}
