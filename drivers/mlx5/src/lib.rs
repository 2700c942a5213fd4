//! Driver for ConnectX-4 and later and for BlueField: `no_std`, no `alloc`, completion by polling.
//!
//! [`Mlx5::open`] brings a function from reset to ready; what it gives back implements [`bareverbs::Device`].
//! Memory, registers, time and waiting come from the HAL ([`bareverbs_hal::PciFunction`]); layouts, opcodes and
//! statuses from `bareverbs_mlx5_prm`. Command names in this documentation are the PRM's (the Ethernet Adapters
//! Programming Manual).
#![cfg_attr(not(test), no_std)]

mod ah;
mod attach;
mod attr;
mod bringup;
mod buffer;
mod channel;
mod cmd;
mod config;
mod control;
mod counted;
mod cq;
mod cq_ring;
mod cq_view;
mod cqe;
mod device;
mod eq;
mod error;
mod gid;
mod hca;
mod health;
mod list;
mod mailbox;
mod mr;
mod mw;
mod owned;
mod pages;
mod pd;
mod policy;
mod port;
mod qp;
mod qp_post;
mod qp_shape;
mod qp_state;
mod raw;
mod record;
mod registers;
mod row;
mod rq;
mod sq;
mod srq;
mod state;
mod steering;
mod table;
mod target;
#[cfg(test)]
mod test_host;
mod uar;
mod users;
mod vport;
mod watch;
mod wqe;
mod xrc;

pub use channel::Channel;
pub use config::Config;
pub use cq::Cq;
pub use cq_view::CqView;
pub use device::Mlx5;
pub use mr::Mr;
pub use mw::{FastRegion, Window};
pub use pd::{Pd, Xrcd};
pub use policy::{Local, Policy, Shared};
pub use qp::Qp;
pub use srq::Srq;
