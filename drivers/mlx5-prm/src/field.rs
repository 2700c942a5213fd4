//! Fields of control structures, named as the PRM's tables name them.

/// Up to 32 bits inside one big-endian dword: byte offset of the dword, then bits `hi:lo`, where 31
/// is the most significant bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    offset: u32,
    hi: u8,
    lo: u8,
}

impl Field {
    /// Field `hi:lo` of the dword at byte `offset`.
    ///
    /// # Panics
    /// In constant evaluation only, if the offset is not dword-aligned or the bits are out of order.
    pub const fn new(offset: usize, hi: u8, lo: u8) -> Self {
        assert!(offset.is_multiple_of(4) && offset <= BEYOND as usize && hi <= 31 && lo <= hi);
        Self { offset: offset as u32, hi, lo }
    }

    /// The same field of a structure that starts at byte `base` (a multiple of 4) of the buffer.
    pub const fn at(self, base: usize) -> Self {
        debug_assert!(base.is_multiple_of(4));
        Self { offset: moved(self.offset, base), ..self }
    }

    /// Byte offset of the dword that holds the field.
    pub const fn offset(self) -> usize {
        self.offset as usize
    }

    /// Number of bits.
    pub const fn width(self) -> u32 {
        (self.hi - self.lo) as u32 + 1
    }

    /// The largest value that fits.
    pub const fn max(self) -> u32 {
        u32::MAX >> (32 - self.width())
    }

    /// The field's bits within its dword.
    pub const fn mask(self) -> u32 {
        self.max() << self.lo
    }

    /// Reads the field; 0 if the buffer ends before it (as the bytes of a mailbox that were never
    /// written do).
    pub fn get(self, buf: &[u8]) -> u32 {
        (read_dword(buf, self.offset()) >> self.lo) & self.max()
    }

    /// True if any bit of the field is set. For one-bit fields.
    pub fn is_set(self, buf: &[u8]) -> bool {
        self.get(buf) != 0
    }

    /// Writes the field and leaves its neighbours alone. A value that does not fit is cut to the
    /// field, a field beyond the buffer is not written; both are mistakes of the caller that stop a
    /// debug build.
    pub fn set(self, buf: &mut [u8], value: u32) {
        debug_assert!(value <= self.max(), "value {value:#x} does not fit {self:?}");
        debug_assert!(self.offset() + 4 <= buf.len(), "{self:?} lies beyond {} bytes", buf.len());
        let dword = read_dword(buf, self.offset());
        let value = (dword & !self.mask()) | ((value & self.max()) << self.lo);
        if let Some(bytes) = bytes_mut(buf, self.offset(), 4) {
            bytes.copy_from_slice(&value.to_be_bytes());
        }
    }
}

/// A 64-bit big-endian value at a byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field64 {
    offset: u32,
}

impl Field64 {
    /// The value at byte `offset`.
    ///
    /// # Panics
    /// In constant evaluation only, if the offset is not dword-aligned.
    pub const fn new(offset: usize) -> Self {
        assert!(offset.is_multiple_of(4) && offset <= BEYOND as usize);
        Self { offset: offset as u32 }
    }

    /// The same field of a structure that starts at byte `base` of the buffer.
    pub const fn at(self, base: usize) -> Self {
        debug_assert!(base.is_multiple_of(4));
        Self { offset: moved(self.offset, base) }
    }

    /// Byte offset.
    pub const fn offset(self) -> usize {
        self.offset as usize
    }

    /// Reads the value; 0 if the buffer ends before it.
    pub fn get(self, buf: &[u8]) -> u64 {
        let high = read_dword(buf, self.offset());
        let low = read_dword(buf, self.offset() + 4);
        u64::from(high) << 32 | u64::from(low)
    }

    /// Writes the value; beyond the buffer nothing is written, which stops a debug build.
    pub fn set(self, buf: &mut [u8], value: u64) {
        debug_assert!(self.offset() + 8 <= buf.len(), "{self:?} lies beyond {} bytes", buf.len());
        if let Some(bytes) = bytes_mut(buf, self.offset(), 8) {
            bytes.copy_from_slice(&value.to_be_bytes());
        }
    }
}

/// A run of bytes that is no number: a GID, a MAC address, a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    offset: u32,
    len: u32,
}

impl Bytes {
    /// `len` bytes at byte `offset`.
    ///
    /// # Panics
    /// In constant evaluation only, if either is beyond any command.
    pub const fn new(offset: usize, len: usize) -> Self {
        assert!(offset <= BEYOND as usize && len <= BEYOND as usize);
        Self { offset: offset as u32, len: len as u32 }
    }

