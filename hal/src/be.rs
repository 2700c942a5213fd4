//! Big-endian register values.

/// A 32-bit value as it stands in a big-endian register.
///
/// Transparent over `u32`, so a volatile access is one 32-bit load or store; zerocopy's byte-order types are byte
/// arrays, which the compiler may read byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Be32(u32);

impl Be32 {
    /// Wraps a value in the CPU's byte order.
    #[inline(always)]
    pub const fn new(v: u32) -> Self {
        Self(v.to_be())
    }

    /// The value in the CPU's byte order.
    #[inline(always)]
    pub const fn get(self) -> u32 {
        u32::from_be(self.0)
    }
}

const _: () = assert!(size_of::<Be32>() == 4 && align_of::<Be32>() == 4);
