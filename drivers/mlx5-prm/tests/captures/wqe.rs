//! Work queue entries that Debian's compiled libmlx5 (rdma-core 56.1-1) wrote into a ring, which had
//! been filled with 0xee: those bytes are the ones it leaves alone. QPN 0x100; remote address
//! 0x0102030405060708, rkey 0xabcdef01; scatter entries (0x1122334455667788, 64 or 8 bytes, lkey
//! 0x1234) and (0x99aabbccddeeff00, 128 bytes, lkey 0x5678). Sources other than that are said.

use bareverbs_mlx5_prm::context::mkc;
use bareverbs_mlx5_prm::wqe::*;
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::hex;

const RADDR: RaddrSeg =
    RaddrSeg { raddr: U64::new(0x0102_0304_0506_0708), rkey: U32::new(0xabcd_ef01), reserved: U32::new(0) };
const DATA: DataSeg =
    DataSeg { byte_count: U32::new(64), lkey: U32::new(0x1234), addr: U64::new(0x1122_3344_5566_7788) };

/// A control segment of QP 0x100.
fn ctrl(index: u32, opcode: u8, ds: u32, fm_ce_se: u8, general_id: u32) -> CtrlSeg {
    CtrlSeg {
        opmod_idx_opcode: (index << 8 | u32::from(opcode)).into(),
        qpn_ds: (0x100 << 8 | ds).into(),
        fm_ce_se,
        general_id: general_id.into(),
        ..CtrlSeg::default()
    }
}

/// The segments as they lie one behind the other.
fn wqe(segments: &[&[u8]]) -> Vec<u8> {
    segments.concat()
}

