//! Commands: lengths and fields of each one's input and output.
//!
//! A module a command; input fields stand in the module itself, output fields in its `out`. The
//! common headers are [`cmd::input`](crate::cmd::input) and [`cmd::output`](crate::cmd::output). A
//! constant that is a plain `usize` is where a context or an array begins. Lengths are those of
//! the fixed part: page lists and tables come behind it.

mod access_register;
mod counters;
mod cq;
mod eq;
mod hca;
mod hca_vport;
mod mad;
mod mkey;
mod nic_vport;
mod pages;
mod pd;
mod qp;
mod qp_state;
mod roce;
mod sq_rq_tis_tir;
mod srq;
mod steering;
mod uar;
mod umem;

pub use access_register::*;
pub use counters::*;
pub use cq::*;
pub use eq::*;
pub use hca::*;
pub use hca_vport::*;
pub use mad::*;
pub use mkey::*;
pub use nic_vport::*;
pub use pages::*;
pub use pd::*;
pub use qp::*;
pub use qp_state::*;
pub use roce::*;
pub use sq_rq_tis_tir::*;
pub use srq::*;
pub use steering::*;
pub use uar::*;
pub use umem::*;
