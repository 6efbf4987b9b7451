//! The items that pass from one core to another: a number, a number with a line, a page, a frame.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use netmem::limits::PAGE_SIZE;
use netmem::page::{Memory, Owner, OwnerError, OwnerId, Page, SharedPage};
use netmem::pool::{Frame, Pool};
use netmem::sync::Worker;
use netmem::system::cpu::prefetch_write;

use super::passing::{Sink, Source};
use crate::bench::SetUpError;
use crate::experiments::lines::{self, stride};

/// The bare ring: numbers in order.
pub(super) struct Numbers;

impl Source for Numbers {
    type Item = u32;

    #[inline(always)]
    fn make(&mut self, n: u64) -> Option<u32> {
        Some(n as u32)
    }
}

impl Sink for Numbers {
    type Item = u32;

    #[inline(always)]
    fn take(&mut self, n: u64, item: u32) -> bool {
        item == n as u32
    }
}

/// Numbers, each with a line that the sender writes and the receiver reads.
pub(super) type Lines = lines::Lines<{ stride(PAGE_SIZE) }>;

impl Source for Lines {
    type Item = u32;

    #[inline(always)]
    fn make(&mut self, n: u64) -> Option<u32> {
        // Relaxed: the ring publishes the line.
        self.of(n).iter().for_each(|word| word.store(n, Relaxed));
        Some(n as u32)
    }
}

impl Sink for Lines {
    type Item = u32;

    #[inline(always)]
    fn take(&mut self, n: u64, item: u32) -> bool {
        // Relaxed: the ring published the line.
        item == n as u32 && self.of(n).iter().all(|word| word.load(Relaxed) == n)
    }
}

/// Pages of a memory, through a worker of one side. If `TOUCH`, the sender writes the first line of each page and
/// the receiver reads it.
pub(super) struct Pages<'a, const TOUCH: bool> {
    pub(super) memory: &'a Memory,
    pub(super) worker: Worker,
}

impl<const TOUCH: bool> Pages<'_, TOUCH> {
    #[inline(always)]
    fn free(&mut self, n: u64, page: Page) -> bool {
        let right = !TOUCH || page.bytes().first_chunk() == Some(&line(n));
        self.memory.free(&mut self.worker, page);
        right
    }
}

/// Returns the first line of the `n`-th page.
#[inline(always)]
fn line(n: u64) -> [u8; 64] {
    let mut line = [0xa5; 64];
    line[..8].copy_from_slice(&n.to_le_bytes());
    line
}

impl<const TOUCH: bool> Source for Pages<'_, TOUCH> {
    type Item = Page;

    #[inline(always)]
    fn make(&mut self, n: u64) -> Option<Page> {
        let mut page = self.memory.alloc(&mut self.worker, 0)?;
        if TOUCH && let Some(first) = page.bytes_mut().first_chunk_mut() {
            *first = line(n);
        }
        Some(page)
    }
}

impl<const TOUCH: bool> Sink for Pages<'_, TOUCH> {
    type Item = Page;

    #[inline(always)]
    fn take(&mut self, n: u64, page: Page) -> bool {
        self.free(n, page)
    }
}

/// The same, but each page is freed when the next one comes. Its first line is prefetched until then.
pub(super) struct Delayed<'a, const TOUCH: bool> {
    pub(super) pages: Pages<'a, TOUCH>,
    pub(super) held: Option<(u64, Page)>,
}

impl<const TOUCH: bool> Sink for Delayed<'_, TOUCH> {
    type Item = Page;

    #[inline(always)]
    fn take(&mut self, n: u64, page: Page) -> bool {
        prefetch_write(page.bytes().as_ptr());
        match self.held.replace((n, page)) {
            Some((n, page)) => self.pages.free(n, page),
            None => true,
        }
    }

    fn end(&mut self) -> bool {
        self.held.take().is_none_or(|(n, page)| self.pages.free(n, page))
    }
}

/// Pages with a reference count, as the source's. The sender's share writes the page's descriptor, and the receiver's
/// release is the last one. If `DELAY`, the receiver prefetches the descriptor and releases the page before.
pub(super) struct Shared<'a, const DELAY: bool> {
    memory: &'a Memory,
    worker: Worker,
    owner: OwnerId,
    held: Option<(u64, SharedPage)>,
}

