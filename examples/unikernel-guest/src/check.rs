//! The HAL before the test suite of its traits.

use crate::hal::Hal;
use bareverbs_hal_conformance::{Edu, NoEngine, Outcome, run};
use bareverbs_unikernel::{FunctionInfo, println};

/// Whether a function is QEMU's device `edu`, which copies memory by DMA.
pub fn is_edu(info: &FunctionInfo) -> bool {
    u32::from(info.device) << 16 | u32::from(info.vendor) == Edu::ID
}

/// Checks every promise of the traits, and tells how many are broken. Only `edu` can show that DMA arrives, and stops
/// when it should.
pub fn check(hal: &Hal, info: &FunctionInfo) -> usize {
    if is_edu(info) { run(hal, &mut Edu, &mut tell) } else { run(hal, &mut NoEngine, &mut tell) }
}

fn tell(name: &'static str, outcome: Outcome) {
    match outcome {
        Ok(()) => println!("ok      {name}"),
        Err(e) => println!("BROKEN  {name}: {e}"),
    }
}
