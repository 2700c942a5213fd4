//! Context of an InfiniBand virtual port. PRM: "HCA Vport Context".
use crate::field::{Field, Field64};

/// Size in bytes.
pub const SIZE: usize = 0x200;
/// Which fields MODIFY_HCA_VPORT_CONTEXT changes, see [`select`].
pub const FIELD_SELECT: Field = Field::new(0x00, 31, 0);
/// The subnet manager knows virtual ports.
pub const SM_VIRT_AWARE: Field = Field::new(0x20, 31, 31);
/// The vport has a QP 0.
pub const HAS_SMI: Field = Field::new(0x20, 30, 30);
/// The vport may send raw packets.
pub const HAS_RAW: Field = Field::new(0x20, 29, 29);
/// Packets without GRH are not accepted.
pub const GRH_REQUIRED: Field = Field::new(0x20, 28, 28);
/// Physical state of the port, IBA's PortInfo codes: 5 is LinkUp.
pub const PORT_PHYSICAL_STATE: Field = Field::new(0x20, 15, 12);
/// [`policy`] that the administrator set.
pub const VPORT_STATE_POLICY: Field = Field::new(0x20, 11, 8);
/// Logical state of the port, IBA's PortInfo codes: 4 is Active.
pub const PORT_STATE: Field = Field::new(0x20, 7, 4);
/// Logical state of the vport, the same codes.
pub const VPORT_STATE: Field = Field::new(0x20, 3, 0);
/// System image GUID.
pub const SYSTEM_IMAGE_GUID: Field64 = Field64::new(0x28);
/// Port GUID.
pub const PORT_GUID: Field64 = Field64::new(0x30);
/// Node GUID.
pub const NODE_GUID: Field64 = Field64::new(0x38);
/// PortInfo's capability mask.
pub const CAP_MASK1: Field = Field::new(0x40, 31, 0);
/// Which bits of it may be changed.
pub const CAP_MASK1_FIELD_SELECT: Field = Field::new(0x44, 31, 0);
/// PortInfo's second capability mask.
pub const CAP_MASK2: Field = Field::new(0x48, 31, 0);
/// Which bits of it may be changed.
pub const CAP_MASK2_FIELD_SELECT: Field = Field::new(0x4c, 31, 0);
/// LID.
pub const LID: Field = Field::new(0x60, 31, 16);
/// What kind of initialization the subnet manager did.
pub const INIT_TYPE_REPLY: Field = Field::new(0x60, 11, 8);
/// LID mask control.
pub const LMC: Field = Field::new(0x60, 7, 5);
/// Subnet timeout: 4.096 us * 2^value.
pub const SUBNET_TIMEOUT: Field = Field::new(0x60, 4, 0);
/// LID of the subnet manager.
pub const SM_LID: Field = Field::new(0x64, 31, 16);
/// Service level of the subnet manager.
pub const SM_SL: Field = Field::new(0x64, 15, 12);
/// Q_Key violations.
pub const QKEY_VIOLATION_COUNTER: Field = Field::new(0x68, 31, 16);
/// P_Key violations.
pub const PKEY_VIOLATION_COUNTER: Field = Field::new(0x68, 15, 0);

/// Bits of [`FIELD_SELECT`].
pub mod select {
    /// [`PORT_GUID`](super::PORT_GUID).
    pub const PORT_GUID: u32 = 1 << 0;
    /// [`NODE_GUID`](super::NODE_GUID).
    pub const NODE_GUID: u32 = 1 << 1;
    /// [`VPORT_STATE_POLICY`](super::VPORT_STATE_POLICY).
    pub const STATE_POLICY: u32 = 1 << 2;
}

/// Values of [`VPORT_STATE_POLICY`].
pub mod policy {
    /// Down.
    pub const DOWN: u32 = 0;
    /// Up.
    pub const UP: u32 = 1;
    /// As the port is.
    pub const FOLLOW: u32 = 2;
}
