//! Host-only memory and time.

use crate::{Broken, Check, Outcome, holds, refused};
use bareverbs_hal::{HalError, PciFunction, Platform};
use core::{alloc::Layout, ptr::NonNull};

pub(crate) fn checks<H: PciFunction>() -> [Check<H>; 4] {
    [
        ("time goes on and never back", time),
        ("state memory is zeroed, aligned and apart", state_memory),
        ("state memory comes back", state_memory_comes_back),
        ("state memory that cannot be is refused", state_memory_refused),
    ]
}

/// Reads of the clock within which it has to advance.
const READS: u64 = 10_000_000;

fn time<P: Platform>(hal: &P) -> Outcome {
    let start = hal.now();
    let mut last = start;
    for reads in 0..READS {
        let now = hal.now();
        holds(now >= last, "the time of a read is not before that of the read before", reads)?;
        last = now;
        if reads >= 1000 && now > start {
            return Ok(());
        }
        hal.relax();
    }
    Err(Broken::Promise("time goes on while it is read", READS))
}

/// Sizes and alignments: single bytes, what rings and tables use, more than a page and more than any cache.
const LAYOUTS: [(usize, usize); 8] =
    [(1, 1), (24, 8), (64, 64), (4096, 64), (4096, 4096), (100_000, 16), (65_536, 65_536), (1 << 20, 4096)];

fn layout(i: usize) -> Result<Layout, Broken> {
    let (size, align) = LAYOUTS[i];
    Layout::from_size_align(size, align).map_err(|_| Broken::Promise("a layout of ours", size as u64))
}

/// Checks that memory is zero, and fills it.
fn zeroed_then_filled(ptr: NonNull<u8>, len: usize, byte: u8) -> bool {
    // SAFETY: the platform gave `len` bytes that nobody else uses.
    let memory = unsafe { core::slice::from_raw_parts_mut(ptr.as_ptr(), len) };
    let zeroed = memory.iter().all(|b| *b == 0);
    memory.fill(byte);
    zeroed
}

fn still_filled(ptr: NonNull<u8>, len: usize, byte: u8) -> bool {
    // SAFETY: the platform gave `len` bytes that nobody else uses.
    unsafe { core::slice::from_raw_parts(ptr.as_ptr(), len) }.iter().all(|b| *b == byte)
}

fn state_memory<P: Platform>(hal: &P) -> Outcome {
    let mut live = [None; LAYOUTS.len()];
    let outcome = (0..LAYOUTS.len()).try_for_each(|i| {
        let layout = layout(i)?;
        let ptr = hal.state_alloc(layout).map_err(|e| Broken::Refused("state memory", e))?;
        live[i] = Some(ptr);
        holds(
            (ptr.as_ptr() as usize).is_multiple_of(layout.align()),
            "state memory is aligned",
            layout.align() as u64,
        )?;
        holds(zeroed_then_filled(ptr, layout.size(), i as u8 + 1), "state memory is zeroed", layout.size() as u64)
    });
    let outcome = outcome.and_then(|()| {
        (0..).zip(live).try_for_each(|(i, ptr)| match ptr {
            Some(ptr) => holds(still_filled(ptr, LAYOUTS[i].0, i as u8 + 1), "state memory is nobody else's", i as u64),
            None => Ok(()),
        })
    });
    for (i, ptr) in (0..).zip(live) {
        if let (Some(ptr), Ok(layout)) = (ptr, layout(i)) {
            // SAFETY: it came from this platform with this layout.
            unsafe { hal.state_free(ptr, layout) };
        }
    }
    outcome
}

/// More than a small machine has, if nothing comes back.
fn state_memory_comes_back<P: Platform>(hal: &P) -> Outcome {
    const ROUNDS: u64 = 300;
    let layout = layout(LAYOUTS.len() - 1)?;
    for round in 0..ROUNDS {
        let ptr = hal.state_alloc(layout).map_err(|e| Broken::Refused("state memory that was freed before", e))?;
        // SAFETY: the platform gave the first byte and the last.
        let (first, last) = unsafe { (ptr.as_ptr(), ptr.as_ptr().add(layout.size() - 1)) };
        // SAFETY: as above.
        let zeroed = unsafe { first.read() == 0 && last.read() == 0 };
        // SAFETY: as above.
        unsafe {
            first.write(0xa5);
            last.write(0xa5);
            hal.state_free(ptr, layout);
        }
        holds(zeroed, "state memory that was used before is zeroed", round)?;
    }
    Ok(())
}

fn state_memory_refused<P: Platform>(hal: &P) -> Outcome {
    let empty = Layout::from_size_align(0, 1).map_err(|_| Broken::Promise("a layout of ours", 0))?;
    refused(hal.state_alloc(empty), "state memory of no bytes", |e| e == HalError::BadRange)?;
    let wanted = isize::MAX as usize / 2;
    let huge = Layout::from_size_align(wanted, 4096).map_err(|_| Broken::Promise("a layout of ours", wanted as u64))?;
    refused(hal.state_alloc(huge), "more state memory than there can be", |e| {
        e == HalError::OutOfStateMemory { wanted }
    })
}
