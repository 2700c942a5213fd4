//! What posting and polling cost, without a card.
//!
//! The mlx5 driver is brought up on the modelled HCA, by real commands. From then on nobody plays the device but the
//! bench itself ([`rig`]): rings lie in ordinary memory, the doorbell page is ordinary write-back memory ([`hal`]), and
//! completion queue entries are written by hand. So what is measured is the driver's code behind the public verbs,
//! each called through a function that is not inlined ([`verbs`]), and nothing of a device. [`cases`] are the
//! workload, with the names and the rings of the bench of libmlx5 that it is compared with; [`meter`] takes the time
//! and tells callgrind when to count. [`differential`] compares rings and completions with libmlx5's, request
//! by request.

pub mod cases;
pub mod differential;
pub mod entries;
pub mod hal;
pub mod meter;
pub mod record;
pub mod rig;
pub mod scale;
pub mod verbs;
