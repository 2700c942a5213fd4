//! Transitions of a QP: from which state each command goes, which fields of its context it takes, and what it demands.

use bareverbs_harness::model::{Bus, LinkKind};
use bareverbs_mlx5_prm::{
    cmd::{Opcode, Status},
    commands::{opt_param as opt, rst2init_qp as modify},
    field::Field,
};

use crate::{
    command::Call,
    hca::Hca,
    q_counter,
    qp::{self, Qp, QpState, Service, ads, qpc},
    refusal::{Outcome, require},
};

const PATH: usize = qpc::PRIMARY_ADDRESS_PATH;

/// A transition with a context.
struct Transition {
    opcode: Opcode,
    from: QpState,
    to: QpState,
    /// Taken always.
    takes: &'static [Field],
    /// The whole primary path is taken.
    path: bool,
}

const TRANSITIONS: &[Transition] = &[
    Transition {
        opcode: Opcode::RST2INIT_QP,
        from: QpState::Reset,
        to: QpState::Init,
        takes: &[
            qpc::PM_STATE,
            qpc::RRE,
            qpc::RWE,
            qpc::RAE,
            qpc::ATOMIC_MODE,
            qpc::Q_KEY,
            qpc::COUNTER_SET_ID,
            ads::PKEY_INDEX.at(PATH),
            ads::VHCA_PORT_NUM.at(PATH),
        ],
        path: false,
    },
    Transition { opcode: Opcode::INIT2INIT_QP, from: QpState::Init, to: QpState::Init, takes: &[], path: false },
    Transition {
        opcode: Opcode::INIT2RTR_QP,
        from: QpState::Init,
        to: QpState::ReadyToReceive,
        takes: &[qpc::MTU, qpc::LOG_MSG_MAX, qpc::REMOTE_QPN, qpc::LOG_RRA_MAX, qpc::MIN_RNR_NAK, qpc::NEXT_RCV_PSN],
        path: true,
    },
    Transition {
        opcode: Opcode::RTR2RTS_QP,
        from: QpState::ReadyToReceive,
        to: QpState::ReadyToSend,
        takes: &[
            qpc::LOG_ACK_REQ_FREQ,
            qpc::LOG_SRA_MAX,
            qpc::RETRY_COUNT,
            qpc::RNR_RETRY,
            qpc::NEXT_SEND_PSN,
            ads::ACK_TIMEOUT.at(PATH),
        ],
        path: false,
    },
    Transition {
        opcode: Opcode::RTS2RTS_QP,
        from: QpState::ReadyToSend,
        to: QpState::ReadyToSend,
        takes: &[],
        path: false,
    },
    Transition {
        opcode: Opcode::SQERR2RTS_QP,
        from: QpState::SendQueueError,
        to: QpState::ReadyToSend,
        takes: &[],
        path: false,
    },
    Transition {
        opcode: Opcode::SQD_RTS_QP,
        from: QpState::SendQueueDrained,
        to: QpState::ReadyToSend,
        takes: &[],
        path: false,
    },
];

/// Fields that a bit of `opt_param_mask` adds.
const OPTIONAL: &[(u32, &[Field])] = &[
    (opt::RRE, &[qpc::RRE]),
    (opt::RAE, &[qpc::RAE, qpc::ATOMIC_MODE]),
    (opt::RWE, &[qpc::RWE]),
    (opt::PKEY_INDEX, &[ads::PKEY_INDEX.at(PATH)]),
    (opt::Q_KEY, &[qpc::Q_KEY]),
    (opt::RNR_TIMEOUT, &[qpc::MIN_RNR_NAK]),
    (opt::SRA_MAX, &[qpc::LOG_SRA_MAX]),
    (opt::RRA_MAX, &[qpc::LOG_RRA_MAX]),
    (opt::PM_STATE, &[qpc::PM_STATE]),
    (opt::RETRY_COUNT, &[qpc::RETRY_COUNT]),
    (opt::RNR_RETRY, &[qpc::RNR_RETRY]),
    (opt::ACK_TIMEOUT, &[ads::ACK_TIMEOUT.at(PATH)]),
    (opt::PRI_PORT, &[ads::VHCA_PORT_NUM.at(PATH)]),
    (opt::COUNTER_SET_ID, &[qpc::COUNTER_SET_ID]),
];

