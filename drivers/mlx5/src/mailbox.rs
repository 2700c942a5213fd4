//! Mailboxes: the blocks that carry what does not fit into a command queue entry.
//! PRM: "Command Interface Mailbox".

use bareverbs_hal::{Dma, DmaBuffer, HalError, PAGE_SIZE};
use bareverbs_mlx5_prm::cmd::{entry::INLINE_LEN, mailbox};
use core::ptr::NonNull;

/// Bytes from one block to the next: blocks must be 512-byte aligned.
const STRIDE: usize = 1024;
const _: () = assert!(STRIDE >= mailbox::SIZE && STRIDE.is_multiple_of(mailbox::ALIGN));

/// Blocks that `len` bytes of input or output need beside the entry's inline part.
pub(crate) const fn blocks(len: usize) -> usize {
    len.saturating_sub(INLINE_LEN).div_ceil(mailbox::DATA_LEN)
}

/// DMA memory of some blocks.
pub(crate) struct Mailboxes {
    buffer: DmaBuffer,
    count: usize,
}

// SAFETY: the memory is owned, and reached through raw pointers by whoever borrows this exclusively.
unsafe impl Send for Mailboxes {}

impl Mailboxes {
    pub(crate) fn new<H: Dma>(hal: &H, count: usize) -> Result<Self, HalError> {
        let len = count.checked_mul(STRIDE).ok_or(HalError::BadRange)?;
        Ok(Self { buffer: hal.dma_alloc(len, PAGE_SIZE)?, count })
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The device does not use the blocks any more.
    pub(crate) unsafe fn free<H: Dma>(self, hal: &H) {
        // SAFETY: the caller's promise.
        unsafe { hal.dma_free(self.buffer) }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Blocks `first..first + count` as a chain. They must lie inside.
    pub(crate) fn chain(&mut self, first: usize, count: usize) -> Chain {
        debug_assert!(first + count <= self.count);
        // SAFETY: block `first` lies inside the buffer or, for an empty chain, at its end.
        let ptr = unsafe { self.buffer.ptr.add(first * STRIDE) };
        Chain { ptr, addr: self.buffer.addr + (first * STRIDE) as u64, count }
    }
}

/// Consecutive blocks of one command's input or output.
pub(crate) struct Chain {
    ptr: NonNull<u8>,
    addr: u64,
    count: usize,
}

impl Chain {
    /// Address of the first block; 0 if there is none.
    pub(crate) fn address(&self) -> u64 {
        if self.count == 0 { 0 } else { self.addr }
    }

    /// Zeroes the blocks and links them.
    pub(crate) fn link(&mut self, token: u8) {
        for n in 0..self.count {
            let mut tail = [0; mailbox::SIZE - mailbox::DATA_LEN];
            const BASE: usize = mailbox::DATA_LEN;
            let next = if n + 1 < self.count { self.addr + ((n + 1) * STRIDE) as u64 } else { 0 };
            tail[mailbox::NEXT.offset() - BASE..][..8].copy_from_slice(&next.to_be_bytes());
            tail[mailbox::BLOCK_NUMBER.offset() - BASE..][..4].copy_from_slice(&(n as u32).to_be_bytes());
            tail[mailbox::TOKEN.offset() - BASE + 1] = token;
            // SAFETY: block `n` lies inside the chain, which is borrowed exclusively; the device is not using it.
            unsafe {
                let block = self.ptr.add(n * STRIDE);
                block.write_bytes(0, mailbox::DATA_LEN);
                block.add(BASE).copy_from_nonoverlapping(NonNull::from(&tail).cast(), tail.len());
            }
        }
    }

    /// Writes bytes of the data part, from `at` on, over as many blocks as it takes. Whether they fitted.
    pub(crate) fn write(&mut self, mut at: usize, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let (n, offset) = (at / mailbox::DATA_LEN, at % mailbox::DATA_LEN);
            if n >= self.count {
                return false;
            }
            let len = bytes.len().min(mailbox::DATA_LEN - offset);
            let (head, rest) = bytes.split_at(len);
            // SAFETY: `offset + len` lies inside block `n` of the chain, which is borrowed exclusively.
            unsafe {
                let to = self.ptr.add(n * STRIDE + offset);
                to.copy_from_nonoverlapping(NonNull::from(head).cast(), len);
            }
            (at, bytes) = (at + len, rest);
        }
        true
    }

    /// Reads bytes of the data part, from `at` on; zeros behind the last block.
    pub(crate) fn read(&self, mut at: usize, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let (n, offset) = (at / mailbox::DATA_LEN, at % mailbox::DATA_LEN);
            if n >= self.count {
                bytes.fill(0);
                return;
            }
            let len = bytes.len().min(mailbox::DATA_LEN - offset);
            let (head, rest) = bytes.split_at_mut(len);
            // SAFETY: `offset + len` lies inside block `n`; the device has given the command back.
            unsafe { self.ptr.add(n * STRIDE + offset).copy_to_nonoverlapping(NonNull::from(head).cast(), len) };
            (at, bytes) = (at + len, rest);
        }
    }

    /// Signs every block: bytes 0x200 to 0x23e, and the whole block, each exclusive-or to 0xff.
    pub(crate) fn sign(&mut self) {
        const CTRL_SIGNATURE: usize = mailbox::CTRL_SIGNATURE.offset() + 2;
        const SIGNATURE: usize = mailbox::SIGNATURE.offset() + 3;
        for n in 0..self.count {
            let control = self.xor(n, mailbox::DATA_LEN, CTRL_SIGNATURE);
            self.put(n, CTRL_SIGNATURE, !control);
            let whole = self.xor(n, 0, SIGNATURE);
            self.put(n, SIGNATURE, !whole);
        }
    }

    /// Whether every block's signature holds.
    pub(crate) fn signed(&self) -> bool {
        (0..self.count).all(|n| self.xor(n, 0, mailbox::SIZE) == 0xff)
    }

    fn xor(&self, n: usize, from: usize, to: usize) -> u8 {
        // SAFETY: block `n` lies inside the chain.
        (from..to).fold(0, |x, i| x ^ unsafe { self.ptr.add(n * STRIDE + i).read() })
    }

    fn put(&mut self, n: usize, at: usize, value: u8) {
        // SAFETY: block `n` lies inside the chain, which is borrowed exclusively.
        unsafe { self.ptr.add(n * STRIDE + at).write(value) }
    }
}