impl<'a, const DELAY: bool> Shared<'a, DELAY> {
    pub(super) fn new(memory: &'a Memory) -> Result<Self, SetUpError> {
        // The table of owners is the process's, and has few slots.
        static OWNER: OnceLock<Result<OwnerId, OwnerError>> = OnceLock::new();
        let register = || OwnerId::register(Owner { release: |_, page, _| Some(page), early: None });
        let owner = OWNER.get_or_init(register).as_ref().copied().map_err(SetUpError::at("page owner"))?;
        let worker = memory.worker().map_err(SetUpError::at("worker"))?;
        Ok(Self { memory, worker, owner, held: None })
    }

    #[inline(always)]
    fn release(&mut self, n: u64, page: SharedPage) -> bool {
        let right = page.word() == n;
        page.release(&mut self.worker);
        right
    }
}

impl<const DELAY: bool> Source for Shared<'_, DELAY> {
    type Item = SharedPage;

    #[inline(always)]
    fn make(&mut self, n: u64) -> Option<SharedPage> {
        Some(self.memory.alloc(&mut self.worker, 0)?.share(self.owner, n))
    }
}

impl<const DELAY: bool> Sink for Shared<'_, DELAY> {
    type Item = SharedPage;

    #[inline(always)]
    fn take(&mut self, n: u64, page: SharedPage) -> bool {
        if !DELAY {
            return self.release(n, page);
        }
        page.prefetch_release();
        match self.held.replace((n, page)) {
            Some((n, page)) => self.release(n, page),
            None => true,
        }
    }

    fn end(&mut self) -> bool {
        self.held.take().is_none_or(|(n, page)| self.release(n, page))
    }
}

/// Frames of a pool that the sender owns. Frames freed on the other side return to the pool.
pub(super) struct Frames {
    pub(super) pool: Pool,
    pub(super) worker: Worker,
}

impl Source for Frames {
    type Item = Frame;

    #[inline(always)]
    fn make(&mut self, _: u64) -> Option<Frame> {
        self.pool.alloc(&mut self.worker)
    }
}

impl Sink for Frames {
    type Item = Frame;

    #[inline(always)]
    fn take(&mut self, _: u64, frame: Frame) -> bool {
        frame.free(&mut self.worker);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::page::MemoryConfig;

    #[test]
    fn a_delayed_page_is_freed_when_the_next_one_comes_and_the_last_at_the_end() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let pages = || Pages::<true> { memory: &memory, worker: memory.worker().unwrap() };
        let (mut source, mut sink) = (pages(), Delayed { pages: pages(), held: None });
        for n in 0..3 {
            let page = source.make(n).unwrap();
            assert!(sink.take(n, page));
            assert_eq!(memory.stats().freed, n);
        }
        assert!(sink.end());
        assert_eq!(memory.stats().freed, 3);
    }

    #[test]
    fn a_shared_page_is_freed_by_the_receiver_at_once_or_when_the_next_one_comes() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut source = Shared::<false>::new(&memory).unwrap();
        let (mut sink, mut delayed) =
            (Shared::<false>::new(&memory).unwrap(), Shared::<true>::new(&memory).unwrap());
        let mut taken = |n, from: &mut dyn Sink<Item = SharedPage>| {
            let page = source.make(n).unwrap();
            assert!(from.take(n, page));
            memory.stats().freed
        };
        assert_eq!([taken(0, &mut sink), taken(1, &mut sink)], [1, 2]);
        assert_eq!([taken(2, &mut delayed), taken(3, &mut delayed)], [2, 3]);
        assert!(delayed.end() && memory.stats().freed == 4);
        let page = source.make(4).unwrap();
        assert!(!sink.take(5, page), "a page with another one's word");
    }

    #[test]
    fn a_number_with_another_ones_line_is_seen() {
        let mut lines = Lines::new(4);
        for n in 0..9 {
            let item = lines.make(n).unwrap();
            assert!(lines.take(n, item));
        }
        assert!(!lines.take(9, 9) && lines.take(8, 8) && !lines.take(8, 7));
    }

    #[test]
    fn a_page_with_another_ones_line_is_seen() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut pages = Pages::<true> { memory: &memory, worker: memory.worker().unwrap() };
        let page = pages.make(7).unwrap();
        assert!(!pages.take(8, page));
    }
}
