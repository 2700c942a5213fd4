//! What can go wrong, each by its name.

use crate::{Access, Gid, Lid, PortNum, QpAttrMask, QpState, QpType, Qpn};
use core::fmt;

/// Why a control verb failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An argument is outside what the device offers. Nothing was sent to the device.
    OutOfRange {
        /// Which argument.
        what: Argument,
        /// What was asked for; 0 where at least 1 is needed.
        wanted: u64,
        /// The largest value allowed.
        max: u64,
    },
    /// The device has no such port.
    NoSuchPort(PortNum),
    /// The table has no such entry, or it is empty.
    NoSuchIndex {
        /// Which table.
        table: Argument,
        /// The index.
        index: u32,
    },
    /// An object of another device was named.
    Foreign(Object),
    /// Other objects still use this one.
    Busy {
        /// How many.
        holders: u32,
    },
    /// Completion events of the CQ were got and not acknowledged: see [`crate::CompletionQueue::ack_events`].
    Unacknowledged {
        /// How many.
        events: u32,
    },
    /// The device, or this driver, cannot do it at all. Nothing was sent to the device.
    Unsupported(&'static str),
    /// Remote write or atomic access was asked for without local write (IBA 10.6.3.1).
    AccessNeedsLocalWrite,
    /// The region does not have rights that a bind needs: to be bound to at all, and to be written locally where the window
    /// is to be written by peers (IBA 10.6.7.2.1).
    RegionLacks(Access),
    /// The QP type has no such transition (IBA 10.3.1).
    NoSuchTransition {
        /// QP type.
        kind: QpType,
        /// State now.
        from: QpState,
        /// State asked for.
        to: QpState,
    },
    /// Attributes that the transition requires are not set in the mask (IBA 11.2.5.2).
    MissingAttribute {
        /// All that are missing.
        missing: QpAttrMask,
        /// State now.
        from: QpState,
        /// State asked for.
        to: QpState,
    },
    /// Attributes in the mask that the transition does not take.
    ForbiddenAttribute {
        /// All that are too much.
        forbidden: QpAttrMask,
        /// State now.
        from: QpState,
        /// State asked for.
        to: QpState,
    },
    /// An attribute's value is not one the device can take.
    BadAttribute {
        /// Which.
        attribute: QpAttrMask,
        /// What is wrong with it.
        why: &'static str,
    },
    /// On Ethernet an address vector needs its GRH part (destination GID and source GID index).
    GrhRequired,
    /// A RoCE address vector needs the destination's MAC, and the GID does not tell it.
    MacRequired,
    /// GID and LID do not name a multicast group: a GID of ff00::/8 (or, on Ethernet, of an IPv4 group), and on
    /// InfiniBand a LID from 0xc000 to 0xfffe (IBA 4.1.1, 4.1.3).
    NotMulticast {
        /// The GID.
        gid: Gid,
        /// The LID.
        lid: Lid,
    },
    /// The device has no place left in its table of multicast groups, or in the group.
    MulticastFull,
    /// The device has no place left for a flow rule, or for one more QP of the same rule.
    FlowsFull,
    /// The QP is not attached to this group, or does not have this rule.
    NotAttached,
    /// The CQ holds more unpolled completions than the new size.
    BelowUnpolled {
        /// Completions that were not polled yet.
        unpolled: u32,
    },
    /// A CQ of the QP has no room for what the QP would flush to leave its SRQ: poll or resize it, and try again.
    CqFull {
        /// Entries that it takes.
        wanted: u32,
        /// Entries that are free, without the QP's own completions.
        room: u32,
    },
    /// The CQ was overrun or failed; it only can be destroyed.
    CqError,
    /// The platform could not give memory or map it.
    Platform(PlatformError),
    /// The device refused a command.
    Command {
        /// The command's opcode.
        opcode: u16,
        /// The device's status byte.
        status: u8,
        /// What the status means.
        name: &'static str,
        /// The device's syndrome.
        syndrome: u32,
    },
    /// The device took a command but said that it was delivered wrong.
    CommandDelivery {
        /// The command's opcode.
        opcode: u16,
        /// The delivery status.
        status: u8,
        /// What the status means.
        name: &'static str,
    },
    /// The device did not answer a command before its deadline. The function must be stopped.
    CommandTimeout {
        /// The command's opcode.
        opcode: u16,
    },
    /// The device's answer cannot be true (an index, length or signature that does not hold).
    BadAnswer {
        /// The command's opcode, or 0 for something read from a register or queue.
        opcode: u16,
        /// What did not hold.
        why: &'static str,
    },
    /// The device did not become ready.
    NotReady(&'static str),
    /// The device failed and must be reopened.
    Fatal {
        /// The health syndrome.
        syndrome: u8,
        /// What it means.
        name: &'static str,
        /// Firmware version: major, minor, sub-minor.
        firmware: [u16; 3],
    },
}

impl Error {
    /// Whether the device can no longer be used without a reopen.
    pub const fn is_fatal(&self) -> bool {
        matches!(self, Self::Fatal { .. } | Self::CommandTimeout { .. })
    }
}

/// The arguments that have a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is the field of the same name")]
pub enum Argument {
    CqEntries,
    CompVector,
    CqEvents,
    MaxSendWr,
    MaxRecvWr,
    MaxSendSge,
    MaxRecvSge,
    MaxInline,
    SrqEntries,
    SrqSge,
    SrqLimit,
    RegionLength,
    RegionOffset,
    Gid,
    Pkey,
    Qps,
    Cqs,
    Srqs,
    Pds,
    Xrcds,
    Windows,
    Regions,
    FastElements,
    ModerationPeriod,
    ModerationCount,
    Vlan,
    FlowLabel,
    ServiceLevel,
    SrcPathBits,
    StaticRate,
}

/// The kinds of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the field's names")]
pub enum Object {
    Device,
    Pd,
    Cq,
    Channel,
    Srq,
    Qp,
    Mr,
    Xrcd,
    Window,
    FastRegion,
    AddressHandle,
}

/// What a platform can refuse, in the words of the user's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlatformError {
    /// No host-only memory of this many bytes is left.
    OutOfMemory {
        /// Bytes.
        wanted: u64,
    },
    /// No memory that the device reaches is left.
    OutOfDmaMemory {
        /// Bytes.
        wanted: u64,
    },
    /// The user's memory cannot be mapped inside the IOMMU's windows.
    IommuWindow {
        /// The address that fell outside.
        addr: u64,
    },
    /// The limit on locked memory was reached.
    MemLock {
        /// Bytes.
        limit: u64,
    },
    /// The IOMMU's limit on the number of mappings was reached.
    MappingLimit {
        /// Mappings.
        limit: u32,
    },
    /// A device address lies above what the function can reach.
    BeyondDmaMask {
        /// Address bits.
        bits: u8,
    },
    /// The function does not answer.
    Gone,
    /// Anything else, in the platform's own words.
    Other(&'static str),
    /// A system error number.
    Os(i32),
}

impl From<PlatformError> for Error {
    fn from(e: PlatformError) -> Self {
        Self::Platform(e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfRange { what, wanted: 0, max } => write!(f, "{what:?}: 0 asked for, 1 to {max} can be had"),
            Self::OutOfRange { what, wanted, max } => write!(f, "{what:?}: {wanted} asked for, {max} is the most"),
            Self::NoSuchPort(PortNum(n)) => write!(f, "the device has no port {n}"),
            Self::NoSuchIndex { table, index } => write!(f, "the {table:?} table has no entry {index}"),
            Self::Foreign(object) => write!(f, "the {object:?} belongs to another device"),
            Self::Busy { holders } => write!(f, "still used by {holders} objects"),
            Self::Unacknowledged { events } => write!(f, "{events} completion events were not acknowledged"),
            Self::Unsupported(what) => write!(f, "not supported: {what}"),
            Self::AccessNeedsLocalWrite => f.write_str("remote write and atomic access need local write"),
            Self::RegionLacks(access) => {
                f.write_str("the region lacks ")?;
                bitflags::parser::to_writer(&access, f)
            }
            Self::NoSuchTransition { kind, from, to } => write!(f, "a {kind:?} QP cannot go from {from} to {to}"),
            Self::MissingAttribute { missing, from, to } => {
                write!(f, "{from} to {to} needs ")?;
                bitflags::parser::to_writer(&missing, f)
            }
            Self::ForbiddenAttribute { forbidden, from, to } => {
                write!(f, "{from} to {to} does not take ")?;
                bitflags::parser::to_writer(&forbidden, f)
            }
            Self::BadAttribute { attribute, why } => {
                bitflags::parser::to_writer(&attribute, &mut *f)?;
                write!(f, ": {why}")
            }
            Self::GrhRequired => f.write_str("on Ethernet an address needs a destination GID and a source GID index"),
            Self::MacRequired => f.write_str("the destination's MAC is not known and its GID does not tell it"),
            Self::NotMulticast { gid, lid } => write!(f, "{gid} with LID {:#06x} is no multicast group", lid.0),
            Self::MulticastFull => f.write_str("no place is left in the table of multicast groups"),
            Self::FlowsFull => f.write_str("no place is left for flow rules"),
            Self::NotAttached => f.write_str("the QP is not attached to it"),
            Self::BelowUnpolled { unpolled } => write!(f, "{unpolled} completions are not polled yet"),
            Self::CqFull { wanted, room } => write!(f, "{wanted} CQ entries wanted, {room} are free: poll first"),
            Self::CqError => f.write_str("the CQ is in error"),
            Self::Platform(e) => e.fmt(f),
            Self::Command { opcode, status, name, syndrome } => {
                write!(f, "command {opcode:#x}: status {status:#x} ({name}), syndrome {syndrome:#x}")
            }
            Self::CommandDelivery { opcode, status, name } => {
                write!(f, "command {opcode:#x}: delivery status {status:#x} ({name})")
            }
            Self::CommandTimeout { opcode } => write!(f, "command {opcode:#x}: no answer before the deadline"),
            Self::BadAnswer { opcode, why } => write!(f, "command {opcode:#x}: the device's answer cannot be: {why}"),
            Self::NotReady(why) => write!(f, "the device did not become ready: {why}"),
            Self::Fatal { syndrome, name, firmware: [a, b, c] } => {
                write!(f, "the device failed: health syndrome {syndrome:#x} ({name}), firmware {a}.{b}.{c}")
            }
        }
    }
}

impl core::error::Error for Error {}

impl fmt::Display for PlatformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfMemory { wanted } => write!(f, "no host memory left for {wanted} bytes"),
            Self::OutOfDmaMemory { wanted } => write!(f, "no DMA memory left for {wanted} bytes"),
            Self::IommuWindow { addr } => write!(f, "{addr:#x} lies outside the IOMMU's windows"),
            Self::MemLock { limit } => write!(f, "the limit on locked memory ({limit} bytes) is reached"),
            Self::MappingLimit { limit } => write!(f, "the IOMMU's limit of {limit} mappings is reached"),
            Self::BeyondDmaMask { bits } => write!(f, "a device address needs more than {bits} bits"),
            Self::Gone => f.write_str("the function does not answer"),
            Self::Other(what) => f.write_str(what),
            Self::Os(errno) => write!(f, "system error {errno}"),
        }
    }
}

