//! RDMA verbs without an operating system: ids and units, attributes, work requests, completions, state machines,
//! events, errors, wire formats, and the verbs as traits.
//!
//! `no_std`, no `alloc`. Semantics are those of the libibverbs manual pages, which are named at each item; the shape
//! is Rust's. Programs are written against [`Device`] and its objects; a driver crate implements them.
#![cfg_attr(not(test), no_std)]

pub mod attr;
pub mod cq;
mod error;
mod event;
mod flow;
pub mod gid;
mod latch;
mod mw;
pub mod qp;
pub mod srq;
pub mod sync;
mod units;
mod verbs;
mod wc;
pub mod wire;
pub mod wq;
mod wr;

pub use attr::{
    Access, AccessOf, AhAttr, CqInit, DeviceAttr, GidEntry, GidType, GlobalRoute, LinkLayer, PortAttr, PortState,
    QpCap, QpInit, SrqAttr, SrqInit, XrcSrqInit,
};
pub use error::{Argument, Error, Object, PlatformError, PollError, PostError, PostListError};
pub use event::{CqEvent, Event};
pub use flow::FlowSpec;
pub use mw::{Bind, FastInit, FastRegion, MemoryWindow, WindowKind};
pub use qp::{QpAttr, QpAttrMask, QpState, QpType};
pub use units::{
    AckTimeout, Cqn, Gid, Lid, Lkey, Mac, Mtu, Pkey, PortNum, Psn, Qkey, Qpn, RetryCount, Rkey, RnrTimer, Srqn,
};
pub use verbs::{
    Absent, CompletionChannel, CompletionQueue, CompletionView, Destroy, Device, Handle, Memory, MemoryRegion, Notify,
    QueuePair, RawMemory, Refused, RegionInit, SharedReceiveQueue, check_range,
};
pub use wc::{Completion, WcFlags, WcOpcode, WcStatus};
pub use wr::{AddressHandle, Destination, Headed, Payload, RecvWr, SendFlags, SendOp, SendWr, Sge, UdDestination};
