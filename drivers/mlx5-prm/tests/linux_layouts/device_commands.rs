//! Commands on the device, its ports and counters, and the port registers.

use crate::{base, bits, bytes, layout, qword};
use bareverbs_mlx5_prm::commands;

layout! { access_reg:
    commands::access_reg {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), REGISTER_ID = bits(0x08, 0x0000ffff),
        ARGUMENT = bits(0x0c, 0xffffffff), REGISTER_DATA = base(0x10),
    }
    commands::access_reg::out {
        REGISTER_DATA = base(0x10),
    }
}

layout! { ptys:
    commands::ptys {
        SIZE = base(0x40), LOCAL_PORT = bits(0x00, 0x00ff0000),
        PROTO_MASK = bits(0x00, 0x00000007), AN_DISABLE_ADMIN = bits(0x00, 0x40000000),
        AN_DISABLE_CAP = bits(0x00, 0x20000000), AN_STATUS = bits(0x04, 0xf0000000),
        DATA_RATE_OPER = bits(0x04, 0x0000ffff),
        EXT_ETH_PROTO_CAPABILITY = bits(0x08, 0xffffffff),
        ETH_PROTO_CAPABILITY = bits(0x0c, 0xffffffff),
        IB_LINK_WIDTH_CAPABILITY = bits(0x10, 0xffff0000),
        IB_PROTO_CAPABILITY = bits(0x10, 0x0000ffff),
        EXT_ETH_PROTO_ADMIN = bits(0x14, 0xffffffff), ETH_PROTO_ADMIN = bits(0x18, 0xffffffff),
        IB_LINK_WIDTH_ADMIN = bits(0x1c, 0xffff0000), IB_PROTO_ADMIN = bits(0x1c, 0x0000ffff),
        EXT_ETH_PROTO_OPER = bits(0x20, 0xffffffff), ETH_PROTO_OPER = bits(0x24, 0xffffffff),
        IB_LINK_WIDTH_OPER = bits(0x28, 0xffff0000), IB_PROTO_OPER = bits(0x28, 0x0000ffff),
        CONNECTOR_TYPE = bits(0x2c, 0x0000000f), ETH_PROTO_LP_ADVERTISE = bits(0x30, 0xffffffff),
    }
}

layout! { pmtu:
    commands::pmtu {
        SIZE = base(0x10), LOCAL_PORT = bits(0x00, 0x00ff0000), MAX_MTU = bits(0x04, 0xffff0000),
        ADMIN_MTU = bits(0x08, 0xffff0000), OPER_MTU = bits(0x0c, 0xffff0000),
    }
}

layout! { paos:
    commands::paos {
        SIZE = base(0x10), SWID = bits(0x00, 0xff000000), LOCAL_PORT = bits(0x00, 0x00ff0000),
        ADMIN_STATUS = bits(0x00, 0x00000f00), OPER_STATUS = bits(0x00, 0x0000000f),
        ASE = bits(0x04, 0x80000000), EE = bits(0x04, 0x40000000), E = bits(0x04, 0x00000003),
    }
}

layout! { pfcc:
    commands::pfcc {
        SIZE = base(0x20), LOCAL_PORT = bits(0x00, 0x00ff0000), PPTX = bits(0x08, 0x80000000),
        PPRX = bits(0x0c, 0x80000000), PFCTX = bits(0x08, 0x00ff0000),
        PFCRX = bits(0x0c, 0x00ff0000),
    }
}

layout! { pvlc:
    commands::pvlc {
        SIZE = base(0x10), LOCAL_PORT = bits(0x00, 0x00ff0000),
        VL_HW_CAP = bits(0x04, 0x0000000f), VL_ADMIN = bits(0x08, 0x0000000f),
        VL_OPERATIONAL = bits(0x0c, 0x0000000f),
    }
}

layout! { ppcnt:
    commands::ppcnt {
        SIZE = base(0x100), SWID = bits(0x00, 0xff000000), LOCAL_PORT = bits(0x00, 0x00ff0000),
        PNAT = bits(0x00, 0x0000c000), GRP = bits(0x00, 0x0000003f), CLR = bits(0x04, 0x80000000),
        PRIO_TC = bits(0x04, 0x00000007), COUNTER_SET = base(0x08),
    }
}

