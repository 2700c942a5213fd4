//! A PCI function: configuration space, BARs, registers, bus mastering, reset.

use crate::{Be32, Dma, HalError, Readable, Writable};
use core::{fmt, ptr::NonNull, str::FromStr};
use volatile_register::WO;

/// Segment, bus, device and function; shown as `0000:3b:00.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    /// PCI segment (domain).
    pub segment: u16,
    /// Bus number.
    pub bus: u8,
    /// Device number, 0..32.
    pub device: u8,
    /// Function number, 0..8.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{}", self.segment, self.bus, self.device, self.function)
    }
}

/// A text that is no PCI address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPciAddress;

impl fmt::Display for BadPciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a PCI address (segment:bus:device.function in hex, such as 0000:3b:00.1)")
    }
}

impl core::error::Error for BadPciAddress {}

impl FromStr for PciAddress {
    type Err = BadPciAddress;

    /// Takes the form that is shown, and the one without the segment, which is 0 then.
    fn from_str(s: &str) -> Result<Self, BadPciAddress> {
        let (rest, function) = s.rsplit_once('.').ok_or(BadPciAddress)?;
        let (rest, device) = rest.rsplit_once(':').ok_or(BadPciAddress)?;
        let (segment, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
        let hex = |text: &str, limit: u16| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
            let number = if digits { u16::from_str_radix(text, 16).ok() } else { None };
            number.filter(|n| *n <= limit).ok_or(BadPciAddress)
        };
        Ok(Self {
            segment: hex(segment, u16::MAX)?,
            bus: hex(bus, 0xff)? as u8,
            device: hex(device, 0x1f)? as u8,
            function: hex(function, 7)? as u8,
        })
    }
}

/// A memory BAR that is mapped uncached, with a write-combining window over the same registers where there is one.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    base: NonNull<u8>,
    len: usize,
    write_combining: Option<NonNull<u8>>,
}

impl Bar {
    /// Describes a mapped BAR.
    ///
    /// # Safety
    /// `base` (and `write_combining`) address `len` bytes of the function's registers for as long as the function's
    /// HAL handle lives, or, in a harness, of address space reserved for them.
    pub const unsafe fn new(base: NonNull<u8>, len: usize, write_combining: Option<NonNull<u8>>) -> Self {
        Self { base, len, write_combining }
    }

    /// First byte.
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty, reason = "a BAR is never empty")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether stores through [`Self::wc_register`] may be combined into one burst.
    pub const fn has_write_combining(&self) -> bool {
        self.write_combining.is_some()
    }

    /// A register block at `offset` of the uncached mapping.
    ///
    /// # Safety
    /// `T` is made of `volatile-register` cells only and is not used after the function's HAL handle is gone. Whoever is
    /// handed the block may write to it ([`PciFunction::write32`] is safe for that reason): what is written names no
    /// memory but such as is the device's.
    pub unsafe fn register<'a, T>(&self, offset: usize) -> Result<&'a T, HalError> {
        // SAFETY: `base` addresses `len` bytes (promise of `new`); the rest is the caller's promise.
        unsafe { block(self.base, self.len, offset) }
    }

    /// A register block at `offset` of the write-combining window, or of the uncached mapping if there is none.
    ///
    /// # Safety
    /// As [`Self::register`].
    pub unsafe fn wc_register<'a, T>(&self, offset: usize) -> Result<&'a T, HalError> {
        // SAFETY: both windows address `len` bytes (promise of `new`); the rest is the caller's promise.
        unsafe { block(self.write_combining.unwrap_or(self.base), self.len, offset) }
    }
}

