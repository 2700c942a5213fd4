//! What can go wrong on a link.

use crate::model::LinkKind;
use oorandom::Rand64;
use std::time::Duration;

/// Faults of a link, each a probability from 0 to 1 drawn anew for every frame a port sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// The frame is lost.
    pub loss: f64,
    /// The frame arrives twice.
    pub duplicate: f64,
    /// Frames sent later overtake it, if they are sent within [`reorder_by`](Self::reorder_by).
    pub reorder: f64,
    /// How long a reordered frame stands back.
    pub reorder_by: Duration,
    /// The frame and all behind it are held back.
    pub delay: f64,
    /// How long.
    pub delay_by: Duration,
    /// One bit anywhere in the frame is flipped: the checksums are wrong.
    pub corrupt: f64,
    /// The payload is damaged where no checksum of the link notices, as by a broken switch: see [`Corruptor`].
    pub corrupt_payload: f64,
}

/// Damages a frame's payload and makes the checksums fit again; takes a random number, tells whether it did.
/// It is given by the test, since the harness knows no wire format. Must not call into the world.
pub type Corruptor = Box<dyn FnMut(LinkKind, &mut Vec<u8>, u64) -> bool + Send>;

impl Faults {
    /// A link without faults.
    pub const NONE: Self = Self {
        loss: 0.0,
        duplicate: 0.0,
        reorder: 0.0,
        reorder_by: Duration::from_micros(20),
        delay: 0.0,
        delay_by: Duration::from_millis(1),
        corrupt: 0.0,
        corrupt_payload: 0.0,
    };

    /// Whether a fault of this probability happens now. Draws nothing where there is no fault.
    pub(crate) fn hits(&self, probability: f64, rng: &mut Rand64) -> bool {
        probability > 0.0 && rng.rand_float() < probability
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::NONE
    }
}
