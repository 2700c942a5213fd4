//! Contexts.

use crate::{base, bits, bytes, layout, qword};
use bareverbs_mlx5_prm::context;

layout! { ads:
    context::ads {
        SIZE = base(0x2c), FL = bits(0x00, 0x80000000), FREE_AR = bits(0x00, 0x40000000),
        PKEY_INDEX = bits(0x00, 0x0000ffff), GRH = bits(0x04, 0x00800000),
        MLID = bits(0x04, 0x007f0000), RLID = bits(0x04, 0x0000ffff),
        ACK_TIMEOUT = bits(0x08, 0xf8000000), SRC_ADDR_INDEX = bits(0x08, 0x00ff0000),
        STAT_RATE = bits(0x08, 0x00000f00), HOP_LIMIT = bits(0x08, 0x000000ff),
        TCLASS = bits(0x0c, 0x0ff00000), FLOW_LABEL = bits(0x0c, 0x000fffff),
        RGID_RIP = bytes(0x10, 16), F_DSCP = bits(0x20, 0x08000000),
        F_ECN = bits(0x20, 0x04000000), F_ETH_PRIO = bits(0x20, 0x01000000),
        ECN = bits(0x20, 0x00c00000), DSCP = bits(0x20, 0x003f0000),
        UDP_SPORT = bits(0x20, 0x0000ffff), DEI_CFI = bits(0x24, 0x80000000),
        ETH_PRIO = bits(0x24, 0x70000000), SL = bits(0x24, 0x0f000000),
        VHCA_PORT_NUM = bits(0x24, 0x00ff0000), RMAC_47_32 = bits(0x24, 0x0000ffff),
        RMAC_31_0 = bits(0x28, 0xffffffff),
    }
}

layout! { cqc:
    context::cqc {
        SIZE = base(0x40), STATUS = bits(0x00, 0xf0000000),
        DBR_UMEM_VALID = bits(0x00, 0x02000000), APU_CQ = bits(0x00, 0x01000000),
        CQE_SZ = bits(0x00, 0x00e00000), CC = bits(0x00, 0x00100000),
        SCQE_BREAK_MODERATION_EN = bits(0x00, 0x00040000), OI = bits(0x00, 0x00020000),
        CQ_PERIOD_MODE = bits(0x00, 0x00018000), CQE_COMP_EN = bits(0x00, 0x00004000),
        MINI_CQE_RES_FORMAT = bits(0x00, 0x00003000), ST = bits(0x00, 0x00000f00),
        PAGE_OFFSET = bits(0x08, 0x00000fc0), LOG_CQ_SIZE = bits(0x0c, 0x1f000000),
        UAR_PAGE = bits(0x0c, 0x00ffffff), CQ_PERIOD = bits(0x10, 0x0fff0000),
        CQ_MAX_COUNT = bits(0x10, 0x0000ffff), C_EQN = bits(0x14, 0xffffffff),
        LOG_PAGE_SIZE = bits(0x18, 0x1f000000), LAST_NOTIFIED_INDEX = bits(0x20, 0x00ffffff),
        LAST_SOLICIT_INDEX = bits(0x24, 0x00ffffff), CONSUMER_COUNTER = bits(0x28, 0x00ffffff),
        PRODUCER_COUNTER = bits(0x2c, 0x00ffffff), DBR_ADDR = qword(0x38),
    }
}

layout! { eqc:
    context::eqc {
        SIZE = base(0x40), STATUS = bits(0x00, 0xf0000000), EC = bits(0x00, 0x00040000),
        OI = bits(0x00, 0x00020000), ST = bits(0x00, 0x00000f00),
        PAGE_OFFSET = bits(0x08, 0x00000fc0), LOG_EQ_SIZE = bits(0x0c, 0x1f000000),
        UAR_PAGE = bits(0x0c, 0x00ffffff), INTR = bits(0x14, 0x00000fff),
        LOG_PAGE_SIZE = bits(0x18, 0x1f000000), CONSUMER_COUNTER = bits(0x28, 0x00ffffff),
        PRODUCER_COUNTER = bits(0x2c, 0x00ffffff),
    }
}

