// The data path of the drivers, exported so that the no-panic gate links all of it (`cargo xtask test no-panic`).
// The gate adds `#![no_std]` in front and a panic handler behind. Everything here is built for one target, in release.
//
// A HAL that does nothing stands in for the platform: the gate links, it never runs.

// --- entry points of the driver, one function each: post_send, post_recv, post_srq_recv, poll ---