layout! { ppcnt_ib:
    commands::ppcnt_ib {
        SIZE = base(0x28), SYMBOL_ERROR_COUNTER = bits(0x00, 0xffff0000),
        LINK_ERROR_RECOVERY_COUNTER = bits(0x00, 0x0000ff00),
        LINK_DOWNED_COUNTER = bits(0x00, 0x000000ff), PORT_RCV_ERRORS = bits(0x04, 0xffff0000),
        PORT_RCV_REMOTE_PHYSICAL_ERRORS = bits(0x04, 0x0000ffff),
        PORT_RCV_SWITCH_RELAY_ERRORS = bits(0x08, 0xffff0000),
        PORT_XMIT_DISCARDS = bits(0x08, 0x0000ffff),
        PORT_XMIT_CONSTRAINT_ERRORS = bits(0x0c, 0xff000000),
        PORT_RCV_CONSTRAINT_ERRORS = bits(0x0c, 0x00ff0000),
        LINK_OVERRUN_ERRORS = bits(0x0c, 0x000000ff), VL_15_DROPPED = bits(0x10, 0x0000ffff),
        PORT_XMIT_WAIT = bits(0x24, 0xffffffff),
    }
}

layout! { node_description:
    commands::node_description {
        SIZE = base(0x40), NODE_DESCRIPTION = bytes(0x00, 64),
    }
}

layout! { host_endianness:
    commands::host_endianness {
        SIZE = base(0x10), HE = bits(0x00, 0x80000000),
    }
}

layout! { dtor:
    commands::dtor {
        SIZE = base(0x40), PCIE_TOGGLE_TO = bits(0x04, 0xffffffff),
        HEALTH_POLL_TO = bits(0x14, 0xffffffff), FULL_CRDUMP_TO = bits(0x18, 0xffffffff),
        FW_RESET_TO = bits(0x1c, 0xffffffff), FLUSH_ON_ERR_TO = bits(0x20, 0xffffffff),
        PCI_SYNC_UPDATE_TO = bits(0x24, 0xffffffff), TEAR_DOWN_TO = bits(0x28, 0xffffffff),
        FSM_REACTIVATE_TO = bits(0x2c, 0xffffffff), RECLAIM_PAGES_TO = bits(0x30, 0xffffffff),
        RECLAIM_VFS_PAGES_TO = bits(0x34, 0xffffffff),
    }
}

layout! { default_timeout:
    commands::default_timeout {
        SIZE = base(0x04), TO_MULTIPLIER = bits(0x00, 0xe0000000),
        TO_VALUE = bits(0x00, 0x000fffff),
    }
}

layout! { alloc_q_counter:
    commands::alloc_q_counter {
        IN_LEN = base(0x10), OUT_LEN = base(0x10),
    }
    commands::alloc_q_counter::out {
        COUNTER_SET_ID = bits(0x08, 0x000000ff),
    }
}

layout! { dealloc_q_counter:
    commands::dealloc_q_counter {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), COUNTER_SET_ID = bits(0x08, 0x000000ff),
    }
}

