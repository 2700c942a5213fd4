//! Two HCAs on a toy bus each, and what goes between them.

mod errors;
mod faults;
mod keys;
mod multicast;
mod rc;
mod rig;
mod roce;
mod srq;
mod unreliable;
mod world;
mod xrc;
