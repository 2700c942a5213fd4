//! The raw packet path and flow steering.

use crate::{base, bits, layout, qword};
use bareverbs_mlx5_prm::{commands, context};

layout! { create_sq:
    commands::create_sq {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), SQC = base(0x20),
    }
    commands::create_sq::out {
        SQN = bits(0x08, 0x00ffffff),
    }
}

layout! { modify_sq:
    commands::modify_sq {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), SQ_STATE = bits(0x08, 0xf0000000),
        SQN = bits(0x08, 0x00ffffff), BITMASK = qword(0x10), SQC = base(0x20),
    }
}

layout! { query_sq:
    commands::query_sq {
        IN_LEN = base(0x10), OUT_LEN = base(0x110), SQN = bits(0x08, 0x00ffffff),
    }
    commands::query_sq::out {
        SQC = base(0x20),
    }
}

layout! { destroy_sq:
    commands::destroy_sq {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), SQN = bits(0x08, 0x00ffffff),
    }
}

layout! { create_rq:
    commands::create_rq {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), RQC = base(0x20),
    }
    commands::create_rq::out {
        RQN = bits(0x08, 0x00ffffff),
    }
}

layout! { modify_rq:
    commands::modify_rq {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), RQ_STATE = bits(0x08, 0xf0000000),
        RQN = bits(0x08, 0x00ffffff), BITMASK = qword(0x10), RQC = base(0x20),
    }
}

layout! { query_rq:
    commands::query_rq {
        IN_LEN = base(0x10), OUT_LEN = base(0x110), RQN = bits(0x08, 0x00ffffff),
    }
    commands::query_rq::out {
        RQC = base(0x20),
    }
}

layout! { destroy_rq:
    commands::destroy_rq {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), RQN = bits(0x08, 0x00ffffff),
    }
}

layout! { create_tis:
    commands::create_tis {
        IN_LEN = base(0xc0), OUT_LEN = base(0x10), TISC = base(0x20),
    }
    commands::create_tis::out {
        TISN = bits(0x08, 0x00ffffff),
    }
}

layout! { modify_tis:
    commands::modify_tis {
        IN_LEN = base(0xc0), OUT_LEN = base(0x10), TISN = bits(0x08, 0x00ffffff),
        BITMASK = qword(0x10), TISC = base(0x20),
    }
}

layout! { query_tis:
    commands::query_tis {
        IN_LEN = base(0x10), OUT_LEN = base(0xb0), TISN = bits(0x08, 0x00ffffff),
    }
    commands::query_tis::out {
        TISC = base(0x10),
    }
}

layout! { destroy_tis:
    commands::destroy_tis {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), TISN = bits(0x08, 0x00ffffff),
    }
}

layout! { create_tir:
    commands::create_tir {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), TIRC = base(0x20),
    }
    commands::create_tir::out {
        TIRN = bits(0x08, 0x00ffffff),
    }
}

layout! { modify_tir:
    commands::modify_tir {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), TIRN = bits(0x08, 0x00ffffff),
        BITMASK = qword(0x10), TIRC = base(0x20),
    }
}

layout! { query_tir:
    commands::query_tir {
        IN_LEN = base(0x10), OUT_LEN = base(0x110), TIRN = bits(0x08, 0x00ffffff),
    }
    commands::query_tir::out {
        TIRC = base(0x20),
    }
}

layout! { destroy_tir:
    commands::destroy_tir {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), TIRN = bits(0x08, 0x00ffffff),
    }
}

layout! { create_rqt:
    commands::create_rqt {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), RQTC = base(0x20),
    }
    commands::create_rqt::out {
        RQTN = bits(0x08, 0x00ffffff),
    }
}

layout! { modify_rqt:
    commands::modify_rqt {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), RQTN = bits(0x08, 0x00ffffff),
        BITMASK = qword(0x10), RQTC = base(0x20),
    }
}

layout! { query_rqt:
    commands::query_rqt {
        IN_LEN = base(0x10), OUT_LEN = base(0x110), RQTN = bits(0x08, 0x00ffffff),
    }
    commands::query_rqt::out {
        RQTC = base(0x20),
    }
}

layout! { destroy_rqt:
    commands::destroy_rqt {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), RQTN = bits(0x08, 0x00ffffff),
    }
}

