//! Contexts: what the device keeps of each object, as commands carry it in and out.

pub mod ads;
pub mod cmd_hca_cap;
pub mod cqc;
pub mod eqc;
pub mod mkc;
pub mod qpc;
