//! Event queue entries. PRM: "Event Queue Entry (EQE)", "Event Data".

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Event, 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Eqe {
    /// Reserved.
    pub reserved0: u8,
    /// See [`event`].
    pub event_type: u8,
    /// Reserved.
    pub reserved1: u8,
    /// Depends on the type.
    pub event_sub_type: u8,
    /// Reserved.
    pub reserved2: [u8; 28],
    /// Depends on the type: [`completion`], [`qp`], [`cq_error`] ... are tables of its fields.
    pub event_data: [u8; 28],
    /// Reserved.
    pub reserved3: U16,
    /// Makes the exclusive or of the EQE 0xff.
    pub signature: u8,
    /// Owner bit 0: flips each time the queue wraps; in the first lap a new event has 0. Written last.
    pub owner: u8,
}

/// Byte of an EQE that says whether it is there.
pub const OWNER: usize = 63;
/// Bytes of an EQE.
pub const SIZE: usize = 64;

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<Eqe>() == SIZE && offset_of!(Eqe, event_type) == 1);
    assert!(offset_of!(Eqe, event_sub_type) == 3 && offset_of!(Eqe, event_data) == 32);
    assert!(offset_of!(Eqe, owner) == OWNER);
};

/// Event types; bit n of CREATE_EQ's mask subscribes to type n.
pub mod event {
    /// Completion on a CQ; comes to the CQ's EQ without subscription.
    pub const COMPLETION: u8 = 0x00;
    /// Path migrated.
    pub const PATH_MIGRATED: u8 = 0x01;
    /// Communication established: a packet came to a QP in RTR.
    pub const COMM_ESTABLISHED: u8 = 0x02;
    /// Send queue drained.
    pub const SEND_QUEUE_DRAINED: u8 = 0x03;
    /// Error of a CQ.
    pub const CQ_ERROR: u8 = 0x04;
    /// Catastrophic error of a work queue.
    pub const WQ_CATASTROPHIC: u8 = 0x05;
    /// Path migration failed.
    pub const PATH_MIGRATION_FAILED: u8 = 0x07;
    /// Internal error.
    pub const INTERNAL_ERROR: u8 = 0x08;
    /// Port change, see [`port_sub_type`](super::port_sub_type).
    pub const PORT_CHANGE: u8 = 0x09;
    /// Commands completed.
    pub const COMMAND_COMPLETION: u8 = 0x0a;
    /// Firmware wants pages, or gives some back.
    pub const PAGE_REQUEST: u8 = 0x0b;
    /// Page fault.
    pub const PAGE_FAULT: u8 = 0x0c;
    /// Vport context changed.
    pub const NIC_VPORT_CHANGE: u8 = 0x0d;
    /// Functions of the embedded switch changed.
    pub const ESW_FUNCTIONS_CHANGED: u8 = 0x0e;
    /// State of a function changed.
    pub const VHCA_STATE_CHANGE: u8 = 0x0f;
    /// A work queue met an invalid request.
    pub const WQ_INVALID_REQUEST: u8 = 0x10;
    /// A work queue met a local access violation.
    pub const WQ_ACCESS_ERROR: u8 = 0x11;
    /// Catastrophic error of an SRQ.
    pub const SRQ_CATASTROPHIC: u8 = 0x12;
    /// Last WQE reached: a QP in error gives no more receive completions.
    pub const SRQ_LAST_WQE: u8 = 0x13;
    /// SRQ limit reached.
    pub const SRQ_RQ_LIMIT: u8 = 0x14;
    /// General purpose input.
    pub const GPIO: u8 = 0x15;
    /// Port module.
    pub const PORT_MODULE: u8 = 0x16;
    /// Temperature warning.
    pub const TEMPERATURE_WARNING: u8 = 0x17;
    /// Error of an XRQ.
    pub const XRQ_ERROR: u8 = 0x18;
    /// Remote configuration.
    pub const REMOTE_CONFIG: u8 = 0x19;
    /// Doorbells or BlueFlame congested.
    pub const DB_BF_CONGESTION: u8 = 0x1a;
    /// Stalled.
    pub const STALL: u8 = 0x1b;
    /// DC target drained.
    pub const DCT_DRAINED: u8 = 0x1c;
    /// DC key violation.
    pub const DCT_KEY_VIOLATION: u8 = 0x1d;
    /// General event, see the sub type.
    pub const GENERAL: u8 = 0x22;
    /// Monitored counter changed.
    pub const MONITOR_COUNTER: u8 = 0x24;
    /// Pulse per second.
    pub const PPS: u8 = 0x25;
    /// Firmware traces.
    pub const DEVICE_TRACER: u8 = 0x26;
    /// Object changed.
    pub const OBJECT_CHANGE: u8 = 0x27;
}