layout! { create_flow_table:
    commands::create_flow_table {
        IN_LEN = base(0x40), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff), TABLE_TYPE = bits(0x10, 0xff000000),
        FLOW_TABLE_CONTEXT = base(0x18),
    }
    commands::create_flow_table::out {
        TABLE_ID = bits(0x08, 0x00ffffff), ICM_ADDRESS_63_40 = bits(0x00, 0x00ffffff),
        ICM_ADDRESS_39_32 = bits(0x08, 0xff000000), ICM_ADDRESS_31_0 = bits(0x0c, 0xffffffff),
    }
}

layout! { destroy_flow_table:
    commands::destroy_flow_table {
        IN_LEN = base(0x40), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff), TABLE_TYPE = bits(0x10, 0xff000000),
        TABLE_ID = bits(0x14, 0x00ffffff),
    }
}

layout! { query_flow_table:
    commands::query_flow_table {
        IN_LEN = base(0x40), OUT_LEN = base(0x40), TABLE_TYPE = bits(0x10, 0xff000000),
        TABLE_ID = bits(0x14, 0x00ffffff),
    }
    commands::query_flow_table::out {
        FLOW_TABLE_CONTEXT = base(0x18),
    }
}

layout! { modify_flow_table:
    commands::modify_flow_table {
        IN_LEN = base(0x40), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff), MODIFY_FIELD_SELECT = bits(0x0c, 0x0000ffff),
        TABLE_TYPE = bits(0x10, 0xff000000), TABLE_ID = bits(0x14, 0x00ffffff),
        FLOW_TABLE_CONTEXT = base(0x18),
    }
}

layout! { set_flow_table_root:
    commands::set_flow_table_root {
        IN_LEN = base(0x40), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff), TABLE_TYPE = bits(0x10, 0xff000000),
        TABLE_OF_OTHER_VPORT = bits(0x10, 0x00010000),
        TABLE_VPORT_NUMBER = bits(0x10, 0x0000ffff), TABLE_ID = bits(0x14, 0x00ffffff),
        UNDERLAY_QPN = bits(0x18, 0x00ffffff),
        TABLE_ESWITCH_OWNER_VHCA_ID_VALID = bits(0x1c, 0x80000000),
        TABLE_ESWITCH_OWNER_VHCA_ID = bits(0x1c, 0x0000ffff),
    }
}

layout! { create_flow_group:
    commands::create_flow_group {
        IN_LEN = base(0x400), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff), TABLE_TYPE = bits(0x10, 0xff000000),
        GROUP_TYPE = bits(0x10, 0x000f0000), TABLE_ID = bits(0x14, 0x00ffffff),
        SOURCE_ESWITCH_OWNER_VHCA_ID_VALID = bits(0x18, 0x80000000),
        START_FLOW_INDEX = bits(0x1c, 0xffffffff), END_FLOW_INDEX = bits(0x24, 0xffffffff),
        MATCH_DEFINER_ID = bits(0x28, 0x0000ffff), MATCH_CRITERIA_ENABLE = bits(0x3c, 0x000000ff),
        MATCH_CRITERIA = base(0x40),
    }
    commands::create_flow_group::out {
        GROUP_ID = bits(0x08, 0x00ffffff),
    }
}

layout! { destroy_flow_group:
    commands::destroy_flow_group {
        IN_LEN = base(0x40), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff), TABLE_TYPE = bits(0x10, 0xff000000),
        TABLE_ID = bits(0x14, 0x00ffffff), GROUP_ID = bits(0x18, 0xffffffff),
    }
}

layout! { set_flow_table_entry:
    commands::set_flow_table_entry {
        IN_LEN = base(0x340), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff), TABLE_TYPE = bits(0x10, 0xff000000),
        TABLE_ID = bits(0x14, 0x00ffffff), IGNORE_FLOW_LEVEL = bits(0x18, 0x80000000),
        MODIFY_ENABLE_MASK = bits(0x18, 0x000000ff), FLOW_INDEX = bits(0x20, 0xffffffff),
        FLOW_CONTEXT = base(0x40),
    }
}