layout! { query_q_counter:
    commands::query_q_counter {
        IN_LEN = base(0x20), OUT_LEN = base(0x100), CLEAR = bits(0x18, 0x80000000),
        COUNTER_SET_ID = bits(0x1c, 0x000000ff),
    }
    commands::query_q_counter::out {
        RX_WRITE_REQUESTS = bits(0x10, 0xffffffff), RX_READ_REQUESTS = bits(0x18, 0xffffffff),
        RX_ATOMIC_REQUESTS = bits(0x20, 0xffffffff), RX_DCT_CONNECT = bits(0x28, 0xffffffff),
        OUT_OF_BUFFER = bits(0x30, 0xffffffff), OUT_OF_SEQUENCE = bits(0x38, 0xffffffff),
        DUPLICATE_REQUEST = bits(0x40, 0xffffffff), RNR_NAK_RETRY_ERR = bits(0x48, 0xffffffff),
        PACKET_SEQ_ERR = bits(0x50, 0xffffffff), IMPLIED_NAK_SEQ_ERR = bits(0x58, 0xffffffff),
        LOCAL_ACK_TIMEOUT_ERR = bits(0x60, 0xffffffff),
        RESP_LOCAL_LENGTH_ERROR = bits(0x78, 0xffffffff),
        REQ_LOCAL_LENGTH_ERROR = bits(0x7c, 0xffffffff),
        RESP_LOCAL_QP_ERROR = bits(0x80, 0xffffffff),
        LOCAL_OPERATION_ERROR = bits(0x84, 0xffffffff),
        RESP_LOCAL_PROTECTION = bits(0x88, 0xffffffff),
        REQ_LOCAL_PROTECTION = bits(0x8c, 0xffffffff), RESP_CQE_ERROR = bits(0x90, 0xffffffff),
        REQ_CQE_ERROR = bits(0x94, 0xffffffff), REQ_MW_BINDING = bits(0x98, 0xffffffff),
        REQ_BAD_RESPONSE = bits(0x9c, 0xffffffff),
        REQ_REMOTE_INVALID_REQUEST = bits(0xa0, 0xffffffff),
        RESP_REMOTE_INVALID_REQUEST = bits(0xa4, 0xffffffff),
        REQ_REMOTE_ACCESS_ERRORS = bits(0xa8, 0xffffffff),
        RESP_REMOTE_ACCESS_ERRORS = bits(0xac, 0xffffffff),
        REQ_REMOTE_OPERATION_ERRORS = bits(0xb0, 0xffffffff),
        REQ_TRANSPORT_RETRIES_EXCEEDED = bits(0xb4, 0xffffffff),
        CQ_OVERFLOW = bits(0xb8, 0xffffffff), RESP_CQE_FLUSH_ERROR = bits(0xbc, 0xffffffff),
        REQ_CQE_FLUSH_ERROR = bits(0xc0, 0xffffffff),
    }
}

layout! { query_vport_counter:
    commands::query_vport_counter {
        IN_LEN = base(0x20), OUT_LEN = base(0x210), OTHER_VPORT = bits(0x08, 0x80000000),
        PORT_NUM = bits(0x08, 0x000f0000), VPORT_NUMBER = bits(0x08, 0x0000ffff),
        CLEAR = bits(0x18, 0x80000000),
    }
    commands::query_vport_counter::out {
        RECEIVED_ERRORS = base(0x10), TRANSMIT_ERRORS = base(0x20),
        RECEIVED_IB_UNICAST = base(0x30), TRANSMITTED_IB_UNICAST = base(0x40),
        RECEIVED_IB_MULTICAST = base(0x50), TRANSMITTED_IB_MULTICAST = base(0x60),
        RECEIVED_ETH_BROADCAST = base(0x70), TRANSMITTED_ETH_BROADCAST = base(0x80),
        RECEIVED_ETH_UNICAST = base(0x90), TRANSMITTED_ETH_UNICAST = base(0xa0),
        RECEIVED_ETH_MULTICAST = base(0xb0), TRANSMITTED_ETH_MULTICAST = base(0xc0),
    }
}

layout! { query_vnic_env:
    commands::query_vnic_env {
        IN_LEN = base(0x10), OUT_LEN = base(0x210), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff),
    }
    commands::query_vnic_env::out {
        VPORT_ENV = base(0x10),
    }
}

layout! { enable_hca:
    commands::enable_hca {
        IN_LEN = base(0x10), OUT_LEN = base(0x0c), FUNCTION_ID = bits(0x08, 0x0000ffff),
        EMBEDDED_CPU_FUNCTION = bits(0x08, 0x80000000),
    }
}

layout! { disable_hca:
    commands::disable_hca {
        IN_LEN = base(0x10), OUT_LEN = base(0x0c), FUNCTION_ID = bits(0x08, 0x0000ffff),
        EMBEDDED_CPU_FUNCTION = bits(0x08, 0x80000000),
    }
}

layout! { query_issi:
    commands::query_issi {
        IN_LEN = base(0x10), OUT_LEN = base(0x70),
    }
    commands::query_issi::out {
        CURRENT_ISSI = bits(0x08, 0x0000ffff), SUPPORTED_ISSI_DW0 = bits(0x6c, 0xffffffff),
    }
}