/// Why a request was not posted. Nothing of it reached the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostError {
    /// The ring has no room: poll first. Unsignaled requests free their slots with the next signaled completion.
    QueueFull,
    /// More elements than the queue was made for.
    TooManySge {
        /// The queue's limit.
        max: u32,
    },
    /// More inline bytes than the queue was made for.
    InlineTooLong {
        /// The queue's limit.
        max: u32,
    },
    /// Not in this state (IBA 10.3.1).
    WrongState(QpState),
    /// The QP type, or the device, does not have this operation.
    UnsupportedOp,
    /// A datagram without a receiver, an XRC request without an SRQ, or either on a QP of another type.
    Destination,
    /// The address handle was made by another device.
    ForeignAddress,
    /// An atomic that is not exactly one element of eight bytes, or not on an eight-byte boundary.
    AtomicShape,
    /// Inline data is not possible for operations that bring data back.
    InlineRead,
    /// Fewer bytes than the header of a frame.
    FrameTooShort {
        /// The least.
        min: u32,
    },
    /// The device wants the first bytes of a frame in the request itself: [`crate::Payload::Headed`], or inline.
    HeaderRequired {
        /// How many.
        bytes: u32,
    },
    /// A message longer than the device sends (2^31 bytes; one MTU on UD).
    MessageTooLong {
        /// The limit in bytes.
        max: u32,
    },
    /// The QP receives from an SRQ; post there.
    UsesSrq,
    /// The SRQ failed (IBV_EVENT_SRQ_ERR); destroy it.
    SrqError,
    /// A CQ of the QP, or of the XRC SRQ, was overrun or failed.
    CqError,
    /// A window or region for fast registration of another device.
    Foreign(Object),
    /// The request takes the places of more requests than the whole queue has.
    QueueTooSmall {
        /// Places that it takes.
        needs: u32,
    },
    /// A registration of no bytes, or of more than there are addresses behind its first.
    NoSuchRange,
    /// A registration that lets peers write or do atomics, and not the device itself (IBA 10.6.3.1).
    AccessNeedsLocalWrite,
    /// A bind or registration with rights that the device lacks, or that its object does not have.
    UnsupportedAccess,
    /// The device failed; see [`crate::Device::service`].
    DeviceFatal,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::QueueFull => f.write_str("the queue is full"),
            Self::TooManySge { max } => write!(f, "more than {max} elements"),
            Self::InlineTooLong { max } => write!(f, "more than {max} inline bytes"),
            Self::WrongState(state) => write!(f, "not in state {state}"),
            Self::UnsupportedOp => f.write_str("the QP does not have this operation"),
            Self::Destination => f.write_str("a destination is for datagrams and XRC, and needed there"),
            Self::ForeignAddress => f.write_str("the address handle belongs to another device"),
            Self::AtomicShape => f.write_str("an atomic needs one aligned element of eight bytes"),
            Self::InlineRead => f.write_str("data that comes back cannot be inline"),
            Self::FrameTooShort { min } => write!(f, "a frame has at least {min} bytes"),
            Self::HeaderRequired { bytes } => write!(f, "the first {bytes} bytes must be in the request"),
            Self::MessageTooLong { max } => write!(f, "more than {max} bytes"),
            Self::Foreign(object) => write!(f, "the {object:?} belongs to another device"),
            Self::QueueTooSmall { needs } => write!(f, "the queue has fewer than {needs} places"),
            Self::NoSuchRange => f.write_str("no bytes, or more than there are addresses for"),
            Self::AccessNeedsLocalWrite => Error::AccessNeedsLocalWrite.fmt(f),
            Self::UnsupportedAccess => f.write_str("rights that the device lacks, or that are not for this object"),
            Self::UsesSrq => f.write_str("the QP receives from an SRQ"),
            Self::SrqError => f.write_str("the SRQ failed"),
            Self::CqError => f.write_str("the CQ is in error"),
            Self::DeviceFatal => f.write_str("the device failed"),
        }
    }
}