layout! { delete_flow_table_entry:
    commands::delete_flow_table_entry {
        IN_LEN = base(0x40), OUT_LEN = base(0x10), OTHER_VPORT = bits(0x08, 0x80000000),
        VPORT_NUMBER = bits(0x08, 0x0000ffff), TABLE_TYPE = bits(0x10, 0xff000000),
        TABLE_ID = bits(0x14, 0x00ffffff), FLOW_INDEX = bits(0x20, 0xffffffff),
    }
}

layout! { alloc_flow_counter:
    commands::alloc_flow_counter {
        IN_LEN = base(0x10), OUT_LEN = base(0x10),
        FLOW_COUNTER_BULK_LOG_SIZE = bits(0x0c, 0x00001f00),
        FLOW_COUNTER_BULK = bits(0x0c, 0x000000ff),
    }
    commands::alloc_flow_counter::out {
        FLOW_COUNTER_ID = bits(0x08, 0xffffffff),
    }
}

layout! { dealloc_flow_counter:
    commands::dealloc_flow_counter {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), FLOW_COUNTER_ID = bits(0x08, 0xffffffff),
    }
}

layout! { query_flow_counter:
    commands::query_flow_counter {
        IN_LEN = base(0x20), OUT_LEN = base(0x10), CLEAR = bits(0x18, 0x80000000),
        NUM_OF_COUNTERS = bits(0x18, 0x0000ffff), FLOW_COUNTER_ID = bits(0x1c, 0xffffffff),
    }
    commands::query_flow_counter::out {
        FLOW_STATISTICS = base(0x10),
    }
}

layout! { eth_caps:
    context::eth_caps {
        SIZE = base(0x100), CSUM_CAP = bits(0x00, 0x80000000), VLAN_CAP = bits(0x00, 0x40000000),
        LRO_CAP = bits(0x00, 0x20000000), LRO_PSH_FLAG = bits(0x00, 0x10000000),
        LRO_TIME_STAMP = bits(0x00, 0x08000000), WQE_VLAN_INSERT = bits(0x00, 0x01000000),
        SELF_LB_EN_MODIFIABLE = bits(0x00, 0x00800000), MAX_LSO_CAP = bits(0x00, 0x001f0000),
        MULTI_PKT_SEND_WQE = bits(0x00, 0x0000c000), WQE_INLINE_MODE = bits(0x00, 0x00003000),
        RSS_IND_TBL_CAP = bits(0x00, 0x00000f00), REG_UMR_SQ = bits(0x00, 0x00000080),
        SCATTER_FCS = bits(0x00, 0x00000040),
        ENHANCED_MULTI_PKT_SEND_WQE = bits(0x00, 0x00000020),
        TUNNEL_LSO_CONST_OUT_IP_ID = bits(0x00, 0x00000010),
        TUNNEL_LRO_GRE = bits(0x00, 0x00000008), TUNNEL_LRO_VXLAN = bits(0x00, 0x00000004),
        TUNNEL_STATELESS_GRE = bits(0x00, 0x00000002),
        TUNNEL_STATELESS_VXLAN = bits(0x00, 0x00000001), SWP = bits(0x04, 0x80000000),
        SWP_CSUM = bits(0x04, 0x40000000), SWP_LSO = bits(0x04, 0x20000000),
        CQE_CHECKSUM_FULL = bits(0x04, 0x10000000),
        TUNNEL_STATELESS_GENEVE_TX = bits(0x04, 0x08000000),
        TUNNEL_STATELESS_MPLS_OVER_UDP = bits(0x04, 0x04000000),
        TUNNEL_STATELESS_MPLS_OVER_GRE = bits(0x04, 0x02000000),
        TUNNEL_STATELESS_VXLAN_GPE = bits(0x04, 0x01000000),
        TUNNEL_STATELESS_IP_OVER_IP = bits(0x04, 0x00400000),
        INSERT_TRAILER = bits(0x04, 0x00200000),
        TUNNEL_STATELESS_IP_OVER_IP_RX = bits(0x04, 0x00080000),
        TUNNEL_STATELESS_IP_OVER_IP_TX = bits(0x04, 0x00040000),
        MAX_VXLAN_UDP_PORTS = bits(0x04, 0x0000ff00), MAX_GENEVE_OPT_LEN = bits(0x04, 0x00000002),
        TUNNEL_STATELESS_GENEVE_RX = bits(0x04, 0x00000001),
        LRO_MIN_MSS_SIZE = bits(0x08, 0x0000ffff), LRO_TIMER_SUPPORTED_PERIODS = base(0x30),
    }
}