layout! { hca_vport_context:
    context::hca_vport_context {
        SIZE = base(0x200), FIELD_SELECT = bits(0x00, 0xffffffff),
        SM_VIRT_AWARE = bits(0x20, 0x80000000), HAS_SMI = bits(0x20, 0x40000000),
        HAS_RAW = bits(0x20, 0x20000000), GRH_REQUIRED = bits(0x20, 0x10000000),
        PORT_PHYSICAL_STATE = bits(0x20, 0x0000f000), VPORT_STATE_POLICY = bits(0x20, 0x00000f00),
        PORT_STATE = bits(0x20, 0x000000f0), VPORT_STATE = bits(0x20, 0x0000000f),
        SYSTEM_IMAGE_GUID = qword(0x28), PORT_GUID = qword(0x30), NODE_GUID = qword(0x38),
        CAP_MASK1 = bits(0x40, 0xffffffff), CAP_MASK1_FIELD_SELECT = bits(0x44, 0xffffffff),
        CAP_MASK2 = bits(0x48, 0xffffffff), CAP_MASK2_FIELD_SELECT = bits(0x4c, 0xffffffff),
        LID = bits(0x60, 0xffff0000), INIT_TYPE_REPLY = bits(0x60, 0x00000f00),
        LMC = bits(0x60, 0x000000e0), SUBNET_TIMEOUT = bits(0x60, 0x0000001f),
        SM_LID = bits(0x64, 0xffff0000), SM_SL = bits(0x64, 0x0000f000),
        QKEY_VIOLATION_COUNTER = bits(0x68, 0xffff0000),
        PKEY_VIOLATION_COUNTER = bits(0x68, 0x0000ffff),
    }
}

layout! { mkc:
    context::mkc {
        SIZE = base(0x40), FREE = bits(0x00, 0x40000000),
        ACCESS_MODE_4_2 = bits(0x00, 0x1c000000), RELAXED_ORDERING_WRITE = bits(0x00, 0x00040000),
        SMALL_FENCE_ON_RDMA_READ_RESPONSE = bits(0x00, 0x00010000),
        UMR_EN = bits(0x00, 0x00008000), A = bits(0x00, 0x00004000), RW = bits(0x00, 0x00002000),
        RR = bits(0x00, 0x00001000), LW = bits(0x00, 0x00000800), LR = bits(0x00, 0x00000400),
        ACCESS_MODE_1_0 = bits(0x00, 0x00000300), MA_TRANSLATION_MODE = bits(0x00, 0x00000030),
        QPN = bits(0x04, 0xffffff00), MKEY_7_0 = bits(0x04, 0x000000ff),
        LENGTH64 = bits(0x0c, 0x80000000), BSF_EN = bits(0x0c, 0x40000000),
        SYNC_UMR = bits(0x0c, 0x20000000), EXPECTED_SIGERR_COUNT = bits(0x0c, 0x04000000),
        EN_RINVAL = bits(0x0c, 0x01000000), PD = bits(0x0c, 0x00ffffff), START_ADDR = qword(0x10),
        LEN = qword(0x18), BSF_OCTWORD_SIZE = bits(0x20, 0xffffffff),
        TRANSLATIONS_OCTWORD_SIZE = bits(0x34, 0xffffffff),
        RELAXED_ORDERING_READ = bits(0x38, 0x00000040), LOG_PAGE_SIZE = bits(0x38, 0x0000001f),
    }
}

layout! { nic_vport_context:
    context::nic_vport_context {
        SIZE = base(0x100), MIN_WQE_INLINE_MODE = bits(0x00, 0x07000000),
        DISABLE_MC_LOCAL_LB = bits(0x00, 0x00000004),
        DISABLE_UC_LOCAL_LB = bits(0x00, 0x00000002), ROCE_EN = bits(0x00, 0x00000001),
        ARM_CHANGE_EVENT = bits(0x04, 0x80000000), EVENT_ON_MTU = bits(0x04, 0x00000010),
        EVENT_ON_PROMISC_CHANGE = bits(0x04, 0x00000008),
        EVENT_ON_VLAN_CHANGE = bits(0x04, 0x00000004),
        EVENT_ON_MC_ADDRESS_CHANGE = bits(0x04, 0x00000002),
        EVENT_ON_UC_ADDRESS_CHANGE = bits(0x04, 0x00000001),
        AFFILIATION_CRITERIA = bits(0x08, 0x000f0000),
        AFFILIATED_VHCA_ID = bits(0x08, 0x0000ffff), MTU = bits(0x24, 0x0000ffff),
        SYSTEM_IMAGE_GUID = qword(0x28), PORT_GUID = qword(0x30), NODE_GUID = qword(0x38),
        QKEY_VIOLATION_COUNTER = bits(0x68, 0xffff0000), PROMISC_UC = bits(0xf0, 0x80000000),
        PROMISC_MC = bits(0xf0, 0x40000000), PROMISC_ALL = bits(0xf0, 0x20000000),
        ALLOWED_LIST_TYPE = bits(0xf0, 0x07000000), ALLOWED_LIST_SIZE = bits(0xf0, 0x00000fff),
        PERMANENT_ADDRESS = qword(0xf4), ALLOWED_LIST = base(0x100),
    }
}

