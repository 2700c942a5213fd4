//! The command interface: Linux 6.1's `struct mlx5_cmd_layout`, `struct mlx5_cmd_prot_block`,
//! `struct mlx5_init_seg` and `struct health_buffer` (include/linux/mlx5/device.h and driver.h),
//! filled by name in a C program and printed.

use bareverbs_mlx5_prm::cmd::{DeliveryStatus, Opcode, Status, entry, input, mailbox, output};
use bareverbs_mlx5_prm::registers::{HealthSyndrome, health, init};

use crate::hex;

/// inlen 272, in_ptr 0x123456000, in[0] CREATE_CQ, out[1] 0x99, out_ptr 0x123457000, outlen 16,
/// token 0x5a, sig 0xc3, status_own 0x0d (status 6, owned by the device).
#[test]
fn queue_entry() {
    let captured = hex("07000000 00000110 00000001 23456000
                        04000000 00000000 00000000 00000000
                        00000000 00000099 00000000 00000000
                        00000001 23457000 00000010 5ac3000d");
    assert_eq!(captured.len(), entry::SIZE);
    assert_eq!(entry::TYPE.get(&captured), entry::TYPE_PCI);
    assert_eq!(entry::INPUT_LENGTH.get(&captured), 272);
    assert_eq!(entry::INPUT_MAILBOX.get(&captured), 0x1_2345_6000);
    let command = entry::INPUT_INLINE.get(&captured);
    assert_eq!(input::OPCODE.get(command), u32::from(Opcode::CREATE_CQ.0));
    assert_eq!(output::SYNDROME.get(entry::OUTPUT_INLINE.get(&captured)), 0x99);
    assert_eq!(entry::OUTPUT_MAILBOX.get(&captured), 0x1_2345_7000);
    assert_eq!(entry::OUTPUT_LENGTH.get(&captured), 16);
    assert_eq!(entry::TOKEN.get(&captured), 0x5a);
    assert_eq!(entry::SIGNATURE.get(&captured), 0xc3);
    let status = DeliveryStatus::from_raw(entry::STATUS.get(&captured) as u8);
    assert_eq!(status, DeliveryStatus::InternalError);
    assert!(entry::OWNERSHIP.is_set(&captured));
    assert_eq!(captured[entry::STATUS_OWN], 0x0d);
}

/// next 0x123458000, block_num 2, token 0x5a, ctrl_sig 0xa1, sig 0xb2.
#[test]
fn mailbox_tail() {
    let tail = hex("00000000 00000000 00000000 00000000
                    00000000 00000000 00000000 00000000
                    00000000 00000000 00000000 00000000
                    00000001 23458000 00000002 005aa1b2");
    let block = [vec![0; mailbox::DATA_LEN], tail].concat();
    assert_eq!(block.len(), mailbox::SIZE);
    assert_eq!(mailbox::NEXT.get(&block), 0x1_2345_8000);
    assert_eq!(mailbox::BLOCK_NUMBER.get(&block), 2);
    assert_eq!(mailbox::TOKEN.get(&block), 0x5a);
    assert_eq!(mailbox::CTRL_SIGNATURE.get(&block), 0xa1);
    assert_eq!(mailbox::SIGNATURE.get(&block), 0xb2);
}

/// The offsets of the members.
#[test]
fn initialization_segment() {
    assert_eq!([init::FW_REV, init::CMDIF_REV_FW_SUB], [0x0, 0x4]);
    assert_eq!([init::CMDQ_ADDR_HIGH, init::CMDQ_ADDR_LOW, init::CMD_DOORBELL], [0x10, 0x14, 0x18]);
    assert_eq!([init::INITIALIZING_DWORD, init::HEALTH_BUFFER], [0x1fc, 0x200]);
    assert_eq!([init::CMD_EXEC_TIMEOUT, init::CMD_Q_INIT_TIMEOUT], [0xff8, 0xffc]);
    assert_eq!([init::INTERNAL_TIMER_HIGH, init::INTERNAL_TIMER_LOW], [0x1000, 0x1004]);
    assert_eq!(init::HEALTH_COUNTER_DWORD, 0x1010);
    assert_eq!(health::ASSERT_EXIT_PTR.offset(), 0x20);
    assert_eq!([health::TIME.offset(), health::FW_VER.offset()], [0x2c, 0x30]);
    assert_eq!([health::HW_ID.offset(), health::SEVERITY.offset()], [0x34, 0x38]);
    // irisc_index 0x3c, synd 0x3d, ext_synd 0x3e
    let mut buffer = [0; health::SIZE];
    buffer[0x3c..].copy_from_slice(&[0x11, 0x08, 0x22, 0x33]);
    assert_eq!(health::IRISC_INDEX.get(&buffer), 0x11);
    assert_eq!(health::SYNDROME.get(&buffer), 0x08);
    assert_eq!(health::EXT_SYNDROME.get(&buffer), 0x2233);
}

/// Linux 6.1's cmd.c takes the low byte of `cmdq_addr_l_sz` apart: log of the entries in 7:4, log of
/// their stride in 3:0. 0x56 are 32 entries of 64 bytes.
#[test]
fn command_queue_geometry() {
    let mut segment = [0; 0x20];
    segment[init::CMDQ_ADDR_LOW + 3] = 0x56;
    assert_eq!(init::LOG_CMDQ_SIZE.get(&segment), 5);
    assert_eq!(init::LOG_CMDQ_STRIDE.get(&segment), 6);
}

/// Codes of MLX5_CMD_STAT_* (device.h), MLX5_CMD_DELIVERY_STAT_* (cmd.c) and
/// MLX5_INITIAL_SEG_HEALTH_SYNDROME_* (mlx5_ifc.h).
#[test]
fn statuses() {
    let returned: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 8, 9, 0xa, 0xf, 0x10, 0x30, 0x40, 0x50, 0x51];
    let delivered: [u8; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x10];
    let syndromes: [u8; 12] = [0, 1, 7, 8, 9, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 0x10];
    for code in 0..=u8::MAX {
        let status = Status::from_raw(code);
        assert_eq!(!matches!(status, Status::Unknown(_)), returned.contains(&code));
        assert_eq!(status.to_raw(), code);
        let status = DeliveryStatus::from_raw(code);
        assert_eq!(!matches!(status, DeliveryStatus::Unknown(_)), delivered.contains(&code));
        assert_eq!(status.to_raw(), code);
        let syndrome = HealthSyndrome::from_raw(code);
        assert_eq!(!matches!(syndrome, HealthSyndrome::Unknown(_)), syndromes.contains(&code));
        assert_eq!(syndrome.to_raw(), code);
    }
    assert_eq!(Status::from_raw(0x10), Status::BadQpState);
    assert_eq!(Status::from_raw(0x50), Status::BadInputLength);
    assert_eq!(DeliveryStatus::from_raw(0x2), DeliveryStatus::TokenError);
    assert_eq!(HealthSyndrome::from_raw(0x7), HealthSyndrome::DeadIrisc);
}

/// Some of `enum` MLX5_CMD_OP_* in mlx5_ifc.h.
#[test]
fn opcodes() {
    assert_eq!(Opcode(0x50a), Opcode::QP_2RST);
    assert_eq!(Opcode(0x805).name(), Some("ACCESS_REG"));
    assert_eq!(Opcode(0x105).name(), Some("DISABLE_HCA"));
    assert_eq!(Opcode(0x106).name(), None);
    assert!(Opcode::ALL.is_sorted_by_key(|opcode| opcode.0));
}