layout! { set_issi:
    commands::set_issi {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), CURRENT_ISSI = bits(0x08, 0x0000ffff),
    }
}

layout! { query_hca_cap:
    commands::query_hca_cap {
        IN_LEN = base(0x10), OUT_LEN = base(0x1010), OTHER_FUNCTION = bits(0x08, 0x80000000),
        FUNCTION_ID = bits(0x08, 0x0000ffff),
    }
    commands::query_hca_cap::out {
        CAPABILITY = base(0x10),
    }
}

layout! { set_hca_cap:
    commands::set_hca_cap {
        IN_LEN = base(0x1010), OUT_LEN = base(0x10), OTHER_FUNCTION = bits(0x08, 0x80000000),
        FUNCTION_ID = bits(0x08, 0x0000ffff), CAPABILITY = base(0x10),
    }
}

layout! { init_hca:
    commands::init_hca {
        IN_LEN = base(0x20), OUT_LEN = base(0x10), SW_VHCA_ID = bits(0x0c, 0x3fff0000),
        SW_OWNER_ID = base(0x10),
    }
}

layout! { teardown_hca:
    commands::teardown_hca {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), PROFILE = bits(0x08, 0x0000ffff),
    }
    commands::teardown_hca::out {
        STATE = bits(0x0c, 0x00000001),
    }
}

layout! { query_adapter:
    commands::query_adapter {
        IN_LEN = base(0x10), OUT_LEN = base(0x110),
    }
    commands::query_adapter::out {
        QUERY_ADAPTER_STRUCT = base(0x10),
    }
}

layout! { query_adapter_param_block:
    commands::query_adapter_param_block {
        SIZE = base(0x100), IEEE_VENDOR_ID = bits(0x18, 0x00ffffff),
        VSD_VENDOR_ID = bits(0x1c, 0x0000ffff), VSD = bytes(0x20, 208), PSID = bytes(0xf0, 16),
    }
}

layout! { set_driver_version:
    commands::set_driver_version {
        IN_LEN = base(0x50), OUT_LEN = base(0x10), DRIVER_VERSION = bytes(0x10, 64),
    }
}

layout! { query_special_contexts:
    commands::query_special_contexts {
        IN_LEN = base(0x10), OUT_LEN = base(0x20),
    }
    commands::query_special_contexts::out {
        DUMP_FILL_MKEY = bits(0x08, 0xffffffff), RESD_LKEY = bits(0x0c, 0xffffffff),
        NULL_MKEY = bits(0x10, 0xffffffff),
    }
}

layout! { nop:
    commands::nop {
        IN_LEN = base(0x10), OUT_LEN = base(0x10),
    }
}

layout! { query_hca_vport_context:
    commands::query_hca_vport_context {
        IN_LEN = base(0x10), OUT_LEN = base(0x210), OTHER_VPORT = bits(0x08, 0x80000000),
        PORT_NUM = bits(0x08, 0x000f0000), VPORT_NUMBER = bits(0x08, 0x0000ffff),
    }
    commands::query_hca_vport_context::out {
        HCA_VPORT_CONTEXT = base(0x10),
    }
}

layout! { modify_hca_vport_context:
    commands::modify_hca_vport_context {
        IN_LEN = base(0x210), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        PORT_NUM = bits(0x08, 0x000f0000), VPORT_NUMBER = bits(0x08, 0x0000ffff),
        HCA_VPORT_CONTEXT = base(0x10),
    }
}

layout! { query_hca_vport_gid:
    commands::query_hca_vport_gid {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        PORT_NUM = bits(0x08, 0x000f0000), VPORT_NUMBER = bits(0x08, 0x0000ffff),
        GID_INDEX = bits(0x0c, 0x0000ffff),
    }
    commands::query_hca_vport_gid::out {
        GIDS_NUM = bits(0x0c, 0xffff0000), GID = base(0x10),
    }
}

layout! { query_hca_vport_pkey:
    commands::query_hca_vport_pkey {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        PORT_NUM = bits(0x08, 0x000f0000), VPORT_NUMBER = bits(0x08, 0x0000ffff),
        PKEY_INDEX = bits(0x0c, 0x0000ffff),
    }
    commands::query_hca_vport_pkey::out {
        PKEY = base(0x10),
    }
}

