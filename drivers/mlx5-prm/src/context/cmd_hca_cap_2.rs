//! General device capabilities, second part; there if `hca_cap_2` is set. PRM: "HCA Capabilities 2".
use crate::field::Field;

/// Size in bytes of what is used of the 4096.
pub const SIZE: usize = 0x100;
/// Bytes that a reformat may insert at most.
pub const MAX_REFORMAT_INSERT_SIZE: Field = Field::new(0x14, 31, 24);
/// Where it may insert at most.
pub const MAX_REFORMAT_INSERT_OFFSET: Field = Field::new(0x14, 23, 16);
/// Bytes that a reformat may remove at most.
pub const MAX_REFORMAT_REMOVE_SIZE: Field = Field::new(0x14, 15, 8);
/// Where it may remove at most.
pub const MAX_REFORMAT_REMOVE_OFFSET: Field = Field::new(0x14, 7, 0);
/// Log of the bytes of a key's entity at least.
pub const LOG_MIN_MKEY_ENTITY_SIZE: Field = Field::new(0x34, 20, 16);
/// INIT_HCA takes a `sw_vhca_id`; set by SET_HCA_CAP.
pub const SW_VHCA_ID_VALID: Field = Field::new(0x44, 30, 30);
/// The one in force.
pub const SW_VHCA_ID: Field = Field::new(0x44, 29, 16);
/// Log of the bits of the WQE counter in a timestamp CQE.
pub const TS_CQE_METADATA_SIZE2WQE_COUNTER: Field = Field::new(0x48, 20, 16);
