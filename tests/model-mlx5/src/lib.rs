//! A strict model of a ConnectX HCA, as a [`DeviceModel`](bareverbs_harness::model::DeviceModel).
//!
//! The model does what the card does with what a driver writes into its registers and memory: commands, firmware
//! pages, event queues, completion queues, work queues, keys, packets on the link. It refuses what the card refuses,
//! with the card's status, and says in one line what the driver did wrong. A capability that it advertises is held; a
//! command whose effect is not held is refused.
//!
//! One object a file, named as in the driver: [`cmd`], [`pages`], [`eq`], [`cq`], [`mr`], [`pd`], [`srq`], [`qp`],
//! [`xrcd`], [`uar`], [`port`], [`health`]. [`transport`] moves the data: WQEs, packets, timers.
//!
//! Nothing in here knows a driver. Where the manual is silent, what unmodified Linux does is taken as allowed.

pub mod config;
pub mod cq;
pub mod eq;
pub mod fault;
pub mod hca;
pub mod mr;
pub mod pages;
pub mod pd;
pub mod port;
// Until the shared crate has them.
pub mod prm_cmd;
pub mod prm_field;
pub mod qp;
pub mod refusal;
pub mod report;
pub mod ring;
pub mod srq;
pub mod transport;
pub mod uar;
pub mod xrcd;

pub use config::{Device, HcaConfig};
pub use hca::Hca;
pub use report::Report;
