//! Judges: programs that others wrote, which say whether ours is right.

pub mod wire;
