//! A driver whose receive buffers are pages. A reader of a packet holds a claim on its page, on any thread and for any
//! time. The last release calls the driver, which takes the page back in place, still mapped for its device.
//!
//! `cargo run --example page_owner -- 100000`

use netmem::page::{Memory, MemoryConfig, Owner, OwnerId, Page, SharedPage};
use netmem::sync::Worker;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};

/// Pages that are mapped and have no reader: the device may write them next.
static HOME: Mutex<Vec<Page>> = Mutex::new(Vec::new());

/// Number of pages that the device may have at once.
const PAGES: usize = 64;

fn recycled() -> std::sync::MutexGuard<'static, Vec<Page>> {
    HOME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last claim on a page is gone. The driver keeps the page, so that nothing is left to be freed.
fn keep(_worker: Option<&mut Worker>, page: Page, _word: u64) -> Option<Page> {
    recycled().push(page);
    None
}

/// The device has written packet `number`. Its page is handed up, to be read by several readers.
fn receive(driver: OwnerId, number: u64) -> SharedPage {
    let mut page = loop {
        match recycled().pop() {
            Some(page) => break page,
            None => std::thread::yield_now(), // all are with readers: a real device would drop
        }
    };
    page.bytes_mut()[..8].copy_from_slice(&number.to_be_bytes());
    page.share(driver, number)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let packets: u64 = std::env::args().nth(1).map_or(Ok(100_000), |count| count.parse())?;
    let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, workers: 2, ..Default::default() })?;
    let (mut w, mut reader) = (memory.worker()?, memory.worker()?);
    let driver = OwnerId::register(Owner { release: keep, early: None })?;
    let pages: Vec<Page> = (0..PAGES).map_while(|_| memory.alloc(&mut w, 0)).collect();
    let mapped = pages.len(); // the only time that a driver would map them
    recycled().extend(pages);

    let (kept, taken) = sync_channel::<SharedPage>(PAGES / 2);
    let capture = std::thread::spawn(move || {
        let mut sum = 0;
        for page in taken {
            sum += u64::from_be_bytes(page.bytes()[..8].try_into().unwrap_or_default());
            page.release(&mut reader);
        }
        sum
    });
    for number in 0..packets {
        let page = receive(driver, number);
        kept.send(page.clone())?; // one claim to the capture, one here
        page.release(&mut w);
    }
    drop(kept);
    let sum = capture.join().map_err(|_| "the capture panicked")?;
    assert_eq!(sum, (0..packets).sum::<u64>());
    println!("{packets} packets read by two each; {mapped} pages mapped once, {} home", recycled().len());
    recycled().drain(..).for_each(|page| memory.free(&mut w, page)); // unmapped, they go back to the memory
    Ok(())
}