layout! { rqc:
    context::rqc {
        SIZE = base(0xf0), RLKY = bits(0x00, 0x80000000), DELAY_DROP_EN = bits(0x00, 0x40000000),
        SCATTER_FCS = bits(0x00, 0x20000000), VSD = bits(0x00, 0x10000000),
        MEM_RQ_TYPE = bits(0x00, 0x0f000000), STATE = bits(0x00, 0x00f00000),
        FLUSH_IN_ERROR_EN = bits(0x00, 0x00040000), HAIRPIN = bits(0x00, 0x00020000),
        TS_FORMAT = bits(0x00, 0x00000030), USER_INDEX = bits(0x04, 0x00ffffff),
        CQN = bits(0x08, 0x00ffffff), COUNTER_SET_ID = bits(0x0c, 0xff000000),
        RMPN = bits(0x10, 0x00ffffff), HAIRPIN_PEER_SQ = bits(0x14, 0x00ffffff),
        HAIRPIN_PEER_VHCA = bits(0x18, 0x0000ffff), WQ = base(0x30),
    }
}

layout! { rqtc:
    context::rqtc {
        SIZE = base(0xf0), LIST_Q_TYPE = bits(0x14, 0x07000000),
        RQT_MAX_SIZE = bits(0x14, 0x0000ffff), RQ_VHCA_ID_FORMAT = bits(0x18, 0x80000000),
        RQT_ACTUAL_SIZE = bits(0x18, 0x0000ffff), RQ_NUM = base(0xf0),
    }
}

layout! { sqc:
    context::sqc {
        SIZE = base(0xf0), RLKY = bits(0x00, 0x80000000), CD_MASTER = bits(0x00, 0x40000000),
        FRE = bits(0x00, 0x20000000), FLUSH_IN_ERROR_EN = bits(0x00, 0x10000000),
        ALLOW_MULTI_PKT_SEND_WQE = bits(0x00, 0x08000000),
        MIN_WQE_INLINE_MODE = bits(0x00, 0x07000000), STATE = bits(0x00, 0x00f00000),
        REG_UMR = bits(0x00, 0x00080000), ALLOW_SWP = bits(0x00, 0x00040000),
        HAIRPIN = bits(0x00, 0x00020000), TS_FORMAT = bits(0x00, 0x00000030),
        USER_INDEX = bits(0x04, 0x00ffffff), CQN = bits(0x08, 0x00ffffff),
        HAIRPIN_PEER_RQ = bits(0x0c, 0x00ffffff), HAIRPIN_PEER_VHCA = bits(0x10, 0x0000ffff),
        TS_CQE_TO_DEST_CQN = bits(0x18, 0x00ffffff),
        PACKET_PACING_RATE_LIMIT_INDEX = bits(0x1c, 0x0000ffff),
        TIS_LST_SZ = bits(0x20, 0xffff0000), QOS_QUEUE_GROUP_ID = bits(0x20, 0x0000ffff),
        TIS_NUM_0 = bits(0x2c, 0x00ffffff), WQ = base(0x30),
    }
}

layout! { steering_flow_table_context:
    context::steering::flow_table_context {
        SIZE = base(0x28), REFORMAT_EN = bits(0x00, 0x80000000),
        DECAP_EN = bits(0x00, 0x40000000), SW_OWNER = bits(0x00, 0x20000000),
        TERMINATION_TABLE = bits(0x00, 0x10000000), TABLE_MISS_ACTION = bits(0x00, 0x0f000000),
        LEVEL = bits(0x00, 0x00ff0000), LOG_SIZE = bits(0x00, 0x000000ff),
        TABLE_MISS_ID = bits(0x04, 0x00ffffff), LAG_MASTER_NEXT_TABLE_ID = bits(0x08, 0x00ffffff),
        SW_OWNER_ICM_ROOT_1 = qword(0x18), SW_OWNER_ICM_ROOT_0 = qword(0x20),
    }
}

