//! Memory of queues: a list of pages that the driver named when it created the queue.

use bareverbs_harness::model::{Bus, DmaFault};
use bareverbs_mlx5_prm::cmd::Status;

use crate::{
    pages::PageLedger,
    refusal::{Outcome, Refused, require},
};

/// A run of device addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
}

/// A queue's memory.
#[derive(Clone, Debug, Default)]
pub struct PageList {
    pages: Vec<u64>,
    log_page: u32,
    offset: u64,
    len: u64,
}

impl PageList {
    /// `len` bytes that begin `offset` bytes into the first of `pages`, each `1 << log_page` bytes. `None` if the pages
    /// are too few.
    pub fn new(pages: Vec<u64>, log_page: u32, offset: u64, len: u64) -> Option<Self> {
        let have = (pages.len() as u64).checked_shl(log_page)?;
        (offset.checked_add(len)? <= have).then_some(Self { pages, log_page, offset, len })
    }

    /// A part of it; empty if it is not inside.
    pub fn part(&self, from: u64, len: u64) -> Self {
        Self::new(self.pages.clone(), self.log_page, self.offset + from, len).unwrap_or_default()
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the queue has no memory.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The addresses of the pages.
    pub fn pages(&self) -> &[u64] {
        &self.pages
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> u64 {
        1 << self.log_page
    }

    /// Where `len` bytes at `at` lie; the queue wraps around at its end.
    pub fn segments(&self, at: u64, len: u64) -> Vec<Segment> {
        let (mut at, mut left, mut out) = (at, len, Vec::new());
        while left > 0 && self.len > 0 {
            let in_queue = at % self.len;
            let in_pages = self.offset + in_queue;
            let page = in_pages & (self.page_size() - 1);
            let n = left.min(self.page_size() - page).min(self.len - in_queue);
            let index = (in_pages >> self.log_page) as usize;
            out.push(Segment { addr: self.pages[index] + page, len: n });
            at += n;
            left -= n;
        }
        out
    }

    /// Reads bytes at `at`, wrapping around.
    pub fn read(&self, bus: &mut dyn Bus, at: u64, data: &mut [u8]) -> Result<(), DmaFault> {
        let mut done = 0;
        for s in self.segments(at, data.len() as u64) {
            bus.read(s.addr, &mut data[done..done + s.len as usize])?;
            done += s.len as usize;
        }
        Ok(())
    }

    /// Writes bytes at `at`, wrapping around.
    pub fn write(&self, bus: &mut dyn Bus, at: u64, data: &[u8]) -> Result<(), DmaFault> {
        let mut done = 0;
        for s in self.segments(at, data.len() as u64) {
            bus.write(s.addr, &data[done..done + s.len as usize])?;
            done += s.len as usize;
        }
        Ok(())
    }
}

/// The big-endian dword at byte `at`; 0 beyond the end.
pub fn read_dword(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_be_bytes(*b))
}

/// The big-endian qword at byte `at`; 0 beyond the end.
pub fn read_qword(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_be_bytes(*b))
}

/// The memory of a queue of `len` bytes, as a create command names it: `log_page_size` counts from 4 KiB, `page_offset`
/// in 64ths of a page, `pas` are the big-endian addresses at the command's end.
pub fn from_command(
    ledger: &PageLedger,
    pas: &[u8],
    log_page_size: u32,
    page_offset: u32,
    len: u64,
) -> Outcome<PageList> {
    let log_page = log_page_size + 12;
    let page = 1u64 << log_page;
    let offset = u64::from(page_offset) * (page / 64);
    let needed = (offset + len).div_ceil(page) as usize;
    require(
        pas.len().is_multiple_of(8) && pas.len() / 8 >= needed,
        Status::BadInputLength,
        0x0010,
        format_args!("{} bytes of page list, {needed} pages of {page:#x} bytes are needed", pas.len()),
    )?;
    let pages: Vec<u64> = (0..needed).map(|i| read_qword(pas, i * 8)).collect();
    for &address in &pages {
        let aligned = address.checked_add(page).is_some() && address % page == 0;
        require(
            aligned,
            Status::BadParameter,
            0x0011,
            format_args!("page of {page:#x} bytes at {address:#x} is not aligned"),
        )?;
        let firmwares = ledger.touches(address, page);
        require(!firmwares, Status::BadParameter, 0x0012, format_args!("page at {address:#x} belongs to firmware"))?;
    }
    PageList::new(pages, log_page, offset, len)
        .ok_or_else(|| Refused::new(Status::BadParameter, 0x0013, "the pages are too few"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_pages_and_wrap() {
        let ring = PageList::new(vec![0x1000, 0x9000], 12, 0xc00, 0x800).unwrap();
        assert_eq!(
            ring.segments(0x200, 0x700),
            [
                Segment { addr: 0x1e00, len: 0x200 },
                Segment { addr: 0x9000, len: 0x400 },
                Segment { addr: 0x1c00, len: 0x100 }
            ]
        );
        assert!(PageList::new(vec![0x1000], 12, 0xc00, 0x800).is_none());
    }
}
