//! A HAL of one's own, as small as it can be: what `docs/link-it-into-your-unikernel.md` shows. [`kernel`] is what a
//! unikernel has anyway, [`pool`] and [`hal`] are what is written for bareverbs, [`check`] and [`card`] use it.
#![no_std]
#![cfg(target_arch = "x86_64")]

pub mod card;
pub mod check;
pub mod hal;
pub mod kernel;
pub mod pool;