layout! { steering_flow_context:
    context::steering::flow_context {
        SIZE = base(0x300), PUSH_VLAN = bits(0x00, 0xffffffff), GROUP_ID = bits(0x04, 0xffffffff),
        FLOW_TAG = bits(0x08, 0x00ffffff), ACTION = bits(0x0c, 0x0000ffff),
        EXTENDED_DESTINATION = bits(0x10, 0x80000000), FLOW_SOURCE = bits(0x10, 0x30000000),
        ENCRYPT_DECRYPT_TYPE = bits(0x10, 0x0f000000),
        DESTINATION_LIST_SIZE = bits(0x10, 0x00ffffff),
        FLOW_COUNTER_LIST_SIZE = bits(0x14, 0x00ffffff),
        PACKET_REFORMAT_ID = bits(0x18, 0xffffffff), MODIFY_HEADER_ID = bits(0x1c, 0xffffffff),
        PUSH_VLAN_2 = bits(0x20, 0xffffffff), ENCRYPT_DECRYPT_OBJ_ID = bits(0x24, 0xffffffff),
        MATCH_VALUE = base(0x40), DESTINATION = base(0x300),
    }
}

layout! { steering_dest_format:
    context::steering::dest_format {
        SIZE = base(0x08), DESTINATION_TYPE = bits(0x00, 0xff000000),
        DESTINATION_ID = bits(0x00, 0x00ffffff),
        DESTINATION_ESWITCH_OWNER_VHCA_ID_VALID = bits(0x04, 0x80000000),
        PACKET_REFORMAT = bits(0x04, 0x40000000),
        DESTINATION_ESWITCH_OWNER_VHCA_ID = bits(0x04, 0x0000ffff),
    }
}

layout! { steering_fte_match_param:
    context::steering::fte_match_param {
        SIZE = base(0x200), OUTER_HEADERS = base(0x00), MISC_PARAMETERS = base(0x40),
        INNER_HEADERS = base(0x80), MISC_PARAMETERS_2 = base(0xc0),
        MISC_PARAMETERS_3 = base(0x100), MISC_PARAMETERS_4 = base(0x140),
        MISC_PARAMETERS_5 = base(0x180),
    }
}

layout! { steering_fte_match_set_lyr_2_4:
    context::steering::fte_match_set_lyr_2_4 {
        SIZE = base(0x40), SMAC_47_16 = bits(0x00, 0xffffffff),
        SMAC_15_0 = bits(0x04, 0xffff0000), ETHERTYPE = bits(0x04, 0x0000ffff),
        DMAC_47_16 = bits(0x08, 0xffffffff), DMAC_15_0 = bits(0x0c, 0xffff0000),
        FIRST_PRIO = bits(0x0c, 0x0000e000), FIRST_CFI = bits(0x0c, 0x00001000),
        FIRST_VID = bits(0x0c, 0x00000fff), IP_PROTOCOL = bits(0x10, 0xff000000),
        IP_DSCP = bits(0x10, 0x00fc0000), IP_ECN = bits(0x10, 0x00030000),
        CVLAN_TAG = bits(0x10, 0x00008000), SVLAN_TAG = bits(0x10, 0x00004000),
        FRAG = bits(0x10, 0x00002000), IP_VERSION = bits(0x10, 0x00001e00),
        TCP_FLAGS = bits(0x10, 0x000001ff), TCP_SPORT = bits(0x14, 0xffff0000),
        TCP_DPORT = bits(0x14, 0x0000ffff), IPV4_IHL = bits(0x18, 0x0000f000),
        TTL_HOPLIMIT = bits(0x18, 0x000000ff), UDP_SPORT = bits(0x1c, 0xffff0000),
        UDP_DPORT = bits(0x1c, 0x0000ffff), SRC_IP = base(0x20), DST_IP = base(0x30),
    }
}

