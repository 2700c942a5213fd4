//! A HAL of one's own, as small as it can be: what `docs/link-it-into-your-unikernel.md` shows. [`kernel`] is what a
//! unikernel has anyway, [`pool`] and [`hal`] are what is written for bareverbs.
#![no_std]
#![cfg(target_arch = "x86_64")]

pub mod hal;
pub mod kernel;
pub mod pool;
