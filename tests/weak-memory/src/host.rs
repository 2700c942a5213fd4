//! Barriers as loom has them, for the host of the driver's tests.

use crate::{
    sync::{Ordering, at},
    test_host::{self, Barriers},
};
use loom::sync::atomic::fence;

/// The host.
pub const HOST: test_host::Host<Loom> = test_host::Host(Loom);

#[derive(Clone)]
pub struct Loom;

// Where an ordering was taken away, there is no barrier.
impl Barriers for Loom {
    fn wmb(&self) {
        if at(Ordering::Release, "dma_wmb") == Ordering::Release {
            fence(Ordering::Release);
        }
    }

    fn rmb(&self) {
        if at(Ordering::Acquire, "dma_rmb") == Ordering::Acquire {
            fence(Ordering::Acquire);
        }
    }
}