layout! { steering_fte_match_set_misc:
    context::steering::fte_match_set_misc {
        SIZE = base(0x40), GRE_C_PRESENT = bits(0x00, 0x80000000),
        GRE_K_PRESENT = bits(0x00, 0x20000000), GRE_S_PRESENT = bits(0x00, 0x10000000),
        SOURCE_SQN = bits(0x00, 0x00ffffff),
        SOURCE_ESWITCH_OWNER_VHCA_ID = bits(0x04, 0xffff0000),
        SOURCE_PORT = bits(0x04, 0x0000ffff), OUTER_SECOND_PRIO = bits(0x08, 0xe0000000),
        OUTER_SECOND_CFI = bits(0x08, 0x10000000), OUTER_SECOND_VID = bits(0x08, 0x0fff0000),
        INNER_SECOND_PRIO = bits(0x08, 0x0000e000), INNER_SECOND_CFI = bits(0x08, 0x00001000),
        INNER_SECOND_VID = bits(0x08, 0x00000fff),
        OUTER_SECOND_CVLAN_TAG = bits(0x0c, 0x80000000),
        INNER_SECOND_CVLAN_TAG = bits(0x0c, 0x40000000),
        OUTER_SECOND_SVLAN_TAG = bits(0x0c, 0x20000000),
        INNER_SECOND_SVLAN_TAG = bits(0x0c, 0x10000000), GRE_PROTOCOL = bits(0x0c, 0x0000ffff),
        GRE_KEY = bits(0x10, 0xffffffff), VXLAN_VNI = bits(0x14, 0xffffff00),
        BTH_OPCODE = bits(0x14, 0x000000ff), GENEVE_VNI = bits(0x18, 0xffffff00),
        GENEVE_OAM = bits(0x18, 0x00000001), OUTER_IPV6_FLOW_LABEL = bits(0x1c, 0x000fffff),
        INNER_IPV6_FLOW_LABEL = bits(0x20, 0x000fffff), GENEVE_OPT_LEN = bits(0x24, 0x003f0000),
        GENEVE_PROTOCOL_TYPE = bits(0x24, 0x0000ffff), BTH_DST_QP = bits(0x28, 0x00ffffff),
        OUTER_ESP_SPI = bits(0x30, 0xffffffff),
    }
}

layout! { steering_flow_table_nic_cap:
    context::steering::flow_table_nic_cap {
        SIZE = base(0x1000), NIC_RX_MULTI_PATH_TIRS = bits(0x00, 0x80000000),
        NIC_RX_MULTI_PATH_TIRS_FTS = bits(0x00, 0x40000000),
        ALLOW_SNIFFER_AND_NIC_RX_SHARED_TIR = bits(0x00, 0x20000000),
        ENCAP_GENERAL_HEADER = bits(0x04, 0x80000000),
        LOG_MAX_PACKET_REFORMAT_CONTEXT = bits(0x04, 0x001f0000),
        MAX_ENCAP_HEADER_SIZE = bits(0x04, 0x000003ff), NIC_RECEIVE = base(0x40),
        NIC_RECEIVE_RDMA = base(0x80), NIC_RECEIVE_SNIFFER = base(0xc0),
        NIC_TRANSMIT = base(0x100), NIC_TRANSMIT_RDMA = base(0x140),
        NIC_TRANSMIT_SNIFFER = base(0x180),
    }
}

layout! { steering_flow_table_prop:
    context::steering::flow_table_prop {
        SIZE = base(0x40), FT_SUPPORT = bits(0x00, 0x80000000),
        FLOW_COUNTER = bits(0x00, 0x20000000), FLOW_MODIFY_EN = bits(0x00, 0x10000000),
        MODIFY_ROOT = bits(0x00, 0x08000000), IDENTIFIED_MISS_TABLE_MODE = bits(0x00, 0x04000000),
        FLOW_TABLE_MODIFY = bits(0x00, 0x02000000), REFORMAT = bits(0x00, 0x01000000),
        DECAP = bits(0x00, 0x00800000), POP_VLAN = bits(0x00, 0x00200000),
        PUSH_VLAN = bits(0x00, 0x00100000), POP_VLAN_2 = bits(0x00, 0x00040000),
        PUSH_VLAN_2 = bits(0x00, 0x00020000), REFORMAT_AND_VLAN_ACTION = bits(0x00, 0x00010000),
        SW_OWNER = bits(0x00, 0x00004000), IGNORE_FLOW_LEVEL = bits(0x00, 0x00000400),
        TABLE_MISS_ACTION_DOMAIN = bits(0x00, 0x00000100),
        TERMINATION_TABLE = bits(0x00, 0x00000080), LOG_MAX_FT_SIZE = bits(0x04, 0x3f000000),
        LOG_MAX_MODIFY_HEADER_CONTEXT = bits(0x04, 0x00ff0000),
        MAX_MODIFY_HEADER_ACTIONS = bits(0x04, 0x0000ff00), MAX_FT_LEVEL = bits(0x04, 0x000000ff),
        LOG_MAX_FT_NUM = bits(0x0c, 0x000000ff), LOG_MAX_FLOW_COUNTER = bits(0x10, 0x0000ff00),
        LOG_MAX_DESTINATION = bits(0x10, 0x000000ff), LOG_MAX_FLOW = bits(0x14, 0x000000ff),
        FT_FIELD_SUPPORT = base(0x20), FT_FIELD_BITMASK_SUPPORT = base(0x30),
    }
}

