//! Commands on objects: queues, pairs of them, memory keys, domains.

use crate::{base, bits, layout, qword};
use bareverbs_mlx5_prm::commands;

layout! { create_cq:
    commands::create_cq {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), CQC = base(0x10),
        CQ_UMEM_VALID = bits(0x5c, 0x80000000), PAS = base(0x110),
    }
    commands::create_cq::out {
        CQN = bits(0x08, 0x00ffffff),
    }
}

layout! { destroy_cq:
    commands::destroy_cq {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), CQN = bits(0x08, 0x00ffffff),
    }
}

layout! { query_cq:
    commands::query_cq {
        IN_LEN = base(0x10), OUT_LEN = base(0x110), CQN = bits(0x08, 0x00ffffff),
    }
    commands::query_cq::out {
        CQC = base(0x10), PAS = base(0x110),
    }
}

layout! { modify_cq:
    commands::modify_cq {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), CQN = bits(0x08, 0x00ffffff),
        FIELD_SELECT = bits(0x0c, 0xffffffff), CQC = base(0x10),
        CQ_UMEM_VALID = bits(0x5c, 0x80000000), PAS = base(0x110),
    }
}

layout! { create_eq:
    commands::create_eq {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), EQC = base(0x10), EVENT_BITMASK = base(0x58),
        PAS = base(0x110),
    }
    commands::create_eq::out {
        EQ_NUMBER = bits(0x08, 0x000000ff),
    }
}

layout! { destroy_eq:
    commands::destroy_eq {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), EQ_NUMBER = bits(0x08, 0x000000ff),
    }
}

layout! { query_eq:
    commands::query_eq {
        IN_LEN = base(0x10), OUT_LEN = base(0x110), EQ_NUMBER = bits(0x08, 0x000000ff),
    }
    commands::query_eq::out {
        EQC = base(0x10), EVENT_BITMASK = qword(0x58), PAS = base(0x110),
    }
}

layout! { create_mkey:
    commands::create_mkey {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), PG_ACCESS = bits(0x0c, 0x80000000),
        MKEY_UMEM_VALID = bits(0x0c, 0x40000000), MKC = base(0x10),
        TRANSLATIONS_OCTWORD_ACTUAL_SIZE = bits(0x60, 0xffffffff), KLM_PAS_MTT = base(0x110),
    }
    commands::create_mkey::out {
        MKEY_INDEX = bits(0x08, 0x00ffffff),
    }
}

layout! { destroy_mkey:
    commands::destroy_mkey {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), MKEY_INDEX = bits(0x08, 0x00ffffff),
    }
}

layout! { query_mkey:
    commands::query_mkey {
        IN_LEN = base(0x10), OUT_LEN = base(0x130), MKEY_INDEX = bits(0x08, 0x00ffffff),
        PG_ACCESS = bits(0x0c, 0x80000000),
    }
    commands::query_mkey::out {
        MKC = base(0x10), TRANSLATION_0 = base(0x110), TRANSLATION_1 = base(0x120),
    }
}

layout! { alloc_pd:
    commands::alloc_pd {
        IN_LEN = base(0x10), OUT_LEN = base(0x10),
    }
    commands::alloc_pd::out {
        PD = bits(0x08, 0x00ffffff),
    }
}

layout! { dealloc_pd:
    commands::dealloc_pd {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), PD = bits(0x08, 0x00ffffff),
    }
}

layout! { alloc_xrcd:
    commands::alloc_xrcd {
        IN_LEN = base(0x10), OUT_LEN = base(0x10),
    }
    commands::alloc_xrcd::out {
        XRCD = bits(0x08, 0x00ffffff),
    }
}

layout! { dealloc_xrcd:
    commands::dealloc_xrcd {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), XRCD = bits(0x08, 0x00ffffff),
    }
}

layout! { alloc_transport_domain:
    commands::alloc_transport_domain {
        IN_LEN = base(0x10), OUT_LEN = base(0x10),
    }
    commands::alloc_transport_domain::out {
        TRANSPORT_DOMAIN = bits(0x08, 0x00ffffff),
    }
}

layout! { dealloc_transport_domain:
    commands::dealloc_transport_domain {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), TRANSPORT_DOMAIN = bits(0x08, 0x00ffffff),
    }
}

layout! { create_qp:
    commands::create_qp {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), INPUT_QPN = bits(0x08, 0x00ffffff),
        OPT_PARAM_MASK = bits(0x10, 0xffffffff), ECE = bits(0x14, 0xffffffff), QPC = base(0x18),
        WQ_UMEM_VALID = bits(0x10c, 0x80000000), PAS = base(0x110),
    }
    commands::create_qp::out {
        QPN = bits(0x08, 0x00ffffff), ECE = bits(0x0c, 0xffffffff),
    }
}

layout! { destroy_qp:
    commands::destroy_qp {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
    }
}

