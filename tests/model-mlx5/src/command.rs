//! The table of commands: opcode, modifiers, lengths, when it is allowed, and who does it.

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::{Opcode, Status, input},
    commands::*,
};

use crate::{
    access_reg, cq, eq, flow_entry, flow_group, flow_table, frame_counters,
    hca::Hca,
    hca_cap, mcg, mr, nic_vport, pages, pd, q_counter, qp, qp_state,
    refusal::{Outcome, Refused, require},
    roce, rq, rqt, sma, sq, srq, start, tir, tis, transport_domain, uar, umem, vport, xrcd,
};

/// A command under way.
#[derive(Debug)]
pub struct Call<'a> {
    /// What.
    pub opcode: Opcode,
    /// Modifier.
    pub op_mod: u16,
    /// Whole input, header included.
    pub input: &'a [u8],
    /// Whole output, header included; zero at first, as long as the driver has room.
    pub out: &'a mut [u8],
}

/// What became of a command that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The output stands.
    Answered,
    /// Nothing was done yet: firmware asked for pages.
    NeedsPages,
}

/// How far the function was brought up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not enabled.
    #[default]
    Off,
    /// After ENABLE_HCA.
    Enabled,
    /// After INIT_HCA: objects can be created.
    Running,
}

type Run = fn(&mut Hca, &mut dyn Bus, &mut Call) -> Outcome;

struct Command {
    opcode: Opcode,
    op_mods: &'static [u16],
    min_in: usize,
    /// Arrays may follow the fixed input.
    open: bool,
    min_out: usize,
    phase: Phase,
    /// Takes this many of firmware's units of memory (see [`pages`]).
    cost: u32,
    run: Run,
}

const ANY: &[u16] = &[];
const ZERO: &[u16] = &[0];

/// Allowed before INIT_HCA.
const fn early(opcode: Opcode, op_mods: &'static [u16], min_in: usize, min_out: usize, run: Run) -> Command {
    Command { opcode, op_mods, min_in, open: false, min_out, phase: Phase::Enabled, cost: 0, run }
}

/// Works on objects.
const fn plain(opcode: Opcode, min_in: usize, min_out: usize, run: Run) -> Command {
    Command { opcode, op_mods: ZERO, min_in, open: false, min_out, phase: Phase::Running, cost: 0, run }
}

/// Creates an object without memory of its own.
const fn alloc(opcode: Opcode, min_in: usize, min_out: usize, run: Run) -> Command {
    Command { cost: 1, ..plain(opcode, min_in, min_out, run) }
}

/// Creates an object, whose page list may follow.
const fn create(opcode: Opcode, min_in: usize, min_out: usize, run: Run) -> Command {
    Command { open: true, ..alloc(opcode, min_in, min_out, run) }
}

/// A QP's transition with a context.
const fn state(opcode: Opcode) -> Command {
    plain(opcode, rst2init_qp::IN_LEN, rst2init_qp::OUT_LEN, qp_state::modify)
}