/// IBV_WR_RDMA_WRITE, signaled, two scatter entries.
#[test]
fn rdma_write() {
    let second = DataSeg { byte_count: 128.into(), lkey: 0x5678.into(), addr: 0x99aa_bbcc_ddee_ff00.into() };
    let ctrl = ctrl(0, opcode::RDMA_WRITE, 4, ctrl::CQ_UPDATE, 0);
    assert_eq!(
        wqe(&[ctrl.as_bytes(), RADDR.as_bytes(), DATA.as_bytes(), second.as_bytes()]),
        hex("00000008 00010004 00000008 00000000
             01020304 05060708 abcdef01 00000000
             00000040 00001234 11223344 55667788
             00000080 00005678 99aabbcc ddeeff00")
    );
}

/// IBV_WR_RDMA_WRITE_WITH_IMM of 0xdeadbeef, signaled and solicited, the second WQE of the ring.
#[test]
fn rdma_write_imm_solicited() {
    let flags = ctrl::CQ_UPDATE | ctrl::SOLICITED;
    let ctrl = ctrl(1, opcode::RDMA_WRITE_IMM, 3, flags, 0xdead_beef);
    assert_eq!(
        wqe(&[ctrl.as_bytes(), RADDR.as_bytes(), DATA.as_bytes()]),
        hex("00000109 00010003 0000000a deadbeef
             01020304 05060708 abcdef01 00000000
             00000040 00001234 11223344 55667788")
    );
}

/// IBV_WR_SEND with IBV_SEND_FENCE, not signaled.
#[test]
fn send_fenced() {
    let ctrl = ctrl(2, opcode::SEND, 2, ctrl::FENCE_SMALL_AND_FENCE, 0);
    assert_eq!(
        wqe(&[ctrl.as_bytes(), DATA.as_bytes()]),
        hex("0000020a 00010002 00000080 00000000
             00000040 00001234 11223344 55667788")
    );
}

/// IBV_WR_SEND_WITH_IMM and IBV_WR_SEND_WITH_INV of rkey 0x00abcd07.
#[test]
fn send_with_immediate_and_invalidate() {
    assert_eq!(
        ctrl(3, opcode::SEND_IMM, 2, ctrl::CQ_UPDATE, 0xdead_beef).as_bytes(),
        hex("0000030b 00010002 00000008 deadbeef")
    );
    assert_eq!(
        ctrl(4, opcode::SEND_INVAL, 2, ctrl::CQ_UPDATE, 0x00ab_cd07).as_bytes(),
        hex("00000401 00010002 00000008 00abcd07")
    );
}

/// IBV_WR_RDMA_READ.
#[test]
fn rdma_read() {
    let ctrl = ctrl(5, opcode::RDMA_READ, 3, ctrl::CQ_UPDATE, 0);
    assert_eq!(
        wqe(&[ctrl.as_bytes(), RADDR.as_bytes(), DATA.as_bytes()]),
        hex("00000510 00010003 00000008 00000000
             01020304 05060708 abcdef01 00000000
             00000040 00001234 11223344 55667788")
    );
}

/// IBV_WR_ATOMIC_CMP_AND_SWP: compare 0x1111111122222222, swap 0x3333333344444444; then
/// IBV_WR_ATOMIC_FETCH_AND_ADD of 0x1111111122222222, whose second operand is left alone.
#[test]
fn atomics() {
    let data = DataSeg { byte_count: 8.into(), ..DATA };
    let cas = AtomicSeg { swap_add: 0x3333_3333_4444_4444.into(), compare: 0x1111_1111_2222_2222.into() };
    let head = ctrl(6, opcode::ATOMIC_CS, 4, ctrl::CQ_UPDATE, 0);
    assert_eq!(
        wqe(&[head.as_bytes(), RADDR.as_bytes(), cas.as_bytes(), data.as_bytes()]),
        hex("00000611 00010004 00000008 00000000
             01020304 05060708 abcdef01 00000000
             33333333 44444444 11111111 22222222
             00000008 00001234 11223344 55667788")
    );

    let faa = hex("00000712 00010004 00000008 00000000
                   01020304 05060708 abcdef01 00000000
                   11111111 22222222 eeeeeeee eeeeeeee
                   00000008 00001234 11223344 55667788");
    let head = ctrl(7, opcode::ATOMIC_FA, 4, ctrl::CQ_UPDATE, 0);
    assert_eq!(faa[..16], *head.as_bytes());
    let (operands, _) = AtomicSeg::read_from_prefix(&faa[32..]).unwrap();
    assert_eq!(operands.swap_add, 0x1111_1111_2222_2222);
}

/// Linux 6.1's `struct mlx5_wqe_masked_atomic_seg` (include/linux/mlx5/qp.h), filled by name in a C
/// program and printed.
#[test]
fn masked_atomic() {
    let segment = MaskedAtomicSeg {
        swap_add: 0x1111_1111_1111_1111.into(),
        compare: 0x2222_2222_2222_2222.into(),
        swap_add_mask: 0x3333_3333_3333_3333.into(),
        compare_mask: 0x4444_4444_4444_4444.into(),
    };
    assert_eq!(
        segment.as_bytes(),
        hex("11111111 11111111 22222222 22222222
             33333333 33333333 44444444 44444444")
    );
}

/// IBV_WR_SEND with IBV_SEND_INLINE of "sixteen+5 bytes.abcde", 21 bytes: the length counts neither
/// header nor padding, `ds` counts both.
#[test]
fn inline_data() {
    let captured = hex("0000060a 00010003 00000008 00000000
                        80000015 73697874 65656e2b 35206279
                        7465732e 61626364 65eeeeee eeeeeeee");
    let header = InlineSeg { byte_count: (INLINE | 21).into() };
    assert_eq!(captured[..16], *ctrl(6, opcode::SEND, 3, ctrl::CQ_UPDATE, 0).as_bytes());
    assert_eq!(captured[16..20], *header.as_bytes());
    assert_eq!(captured[20..41], *b"sixteen+5 bytes.abcde");
    assert_eq!(header.byte_count.get() & INLINE_LENGTH_MASK, 21);
}

/// IBV_WR_BIND_MW of a type 2 window, rkey 0x00777701 becoming 0x00777702: 8192 bytes at
/// 0x1122334455667000 of the region with lkey 0x1234, remote read and write.
#[test]
fn bind_by_umr() {
    let captured = hex("00000725 0001000c 00000008 00777701
                        b0000000 00040000 00000000 203c6041
                        00000000 00000000 00000000 00000000
                        00000000 00000000 00000000 00000000
                        00ee30ee 00010002 eeeeeeee eeeeeeee
                        11223344 55667000 00000000 00002000
                        eeeeeeee eeeeeeee eeeeeeee eeeeeeee
                        eeeeeeee eeeeeeee eeeeeeee eeeeeeee
                        00002000 00001234 11223344 55667000
                        00000000 00000000 00000000 00000000
                        00000000 00000000 00000000 00000000
                        00000000 00000000 00000000 00000000");
    assert_eq!(captured[..16], *ctrl(7, opcode::UMR, 12, ctrl::CQ_UPDATE, 0x0077_7701).as_bytes());
    let umr = UmrCtrlSeg {
        flags: umr::INLINE | umr::CHECK_NOT_FREE | umr::TRANSLATION_OFFSET_EN,
        reserved0: [0; 3],
        klm_octowords: U16::new(4),
        translation_offset: U16::new(0),
        mkey_mask: U64::new(
            mkey_mask::LEN
                | mkey_mask::START_ADDR
                | mkey_mask::KEY
                | mkey_mask::QPN
                | mkey_mask::LW
                | mkey_mask::RR
                | mkey_mask::RW
                | mkey_mask::A
                | mkey_mask::FREE,
        ),
        translation_offset_47_16: U32::new(0),
        reserved1: [0; 28],
    };
    assert_eq!(captured[16..64], *umr.as_bytes());
    let key = &captured[64..128];
    assert!(!mkc::FREE.is_set(key) && mkc::RR.is_set(key) && mkc::RW.is_set(key));
    assert!(!mkc::A.is_set(key) && !mkc::LW.is_set(key));
    assert_eq!((mkc::QPN.get(key), mkc::MKEY_7_0.get(key)), (0x100, 0x02));
    assert_eq!((mkc::START_ADDR.get(key), mkc::LEN.get(key)), (0x1122_3344_5566_7000, 0x2000));
    let klm = Klm { byte_count: 0x2000.into(), mkey: 0x1234.into(), address: 0x1122_3344_5566_7000.into() };
    assert_eq!(captured[128..144], *klm.as_bytes());
    assert_eq!(captured.len(), 12 * DS);
}

/// IBV_WR_LOCAL_INV of rkey 0x00777702.
#[test]
fn local_invalidate_by_umr() {
    let captured = hex("00000a25 00010008 00000028 00777702
                        98000000 00000000 00000000 20006000
                        00000000 00000000 00000000 00000000
                        00000000 00000000 00000000 00000000
                        40eeeeee ffffff00 eeeeeeee eeeeeeee");
    let flags = ctrl::FENCE_INITIATOR_SMALL | ctrl::CQ_UPDATE;
    assert_eq!(captured[..16], *ctrl(10, opcode::UMR, 8, flags, 0x0077_7702).as_bytes());
    let (umr, key) = UmrCtrlSeg::read_from_prefix(&captured[16..]).unwrap();
    assert_eq!(umr.flags, umr::INLINE | umr::TRANSLATION_OFFSET_EN | umr::CHECK_QPN);
    assert_eq!(umr.mkey_mask, mkey_mask::FREE | mkey_mask::QPN | mkey_mask::KEY);
    assert!(mkc::FREE.is_set(key));
    assert_eq!(mkc::QPN.get(key), mkc::QPN_ANY);
}

/// IBV_WR_SEND on a UD QP 0x222 over InfiniBand: LID 0x1357, SL 5, path bits 3, 10 Gb/s (code 3),
/// GRH with GID index 2, flow label 0x54321, traffic class 0x28, hop limit 64, QPN 0x654, Q_Key
/// 0x11112222.
#[test]
fn datagram() {
    let av = Av {
        key: U64::new(0x1111_2222 << 32),
        dqp_dct: U32::new(AV_EXTENDED | 0x654),
        stat_rate_sl: (3 + 5) << 4 | 5,
        fl_mlid: 3,
        rlid_udp_sport: U16::new(0x1357),
        tclass: 0x28,
        hop_limit: 64,
        grh_gid_fl: U32::new(AV_GRH | 2 << 20 | 0x54321),
        rgid: core::array::from_fn(|i| 0xf0 + i as u8),
        ..Av::default()
    };
    let captured = hex("0000000a 00022205 00000008 00000000
                        11112222 00000000 80000654 85031357
                        00000000 00000000 00002840 40254321
                        f0f1f2f3 f4f5f6f7 f8f9fafb fcfdfeff
                        00000040 00001234 11223344 55667788");
    assert_eq!(captured[16..64], *av.as_bytes());
    assert_eq!(captured[64..], *DATA.as_bytes());
}

/// Linux 6.1's `struct mlx5_av` (include/linux/mlx5/qp.h), filled by name in a C program and printed:
/// RoCE v2 to 10.11.12.13 by 02:00:5e:10:20:30, UDP source port 0xc123, priority 3, GID index 3.
#[test]
fn datagram_over_roce() {
    let mut rgid = [0; 16];
    rgid[10..].copy_from_slice(&[0xff, 0xff, 10, 11, 12, 13]);
    let av = Av {
        key: U64::new(0x1111_2222 << 32),
        dqp_dct: U32::new(AV_EXTENDED | 0x654),
        stat_rate_sl: 3 << 1,
        rlid_udp_sport: U16::new(0xc123),
        rmac: [0x02, 0x00, 0x5e, 0x10, 0x20, 0x30],
        tclass: 0x28,
        hop_limit: 64,
        grh_gid_fl: U32::new(AV_GRH | 3 << 20 | 0x54321),
        rgid,
        ..Av::default()
    };
    assert_eq!(
        av.as_bytes(),
        hex("11112222 00000000 80000654 0600c123
             00000000 02005e10 20302840 40354321
             00000000 00000000 0000ffff 0a0b0c0d")
    );
}

/// IBV_WR_SEND on an XRC QP to SRQ 0xabcd; the rest of the segment is left alone.
#[test]
fn xrc() {
    let captured = hex("0000abcd eeeeeeee eeeeeeee eeeeeeee");
    let segment = XrcSeg::read_from_bytes(&captured).unwrap();
    assert_eq!(segment.xrc_srqn, 0xabcd);
}

/// IBV_WR_SEND with IBV_SEND_IP_CSUM on a raw packet QP: 18 bytes of a frame 00 01 02 ... inline.
#[test]
fn raw_packet() {
    let segment = EthSeg {
        cs_flags: eth::L3_CSUM | eth::L4_CSUM,
        inline_hdr_sz: U16::new(18),
        inline_hdr_start: [0x00, 0x01],
        ..EthSeg::default()
    };
    assert_eq!(segment.as_bytes(), hex("00000000 c0000000 00000000 00120001"));
}

/// ibv_post_recv of one entry where four fit: the list is ended by [`INVALID_LKEY`].
#[test]
fn receive() {
    let end = DataSeg { lkey: INVALID_LKEY.into(), ..DataSeg::default() };
    assert_eq!(
        wqe(&[DATA.as_bytes(), end.as_bytes()]),
        hex("00000040 00001234 11223344 55667788
             00000000 00000100 00000000 00000000")
    );
}

/// ibv_post_srq_recv of one entry into slot 0, whose next is slot 1.
#[test]
fn srq_receive() {
    let next = SrqNextSeg { next_wqe_index: 1.into(), ..SrqNextSeg::default() };
    assert_eq!(
        wqe(&[next.as_bytes(), DATA.as_bytes()]),
        hex("00000001 00000000 00000000 00000000
             00000040 00001234 11223344 55667788")
    );
}
