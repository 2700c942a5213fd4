//! A strict model of a ConnectX HCA, as a [`DeviceModel`](bareverbs_harness::model::DeviceModel).
//!
//! The model does what the card does with what a driver writes into its registers and memory: commands, firmware
//! pages, event queues, completion queues, work queues, keys, packets on the link. It refuses what the card refuses,
//! with the card's status, and says in one line what the driver did wrong. A capability that it advertises is held; a
//! command whose effect is not held is refused.
//!
//! One object a file, named as in the driver: [`cmd`], [`pages`], [`eq`], [`cq`], [`mr`], [`pd`], [`srq`], [`qp`],
//! [`xrcd`], [`uar`], [`port`], [`health`]; of Ethernet [`tis`], [`sq`], [`rq`], [`rqt`], [`tir`], [`flow_table`].
//! [`transport`] moves the data of QPs: WQEs, packets, timers; [`ethernet`] moves frames.
//!
//! Nothing in here knows a driver. Where the manual is silent, what unmodified Linux does is taken as allowed.

pub mod access_reg;
pub mod cmd;
pub mod command;
pub mod config;
pub mod cq;
pub mod damage;
pub mod eq;
pub mod eth_cap;
pub mod ethernet;
pub mod fault;
pub mod flow_entry;
pub mod flow_group;
pub mod flow_table;
pub mod frame_counters;
pub mod hca;
pub mod hca_cap;
pub mod health;
pub mod mcg;
pub mod mr;
pub mod nic_vport;
pub mod numbers;
pub mod pages;
pub mod pd;
pub mod pma;
pub mod port;
pub mod q_counter;
pub mod qp;
pub mod qp_state;
pub mod refusal;
pub mod registers;
pub mod report;
pub mod ring;
pub mod roce;
pub mod rq;
pub mod rqt;
pub mod sma;
pub mod sq;
pub mod srq;
pub mod start;
pub mod tir;
pub mod tis;
pub mod transport;
pub mod transport_domain;
pub mod uar;
pub mod umem;
pub mod vport;
pub mod wq;
pub mod xrcd;

pub use config::{Device, HcaConfig};
pub use hca::Hca;
pub use report::Report;