    /// The same bytes of a structure that starts at byte `base` of the buffer.
    pub const fn at(self, base: usize) -> Self {
        Self { offset: moved(self.offset, base), ..self }
    }

    /// Byte offset.
    pub const fn offset(self) -> usize {
        self.offset as usize
    }

    /// Number of bytes; never 0 in a table of this crate.
    #[expect(clippy::len_without_is_empty)]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// The bytes, or an empty slice if the buffer ends before them.
    pub fn get(self, buf: &[u8]) -> &[u8] {
        buf.get(self.offset()..self.offset() + self.len()).unwrap_or(&[])
    }

    /// The bytes as an array; zeros where buffer or field end before `N`.
    pub fn array<const N: usize>(self, buf: &[u8]) -> [u8; N] {
        let mut array = [0; N];
        for (to, from) in array.iter_mut().zip(self.get(buf)) {
            *to = *from;
        }
        array
    }

    /// Writes `value` from the field's first byte on and zeros behind it. What does not fit is not
    /// written, which stops a debug build.
    pub fn set(self, buf: &mut [u8], value: &[u8]) {
        debug_assert!(value.len() <= self.len(), "{} bytes do not fit {self:?}", value.len());
        debug_assert!(self.offset() + self.len() <= buf.len(), "{self:?} lies beyond the buffer");
        if let Some(bytes) = bytes_mut(buf, self.offset(), self.len()) {
            let value = value.iter().copied().chain(core::iter::repeat(0));
            for (to, from) in bytes.iter_mut().zip(value) {
                *to = from;
            }
        }
    }
}

/// `offset` moved by `base`. No command is as long as [`BEYOND`], which stands for all that is longer:
/// there is nothing to read or write there.
const fn moved(offset: u32, base: usize) -> u32 {
    let moved = base.saturating_add(offset as usize);
    if moved > BEYOND as usize { BEYOND } else { moved as u32 }
}

/// A multiple of 4 beyond every command.
const BEYOND: u32 = 0x7fff_fff8;

fn read_dword(buf: &[u8], offset: usize) -> u32 {
    buf.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn bytes_mut(buf: &mut [u8], offset: usize, len: usize) -> Option<&mut [u8]> {
    buf.get_mut(offset..offset + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The PRM numbers bits from 31 (first byte's most significant) to 0: by hand for two fields
    // that straddle byte borders.
    #[test]
    fn bits_are_numbered_from_the_first_byte_down() {
        let buf = [0xff, 0x12, 0x34, 0x56, 0x80, 0x00, 0x00, 0x01];
        assert_eq!(Field::new(0, 23, 0).get(&buf), 0x123456);
        assert_eq!(Field::new(0, 27, 20).get(&buf), 0xf1);
        assert_eq!(Field::new(4, 31, 31).get(&buf), 1);
        assert_eq!(Field::new(4, 31, 0).get(&buf), 0x8000_0001);
        assert_eq!(Field64::new(0).get(&buf), 0xff12_3456_8000_0001);
    }

    #[test]
    fn set_leaves_the_neighbours() {
        let mut buf = [0xff; 8];
        Field::new(4, 27, 20).set(&mut buf, 0);
        assert_eq!(buf, [0xff, 0xff, 0xff, 0xff, 0xf0, 0x0f, 0xff, 0xff]);
    }

    #[test]
    fn reading_beyond_the_end_is_zero() {
        let buf = [0xff; 6];
        assert_eq!(Field::new(4, 31, 0).get(&buf), 0);
        assert_eq!(Field::new(8, 31, 0).get(&buf), 0);
        assert_eq!(Field64::new(0).get(&buf), 0xffff_ffff_0000_0000);
        assert_eq!(Bytes::new(4, 4).get(&buf), []);
    }

    #[test]
    fn nesting_moves_the_offset_only() {
        assert_eq!(Field::new(0x0c, 28, 24).at(0x10), Field::new(0x1c, 28, 24));
    }

    #[test]
    fn nesting_beyond_every_command_reads_nothing() {
        assert_eq!(Field::new(4, 31, 0).at(usize::MAX & !3).get(&[0xff; 16]), 0);
    }

    #[test]
    fn shorter_bytes_are_padded() {
        let mut buf = [0xff; 6];
        Bytes::new(1, 4).set(&mut buf, b"ab");
        assert_eq!(buf, [0xff, b'a', b'b', 0, 0, 0xff]);
        assert_eq!(Bytes::new(1, 4).array::<6>(&buf), [b'a', b'b', 0, 0, 0, 0]);
    }
}
