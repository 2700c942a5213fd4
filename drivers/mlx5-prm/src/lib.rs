//! What the ConnectX Programmer's Reference Manual (PRM) fixes: registers, command and context
//! layouts, WQE, CQE and EQE formats, opcodes and statuses.
//!
//! Data only. The driver writes what is described here and the modelled HCA reads it, and the other
//! way round; neither behaviour lives in this crate, so a mistake in a layout cannot be hidden by
//! both sides sharing the code that uses it: each layout is tested against literal bytes that come
//! from elsewhere.
//!
//! Control structures (commands and contexts) are tables of [`field::Field`] that read like the
//! manual's own tables: byte offset of the dword, most and least significant bit. A nested structure
//! is reached with [`field::Field::at`]:
//!
//! ```
//! use bareverbs_mlx5_prm::{commands::create_cq, context::cqc};
//!
//! let mut command = [0u8; create_cq::IN_LEN];
//! cqc::LOG_CQ_SIZE.at(create_cq::CQC).set(&mut command, 10);
//! assert_eq!(command[create_cq::CQC + 0x0c], 10);
//! ```
//!
//! Fast-path layouts ([`wqe`], [`cqe`], [`eqe`]) are `#[repr(C)]` structs with big-endian fields.
//!
//! Offsets were taken from the public Ethernet Adapters Programming Manual and, where it is silent,
//! from Linux's `include/linux/mlx5/mlx5_ifc.h`, `device.h` and `qp.h`. A module's documentation
//! names the PRM's structure or command.
#![no_std]
#![forbid(unsafe_code)]

pub mod cmd;
pub mod commands;
pub mod context;
pub mod cqe;
pub mod eqe;
pub mod field;
pub mod ids;
mod opcode;
pub mod registers;
pub mod wqe;
