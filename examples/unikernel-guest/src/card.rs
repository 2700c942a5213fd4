//! The card, driven over the HAL.

use crate::hal::Hal;
use bareverbs::{Device, PortNum, PortState, RawMemory};
use bareverbs_hal::Platform;
use bareverbs_mlx5::{Config, Mlx5};
use core::{alloc::Layout, ptr::NonNull};

/// Opens the card, and waits for its port.
pub fn open(hal: Hal) -> Result<Mlx5<Hal>, bareverbs::Error> {
    let config = Config { max_qps: 128, max_cqs: 128, max_srqs: 128, max_pds: 128, ..Config::default() };
    let device = Mlx5::open(hal, config)?;
    while device.query_port(PortNum(1))?.state != PortState::Active {
        device.service()?;
        device.relax();
    }
    Ok(device)
}

/// Memory for messages, never given back: what `Device::register` takes.
pub fn buffer(hal: Hal, len: usize) -> Option<RawMemory> {
    let ptr = hal.state_alloc(Layout::from_size_align(len, 4096).ok()?).ok()?;
    // SAFETY: the pool gave it, and it is never given back.
    Some(unsafe { RawMemory::new(NonNull::slice_from_raw_parts(ptr, len)) })
}
