//! Writing WQEs into a ring. PRM: "Work Request (WQE) Formats".
//!
//! Segments are written as big-endian words through raw pointers: the device reads the ring, so nothing is borrowed
//! in it. Layouts and constants are those of [`bareverbs_mlx5_prm::wqe`]; the tests below compare the two.

use bareverbs::Sge;
use bareverbs_mlx5_prm::wqe::{BB, DS, INLINE, INVALID_LKEY, ctrl, eth};
use core::ptr::NonNull;

/// Completion mode, solicited event and fence of each combination of `SendFlags`, as the dword of a control
/// segment lies in memory.
pub(crate) static FLAGS: [u32; 8] = flags(0);
/// The same, where every request is signaled.
pub(crate) static FLAGS_SIGNALED: [u32; 8] = flags(1);

const fn flags(always: usize) -> [u32; 8] {
    let mut table = [0; 8];
    let mut flags = 0;
    while flags < 8 {
        let signaled = if (flags | always) & 1 != 0 { ctrl::CQ_UPDATE } else { 0 };
        let solicited = if flags & 2 != 0 { ctrl::SOLICITED } else { 0 };
        let fence = if flags & 4 != 0 { ctrl::FENCE_SMALL_AND_FENCE } else { 0 };
        table[flags] = ((signaled | solicited | fence) as u32).to_be();
        flags += 1;
    }
    table
}

/// The longest byte count of a segment; written as 0.
pub(crate) const MAX_SEGMENT: u32 = 1 << 31;

/// Writes 8 bytes, most significant first.
///
/// # Safety
/// `at` is 8-byte aligned and valid for 8 bytes that nobody else uses.
#[inline(always)]
unsafe fn put(at: NonNull<u8>, value: u64) {
    // SAFETY: the caller's promise.
    unsafe { at.cast::<u64>().write(value.to_be()) }
}

/// Two dwords as one big-endian word.
#[inline(always)]
const fn pair(first: u32, second: u32) -> u64 {
    (first as u64) << 32 | second as u64
}

/// Control segment, of opcode, QPN and number of segments in `head` and the dword of [`FLAGS`]. Gives back its first 8
/// bytes in memory order: the doorbell.
///
/// # Safety
/// `at` is 16-byte aligned and valid for 16 bytes that nobody else uses.
#[inline(always)]
pub(crate) unsafe fn control(at: NonNull<u8>, index: u32, head: u64, flags: u32, general_id: u32) -> u64 {
    let first = (u64::from(index & 0xffff) << 40 | head).to_be();
    // SAFETY: the caller's promise.
    unsafe {
        at.cast::<u64>().write(first);
        at.add(8).cast::<[u32; 2]>().write([flags, general_id.to_be()]);
    }
    first
}

/// Remote address segment.
///
/// # Safety
/// As [`control`].
#[inline(always)]
pub(crate) unsafe fn remote(at: NonNull<u8>, addr: u64, rkey: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        put(at, addr);
        put(at.add(8), pair(rkey, 0));
    }
}

/// XRC segment. PRM: "XRC Segment".
///
/// # Safety
/// As [`control`].
pub(crate) unsafe fn xrc(at: NonNull<u8>, srqn: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        put(at, pair(srqn, 0));
        put(at.add(8), 0);
    }
}

/// Atomic segment.
///
/// # Safety
/// As [`control`].
#[inline(always)]
pub(crate) unsafe fn atomic(at: NonNull<u8>, swap_add: u64, compare: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        put(at, swap_add);
        put(at.add(8), compare);
    }
}

/// A data segment to be: an element as two words.
#[derive(Clone, Copy)]
pub(crate) struct Element {
    addr: u64,
    /// Length and lkey, in this order in memory.
    len_lkey: u64,
}

impl Element {
    #[inline(always)]
    pub(crate) fn new(sge: &Sge) -> Self {
        // One load brings length and lkey: the layout of `Sge` is fixed.
        // SAFETY: both are 16 bytes without padding.
        let [addr, len_lkey] = unsafe { core::mem::transmute::<Sge, [u64; 2]>(*sge) };
        Self { addr, len_lkey }
    }

    /// Length above, lkey below.
    #[inline(always)]
    const fn pair(self) -> u64 {
        if cfg!(target_endian = "little") { self.len_lkey.rotate_left(32) } else { self.len_lkey }
    }

    /// Bytes.
    #[inline(always)]
    pub(crate) const fn len(self) -> u32 {
        if cfg!(target_endian = "little") { self.len_lkey as u32 } else { (self.len_lkey >> 32) as u32 }
    }