layout! { qpc:
    context::qpc {
        SIZE = base(0xe8), STATE = bits(0x00, 0xf0000000),
        LAG_TX_PORT_AFFINITY = bits(0x00, 0x0f000000), ST = bits(0x00, 0x00ff0000),
        ISOLATE_VL_TC = bits(0x00, 0x00002000), PM_STATE = bits(0x00, 0x00001800),
        REQ_E2E_CREDIT_MODE = bits(0x00, 0x00000300), OFFLOAD_TYPE = bits(0x00, 0x000000f0),
        END_PADDING_MODE = bits(0x00, 0x0000000c), WQ_SIGNATURE = bits(0x04, 0x80000000),
        BLOCK_LB_MC = bits(0x04, 0x40000000), ATOMIC_LIKE_WRITE_EN = bits(0x04, 0x20000000),
        LATENCY_SENSITIVE = bits(0x04, 0x10000000), DRAIN_SIGERR = bits(0x04, 0x04000000),
        PD = bits(0x04, 0x00ffffff), MTU = bits(0x08, 0xe0000000),
        LOG_MSG_MAX = bits(0x08, 0x1f000000), LOG_RQ_SIZE = bits(0x08, 0x00780000),
        LOG_RQ_STRIDE = bits(0x08, 0x00070000), NO_SQ = bits(0x08, 0x00008000),
        LOG_SQ_SIZE = bits(0x08, 0x00007800), TS_FORMAT = bits(0x08, 0x000000c0),
        RLKY = bits(0x08, 0x00000010), ULP_STATELESS_OFFLOAD_MODE = bits(0x08, 0x0000000f),
        COUNTER_SET_ID = bits(0x0c, 0xff000000), UAR_PAGE = bits(0x0c, 0x00ffffff),
        USER_INDEX = bits(0x10, 0x00ffffff), LOG_PAGE_SIZE = bits(0x14, 0x1f000000),
        REMOTE_QPN = bits(0x14, 0x00ffffff), PRIMARY_ADDRESS_PATH = base(0x18),
        SECONDARY_ADDRESS_PATH = base(0x44), LOG_ACK_REQ_FREQ = bits(0x70, 0xf0000000),
        LOG_SRA_MAX = bits(0x70, 0x00e00000), RETRY_COUNT = bits(0x70, 0x00070000),
        RNR_RETRY = bits(0x70, 0x0000e000), FRE = bits(0x70, 0x00000800),
        CUR_RNR_RETRY = bits(0x70, 0x00000700), CUR_RETRY_COUNT = bits(0x70, 0x000000e0),
        NEXT_SEND_PSN = bits(0x78, 0x00ffffff), CQN_SND = bits(0x7c, 0x00ffffff),
        DETH_SQPN = bits(0x80, 0x00ffffff), LAST_ACKED_PSN = bits(0x88, 0x00ffffff),
        SSN = bits(0x8c, 0x00ffffff), LOG_RRA_MAX = bits(0x90, 0x00e00000),
        ATOMIC_MODE = bits(0x90, 0x000f0000), RRE = bits(0x90, 0x00008000),
        RWE = bits(0x90, 0x00004000), RAE = bits(0x90, 0x00002000),
        PAGE_OFFSET = bits(0x90, 0x00000fc0), CD_SLAVE_RECEIVE = bits(0x90, 0x00000004),
        CD_SLAVE_SEND = bits(0x90, 0x00000002), CD_MASTER = bits(0x90, 0x00000001),
        MIN_RNR_NAK = bits(0x94, 0x1f000000), NEXT_RCV_PSN = bits(0x94, 0x00ffffff),
        XRCD = bits(0x98, 0x00ffffff), CQN_RCV = bits(0x9c, 0x00ffffff), DBR_ADDR = qword(0xa0),
        Q_KEY = bits(0xa8, 0xffffffff), RQ_TYPE = bits(0xac, 0x07000000),
        SRQN_RMPN_XRQN = bits(0xac, 0x00ffffff), RMSN = bits(0xb0, 0x00ffffff),
        HW_SQ_WQEBB_COUNTER = bits(0xb4, 0xffff0000),
        SW_SQ_WQEBB_COUNTER = bits(0xb4, 0x0000ffff), HW_RQ_COUNTER = bits(0xb8, 0xffffffff),
        SW_RQ_COUNTER = bits(0xbc, 0xffffffff), CGS = bits(0xc4, 0x00010000),
        CS_REQ = bits(0xc4, 0x0000ff00), CS_RES = bits(0xc4, 0x000000ff),
        DC_ACCESS_KEY = qword(0xc8), DBR_UMEM_VALID = bits(0xd0, 0x10000000),
    }
}