layout! { query_qp:
    commands::query_qp {
        IN_LEN = base(0x10), OUT_LEN = base(0x110), QPN = bits(0x08, 0x00ffffff),
    }
    commands::query_qp::out {
        OPT_PARAM_MASK = bits(0x10, 0xffffffff), ECE = bits(0x14, 0xffffffff), QPC = base(0x18),
        PAS = base(0x110),
    }
}

layout! { rst2init_qp:
    commands::rst2init_qp {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
        OPT_PARAM_MASK = bits(0x10, 0xffffffff), ECE = bits(0x14, 0xffffffff), QPC = base(0x18),
    }
    commands::rst2init_qp::out {
        ECE = bits(0x0c, 0xffffffff),
    }
}

layout! { init2init_qp:
    commands::init2init_qp {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
        OPT_PARAM_MASK = bits(0x10, 0xffffffff), ECE = bits(0x14, 0xffffffff), QPC = base(0x18),
    }
    commands::init2init_qp::out {
        ECE = bits(0x0c, 0xffffffff),
    }
}

layout! { init2rtr_qp:
    commands::init2rtr_qp {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
        OPT_PARAM_MASK = bits(0x10, 0xffffffff), ECE = bits(0x14, 0xffffffff), QPC = base(0x18),
    }
    commands::init2rtr_qp::out {
        ECE = bits(0x0c, 0xffffffff),
    }
}

layout! { rtr2rts_qp:
    commands::rtr2rts_qp {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
        OPT_PARAM_MASK = bits(0x10, 0xffffffff), ECE = bits(0x14, 0xffffffff), QPC = base(0x18),
    }
    commands::rtr2rts_qp::out {
        ECE = bits(0x0c, 0xffffffff),
    }
}

layout! { rts2rts_qp:
    commands::rts2rts_qp {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
        OPT_PARAM_MASK = bits(0x10, 0xffffffff), ECE = bits(0x14, 0xffffffff), QPC = base(0x18),
    }
    commands::rts2rts_qp::out {
        ECE = bits(0x0c, 0xffffffff),
    }
}

layout! { sqerr2rts_qp:
    commands::sqerr2rts_qp {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
        OPT_PARAM_MASK = bits(0x10, 0xffffffff), QPC = base(0x18),
    }
}

layout! { sqd2rts_qp:
    commands::sqd2rts_qp {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
        OPT_PARAM_MASK = bits(0x10, 0xffffffff), QPC = base(0x18),
    }
}

layout! { qp_2err:
    commands::qp_2err {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
    }
}

layout! { qp_2rst:
    commands::qp_2rst {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), QPN = bits(0x08, 0x00ffffff),
    }
}

layout! { create_xrc_srq:
    commands::create_xrc_srq {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), XRC_SRQC = base(0x10),
        XRC_SRQ_UMEM_VALID = bits(0x5c, 0x80000000), PAS = base(0x110),
    }
    commands::create_xrc_srq::out {
        XRC_SRQN = bits(0x08, 0x00ffffff),
    }
}

layout! { destroy_xrc_srq:
    commands::destroy_xrc_srq {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), XRC_SRQN = bits(0x08, 0x00ffffff),
    }
}

layout! { query_xrc_srq:
    commands::query_xrc_srq {
        IN_LEN = base(0x10), OUT_LEN = base(0x110), XRC_SRQN = bits(0x08, 0x00ffffff),
    }
    commands::query_xrc_srq::out {
        XRC_SRQC = base(0x10), PAS = base(0x110),
    }
}

layout! { arm_xrc_srq:
    commands::arm_xrc_srq {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), XRC_SRQN = bits(0x08, 0x00ffffff),
        LWM = bits(0x0c, 0x0000ffff),
    }
}

layout! { create_rmp:
    commands::create_rmp {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), RMPC = base(0x20),
    }
    commands::create_rmp::out {
        RMPN = bits(0x08, 0x00ffffff),
    }
}

layout! { destroy_rmp:
    commands::destroy_rmp {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), RMPN = bits(0x08, 0x00ffffff),
    }
}

layout! { query_rmp:
    commands::query_rmp {
        IN_LEN = base(0x10), OUT_LEN = base(0x110), RMPN = bits(0x08, 0x00ffffff),
    }
    commands::query_rmp::out {
        RMPC = base(0x20),
    }
}

layout! { modify_rmp:
    commands::modify_rmp {
        IN_LEN = base(0x110), OUT_LEN = base(0x10), RMP_STATE = bits(0x08, 0xf0000000),
        RMPN = bits(0x08, 0x00ffffff), BITMASK = qword(0x10), RMPC = base(0x20),
    }
}

layout! { alloc_uar:
    commands::alloc_uar {
        IN_LEN = base(0x10), OUT_LEN = base(0x10),
    }
    commands::alloc_uar::out {
        UAR = bits(0x08, 0x00ffffff),
    }
}

layout! { dealloc_uar:
    commands::dealloc_uar {
        IN_LEN = base(0x10), OUT_LEN = base(0x10), UAR = bits(0x08, 0x00ffffff),
    }
}
