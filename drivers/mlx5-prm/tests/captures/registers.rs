//! Doorbells.

use bareverbs_mlx5_prm::registers::{cq_doorbell, doorbell_record, eq_doorbell};

use crate::hex;

/// What Debian's compiled libmlx5 (rdma-core 56.1-1) wrote in `ibv_req_notify_cq` of CQ 10 at consumer
/// index 0x01000007: into the doorbell record and into the UAR's register, for solicited completions
/// only with sequence number 2, then for any with sequence number 3.
#[test]
fn arming_a_cq() {
    let cases = [("00000003 21000007", "21000007 0000000a", 2, 1), ("00000003 30000007", "30000007 0000000a", 3, 0)];
    for (record, register, sequence, solicited) in cases {
        let (record, written) = (hex(record), hex(register));
        let mut register = [0; 8];
        cq_doorbell::CMD_SN.set(&mut register, sequence);
        cq_doorbell::CMD.set(&mut register, solicited);
        cq_doorbell::CONSUMER_INDEX.set(&mut register, 7);
        assert_eq!(register[..4], record[doorbell_record::CQ_ARM..]);
        cq_doorbell::CQN.set(&mut register, 10);
        assert_eq!(register[..], written);
    }
}

/// Linux 6.1's `eq_update_ci` (drivers/net/ethernet/mellanox/mlx5/core/lib/eq.h and eq.c): the EQ's
/// number shifted by 24 over the consumer index's 24 bits; by hand for EQ 5 at 0x1000009.
#[test]
fn arming_an_eq() {
    let mut register = [0; 4];
    eq_doorbell::EQN.set(&mut register, 5);
    eq_doorbell::CONSUMER_INDEX.set(&mut register, 9);
    assert_eq!(register, [0x05, 0x00, 0x00, 0x09]);
}