layout! { rmpc:
    context::rmpc {
        SIZE = base(0xf0), STATE = bits(0x00, 0x00f00000),
        BASIC_CYCLIC_RCV_WQE = bits(0x04, 0x80000000), WQ = base(0x30),
    }
}

layout! { wq:
    context::wq {
        SIZE = base(0xc0), WQ_TYPE = bits(0x00, 0xf0000000),
        WQ_SIGNATURE = bits(0x00, 0x08000000), END_PADDING_MODE = bits(0x00, 0x06000000),
        CD_SLAVE = bits(0x00, 0x01000000), PAGE_OFFSET = bits(0x04, 0x001f0000),
        LWM = bits(0x04, 0x0000ffff), PD = bits(0x08, 0x00ffffff),
        UAR_PAGE = bits(0x0c, 0x00ffffff), DBR_ADDR = qword(0x10),
        HW_COUNTER = bits(0x18, 0xffffffff), SW_COUNTER = bits(0x1c, 0xffffffff),
        LOG_WQ_STRIDE = bits(0x20, 0x000f0000), LOG_WQ_PG_SZ = bits(0x20, 0x00001f00),
        LOG_WQ_SZ = bits(0x20, 0x0000001f), DBR_UMEM_VALID = bits(0x24, 0x80000000),
        WQ_UMEM_VALID = bits(0x24, 0x40000000), LOG_HAIRPIN_NUM_PACKETS = bits(0x24, 0x1f000000),
        LOG_HAIRPIN_DATA_SZ = bits(0x24, 0x001f0000),
        LOG_WQE_NUM_OF_STRIDES = bits(0x24, 0x00000f00),
        TWO_BYTE_SHIFT_EN = bits(0x24, 0x00000080), LOG_WQE_STRIDE_SIZE = bits(0x24, 0x00000007),
        PAS = base(0xc0),
    }
}

layout! { xrc_srqc:
    context::xrc_srqc {
        SIZE = base(0x40), STATE = bits(0x00, 0xf0000000),
        LOG_XRC_SRQ_SIZE = bits(0x00, 0x0f000000), WQ_SIGNATURE = bits(0x04, 0x80000000),
        RLKY = bits(0x04, 0x10000000), BASIC_CYCLIC_RCV_WQE = bits(0x04, 0x08000000),
        LOG_RQ_STRIDE = bits(0x04, 0x07000000), XRCD = bits(0x04, 0x00ffffff),
        PAGE_OFFSET = bits(0x08, 0xfc000000), DBR_UMEM_VALID = bits(0x08, 0x01000000),
        CQN = bits(0x08, 0x00ffffff), USER_INDEX_EQUAL_XRC_SRQN = bits(0x10, 0x80000000),
        LOG_PAGE_SIZE = bits(0x10, 0x3f000000), USER_INDEX = bits(0x10, 0x00ffffff),
        PD = bits(0x18, 0x00ffffff), LWM = bits(0x1c, 0xffff0000),
        WQE_CNT = bits(0x1c, 0x0000ffff), DB_RECORD_ADDR_H = bits(0x28, 0xffffffff),
        DB_RECORD_ADDR_L = bits(0x2c, 0xfffffffc),
    }
}
