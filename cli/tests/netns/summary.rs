//! Reads the output of `netmem forward --json` at its end.

use serde_json::Value;

/// The object that was printed.
pub struct Summary(Value);

impl Summary {
    /// Reads it.
    ///
    /// # Panics
    /// When it is not exactly one JSON object.
    pub fn parse(text: &[u8]) -> Summary {
        let value: Value = serde_json::from_slice(text)
            .unwrap_or_else(|error| panic!("{error} in: {}", String::from_utf8_lossy(text)));
        assert!(value.is_object(), "{value}");
        Summary(value)
    }

    /// The number at a path like `local_queue.taken`.
    pub fn number(&self, path: &str) -> u64 {
        let (names, name) = path.rsplit_once('.').unwrap_or(("", path));
        let within = names.split('.').filter(|name| !name.is_empty());
        number(within.fold(&self.0, |value, name| &value[name]), name)
    }

    /// A counter of an interface, summed over its queues.
    pub fn interface(&self, interface: &str, counter: &str) -> u64 {
        let ports = self.0["ports"].as_array().expect("ports").iter();
        let of =
            |port: &&Value| port["name"].as_str().and_then(|name| name.split(':').nth(1)) == Some(interface);
        ports.filter(of).map(|port| number(port, counter)).sum()
    }

    /// Packets that each worker received.
    pub fn received_by_workers(&self) -> Vec<u64> {
        self.0["workers"]
            .as_array()
            .expect("workers")
            .iter()
            .map(|worker| number(worker, "received"))
            .collect()
    }

    /// Returns a port's report of how it is bound.
    pub fn detail(&self, port: usize) -> &str {
        self.0["ports"][port]["detail"].as_str().expect("a detail")
    }

    /// Packets dropped for that reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        number(&self.0["dropped"], reason)
    }

    /// Packets dropped by the forwarder, for any reason.
    pub fn dropped_in_all(&self) -> u64 {
        let dropped = self.0["dropped"].as_object().expect("dropped");
        dropped.values().map(|n| n.as_u64().expect("a number of packets")).sum()
    }

    /// A counter summed over the ports.
    pub fn ports(&self, counter: &str) -> u64 {
        let ports = self.0["ports"].as_array().expect("ports");
        ports.iter().map(|port| number(port, counter)).sum()
    }

    /// Asserts what must hold at the end of every run: no packet is unaccounted for, and no frame.
    pub fn assert_adds_up(&self) {
        let (received, transmitted) = (self.number("received"), self.number("transmitted"));
        assert_eq!(received, self.ports("rx"), "received by the forwarder and by its ports: {}", self.0);
        let left = self.number("held") + self.number("passed") + self.number("fragmented");
        let came = received + self.number("originated") + self.number("fragments");
        assert_eq!(came, transmitted + self.dropped_in_all() + left, "{}", self.0);
        assert_eq!(transmitted, self.ports("tx"), "{}", self.0);
        assert_eq!(transmitted, self.ports("completed"), "{}", self.0);
        assert!(self.0["generator"].is_null() && self.0["sink"].is_null(), "{}", self.0);
        let pools = self.0["pools"].as_array().expect("pools");
        assert!(!pools.is_empty(), "{}", self.0);
        for pool in pools {
            let places = ["free", "cached", "ready", "owned", "posted", "queued", "returning"];
            let sum: u64 = places.into_iter().map(|place| number(pool, place)).sum();
            assert_eq!((sum, pool["balanced"].as_bool()), (number(pool, "total"), Some(true)), "{pool}");
        }
    }
}

fn number(object: &Value, name: &str) -> u64 {
    object[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {object}"))
}
