//! Transport interface send context. PRM: "TIS Context".
use crate::field::Field;

/// Size in bytes.
pub const SIZE: usize = 0xa0;
/// The chosen port of a bond is kept even when it is down.
pub const STRICT_LAG_TX_PORT_AFFINITY: Field = Field::new(0x00, 31, 31);
/// TLS offload.
pub const TLS_EN: Field = Field::new(0x00, 30, 30);
/// Port of a bond; 0 lets the device choose.
pub const LAG_TX_PORT_AFFINITY: Field = Field::new(0x00, 27, 24);
/// Priority, in its upper three bits.
pub const PRIO: Field = Field::new(0x00, 19, 16);
/// Transport domain.
pub const TRANSPORT_DOMAIN: Field = Field::new(0x24, 23, 0);
/// IPoIB: the QP underneath.
pub const UNDERLAY_QPN: Field = Field::new(0x28, 23, 0);
/// Protection domain of TLS.
pub const PD: Field = Field::new(0x2c, 23, 0);
