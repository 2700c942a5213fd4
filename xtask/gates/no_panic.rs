// The data path of the drivers, exported so that the no-panic gate links all of it (`cargo xtask test no-panic`).
// The gate adds `#![no_std]` in front and a panic handler behind. Everything here is built for one target, in release.
//
// A HAL that does nothing stands in for the platform: the gate links, it never runs.

// --- entry points of the driver, one function each: post_send, post_recv, post_srq_recv, poll ---

// --- wire formats: whatever the bytes are, a frame is read and written without a panic ---

use bareverbs::wire::frame::{Frame, Link, Repr};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn wire_parse(bytes: *const u8, len: usize, infiniband: bool) -> usize {
    let bytes = unsafe { core::slice::from_raw_parts(bytes, len) };
    let link = if infiniband { Link::InfiniBand } else { Link::Ethernet };
    match Frame::parse(link, bytes) {
        Ok(frame) if frame.check_icrc().is_ok() && frame.check_vcrc().is_ok() => frame.payload.len(),
        _ => 0,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn wire_emit(repr: &Repr, buffer: *mut u8, len: usize, payload_len: usize) -> usize {
    let buffer = unsafe { core::slice::from_raw_parts_mut(buffer, len) };
    let Ok(mut emitter) = repr.emit(buffer, payload_len) else { return 0 };
    emitter.payload().fill(0);
    emitter.finish()
}
