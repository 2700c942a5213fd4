//! UMR WQEs: the send queue changes memory keys. Fast registration, local invalidation and memory windows are made of
//! it. PRM: "User-Mode Memory Registration".

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    context::mkc,
    cqe::Syndrome,
    field::Field,
    wqe::{DataSeg, UmrCtrlSeg, mkey_mask, umr},
};
use zerocopy::FromBytes;

use super::{data, flow::Flow, wqe::Wqe};
use crate::{
    hca::Hca,
    mr::{self, Access, Mkey, Translation},
    qp::Service,
};

/// Fields of the context by their bit in the mask. What only concerns the order of PCIe transactions changes nothing here.
const FIELDS: &[(u64, Field)] = &[
    (mkey_mask::PAGE_SIZE, mkc::LOG_PAGE_SIZE),
    (mkey_mask::PD, mkc::PD),
    (mkey_mask::EN_RINVAL, mkc::EN_RINVAL),
    (mkey_mask::KEY, mkc::MKEY_7_0),
    (mkey_mask::QPN, mkc::QPN),
    (mkey_mask::LR, mkc::LR),
    (mkey_mask::LW, mkc::LW),
    (mkey_mask::RR, mkc::RR),
    (mkey_mask::RW, mkc::RW),
    (mkey_mask::A, mkc::A),
    (mkey_mask::FREE, mkc::FREE),
    (mkey_mask::SMALL_FENCE, mkc::SMALL_FENCE_ON_RDMA_READ_RESPONSE),
    (mkey_mask::RELAXED_ORDERING_WRITE, mkc::RELAXED_ORDERING_WRITE),
    (mkey_mask::RELAXED_ORDERING_READ, mkc::RELAXED_ORDERING_READ),
];

/// Bit of the flags: fail if the key is bound to another QP (rdma-core, `mlx5dv.h`: `..._CHECK_QPN`).
const CHECK_QPN: u8 = 1 << 3;

/// Executes a UMR WQE.
pub fn execute(hca: &mut Hca, bus: &mut dyn Bus, flow: &Flow, wqe: &Wqe) -> Result<(), Syndrome> {
    change(hca, bus, flow, wqe).map_err(|Failure { syndrome, why, users }| {
        let (qpn, index, key) = (flow.qpn, wqe.index, wqe.general_id);
        if !users {
            hca.violation(bus, format_args!("QP {qpn:#x}, send WQE {index}: UMR of key {key:#x}: {why}"));
        }
        syndrome
    })
}

/// Why a key was not changed.
struct Failure {
    syndrome: Syndrome,
    why: &'static str,
    /// The driver's user asked for it: a key that is not his, a window that is bound already.
    users: bool,
}

/// A WQE that is wrong in itself.
const fn malformed(why: &'static str) -> Failure {
    Failure { syndrome: Syndrome::LocalQpOperation, why, users: false }
}

/// A WQE that does not suit the key.
const fn refused(why: &'static str) -> Failure {
    Failure { syndrome: Syndrome::MwBind, why, users: false }
}

/// A key that this queue pair may not change, or not now.
const fn not_now(why: &'static str) -> Failure {
    Failure { syndrome: Syndrome::MwBind, why, users: true }
}

fn change(hca: &mut Hca, bus: &mut dyn Bus, flow: &Flow, wqe: &Wqe) -> Result<(), Failure> {
    let (control, rest) =
        UmrCtrlSeg::read_from_prefix(&wqe.inline).map_err(|_| malformed("no room for the UMR control segment"))?;
    let (context, rest) =
        rest.split_first_chunk::<{ mkc::SIZE }>().ok_or(malformed("no room for the key's context"))?;
    let index = wqe.general_id >> 8;
    let mkey = hca.mkeys.table.get(&index).cloned().ok_or(not_now("there is no such key"))?;
    let mask = control.mkey_mask.get();
    check(flow, &mkey, control.flags, mask)?;

    let mut raw = mkey.raw;
    for (_, field) in FIELDS.iter().filter(|(bit, _)| mask & bit != 0) {
        field.set(&mut raw, field.get(context));
    }
    if mask & mkey_mask::START_ADDR != 0 {
        mkc::START_ADDR.set(&mut raw, mkc::START_ADDR.get(context));
    }
    if mask & mkey_mask::LEN != 0 {
        mkc::LEN.set(&mut raw, mkc::LEN.get(context));
        mkc::LENGTH64.set(&mut raw, mkc::LENGTH64.get(context));
    }
    let octowords = u32::from(control.klm_octowords.get());
    let offset = u64::from(control.translation_offset_47_16.get()) << 16 | u64::from(control.translation_offset.get());
    let offset = if control.flags & umr::TRANSLATION_OFFSET_EN != 0 { offset } else { 0 };
    // A list is padded to 64 bytes (Linux: mlx5r_umr_get_xlt_octo).
    if offset + u64::from(octowords) > u64::from(mkey.octowords).next_multiple_of(mkc::mtt::ALIGN as u64 / 16) {
        return Err(refused("more translation than the key has room for"));
    }
    let mut entries = match (octowords, control.flags & umr::INLINE != 0) {
        (0, _) => Vec::new(),
        (_, true) => {
            let entries = rest.get(..octowords as usize * 16);
            entries.ok_or(malformed("the inline translation is longer than the WQE"))?.to_vec()
        }
        (_, false) => pointed_to(hca, bus, flow, rest, octowords)?,
    };
    // What is behind the key's room has to be padding.
    let room = u64::from(mkey.octowords).saturating_sub(offset).min(entries.len() as u64 / 16) as usize * 16;
    if entries.split_off(room).iter().any(|byte| *byte != 0) {
        return Err(refused("more translation than the key has room for"));
    }
    let changed = rebuild(hca, &mkey, raw, offset as usize * 16, &entries)?;
    hca.mkeys.table.insert(index, changed);
    Ok(())
}