    /// Writes the segment of an element below 2^31 bytes. PRM: "Memory Pointer Data Segment".
    ///
    /// # Safety
    /// As [`control`].
    #[inline(always)]
    pub(crate) unsafe fn write_short(self, at: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe {
            put(at, self.pair());
            put(at.add(8), self.addr);
        }
    }

    /// Writes the segment. A length of 2^31 is written as 0.
    ///
    /// # Safety
    /// As [`control`].
    #[inline(always)]
    pub(crate) unsafe fn write(self, at: NonNull<u8>) {
        const LEN: u64 = !(1 << 63);
        // SAFETY: the caller's promise.
        unsafe {
            put(at, self.pair() & LEN);
            put(at.add(8), self.addr);
        }
    }
}

/// Where the inline headers begin in an Ethernet segment.
pub(crate) const ETHERNET_HEAD: usize = 14;

/// Ethernet segment, but for the inline headers at its end. PRM: "Ethernet Segment".
///
/// # Safety
/// As [`control`].
pub(crate) unsafe fn ethernet(at: NonNull<u8>, checksums: bool, inline: u16) {
    let flags = if checksums { eth::L3_CSUM | eth::L4_CSUM } else { 0 };
    // SAFETY: the caller's promise.
    unsafe {
        put(at, pair(0, u32::from(flags) << 24));
        put(at.add(8), pair(0, u32::from(inline) << 16));
    }
}

/// Ends the list of a receive WQE that is not full.
///
/// # Safety
/// As [`control`].
#[inline(always)]
pub(crate) unsafe fn end_of_list(at: NonNull<u8>) {
    // Dword by dword: the constant of 8 bytes would take a register, which a post has none to spare.
    let (len, lkey) = (at.cast::<u32>(), INVALID_LKEY.to_be());
    // SAFETY: the caller's promise.
    unsafe {
        len.write_volatile(0);
        len.add(1).write_volatile(lkey);
        put(at.add(8), 0);
    }
}

/// Next segment of a receive WQE in a shared queue: the first half of it, the other holds zeros since the ring was made.
///
/// # Safety
/// As [`control`]; `next` has 16 bits.
#[inline(always)]
pub(crate) unsafe fn next(at: NonNull<u8>, next: u32) {
    // SAFETY: the caller's promise.
    unsafe { put(at, pair(next, 0)) }
}

/// Inline data and their header, where they do not wrap.
///
/// # Safety
/// There are 1 to 64 bytes; `at` is 16-byte aligned and valid for 4 more; nobody else uses them.
#[inline(always)]
pub(crate) unsafe fn inline_short(at: NonNull<u8>, bytes: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe {
        at.cast::<u32>().write((INLINE | bytes.len() as u32).to_be());
        copy_short(at.add(4), bytes);
    }
}

/// Where in a ring the next segment goes.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    pub(crate) at: NonNull<u8>,
    start: NonNull<u8>,
    end: NonNull<u8>,
}

impl Cursor {
    /// # Safety
    /// `start..end` is a ring of whole basic blocks, `at` a segment inside or its end.
    #[inline(always)]
    pub(crate) unsafe fn new(at: NonNull<u8>, start: NonNull<u8>, end: NonNull<u8>) -> Self {
        Self { at: if at == end { start } else { at }, start, end }
    }

    /// One segment further, wrapping.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        // SAFETY: `at` is a segment inside the ring, so the next is inside or its end.
        let next = unsafe { self.at.add(DS) };
        self.at = if next == self.end { self.start } else { next };
    }

    /// Writes a segment, and goes to the next.
    ///
    /// # Safety
    /// The segment belongs to the WQE that is written.
    pub(crate) unsafe fn put(&mut self, first: u64, second: u64) {
        // SAFETY: the caller's promise; segments are 16-byte aligned.
        unsafe {
            put(self.at, first);
            put(self.at.add(8), second);
        }
        self.advance();
    }

    /// Header of inline data at the cursor, which does not move.
    ///
    /// # Safety
    /// The segment belongs to the WQE that is written.
    #[inline(always)]
    pub(crate) unsafe fn inline_header(&self, len: u32) {
        // SAFETY: the caller's promise; segments are 16-byte aligned.
        unsafe { self.at.cast::<u32>().write((INLINE | len).to_be()) }
    }

    /// Copies inline bytes behind the header at the cursor, `offset` bytes of data after its beginning, wrapping.
    ///
    /// # Safety
    /// The room belongs to the WQE that is written.
    #[inline(always)]
    pub(crate) unsafe fn inline_bytes(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe { self.bytes(4 + offset, bytes) }
    }

    /// Copies bytes to `skip` bytes behind the cursor, wrapping.
    ///
    /// # Safety
    /// The room belongs to the WQE that is written.
    #[inline(always)]
    pub(crate) unsafe fn bytes(&self, skip: usize, bytes: &[u8]) {
        let room = self.end.as_ptr() as usize - self.at.as_ptr() as usize;
        // SAFETY: the first part ends before the ring does; what wraps begins at its start. The caller answers for
        // the room.
        unsafe {
            if skip + bytes.len() <= room {
                copy(self.at.add(skip), bytes);
            } else {
                copy_wrapped(self.at, self.start, room, skip, bytes);
            }
        }
    }
}

