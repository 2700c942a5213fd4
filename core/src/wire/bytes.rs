//! Big-endian fields at fixed offsets of fixed-length headers.
//!
//! The offset is a constant and is compared with the header's length when the code is
//! compiled, so that none of these can panic.

/// `M` bytes at offset `AT`.
#[inline(always)]
pub(super) const fn get<const AT: usize, const M: usize, const N: usize>(b: &[u8; N]) -> [u8; M] {
    const { assert!(AT + M <= N, "field outside of its header") };
    let mut out = [0; M];
    let mut i = 0;
    while i < M {
        out[i] = b[AT + i];
        i += 1;
    }
    out
}

/// Writes `M` bytes at offset `AT`.
#[inline(always)]
pub(super) const fn put<const AT: usize, const M: usize, const N: usize>(b: &mut [u8; N], v: [u8; M]) {
    const { assert!(AT + M <= N, "field outside of its header") };
    let mut i = 0;
    while i < M {
        b[AT + i] = v[i];
        i += 1;
    }
}

/// One byte.
#[inline(always)]
pub(super) const fn u8_at<const AT: usize, const N: usize>(b: &[u8; N]) -> u8 {
    let [v] = get::<AT, 1, N>(b);
    v
}

/// 16 bits.
#[inline(always)]
pub(super) const fn u16_at<const AT: usize, const N: usize>(b: &[u8; N]) -> u16 {
    u16::from_be_bytes(get::<AT, 2, N>(b))
}

/// 24 bits.
#[inline(always)]
pub(super) const fn u24_at<const AT: usize, const N: usize>(b: &[u8; N]) -> u32 {
    let [x, y, z] = get::<AT, 3, N>(b);
    u32::from_be_bytes([0, x, y, z])
}

/// 32 bits.
#[inline(always)]
pub(super) const fn u32_at<const AT: usize, const N: usize>(b: &[u8; N]) -> u32 {
    u32::from_be_bytes(get::<AT, 4, N>(b))
}

/// 64 bits.
#[inline(always)]
pub(super) const fn u64_at<const AT: usize, const N: usize>(b: &[u8; N]) -> u64 {
    u64::from_be_bytes(get::<AT, 8, N>(b))
}

/// Writes the low 24 bits of `v`.
#[inline(always)]
pub(super) const fn put_u24<const AT: usize, const N: usize>(b: &mut [u8; N], v: u32) {
    let [_, x, y, z] = v.to_be_bytes();
    put::<AT, 3, N>(b, [x, y, z]);
}

/// Adds the 16-bit words of `b` in one's complement arithmetic (RFC 1071).
/// An IPv4 header is valid when the sum over it, checksum included, is `0xffff`.
#[inline]
pub(super) const fn ones_complement_sum<const N: usize>(b: &[u8; N]) -> u16 {
    let mut sum = 0u32;
    let mut i = 0;
    while i + 1 < N {
        sum += u16::from_be_bytes([b[i], b[i + 1]]) as u32;
        i += 2;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
