//! Completions as Debian's compiled libmlx5 (rdma-core 56.1-1) reads them: these bytes were put into
//! the ring of a CQ with version 1 entries, and ibv_poll_cq reported what is asserted.

use bareverbs_mlx5_prm::cqe::*;
use bareverbs_mlx5_prm::wqe;
use zerocopy::FromBytes;

use crate::hex;

fn cqe(digits: &str) -> Cqe64 {
    Cqe64::read_from_bytes(&hex(digits)).expect("64 bytes")
}

fn opcode_of(op_own: u8) -> u8 {
    op_own >> op_own::OPCODE_SHIFT
}

/// IBV_WC_RDMA_READ of the sixth WQE of QP 0x100, byte_len 64.
#[test]
fn requester() {
    let cqe = cqe("00000000 00000000 00000000 00000000
                   00000000 00000000 00000000 00000000
                   00000000 00000000 00000000 00000040
                   00000000 00000000 10000100 00050000");
    assert_eq!(opcode_of(cqe.op_own), opcode::REQ);
    assert_eq!(cqe.sop_drop_qpn, u32::from(wqe::opcode::RDMA_READ) << 24 | 0x100);
    assert_eq!((cqe.wqe_counter.get(), cqe.byte_cnt.get()), (5, 64));
}

/// IBV_WC_RECV with IBV_WC_WITH_IMM and IBV_WC_GRH: byte_len 0x123, imm_data 0xdeadbeef, qp_num
/// 0x100, src_qp 0x654, slid 0x1234, sl 5, dlid_path_bits 3, pkey_index from 0xbeef.
#[test]
fn responder_with_immediate() {
    let cqe = cqe("00000000 00000000 00000000 00000000
                   00030000 00001234 15000654 00000000
                   00000000 deadbeef 00000000 00000123
                   00000000 00000000 00000100 00000032");
    assert_eq!(opcode_of(cqe.op_own), opcode::RESP_SEND_IMM);
    assert_eq!(cqe.op_own & op_own::SOLICITED, op_own::SOLICITED);
    assert_eq!(cqe.op_own & op_own::OWNER, 0);
    assert_eq!((cqe.byte_cnt.get(), cqe.imm_inval_pkey.get()), (0x123, 0xdead_beef));
    assert_eq!((cqe.sop_drop_qpn.get(), cqe.slid.get(), cqe.ml_path), (0x100, 0x1234, 3));
    let flags = cqe.flags_rqpn.get();
    assert_eq!(flags & rqpn::SRC_QPN_MASK, 0x654);
    assert_eq!(flags >> rqpn::SL_SHIFT & rqpn::SL_MASK, 5);
    assert_eq!(flags >> rqpn::GRH_SHIFT & rqpn::GRH_MASK, 1);
}

/// IBV_WC_RECV_RDMA_WITH_IMM; then IBV_WC_RECV with IBV_WC_WITH_INV of rkey 0x00abcd07.
#[test]
fn responder_opcodes() {
    let write = cqe("00000000 00000000 00000000 00000000
                     00000000 00000000 00000000 00000000
                     00000000 deadbeef 00000000 00000123
                     00000000 00000000 00000100 00010010");
    assert_eq!(opcode_of(write.op_own), opcode::RESP_WR_IMM);
    let invalidated = cqe("00000000 00000000 00000000 00000000
                           00000000 00000000 00000000 00000000
                           00000000 00abcd07 00000000 00000123
                           00000000 00000000 00000100 00030040");
    assert_eq!(opcode_of(invalidated.op_own), opcode::RESP_SEND_INV);
    assert_eq!(invalidated.imm_inval_pkey, 0x00ab_cd07);
}

/// IBV_WC_REM_ACCESS_ERR, vendor_err 0x88, of the seventh WQE of QP 0x100, an RDMA WRITE.
#[test]
fn requester_in_error() {
    let bytes = hex("00000000 00000000 00000000 00000000
                     00000000 00000000 00000000 00000000
                     00000000 00000000 00000000 00000000
                     00000000 00008813 08000100 000600d0");
    let cqe = ErrCqe::read_from_bytes(&bytes).expect("64 bytes");
    assert_eq!(opcode_of(cqe.op_own), opcode::REQ_ERR);
    assert_eq!(Syndrome::from_raw(cqe.syndrome), Syndrome::RemoteAccess);
    assert_eq!(cqe.vendor_err_synd, 0x88);
    assert_eq!(cqe.s_wqe_opcode_qpn, u32::from(wqe::opcode::RDMA_WRITE) << 24 | 0x100);
    assert_eq!(cqe.wqe_counter, 6);
}

/// IBV_WC_WR_FLUSH_ERR, vendor_err 0x32, of the fifth receive WQE.
#[test]
fn responder_flushed() {
    let bytes = hex("00000000 00000000 00000000 00000000
                     00000000 00000000 00000000 00000000
                     00000000 00000000 00000000 00000000
                     00000000 00003205 00000100 000400e0");
    let cqe = ErrCqe::read_from_bytes(&bytes).expect("64 bytes");
    assert_eq!(opcode_of(cqe.op_own), opcode::RESP_ERR);
    assert_eq!(Syndrome::from_raw(cqe.syndrome), Syndrome::WrFlush);
    assert_eq!(cqe.wqe_counter, 4);
}

/// Codes of `enum` MLX5_CQE_SYNDROME_* in rdma-core 56.1's mlx5dv.h.
#[test]
fn syndromes() {
    let codes = [0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x22];
    for code in 0..=u8::MAX {
        let known = !matches!(Syndrome::from_raw(code), Syndrome::Unknown(_));
        assert_eq!(known, codes.contains(&code), "{code:#x}");
        assert_eq!(Syndrome::from_raw(code).to_raw(), code);
    }
}
