//! COLD: the time when a packet was recorded or received. It travels with the frame.

use super::desc::{Desc, NoRoom};
use super::frame::Frame;
use super::metadata::Metadata;
use std::time::Duration;

impl Desc {
    /// The time when the packet in a frame that is out was recorded or received.
    #[inline(always)]
    pub(super) fn timestamp(self) -> Option<Duration> {
        if !self.has_metadata() {
            return None;
        }
        let Metadata { timestamp, .. } = self.metadata();
        (timestamp != Metadata::NO_TIME).then(|| Duration::from_nanos(timestamp))
    }
}

impl Frame {
    /// The time when the packet was recorded or received, since 1970, if its receiver stored it
    /// ([`Frame::set_timestamp`]). None otherwise.
    ///
    /// ```
    /// # use netmem::{Memory, MemoryConfig, Pool, PoolConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() })?;
    /// use std::time::Duration;
    ///
    /// let mut frame = pool.alloc(&mut w).ok_or("no frame")?;
    /// frame.put_slice(b"a packet")?;
    /// frame.set_timestamp(Some(Duration::from_millis(1_600_000_000_500)))?;
    /// frame.push(4)?; // a VLAN tag
    /// assert_eq!(frame.timestamp(), Some(Duration::from_millis(1_600_000_000_500)));
    /// # frame.free(&mut w);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// A look at the frame's word; with a timestamp, also the frame's first line.
    #[inline]
    pub fn timestamp(&self) -> Option<Duration> {
        self.desc().timestamp()
    }

    /// Stores the time when the packet was recorded or received, since 1970, until its data is taken off. None removes
    /// it. Times from the year 2554 on become the latest time before. A `pcap` port stores timestamps on request
    /// ([`PcapConfig::recorded_timestamps`](crate::port::pcap::PcapConfig::recorded_timestamps)), and writes each
    /// packet with its timestamp. A `packet` port stores them on request
    /// ([`AfPacketConfig::kernel_timestamps`](crate::port::af_packet::AfPacketConfig::kernel_timestamps)).
    ///
    /// # Errors
    /// [`NoRoom`] if the headroom has no room for its 18 bytes, if the data ends with a frame of 32 KiB, or if there is
    /// no data. The frame is unchanged then.
    pub fn set_timestamp(&mut self, timestamp: Option<Duration>) -> Result<(), NoRoom> {
        let timestamp = timestamp.map_or(Metadata::NO_TIME, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).min(Metadata::NO_TIME - 1)
        });
        self.set_metadata(Metadata { timestamp, ..self.desc().metadata() })
    }
}