/// The bits that a transition allows, for each service.
fn allowed(opcode: Opcode, service: Service) -> u32 {
    let reliable = service.reliable();
    let access = if reliable {
        opt::RRE | opt::RAE | opt::RWE
    } else if service == Service::Uc {
        opt::RWE
    } else {
        0
    };
    let key = if service.connected() { 0 } else { opt::Q_KEY };
    let rnr = if reliable { opt::RNR_TIMEOUT } else { 0 };
    let migration = if service.connected() { opt::PM_STATE } else { 0 };
    match opcode {
        Opcode::INIT2INIT_QP => access | key | opt::PKEY_INDEX | opt::PRI_PORT,
        Opcode::INIT2RTR_QP => access | key | opt::PKEY_INDEX,
        Opcode::RTR2RTS_QP => access | key | rnr | migration,
        Opcode::RTS2RTS_QP => access | key | rnr | migration | opt::COUNTER_SET_ID,
        Opcode::SQERR2RTS_QP | Opcode::SQD_RTS_QP => access | key | rnr,
        _ => 0,
    }
}

/// The seven transition commands that carry a context.
pub fn modify(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let Some(t) = TRANSITIONS.iter().find(|t| t.opcode == call.opcode) else { return Ok(()) };
    let qp = qp::find(hca, modify::QPN.get(call.input))?;
    require(
        qp.state == t.from,
        Status::BadQpState,
        0x0920,
        format_args!("QP {:#x} is in {:?}, the command starts from {:?}", qp.qpn, qp.state, t.from),
    )?;
    let ece = modify::ECE.get(call.input);
    require(ece == 0, Status::BadParameter, 0x0921, "ECE is not advertised")?;
    let given = &call.input[modify::QPC..modify::QPC + qpc::SIZE];
    let mask = modify::OPT_PARAM_MASK.get(call.input);
    let may = allowed(t.opcode, qp.service);
    require(
        mask & !may == 0,
        Status::BadParameter,
        0x0922,
        format_args!("optional parameters {mask:#x}, {:?} allows {may:#x}", qp.service),
    )?;

    let mut ctx = qp.ctx;
    if t.path {
        let path = PATH..PATH + ads::SIZE;
        let (pkey, port) = (ads::PKEY_INDEX.at(PATH).get(&ctx), ads::VHCA_PORT_NUM.at(PATH).get(&ctx));
        ctx[path.clone()].copy_from_slice(&given[path]);
        ads::PKEY_INDEX.at(PATH).set(&mut ctx, pkey);
        ads::VHCA_PORT_NUM.at(PATH).set(&mut ctx, port);
    }
    let optional = OPTIONAL.iter().filter(|(bit, _)| mask & bit != 0).flat_map(|(_, fields)| *fields);
    for field in t.takes.iter().chain(optional) {
        field.set(&mut ctx, field.get(given));
    }
    let given_st = qpc::ST.get(given);
    require(given_st == qpc::ST.get(&ctx), Status::BadParameter, 0x0923, "the service type is another than the QP's")?;
    check(hca, qp, t.to, &ctx)?;

    let qpn = qp.qpn;
    if let Some(qp) = hca.qps.get_mut(&qpn) {
        qp.ctx = ctx;
    }
    if t.from != t.to {
        hca.set_qp_state(bus, qpn, t.to);
    } else {
        crate::transport::state_changed(hca, bus, qpn, t.from, t.to);
    }
    Ok(())
}