/// Copies bytes that wrap at the ring's end, `room` bytes behind `at`.
///
/// # Safety
/// As [`Cursor::inline_bytes`].
#[cold]
#[inline(never)]
unsafe fn copy_wrapped(at: NonNull<u8>, start: NonNull<u8>, room: usize, skip: usize, bytes: &[u8]) {
    for (i, byte) in bytes.iter().enumerate() {
        let offset = skip + i;
        // SAFETY: inside the ring on either side of its end.
        unsafe { if offset < room { at.add(offset) } else { start.add(offset - room) }.write(*byte) }
    }
}

/// Copies bytes, a few of them without a call.
///
/// # Safety
/// `to` is valid for `bytes.len()` bytes.
#[inline(always)]
unsafe fn copy(to: NonNull<u8>, bytes: &[u8]) {
    // SAFETY: the caller's promise; the length was compared.
    unsafe {
        match bytes.len() {
            1..=64 => copy_short(to, bytes),
            len => to.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), len),
        }
    }
}

/// Copies 1 to 64 bytes: pieces that overlap in the middle.
///
/// # Safety
/// There are so many bytes, and `to` is valid for them.
#[inline(always)]
unsafe fn copy_short(to: NonNull<u8>, bytes: &[u8]) {
    let (from, len) = (bytes.as_ptr(), bytes.len());
    /// # Safety
    /// Both are valid for a `T` at `offset`.
    #[inline(always)]
    unsafe fn piece<T>(from: *const u8, to: NonNull<u8>, offset: usize) {
        // SAFETY: the caller's promise.
        unsafe { to.add(offset).cast::<T>().write_unaligned(from.add(offset).cast::<T>().read_unaligned()) }
    }
    // SAFETY: every piece lies inside the two ranges, by the length that was compared.
    unsafe {
        match len {
            16..=32 => {
                piece::<u128>(from, to, 0);
                piece::<u128>(from, to, len - 16);
            }
            33.. => {
                piece::<u128>(from, to, 0);
                piece::<u128>(from, to, 16);
                piece::<u128>(from, to, len - 32);
                piece::<u128>(from, to, len - 16);
            }
            8..=15 => {
                piece::<u64>(from, to, 0);
                piece::<u64>(from, to, len - 8);
            }
            4..=7 => {
                piece::<u32>(from, to, 0);
                piece::<u32>(from, to, len - 4);
            }
            _ => {
                piece::<u8>(from, to, 0);
                piece::<u8>(from, to, len / 2);
                piece::<u8>(from, to, len - 1);
            }
        }
    }
}

/// Basic blocks of a WQE of `ds` segments.
#[inline(always)]
pub(crate) const fn blocks(ds: u32) -> u32 {
    ds.div_ceil((BB / DS) as u32)
}