layout! { mad_ifc:
    commands::mad_ifc {
        IN_LEN = base(0x110), OUT_LEN = base(0x110), REMOTE_LID = bits(0x08, 0xffff0000),
        PORT = bits(0x08, 0x000000ff), MAD = bytes(0x10, 256),
    }
    commands::mad_ifc::out {
        RESPONSE_MAD_PACKET = bytes(0x10, 256),
    }
}

layout! { attach_to_mcg:
    commands::attach_to_mcg {
        IN_LEN = base(0x20), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
        MULTICAST_GID = bytes(0x10, 16),
    }
}

layout! { detach_from_mcg:
    commands::detach_from_mcg {
        IN_LEN = base(0x20), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
        MULTICAST_GID = bytes(0x10, 16),
    }
}

layout! { query_nic_vport_context:
    commands::query_nic_vport_context {
        IN_LEN = base(0x10), OUT_LEN = base(0x110), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff), ALLOWED_LIST_TYPE = bits(0x0c, 0x07000000),
    }
    commands::query_nic_vport_context::out {
        NIC_VPORT_CONTEXT = base(0x10),
    }
}

layout! { modify_nic_vport_context:
    commands::modify_nic_vport_context {
        IN_LEN = base(0x200), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff), FIELD_SELECT = bits(0x0c, 0xffffffff),
        NIC_VPORT_CONTEXT = base(0x100),
    }
}

layout! { query_vport_state:
    commands::query_vport_state {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff),
    }
    commands::query_vport_state::out {
        ADMIN_STATE = bits(0x0c, 0x000000f0), STATE = bits(0x0c, 0x0000000f),
    }
}

layout! { modify_vport_state:
    commands::modify_vport_state {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff), ADMIN_STATE = bits(0x0c, 0x000000f0),
    }
}

layout! { set_l2_table_entry:
    commands::set_l2_table_entry {
        IN_LEN = base(0x40), OUT_LEN = base(0x10), TABLE_INDEX = bits(0x14, 0x00ffffff),
        VLAN_VALID = bits(0x1c, 0x00001000), VLAN = bits(0x1c, 0x00000fff),
        MAC_ADDRESS = qword(0x20),
    }
}

layout! { delete_l2_table_entry:
    commands::delete_l2_table_entry {
        IN_LEN = base(0x40), OUT_LEN = base(0x10), TABLE_INDEX = bits(0x14, 0x00ffffff),
    }
}

layout! { query_pages:
    commands::query_pages {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), EMBEDDED_CPU_FUNCTION = bits(0x08, 0x80000000),
        FUNCTION_ID = bits(0x08, 0x0000ffff),
    }
    commands::query_pages::out {
        EMBEDDED_CPU_FUNCTION = bits(0x08, 0x80000000), FUNCTION_ID = bits(0x08, 0x0000ffff),
        NUM_PAGES = bits(0x0c, 0xffffffff),
    }
}

layout! { manage_pages:
    commands::manage_pages {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), EMBEDDED_CPU_FUNCTION = bits(0x08, 0x80000000),
        FUNCTION_ID = bits(0x08, 0x0000ffff), INPUT_NUM_ENTRIES = bits(0x0c, 0xffffffff),
        PAS = base(0x10),
    }
    commands::manage_pages::out {
        OUTPUT_NUM_ENTRIES = bits(0x08, 0xffffffff), PAS = base(0x10),
    }
}

layout! { set_roce_address:
    commands::set_roce_address {
        IN_LEN = base(0x30), OUT_LEN = base(0x10), ROCE_ADDRESS_INDEX = bits(0x08, 0xffff0000),
        VHCA_PORT_NUM = bits(0x08, 0x0000000f), ROCE_ADDRESS = base(0x10),
    }
}

layout! { query_roce_address:
    commands::query_roce_address {
        IN_LEN = base(0x10), OUT_LEN = base(0x30), ROCE_ADDRESS_INDEX = bits(0x08, 0xffff0000),
        VHCA_PORT_NUM = bits(0x08, 0x0000000f),
    }
    commands::query_roce_address::out {
        ROCE_ADDRESS = base(0x10),
    }
}