impl core::error::Error for PostError {}

impl PostError {
    /// For drivers: what [`Access::check`] says of a request.
    pub const fn of_access(error: Error) -> Self {
        match error {
            Error::AccessNeedsLocalWrite => Self::AccessNeedsLocalWrite,
            _ => Self::UnsupportedAccess,
        }
    }
}

/// Where in a list posting stopped. All requests before `index` are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostListError {
    /// The element that failed.
    pub index: usize,
    /// Why.
    pub error: PostError,
}

impl fmt::Display for PostListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}: {}", self.index, self.error)
    }
}

impl core::error::Error for PostListError {}

/// Why a poll failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PollError {
    /// The CQ was overrun or failed.
    CqError,
    /// The device failed.
    DeviceFatal,
    /// An entry names a QP that is not attached to this CQ. The entry was passed over.
    UnknownQp(Qpn),
    /// An entry makes no sense (opcode or index). It was passed over.
    BadEntry,
}

impl fmt::Display for PollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::CqError => f.write_str("the CQ is in error"),
            Self::DeviceFatal => f.write_str("the device failed"),
            Self::UnknownQp(qpn) => write!(f, "a completion names QP {qpn}, which is not attached"),
            Self::BadEntry => f.write_str("a completion makes no sense"),
        }
    }
}

impl core::error::Error for PollError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn what_is_out_of_range_is_told_from_the_side_where_it_is() {
        let error = |wanted| Error::OutOfRange { what: Argument::CqEntries, wanted, max: 100 }.to_string();
        assert_eq!(error(101), "CqEntries: 101 asked for, 100 is the most");
        assert_eq!(error(0), "CqEntries: 0 asked for, 1 to 100 can be had");
    }
}
