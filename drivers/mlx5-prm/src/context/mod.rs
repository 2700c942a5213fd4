//! Contexts: what the device keeps of each object, as commands carry it in and out.

pub mod ads;
pub mod atomic_caps;
pub mod cmd_hca_cap;
pub mod cmd_hca_cap_2;
pub mod cqc;
pub mod eqc;
pub mod eth_caps;
pub mod hca_vport_context;
pub mod mkc;
pub mod nic_vport_context;
pub mod qpc;
pub mod rmpc;
pub mod roce;
pub mod rqc;
pub mod rqtc;
pub mod sqc;
pub mod steering;
pub mod tirc;
pub mod tisc;
pub mod wq;
pub mod xrc_srqc;