/// # Safety
/// `base` addresses `len` bytes for `'a`, and `T` is made of volatile cells only.
unsafe fn block<'a, T>(base: NonNull<u8>, len: usize, offset: usize) -> Result<&'a T, HalError> {
    let end = offset.checked_add(size_of::<T>()).ok_or(HalError::BadRange)?;
    if end > len {
        return Err(HalError::BarTooSmall { len, wanted: end });
    }
    // SAFETY: offset + size_of::<T>() <= len, so the result stays inside the BAR.
    let p = unsafe { base.add(offset) }.cast::<T>();
    if !p.is_aligned() {
        return Err(HalError::Misaligned);
    }
    // SAFETY: inside the BAR, aligned; volatile cells tolerate being changed by the device.
    Ok(unsafe { p.as_ref() })
}

/// A PCI function that a driver owns.
///
/// # Safety
/// ## The implementer promises
/// - [`bar`](Self::bar) describes registers of this function (or the space reserved for them) that stay mapped while
///   any clone of the handle lives.
/// - Register methods act on the register they are given, once, in program order among themselves.
/// - After [`silence`](Self::silence) or [`reset`](Self::reset) returns, the function issues
///   no DMA until bus mastering is turned on again.
/// ## The caller promises
/// - Register references passed in were made from this function's BARs.
pub unsafe trait PciFunction: Dma {
    /// Where the function sits.
    fn address(&self) -> PciAddress;

    /// Reads configuration space at a dword offset below 4096. All-ones if the function is gone.
    fn config_read32(&self, offset: u16) -> u32;

    /// Writes configuration space at a dword offset below 4096.
    ///
    /// # Safety
    /// The write lets the function reach no memory that is not meant for it (bus mastering, interrupts by message), and
    /// moves no BAR over anything else or away from under a register block that is in use.
    unsafe fn config_write32(&self, offset: u16, value: u32);

    /// A memory BAR by number (0..6).
    fn bar(&self, n: u8) -> Result<Bar, HalError>;

    /// Turns memory decoding and bus mastering on, or bus mastering off.
    ///
    /// # Safety
    /// Where it is turned on, the function has forgotten all memory that it was told of before (it was reset, or nobody
    /// told it of any), or that memory is still its.
    unsafe fn set_bus_master(&self, on: bool) -> Result<(), HalError>;

    /// Turns bus mastering off: the way back to a function that reaches no memory.
    fn silence(&self) -> Result<(), HalError> {
        // SAFETY: it is not turned on.
        unsafe { self.set_bus_master(false) }
    }

    /// Resets the function (FLR or the platform's own way) and waits until configuration space answers again.
    fn reset(&self) -> Result<(), HalError>;

    /// Loads a big-endian register.
    #[inline(always)]
    fn read32<R: Readable<Be32>>(&self, r: &R) -> u32 {
        r.load().get()
    }

    /// Stores to a big-endian register.
    #[inline(always)]
    fn write32<R: Writable<Be32>>(&self, r: &R, value: u32) {
        // SAFETY: the caller promises that the register is this function's.
        unsafe { r.store(Be32::new(value)) }
    }

    /// Stores eight bytes at once; `value` holds them in memory order (`u64::from_ne_bytes`).
    #[inline(always)]
    fn write64<R: Writable<u64>>(&self, r: &R, value: u64) {
        // SAFETY: the caller promises that the register is this function's.
        unsafe { r.store(value) }
    }

    /// Stores 64 bytes to a BlueFlame buffer, lowest address first; the values are in memory order.
    #[inline(always)]
    fn write_burst(&self, r: &[WO<u64>; 8], values: &[u64; 8]) {
        for (r, v) in r.iter().zip(values) {
            // SAFETY: the caller promises that the register is this function's.
            unsafe { r.write(*v) }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn addresses_are_parsed_as_they_are_shown() {
        for text in ["0000:3b:00.1", "10ab:ff:1f.7"] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), text);
        }
        assert_eq!("3b:00.1".parse(), "0000:3b:00.1".parse::<PciAddress>());
        for bad in
            ["", "3b", "3b:00", "3b:20.0", "3b:00.8", "0000:100:00.0", "x:00.0", "3b:+1.0", "1:2:3:4.0", "3b:00."]
        {
            assert_eq!(bad.parse::<PciAddress>(), Err(BadPciAddress), "{bad}");
        }
    }
}
