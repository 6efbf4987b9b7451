//! Tests that need no interface of their own. The other tests run in namespaces (`tests/links.rs`).

use super::{TapConfig, TapPortError, open};

#[test]
fn names_that_no_interface_can_have_are_refused_before_anything_is_made() {
    for name in ["", "a-name-of-more-than-fifteen-bytes", "a/b", "tap%d", "a b", "nul\0"] {
        let error = open(name, &TapConfig::default()).unwrap_err();
        assert_eq!(error, TapPortError::Name(name.into()));
        assert!(error.to_string().contains("1 to 15 bytes"));
    }
}