layout! { steering_ft_field_support:
    context::steering::ft_field_support {
        SIZE = base(0x10), OUTER_DMAC = bits(0x00, 0x80000000),
        OUTER_SMAC = bits(0x00, 0x40000000), OUTER_ETHER_TYPE = bits(0x00, 0x20000000),
        OUTER_IP_VERSION = bits(0x00, 0x10000000), OUTER_FIRST_PRIO = bits(0x00, 0x08000000),
        OUTER_FIRST_CFI = bits(0x00, 0x04000000), OUTER_FIRST_VID = bits(0x00, 0x02000000),
        OUTER_SIP = bits(0x00, 0x00080000), OUTER_DIP = bits(0x00, 0x00040000),
        OUTER_FRAG = bits(0x00, 0x00020000), OUTER_IP_PROTOCOL = bits(0x00, 0x00010000),
        OUTER_IP_ECN = bits(0x00, 0x00008000), OUTER_IP_DSCP = bits(0x00, 0x00004000),
        OUTER_UDP_SPORT = bits(0x00, 0x00002000), OUTER_UDP_DPORT = bits(0x00, 0x00001000),
        OUTER_TCP_SPORT = bits(0x00, 0x00000800), OUTER_TCP_DPORT = bits(0x00, 0x00000400),
        OUTER_TCP_FLAGS = bits(0x00, 0x00000200), SOURCE_ESWITCH_PORT = bits(0x00, 0x00000001),
        BTH_DST_QP = bits(0x08, 0x00000020),
    }
}

layout! { tirc:
    context::tirc {
        SIZE = base(0xf0), DISP_TYPE = bits(0x04, 0xf0000000), TLS_EN = bits(0x04, 0x08000000),
        LRO_TIMEOUT_PERIOD_USECS = bits(0x10, 0x0ffff000),
        PACKET_MERGE_MASK = bits(0x10, 0x00000f00),
        LRO_MAX_IP_PAYLOAD_SIZE = bits(0x10, 0x000000ff), INLINE_RQN = bits(0x1c, 0x00ffffff),
        RX_HASH_SYMMETRIC = bits(0x20, 0x80000000), TUNNELED_OFFLOAD_EN = bits(0x20, 0x20000000),
        INDIRECT_TABLE = bits(0x20, 0x00ffffff), RX_HASH_FN = bits(0x24, 0xf0000000),
        SELF_LB_BLOCK = bits(0x24, 0x03000000), TRANSPORT_DOMAIN = bits(0x24, 0x00ffffff),
        RX_HASH_TOEPLITZ_KEY = base(0x28), RX_HASH_FIELD_SELECTOR_OUTER = bits(0x50, 0xffffffff),
        RX_HASH_FIELD_SELECTOR_INNER = bits(0x54, 0xffffffff),
    }
}

layout! { tisc:
    context::tisc {
        SIZE = base(0xa0), STRICT_LAG_TX_PORT_AFFINITY = bits(0x00, 0x80000000),
        TLS_EN = bits(0x00, 0x40000000), LAG_TX_PORT_AFFINITY = bits(0x00, 0x0f000000),
        PRIO = bits(0x00, 0x000f0000), TRANSPORT_DOMAIN = bits(0x24, 0x00ffffff),
        UNDERLAY_QPN = bits(0x28, 0x00ffffff), PD = bits(0x2c, 0x00ffffff),
    }
}
