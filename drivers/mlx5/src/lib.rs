//! Driver for ConnectX-4 and later and for BlueField: `no_std`, no `alloc`, completion by polling.
//!
//! [`Mlx5::open`] brings a function from reset to ready; what it gives back implements [`bareverbs::Device`].
//! Memory, registers, time and waiting come from the HAL ([`bareverbs_hal::PciFunction`]); layouts, opcodes and
//! statuses from `bareverbs_mlx5_prm`. Command names in this documentation are the PRM's (the Ethernet Adapters
//! Programming Manual).
#![cfg_attr(not(test), no_std)]

mod cmd;
mod counted;
mod cq_ring;
mod cqe;
mod error;
mod hca;
mod mailbox;
mod policy;
mod registers;
mod rq;
mod sq;
mod table;
mod target;
mod wqe;

pub use policy::{Local, Policy, Shared};