/// Sub types of [`event::PORT_CHANGE`].
pub mod port_sub_type {
    /// Port down.
    pub const DOWN: u8 = 1;
    /// Port active.
    pub const ACTIVE: u8 = 4;
    /// Port initialized.
    pub const INITIALIZED: u8 = 5;
    /// LID changed.
    pub const LID: u8 = 6;
    /// P_Key table changed.
    pub const PKEY: u8 = 7;
    /// GUID changed.
    pub const GUID: u8 = 8;
    /// Clients are asked to register with the subnet manager again.
    pub const CLIENT_REREGISTER: u8 = 9;
}

/// Data of [`event::COMPLETION`].
pub mod completion {
    use crate::field::Field;

    /// The CQ.
    pub const CQN: Field = Field::new(0x18, 23, 0);
}

/// Data of events of QPs, RQs, SQs and SRQs.
pub mod qp {
    use crate::field::Field;

    /// [`queue_type`](super::queue_type) of the number.
    pub const QUEUE_TYPE: Field = Field::new(0x14, 31, 24);
    /// Number of QP, RQ, SQ or SRQ.
    pub const NUMBER: Field = Field::new(0x18, 23, 0);
}

/// Values of [`qp::QUEUE_TYPE`].
pub mod queue_type {
    /// A QP (or SRQ, in events of those).
    pub const QP: u32 = 0;
    /// A receive queue.
    pub const RQ: u32 = 1;
    /// A send queue.
    pub const SQ: u32 = 2;
    /// A DC target.
    pub const DCT: u32 = 6;
}

/// Data of [`event::CQ_ERROR`].
pub mod cq_error {
    use crate::field::Field;

    /// The CQ.
    pub const CQN: Field = Field::new(0x00, 23, 0);
    /// [`OVERRUN`] or [`ACCESS_VIOLATION`].
    pub const SYNDROME: Field = Field::new(0x08, 7, 0);
    /// The producer passed the consumer.
    pub const OVERRUN: u32 = 1;
    /// A write to the queue failed.
    pub const ACCESS_VIOLATION: u32 = 2;
}

/// Data of [`event::PORT_CHANGE`].
pub mod port_change {
    use crate::field::Field;

    /// Port, counted from 1.
    pub const PORT: Field = Field::new(0x08, 31, 28);
}

/// Data of [`event::COMMAND_COMPLETION`].
pub mod command_completion {
    use crate::field::Field;

    /// Bit n: the command in slot n is done.
    pub const VECTOR: Field = Field::new(0x00, 31, 0);
}

/// Data of [`event::PAGE_REQUEST`].
pub mod page_request {
    use crate::field::Field;

    /// The function is one of the embedded processor's.
    pub const EC_FUNCTION: Field = Field::new(0x00, 31, 31);
    /// Function that the pages are for.
    pub const FUNCTION_ID: Field = Field::new(0x00, 15, 0);
    /// How many; as a signed number, negative for pages that firmware gives back.
    pub const NUM_PAGES: Field = Field::new(0x04, 31, 0);
}

/// Data of [`event::NIC_VPORT_CHANGE`].
pub mod vport_change {
    use crate::field::Field;

    /// The vport.
    pub const VPORT_NUM: Field = Field::new(0x00, 15, 0);
}

/// Data of [`event::PORT_MODULE`].
pub mod port_module {
    use crate::field::Field;

    /// The module.
    pub const MODULE: Field = Field::new(0x00, 23, 16);
    /// 1 plugged, 2 unplugged, 3 in error.
    pub const MODULE_STATUS: Field = Field::new(0x00, 3, 0);
    /// What is wrong with it.
    pub const ERROR_TYPE: Field = Field::new(0x04, 11, 8);
}

/// Data of events of DC targets.
pub mod dct {
    use crate::field::Field;

    /// The DC target.
    pub const DCTN: Field = Field::new(0x18, 23, 0);
}