const COMMANDS: &[Command] = &[
    Command {
        phase: Phase::Off,
        ..early(Opcode::ENABLE_HCA, ZERO, enable_hca::IN_LEN, enable_hca::OUT_LEN, start::enable_hca)
    },
    early(Opcode::DISABLE_HCA, ZERO, disable_hca::IN_LEN, disable_hca::OUT_LEN, start::disable_hca),
    early(Opcode::QUERY_ISSI, ZERO, query_issi::IN_LEN, query_issi::OUT_LEN, start::query_issi),
    early(Opcode::SET_ISSI, ZERO, set_issi::IN_LEN, set_issi::OUT_LEN, start::set_issi),
    early(Opcode::INIT_HCA, ZERO, 0x10, init_hca::OUT_LEN, start::init_hca),
    early(Opcode::TEARDOWN_HCA, ZERO, teardown_hca::IN_LEN, teardown_hca::OUT_LEN, start::teardown_hca),
    early(Opcode::QUERY_ADAPTER, ZERO, query_adapter::IN_LEN, query_adapter::OUT_LEN, start::query_adapter),
    early(Opcode::QUERY_PAGES, &[1, 2, 3], query_pages::IN_LEN, query_pages::OUT_LEN, pages::query_pages),
    Command {
        open: true,
        ..early(Opcode::MANAGE_PAGES, &[0, 1, 2], manage_pages::IN_LEN, manage_pages::OUT_LEN, pages::manage_pages)
    },
    early(Opcode::QUERY_HCA_CAP, ANY, query_hca_cap::IN_LEN, hca_cap::QUERY_MIN_OUT, hca_cap::query_hca_cap),
    early(Opcode::SET_HCA_CAP, ANY, set_hca_cap::IN_LEN, set_hca_cap::OUT_LEN, hca_cap::set_hca_cap),
    plain(Opcode::ALLOC_UAR, alloc_uar::IN_LEN, alloc_uar::OUT_LEN, uar::alloc_uar),
    plain(Opcode::DEALLOC_UAR, dealloc_uar::IN_LEN, dealloc_uar::OUT_LEN, uar::dealloc_uar),
    create(Opcode::CREATE_EQ, create_eq::IN_LEN, create_eq::OUT_LEN, eq::create_eq),
    plain(Opcode::DESTROY_EQ, destroy_eq::IN_LEN, destroy_eq::OUT_LEN, eq::destroy_eq),
    plain(Opcode::QUERY_EQ, query_eq::IN_LEN, query_eq::OUT_LEN, eq::query_eq),
    create(Opcode::CREATE_CQ, create_cq::IN_LEN, create_cq::OUT_LEN, cq::create_cq),
    plain(Opcode::DESTROY_CQ, destroy_cq::IN_LEN, destroy_cq::OUT_LEN, cq::destroy_cq),
    plain(Opcode::QUERY_CQ, query_cq::IN_LEN, query_cq::OUT_LEN, cq::query_cq),
    Command {
        op_mods: &[0, 1],
        open: true,
        ..plain(Opcode::MODIFY_CQ, modify_cq::IN_LEN, modify_cq::OUT_LEN, cq::modify_cq)
    },
    create(Opcode::CREATE_MKEY, create_mkey::IN_LEN, create_mkey::OUT_LEN, mr::create_mkey),
    plain(Opcode::DESTROY_MKEY, destroy_mkey::IN_LEN, destroy_mkey::OUT_LEN, mr::destroy_mkey),
    plain(Opcode::QUERY_MKEY, query_mkey::IN_LEN, query_mkey::OUT_LEN, mr::query_mkey),
    create(Opcode::CREATE_UMEM, create_umem::IN_LEN, create_umem::OUT_LEN, umem::create_umem),
    plain(Opcode::DESTROY_UMEM, destroy_umem::IN_LEN, destroy_umem::OUT_LEN, umem::destroy_umem),
    alloc(Opcode::ALLOC_PD, alloc_pd::IN_LEN, alloc_pd::OUT_LEN, pd::alloc_pd),
    plain(Opcode::DEALLOC_PD, dealloc_pd::IN_LEN, dealloc_pd::OUT_LEN, pd::dealloc_pd),
    alloc(Opcode::ALLOC_XRCD, alloc_xrcd::IN_LEN, alloc_xrcd::OUT_LEN, xrcd::alloc_xrcd),
    plain(Opcode::DEALLOC_XRCD, dealloc_xrcd::IN_LEN, dealloc_xrcd::OUT_LEN, xrcd::dealloc_xrcd),
    Command { op_mods: &[0, 1, 2, 3], ..plain(Opcode::MAD_IFC, mad_ifc::IN_LEN, mad_ifc::OUT_LEN, sma::mad_ifc) },
    create(Opcode::CREATE_QP, create_qp::IN_LEN, create_qp::OUT_LEN, qp::create_qp),
    plain(Opcode::DESTROY_QP, destroy_qp::IN_LEN, destroy_qp::OUT_LEN, qp::destroy_qp),
    state(Opcode::RST2INIT_QP),
    state(Opcode::INIT2INIT_QP),
    state(Opcode::INIT2RTR_QP),
    state(Opcode::RTR2RTS_QP),
    state(Opcode::RTS2RTS_QP),
    state(Opcode::SQERR2RTS_QP),
    state(Opcode::SQD_RTS_QP),
    plain(Opcode::QP_2ERR, qp_2err::IN_LEN, qp_2err::OUT_LEN, qp_state::to_error),
    plain(Opcode::QP_2RST, qp_2rst::IN_LEN, qp_2rst::OUT_LEN, qp_state::to_reset),
    create(Opcode::CREATE_RMP, create_rmp::IN_LEN, create_rmp::OUT_LEN, srq::create_rmp),
    plain(Opcode::DESTROY_RMP, destroy_rmp::IN_LEN, destroy_rmp::OUT_LEN, srq::destroy_rmp),
    plain(Opcode::QUERY_RMP, query_rmp::IN_LEN, query_rmp::OUT_LEN, srq::query_rmp),
    plain(Opcode::MODIFY_RMP, modify_rmp::IN_LEN, modify_rmp::OUT_LEN, srq::modify_rmp),
    create(Opcode::CREATE_XRC_SRQ, create_xrc_srq::IN_LEN, create_xrc_srq::OUT_LEN, srq::create_xrc_srq),
    plain(Opcode::DESTROY_XRC_SRQ, destroy_xrc_srq::IN_LEN, destroy_xrc_srq::OUT_LEN, srq::destroy_xrc_srq),
    plain(Opcode::QUERY_XRC_SRQ, query_xrc_srq::IN_LEN, query_xrc_srq::OUT_LEN, srq::query_xrc_srq),
    Command {
        op_mods: &[arm_xrc_srq_op_mod::XRC_SRQ as u16],
        ..plain(Opcode::ARM_XRC_SRQ, arm_xrc_srq::IN_LEN, arm_xrc_srq::OUT_LEN, srq::arm_xrc_srq)
    },
    Command { open: true, ..early(Opcode::ACCESS_REG, &[0, 1], 0x10, 0x10, access_reg::access_reg) },
    plain(
        Opcode::QUERY_HCA_VPORT_CONTEXT,
        query_hca_vport_context::IN_LEN,
        query_hca_vport_context::OUT_LEN,
        vport::query_context,
    ),
    plain(
        Opcode::MODIFY_HCA_VPORT_CONTEXT,
        modify_hca_vport_context::IN_LEN,
        modify_hca_vport_context::OUT_LEN,
        vport::modify_context,
    ),
    plain(Opcode::QUERY_HCA_VPORT_GID, query_hca_vport_gid::IN_LEN, query_hca_vport_gid::OUT_LEN, vport::query_gids),
    plain(
        Opcode::QUERY_HCA_VPORT_PKEY,
        query_hca_vport_pkey::IN_LEN,
        query_hca_vport_pkey::OUT_LEN,
        vport::query_pkeys,
    ),
    Command {
        op_mods: &[0, 2],
        ..plain(Opcode::QUERY_VPORT_STATE, query_vport_state::IN_LEN, query_vport_state::OUT_LEN, vport::query_state)
    },
    plain(
        Opcode::QUERY_NIC_VPORT_CONTEXT,
        query_nic_vport_context::IN_LEN,
        query_nic_vport_context::OUT_LEN,
        nic_vport::query_context,
    ),
    Command {
        open: true,
        ..plain(
            Opcode::MODIFY_NIC_VPORT_CONTEXT,
            modify_nic_vport_context::IN_LEN,
            modify_nic_vport_context::OUT_LEN,
            nic_vport::modify_context,
        )
    },
    plain(Opcode::SET_ROCE_ADDRESS, set_roce_address::IN_LEN, set_roce_address::OUT_LEN, roce::set_address),
    plain(Opcode::QUERY_ROCE_ADDRESS, query_roce_address::IN_LEN, query_roce_address::OUT_LEN, roce::query_address),
    alloc(Opcode::ATTACH_TO_MCG, attach_to_mcg::IN_LEN, attach_to_mcg::OUT_LEN, mcg::attach),
    plain(Opcode::DETACH_FROM_MCG, detach_from_mcg::IN_LEN, detach_from_mcg::OUT_LEN, mcg::detach),
    alloc(
        Opcode::ALLOC_TRANSPORT_DOMAIN,
        alloc_transport_domain::IN_LEN,
        alloc_transport_domain::OUT_LEN,
        transport_domain::alloc,
    ),
    plain(
        Opcode::DEALLOC_TRANSPORT_DOMAIN,
        dealloc_transport_domain::IN_LEN,
        dealloc_transport_domain::OUT_LEN,
        transport_domain::dealloc,
    ),
    alloc(Opcode::CREATE_TIS, create_tis::IN_LEN, create_tis::OUT_LEN, tis::create_tis),
    plain(Opcode::MODIFY_TIS, modify_tis::IN_LEN, modify_tis::OUT_LEN, tis::modify_tis),
    plain(Opcode::QUERY_TIS, query_tis::IN_LEN, query_tis::OUT_LEN, tis::query_tis),
    plain(Opcode::DESTROY_TIS, destroy_tis::IN_LEN, destroy_tis::OUT_LEN, tis::destroy_tis),
    create(Opcode::CREATE_SQ, create_sq::IN_LEN, create_sq::OUT_LEN, sq::create_sq),
    plain(Opcode::MODIFY_SQ, modify_sq::IN_LEN, modify_sq::OUT_LEN, sq::modify_sq),
    plain(Opcode::QUERY_SQ, query_sq::IN_LEN, query_sq::OUT_LEN, sq::query_sq),
    plain(Opcode::DESTROY_SQ, destroy_sq::IN_LEN, destroy_sq::OUT_LEN, sq::destroy_sq),
    create(Opcode::CREATE_RQ, create_rq::IN_LEN, create_rq::OUT_LEN, rq::create_rq),
    plain(Opcode::MODIFY_RQ, modify_rq::IN_LEN, modify_rq::OUT_LEN, rq::modify_rq),
    plain(Opcode::QUERY_RQ, query_rq::IN_LEN, query_rq::OUT_LEN, rq::query_rq),
    plain(Opcode::DESTROY_RQ, destroy_rq::IN_LEN, destroy_rq::OUT_LEN, rq::destroy_rq),
    create(Opcode::CREATE_RQT, create_rqt::IN_LEN, create_rqt::OUT_LEN, rqt::create_rqt),
    Command { open: true, ..plain(Opcode::MODIFY_RQT, modify_rqt::IN_LEN, modify_rqt::OUT_LEN, rqt::modify_rqt) },
    plain(Opcode::QUERY_RQT, query_rqt::IN_LEN, query_rqt::OUT_LEN, rqt::query_rqt),
    plain(Opcode::DESTROY_RQT, destroy_rqt::IN_LEN, destroy_rqt::OUT_LEN, rqt::destroy_rqt),
    alloc(Opcode::CREATE_TIR, create_tir::IN_LEN, create_tir::OUT_LEN, tir::create_tir),
    plain(Opcode::MODIFY_TIR, modify_tir::IN_LEN, modify_tir::OUT_LEN, tir::modify_tir),
    plain(Opcode::QUERY_TIR, query_tir::IN_LEN, query_tir::OUT_LEN, tir::query_tir),
    plain(Opcode::DESTROY_TIR, destroy_tir::IN_LEN, destroy_tir::OUT_LEN, tir::destroy_tir),
    alloc(
        Opcode::CREATE_FLOW_TABLE,
        create_flow_table::IN_LEN,
        create_flow_table::OUT_LEN,
        flow_table::create_flow_table,
    ),
    plain(
        Opcode::DESTROY_FLOW_TABLE,
        destroy_flow_table::IN_LEN,
        destroy_flow_table::OUT_LEN,
        flow_table::destroy_flow_table,
    ),
    plain(Opcode::QUERY_FLOW_TABLE, query_flow_table::IN_LEN, query_flow_table::OUT_LEN, flow_table::query_flow_table),
    plain(
        Opcode::MODIFY_FLOW_TABLE,
        modify_flow_table::IN_LEN,
        modify_flow_table::OUT_LEN,
        flow_table::modify_flow_table,
    ),
    Command {
        op_mods: &[0, 1],
        ..plain(
            Opcode::SET_FLOW_TABLE_ROOT,
            set_flow_table_root::IN_LEN,
            set_flow_table_root::OUT_LEN,
            flow_table::set_root,
        )
    },
    alloc(
        Opcode::CREATE_FLOW_GROUP,
        create_flow_group::IN_LEN,
        create_flow_group::OUT_LEN,
        flow_group::create_flow_group,
    ),
    plain(
        Opcode::DESTROY_FLOW_GROUP,
        destroy_flow_group::IN_LEN,
        destroy_flow_group::OUT_LEN,
        flow_group::destroy_flow_group,
    ),
    Command {
        op_mods: &[0, 1],
        ..create(
            Opcode::SET_FLOW_TABLE_ENTRY,
            set_flow_table_entry::IN_LEN,
            set_flow_table_entry::OUT_LEN,
            flow_entry::set_entry,
        )
    },
    plain(
        Opcode::DELETE_FLOW_TABLE_ENTRY,
        delete_flow_table_entry::IN_LEN,
        delete_flow_table_entry::OUT_LEN,
        flow_entry::delete_entry,
    ),
    alloc(Opcode::ALLOC_Q_COUNTER, alloc_q_counter::IN_LEN, alloc_q_counter::OUT_LEN, q_counter::alloc),
    plain(Opcode::DEALLOC_Q_COUNTER, dealloc_q_counter::IN_LEN, dealloc_q_counter::OUT_LEN, q_counter::dealloc),
    plain(Opcode::QUERY_Q_COUNTER, query_q_counter::IN_LEN, query_q_counter::OUT_LEN, q_counter::query),
    plain(
        Opcode::QUERY_VPORT_COUNTER,
        query_vport_counter::IN_LEN,
        query_vport_counter::OUT_LEN,
        frame_counters::query_vport,
    ),
    plain(Opcode::QUERY_QP, query_qp::IN_LEN, query_qp::OUT_LEN, qp::query_qp),
];

