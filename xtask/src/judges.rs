//! Judges: programs that others wrote, which say whether ours is right.

pub mod browser;
pub mod libmlx5;
pub mod raw;
pub mod wire;
