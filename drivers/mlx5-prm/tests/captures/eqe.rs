//! Events: Linux 6.1's `struct mlx5_eqe` (include/linux/mlx5/device.h), filled by name in a C program
//! and printed; the owner bit is set in each.

use bareverbs_mlx5_prm::eqe::*;
use zerocopy::FromBytes;

use crate::hex;

/// An event from its first four bytes and its 28 bytes of data.
fn eqe(head: &str, data: &str) -> Eqe {
    let bytes = [hex(head), vec![0; 28], hex(data), hex("00000001")].concat();
    let eqe = Eqe::read_from_bytes(&bytes).expect("64 bytes");
    assert_eq!(eqe.owner, 1);
    eqe
}

#[test]
fn completion_event() {
    let eqe = eqe("00000000", "00000000 00000000 00000000 00000000 00000000 00000000 00123456");
    assert_eq!(eqe.event_type, event::COMPLETION);
    assert_eq!(completion::CQN.get(&eqe.event_data), 0x12_3456);
}

#[test]
fn srq_limit() {
    let eqe = eqe("00140000", "00000000 00000000 00000000 00000000 00000000 00000000 00000abc");
    assert_eq!(eqe.event_type, event::SRQ_RQ_LIMIT);
    assert_eq!(qp::QUEUE_TYPE.get(&eqe.event_data), queue_type::QP);
    assert_eq!(qp::NUMBER.get(&eqe.event_data), 0xabc);
}

#[test]
fn catastrophic_error_of_a_receive_queue() {
    let eqe = eqe("00050000", "00000000 00000000 00000000 00000000 00000000 01000000 00123456");
    assert_eq!(eqe.event_type, event::WQ_CATASTROPHIC);
    assert_eq!(qp::QUEUE_TYPE.get(&eqe.event_data), queue_type::RQ);
    assert_eq!(qp::NUMBER.get(&eqe.event_data), 0x12_3456);
}

#[test]
fn cq_overrun() {
    let eqe = eqe("00040000", "00000042 00000000 00000001 00000000 00000000 00000000 00000000");
    assert_eq!(eqe.event_type, event::CQ_ERROR);
    assert_eq!(cq_error::CQN.get(&eqe.event_data), 0x42);
    assert_eq!(cq_error::SYNDROME.get(&eqe.event_data), cq_error::OVERRUN);
}

#[test]
fn port_active() {
    let eqe = eqe("00090004", "00000000 00000000 10000000 00000000 00000000 00000000 00000000");
    assert_eq!(eqe.event_type, event::PORT_CHANGE);
    assert_eq!(eqe.event_sub_type, port_sub_type::ACTIVE);
    assert_eq!(port_change::PORT.get(&eqe.event_data), 1);
}

#[test]
fn commands_completed() {
    let eqe = eqe("000a0000", "80000001 00000000 00000000 00000000 00000000 00000000 00000000");
    assert_eq!(eqe.event_type, event::COMMAND_COMPLETION);
    assert_eq!(command_completion::VECTOR.get(&eqe.event_data), 1 << 31 | 1 << 0);
}

#[test]
fn pages_given_back_and_asked_for() {
    let back = eqe("000b0000", "00000003 fffffe00 00000000 00000000 00000000 00000000 00000000");
    assert_eq!(back.event_type, event::PAGE_REQUEST);
    assert!(!page_request::EC_FUNCTION.is_set(&back.event_data));
    assert_eq!(page_request::FUNCTION_ID.get(&back.event_data), 3);
    assert_eq!(page_request::NUM_PAGES.get(&back.event_data) as i32, -512);
    let asked = eqe("000b0000", "80000003 00000040 00000000 00000000 00000000 00000000 00000000");
    assert!(page_request::EC_FUNCTION.is_set(&asked.event_data));
    assert_eq!(page_request::NUM_PAGES.get(&asked.event_data) as i32, 64);
}

#[test]
fn vport_changed() {
    let eqe = eqe("000d0000", "00000102 00000000 00000000 00000000 00000000 00000000 00000000");
    assert_eq!(eqe.event_type, event::NIC_VPORT_CHANGE);
    assert_eq!(vport_change::VPORT_NUM.get(&eqe.event_data), 0x102);
}

#[test]
fn port_module_in_error() {
    let eqe = eqe("00160000", "00020003 00000500 00000000 00000000 00000000 00000000 00000000");
    assert_eq!(eqe.event_type, event::PORT_MODULE);
    assert_eq!(port_module::MODULE.get(&eqe.event_data), 2);
    assert_eq!(port_module::MODULE_STATUS.get(&eqe.event_data), 3);
    assert_eq!(port_module::ERROR_TYPE.get(&eqe.event_data), 5);
}

#[test]
fn dc_target_drained() {
    let eqe = eqe("001c0000", "00000000 00000000 00000000 00000000 00000000 00000000 0000beef");
    assert_eq!(eqe.event_type, event::DCT_DRAINED);
    assert_eq!(dct::DCTN.get(&eqe.event_data), 0xbeef);
}