/// What must hold in the state that is entered.
fn check(hca: &Hca, qp: &Qp, to: QpState, ctx: &[u8]) -> Outcome {
    let path = |field: Field| field.at(PATH).get(ctx);
    if qp.service == Service::Umr {
        return Ok(());
    }
    let port = path(ads::VHCA_PORT_NUM);
    require(port == 1, Status::BadParameter, 0x0930, format_args!("port {port} of 1"))?;
    let (index, pkeys) = (path(ads::PKEY_INDEX) as usize, hca.port.pkeys.len());
    require(index < pkeys, Status::BadIndex, 0x0931, format_args!("P_Key index {index} of {pkeys}"))?;
    let atomic = qpc::ATOMIC_MODE.get(ctx);
    let known = atomic <= qpc::atomic_mode::UP_TO_8B;
    require(known, Status::BadParameter, 0x0932, format_args!("atomic mode {atomic} is not advertised"))?;
    q_counter::check(hca, qpc::COUNTER_SET_ID.get(ctx))?;
    if to != QpState::ReadyToReceive && to != QpState::ReadyToSend {
        return Ok(());
    }
    let (msg, max) = (qpc::LOG_MSG_MAX.get(ctx), crate::hca_cap::LOG_MAX_MSG);
    require(msg <= max, Status::BadParameter, 0x0933, format_args!("messages of 2^{msg} bytes, at most 2^{max}"))?;
    let mtu = qpc::MTU.get(ctx);
    require((1..=5).contains(&mtu), Status::BadParameter, 0x0934, format_args!("path MTU code {mtu}"))?;
    let (rra, max) = (qpc::LOG_RRA_MAX.get(ctx), crate::hca_cap::LOG_MAX_RA);
    require(rra <= max, Status::BadParameter, 0x0935, format_args!("2^{rra} READs as responder, at most 2^{max}"))?;
    let sra = qpc::LOG_SRA_MAX.get(ctx);
    require(sra <= max, Status::BadParameter, 0x0936, format_args!("2^{sra} READs as requester, at most 2^{max}"))?;
    if qp.service.connected() {
        check_path(hca, ctx)?;
    }
    Ok(())
}

fn check_path(hca: &Hca, ctx: &[u8]) -> Outcome {
    let path = |field: Field| field.at(PATH).get(ctx);
    let index = path(ads::SRC_ADDR_INDEX) as usize;
    match hca.config.link {
        LinkKind::InfiniBand => {
            let lid = path(ads::RLID);
            require(lid != 0 && lid < 0xc000, Status::BadParameter, 0x0938, format_args!("destination LID {lid:#x}"))?;
            let gids = hca.port.gids.len();
            let fits = path(ads::GRH) == 0 || index < gids;
            require(fits, Status::BadIndex, 0x0939, format_args!("GID index {index} of {gids}"))
        }
        LinkKind::Ethernet => {
            let entry = hca.port.roce.get(index);
            let set = entry.is_some_and(|e| e.gid != [0; 16]);
            require(set, Status::BadIndex, 0x093a, format_args!("RoCE address {index} is not set"))?;
            let mac = ads::RMAC.at(PATH).get(ctx);
            let unicast = mac.first().is_some_and(|b| b & 1 == 0) && mac.iter().any(|b| *b != 0);
            require(unicast, Status::BadParameter, 0x093b, format_args!("destination MAC {mac:02x?}"))
        }
    }
}

/// 2ERR_QP: from any state.
pub fn to_error(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let qpn = qp::find(hca, modify::QPN.get(call.input))?.qpn;
    hca.set_qp_state(bus, qpn, QpState::Error);
    Ok(())
}

/// 2RST_QP: from any state; everything but what CREATE_QP set is forgotten.
pub fn to_reset(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let qpn = qp::find(hca, modify::QPN.get(call.input))?.qpn;
    hca.set_qp_state(bus, qpn, QpState::Reset);
    if let Some(qp) = hca.qps.get_mut(&qpn) {
        qp.ctx = qp.created;
    }
    Ok(())
}
