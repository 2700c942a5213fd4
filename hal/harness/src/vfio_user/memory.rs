//! The client's memory: files that it shares, mapped once each, and which device addresses lie in them.

use crate::slot::Slot;
use bareverbs_hal::{MapAccess, PAGE_SIZE, Segment};
use rustix::{
    fs::{SealFlags, fcntl_get_seals, fstat},
    io::Errno,
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    os::fd::OwnedFd,
    ptr::{self, NonNull},
    sync::{Arc, Weak},
};

/// Most ranges at a time; QEMU takes no more. Behind a virtual IOMMU each page of the guest is one.
pub(super) const MAX_RANGES: usize = 65_535;

/// A shared file, mapped as a whole.
struct SharedFile {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; only pointers into it are given out.
unsafe impl Send for SharedFile {}
// SAFETY: as above.
unsafe impl Sync for SharedFile {}

impl SharedFile {
    fn map(fd: &OwnedFd, len: usize) -> Result<Self, Errno> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
        let p = unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, fd, 0) }?;
        Ok(Self { ptr: NonNull::new(p.cast()).ok_or(Errno::NOMEM)?, len })
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and every range in it holds a reference to this value.
        let _ = unsafe { munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}

/// Device, inode and length: what tells files apart that come under many descriptors.
type FileKey = (u64, u64, usize);

struct Mapped {
    len: u64,
    /// Keeps the memory; `None` where the client gave no file: the device cannot reach it.
    _file: Option<Arc<SharedFile>>,
}

/// What a client has mapped for the device.
pub(super) struct ClientMemory {
    slot: Slot,
    ranges: BTreeMap<u64, Mapped>,
    files: BTreeMap<FileKey, Weak<SharedFile>>,
}

impl ClientMemory {
    pub(super) fn new(slot: Slot) -> Self {
        Self { slot, ranges: BTreeMap::new(), files: BTreeMap::new() }
    }

    /// Makes `segment` reachable; it lies at `offset` of the file.
    pub(super) fn map(
        &mut self,
        segment: Segment,
        access: MapAccess,
        file: Option<OwnedFd>,
        offset: u64,
    ) -> Result<(), Errno> {
        let page = PAGE_SIZE as u64;
        let end = segment.addr.checked_add(segment.len).ok_or(Errno::INVAL)?;
        if segment.len == 0 || [segment.addr, segment.len, offset].iter().any(|n| !n.is_multiple_of(page)) {
            return Err(Errno::INVAL);
        }
        if self.ranges.len() >= MAX_RANGES {
            return Err(Errno::NOSPC);
        }
        let before = self.ranges.range(..end).next_back();
        if before.is_some_and(|(start, m)| start + m.len > segment.addr) {
            return Err(Errno::EXIST);
        }
        let file = file.map(|fd| self.file(&fd, offset, segment.len)).transpose()?;
        if let Some(file) = &file {
            // `file` has checked that offset and length lie inside the mapping.
            let p = file.ptr.as_ptr().wrapping_add(offset as usize);
            let p = NonNull::new(p).ok_or(Errno::INVAL)?;
            // SAFETY: the range holds the file's mapping until it has been taken out of the slot; other accesses to
            // the guest's memory are the guest's, which has no references of ours.
            unsafe { self.slot.map_at(segment, p, access) }.map_err(|_| Errno::INVAL)?;
        } else {
            log::debug!("{:#x}..{end:#x} has no file: the device cannot reach it", segment.addr);
        }
        self.ranges.insert(segment.addr, Mapped { len: segment.len, _file: file });
        Ok(())
    }

    /// The mapping of a file, made where there is none yet.
    fn file(&mut self, fd: &OwnedFd, offset: u64, len: u64) -> Result<Arc<SharedFile>, Errno> {
        let stat = fstat(fd)?;
        let size = usize::try_from(stat.st_size).map_err(|_| Errno::INVAL)?;
        if offset.checked_add(len).is_none_or(|end| end > size as u64) {
            return Err(Errno::INVAL);
        }
        let key = (stat.st_dev, stat.st_ino, size);
        if let Some(file) = self.files.get(&key).and_then(Weak::upgrade) {
            return Ok(file);
        }
        // Memory that shrinks under a mapping is a SIGBUS for whoever reads it.
        if !fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            log::warn!("guest memory that can shrink is refused: use memory-backend-memfd,share=on");
            return Err(Errno::PERM);
        }
        let file = Arc::new(SharedFile::map(fd, size)?);
        self.files.retain(|_, known| known.strong_count() > 0);
        self.files.insert(key, Arc::downgrade(&file));
        Ok(file)
    }

    /// Takes all ranges inside `segment` away. One that lies only partly in it cannot be: nothing is done then.
    pub(super) fn unmap(&mut self, segment: Segment) -> Result<(), Errno> {
        // The upper half of all addresses ends where no number does; no range reaches so far.
        let end = match segment.addr.checked_add(segment.len) {
            Some(end) => end,
            None if segment.addr.wrapping_add(segment.len) == 0 => u64::MAX,
            None => return Err(Errno::INVAL),
        };
        let cut = |at: u64| self.ranges.range(..at).next_back().is_some_and(|(start, m)| start + m.len > at);
        if cut(segment.addr) || cut(end) {
            return Err(Errno::INVAL);
        }
        self.remove(segment.addr..end);
        Ok(())
    }

    /// Takes everything away.
    pub(super) fn unmap_all(&mut self) {
        self.remove(0..u64::MAX);
    }

    fn remove(&mut self, range: Range<u64>) {
        let starts: Vec<u64> = self.ranges.range(range).map(|(start, _)| *start).collect();
        for start in starts {
            // First out of the device's sight, then out of memory.
            self.slot.unmap_at(start);
            self.ranges.remove(&start);
        }
    }
}

impl fmt::Debug for ClientMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientMemory").field("ranges", &self.ranges.len()).finish_non_exhaustive()
    }
}

impl Drop for ClientMemory {
    fn drop(&mut self) {
        self.unmap_all();
    }
}