/// Executes a command.
pub fn execute(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome<Done> {
    let opcode = call.opcode;
    let Some(command) = COMMANDS.iter().find(|c| c.opcode == opcode) else {
        return Err(Refused::quiet(Status::BadOperation, 0x0001, "not a command of this device"));
    };
    let (in_len, out_len) = (call.input.len(), call.out.len());
    require(
        in_len >= command.min_in,
        Status::BadInputLength,
        0x0002,
        format_args!("{in_len} bytes of input, {} are needed", command.min_in),
    )?;
    if !command.open {
        let rest = call.input.get(command.min_in..).unwrap_or_default();
        let why = "bytes behind the command's input are set";
        require(rest.iter().all(|b| *b == 0), Status::BadInputLength, 0x0003, why)?;
    }
    require(
        out_len >= command.min_out,
        Status::BadOutputLength,
        0x0004,
        format_args!("room for {out_len} bytes of output, {} are needed", command.min_out),
    )?;
    let uid = input::UID.get(call.input);
    require(uid == 0, Status::BadParameter, 0x0005, format_args!("user context {uid} does not exist"))?;
    require(input_reserved(call.input) == 0, Status::BadParameter, 0x0006, "reserved bits of the header are set")?;
    if !command.op_mods.is_empty() && !command.op_mods.contains(&call.op_mod) {
        return Err(Refused::quiet(
            Status::BadOperation,
            0x0007,
            format_args!("opcode modifier {:#x} is not known", call.op_mod),
        ));
    }
    require(
        hca.phase >= command.phase,
        Status::BadSystemState,
        0x0008,
        format_args!("the function is {:?}, the command needs {:?}", hca.phase, command.phase),
    )?;
    if command.cost > 0 && !pages::afford(hca, bus, command.cost)? {
        return Ok(Done::NeedsPages);
    }
    (command.run)(hca, bus, call)?;
    pages::balance(hca, bus);
    Ok(Done::Answered)
}

fn input_reserved(input: &[u8]) -> u16 {
    u16::from_be_bytes([input[4], input[5]])
}