/// Segments of `len` bytes of inline data and their header; none if there are no bytes.
#[inline(always)]
pub(crate) const fn inline_segments(len: u32) -> u32 {
    if len == 0 { 0 } else { (len + 4 + DS as u32 - 1) >> DS.trailing_zeros() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bareverbs::Lkey;
    use bareverbs_mlx5_prm::wqe;
    use zerocopy::FromBytes;

    #[repr(align(64))]
    struct Ring([u8; 256]);

    fn ring() -> (std::boxed::Box<Ring>, NonNull<u8>) {
        let mut ring = std::boxed::Box::new(Ring([0xee; 256]));
        let p = NonNull::new(ring.0.as_mut_ptr()).unwrap();
        (ring, p)
    }

    // The bytes that libmlx5 (rdma-core 56.1) writes for its first RDMA WRITE on QP 0x100: 64 bytes at 0x11223344_55667788
    // with lkey 0x1234 to 0x10000000 with rkey 0x4321, signaled.
    #[test]
    fn an_rdma_write_has_the_bytes_that_libmlx5_writes() {
        let (ring, p) = ring();
        // SAFETY: the ring is 256 bytes, aligned, and only used here.
        unsafe {
            control(p, 0, u64::from(wqe::opcode::RDMA_WRITE) << 32 | 0x100 << 8 | 3, FLAGS[1], 0);
            remote(p.add(16), 0x1000_0000, 0x4321);
            Element::new(&Sge::from_raw(0x1122_3344_5566_7788, 64, Lkey(0x1234))).write(p.add(32));
        }
        #[rustfmt::skip]
        let bytes = [
            0, 0, 0, 0x08,  0, 1, 0, 3,  0, 0, 0, 0x08,  0, 0, 0, 0,
            0, 0, 0, 0, 0x10, 0, 0, 0,  0, 0, 0x43, 0x21,  0, 0, 0, 0,
            0, 0, 0, 64,  0, 0, 0x12, 0x34,  0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
        ];
        assert_eq!(ring.0[..48], bytes);
        assert_eq!(ring.0[48], 0xee);
    }

    #[test]
    fn segments_agree_with_the_manual() {
        let (ring, p) = ring();
        // SAFETY: the ring is 256 bytes, aligned, and only used here.
        let doorbell = unsafe {
            let doorbell = control(p, 0x1_0203, 0x0b << 32 | 0xabcdef << 8 | 5, FLAGS[7], 0x0102_0304);
            atomic(p.add(16), 0x1112, 0x1314);
            end_of_list(p.add(32));
            p.add(48).write_bytes(0, DS);
            next(p.add(48), 0x1516);
            Element::new(&Sge::from_raw(9, MAX_SEGMENT, Lkey(7))).write(p.add(64));
            ethernet(p.add(80), true, 0x112);
            doorbell
        };
        let (c, rest) = wqe::CtrlSeg::read_from_prefix(&ring.0[..]).unwrap();
        assert_eq!((c.opmod_idx_opcode.get(), c.qpn_ds.get()), (0x02_030b, 0xabcd_ef05));
        assert_eq!(c.fm_ce_se, ctrl::CQ_UPDATE | ctrl::SOLICITED | ctrl::FENCE_SMALL_AND_FENCE);
        assert_eq!((c.signature, c.dci_stream_channel_id.get(), c.general_id.get()), (0, 0, 0x0102_0304));
        assert_eq!(doorbell.to_ne_bytes(), ring.0[..8]);
        let (a, rest) = wqe::AtomicSeg::read_from_prefix(rest).unwrap();
        assert_eq!((a.swap_add.get(), a.compare.get()), (0x1112, 0x1314));
        let (d, rest) = wqe::DataSeg::read_from_prefix(rest).unwrap();
        assert_eq!((d.byte_count.get(), d.lkey.get(), d.addr.get()), (0, INVALID_LKEY, 0));
        let (n, rest) = wqe::SrqNextSeg::read_from_prefix(rest).unwrap();
        assert_eq!((n.next_wqe_index.get(), n.reserved0, n.signature, n.reserved1), (0x1516, [0; 2], 0, [0; 11]));
        let (d, rest) = wqe::DataSeg::read_from_prefix(rest).unwrap();
        assert_eq!((d.byte_count.get(), d.lkey.get(), d.addr.get()), (0, 7, 9));
        let (e, _) = wqe::EthSeg::read_from_prefix(rest).unwrap();
        let expected = wqe::EthSeg {
            cs_flags: eth::L3_CSUM | eth::L4_CSUM,
            inline_hdr_sz: 0x112.into(),
            ..wqe::EthSeg::default()
        };
        assert_eq!(e, expected);
    }

    #[test]
    fn inline_bytes_of_every_length_at_every_place() {
        let source: std::vec::Vec<u8> = (1..=200).collect();
        for segment in 0..16 {
            for len in 0..=180usize {
                let (ring, p) = ring();
                let expect = |i: usize| (segment * DS + 4 + i) % 256;
                // SAFETY: the ring is 256 bytes, aligned, and only used here.
                unsafe {
                    let cursor = Cursor::new(p.add(segment * DS), p, p.add(256));
                    cursor.inline_header(len as u32);
                    cursor.inline_bytes(0, &source[..len / 3]);
                    cursor.inline_bytes(len / 3, &source[len / 3..len]);
                }
                for (i, byte) in source[..len].iter().enumerate() {
                    assert_eq!(ring.0[expect(i)], *byte, "segment {segment}, byte {i} of {len}");
                }
                assert_eq!(ring.0[expect(len)], 0xee, "nothing behind the end");
                assert_eq!(ring.0[segment * DS..][..4], (INLINE | len as u32).to_be_bytes());
            }
        }
    }

    #[test]
    fn sizes() {
        assert_eq!([1, 4, 5, 8, 9].map(blocks), [1, 1, 2, 2, 3]);
        assert_eq!([0, 1, 12, 13, 28, 29, 32].map(inline_segments), [0, 1, 1, 2, 2, 3, 3]);
    }
}
