//! Placeholder, replaced by the first commits.
#![no_std]
