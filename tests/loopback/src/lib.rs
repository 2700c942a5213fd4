//! A tiny verbs provider in memory, of another shape than any card: no rings, no commands, objects are not their
//! numbers, no CQ resize, no UC, requests are executed when somebody polls. It keeps the traits neutral, and lets
//! programs and documentation run without a device model.
//!
//! ```
//! use bareverbs::*;
//! use bareverbs_loopback::{Clock, Net};
//!
//! let net = Net::new(Clock::Virtual);
//! let (a, b) = (net.open(), net.open());
//! assert_eq!(a.query_port(PortNum(1)).unwrap().state, PortState::Active);
//! assert!(matches!(b.set_gid(PortNum(1), 0, &GidEntry::default()), Err(Error::Unsupported(_))));
//! ```

mod cq;
mod device;
mod execute;
mod mr;
mod qp;
mod srq;
mod window;

pub use cq::{Channel, Cq, View};
pub use device::{Clock, Loopback, Net, Pd};
pub use mr::Mr;
pub use qp::Qp;
pub use srq::Srq;
pub use window::Window;

/// Handles that go through a raw pointer are boxed on the way.
macro_rules! boxed_handle {
    ($($type:ty),+) => {$(
        impl bareverbs::Handle for $type {
            fn into_raw(self) -> core::ptr::NonNull<()> {
                core::ptr::NonNull::from(Box::leak(Box::new(self))).cast()
            }

            unsafe fn from_raw(raw: core::ptr::NonNull<()>) -> Self {
                // SAFETY: the caller promises that `raw` came from `into_raw` above, once.
                *unsafe { Box::from_raw(raw.cast::<Self>().as_ptr()) }
            }
        }
    )+};
}

boxed_handle!(Loopback, Pd, Channel, Cq, Srq, Qp, Window);
