//! Commands: lengths and fields of each one's input and output.
//!
//! A module a command; input fields stand in the module itself, output fields in its `out`. The
//! common headers are [`cmd::input`](crate::cmd::input) and [`cmd::output`](crate::cmd::output). A
//! constant that is a plain `usize` is where a context or an array begins. Lengths are those of
//! the fixed part: page lists and tables come behind it.

mod cq;
mod eq;
mod hca;
mod mkey;
mod pages;
mod pd;
mod qp;
mod qp_state;
mod uar;

pub use cq::*;
pub use eq::*;
pub use hca::*;
pub use mkey::*;
pub use pages::*;
pub use pd::*;
pub use qp::*;
pub use qp_state::*;
pub use uar::*;