/// Whether this WQE may change this key.
fn check(flow: &Flow, mkey: &Mkey, flags: u8, mask: u64) -> Result<(), Failure> {
    let known = FIELDS.iter().fold(mkey_mask::START_ADDR | mkey_mask::LEN, |all, (bit, _)| all | bit);
    if mask & !known != 0 {
        return Err(malformed("the mask names fields that are not supported"));
    }
    if !mkey.umr {
        return Err(not_now("the key does not allow UMR"));
    }
    if mkey.pd != flow.pd && flow.service != Service::Umr {
        return Err(not_now("the key is of another protection domain"));
    }
    if flags & umr::CHECK_NOT_FREE != 0 && !mkey.free {
        return Err(not_now("the key is not free"));
    }
    if flags & umr::CHECK_FREE != 0 && mkey.free {
        return Err(not_now("the key is free"));
    }
    if flags & CHECK_QPN != 0 && mkey.qpn.is_some_and(|qpn| qpn != flow.qpn) {
        return Err(not_now("the key is bound to another QP"));
    }
    Ok(())
}

/// A translation that lies in memory.
fn pointed_to(hca: &mut Hca, bus: &mut dyn Bus, flow: &Flow, rest: &[u8], octowords: u32) -> Result<Vec<u8>, Failure> {
    let (seg, _) =
        DataSeg::read_from_prefix(rest).map_err(|_| malformed("no room for the translation's data segment"))?;
    let mut entries = vec![0; octowords as usize * 16];
    let len = seg.byte_count.get() as usize;
    if len < entries.len() {
        return Err(malformed("the translation's data segment is too short"));
    }
    let (key, va) = (seg.lkey.get(), seg.addr.get());
    // The driver's own UMR QP is in no protection domain, and its list is behind a key that is in one (Linux:
    // mlx5_ib create_kernel_qp, mlx5r_umr_create_xlt).
    let mut user = flow.user();
    if flow.service == Service::Umr
        && let Some(mkey) = hca.mkeys.table.get(&(key >> 8))
    {
        user.pd = mkey.pd;
    }
    data::read(hca, bus, user, key, va, Access::LOCAL_READ, &mut entries)
        .map_err(|_| Failure { syndrome: Syndrome::LocalProtection, ..refused("the translation cannot be read") })?;
    Ok(entries)
}

/// The key with a new context and, from byte `at` of its translation on, new entries. While it is free its pages need
/// not suit the region.
fn rebuild(hca: &Hca, old: &Mkey, raw: [u8; mkc::SIZE], at: usize, entries: &[u8]) -> Result<Mkey, Failure> {
    let pd = mkc::PD.get(&raw);
    if !hca.pds.contains_key(&pd) {
        return Err(refused("there is no such protection domain"));
    }
    let (start, len) = (mkc::START_ADDR.get(&raw), mkc::LEN.get(&raw));
    if len != 0 && start.checked_add(len - 1).is_none() {
        return Err(refused("the region wraps around"));
    }
    let translation = match &old.translation {
        kept if entries.is_empty() => kept.clone(),
        Translation::Pages { pages, .. } => {
            let log_page = mkc::LOG_PAGE_SIZE.get(&raw);
            let mut pages = pages.clone();
            pages.resize(pages.len().max((at + entries.len()) / 8), mr::ABSENT);
            pages[at / 8..].iter_mut().zip(mr::page_entries(entries)).for_each(|(page, new)| *page = new);
            if mkc::FREE.is_set(&raw) {
                Translation::Pages { pages, log_page }
            } else {
                mr::pages(&hca.pages, log_page, start, len, pages)
                    .map_err(|_| refused("the pages do not suit the region"))?
            }
        }
        Translation::Keys(_) if at != 0 => return Err(malformed("a list of keys is written as a whole")),
        Translation::Keys(_) => Translation::Keys(mr::klms(entries)),
        Translation::Physical | Translation::Null => return Err(refused("the key has no translation")),
    };
    Ok(Mkey {
        key: old.key & !0xff | mkc::MKEY_7_0.get(&raw),
        free: mkc::FREE.is_set(&raw),
        pd,
        qpn: Some(mkc::QPN.get(&raw)).filter(|&qpn| qpn != mkc::QPN_ANY),
        access: mr::access(&raw),
        start,
        len: (!mkc::LENGTH64.is_set(&raw)).then_some(len),
        translation,
        octowords: old.octowords,
        umr: old.umr,
        raw,
    })
}
