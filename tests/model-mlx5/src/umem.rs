//! Registered user memory (umem): queues and doorbell records are laid into it by its id and an offset, where Linux's
//! kernel driver gives page lists. CREATE_UMEM, DESTROY_UMEM.

use std::collections::BTreeMap;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{create_umem as create, destroy_umem as destroy},
    context::mkc::mtt,
};

use crate::{
    command::Call,
    hca::Hca,
    refusal::{Outcome, Refused, require},
    ring::{PageList, read_qword},
};

/// All registered user memories by id.
pub type Umems = BTreeMap<u32, PageList>;

/// CREATE_UMEM.
pub fn create_umem(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let log_page = create::LOG_PAGE_SIZE.get(call.input) + 12;
    let (page, offset) = (1u64 << log_page, u64::from(create::PAGE_OFFSET.get(call.input)));
    let (count, list) = (create::NUM_OF_MTT.get(call.input), &call.input[create::MTT..]);
    let fits = count > 0 && count.checked_mul(8).is_some_and(|bytes| bytes <= list.len() as u64);
    require(fits, Status::BadInputLength, 0x0d00, format_args!("{count} pages announced, {} bytes", list.len()))?;
    require(offset < page, Status::BadParameter, 0x0d01, format_args!("offset {offset:#x} in pages of {page:#x}"))?;
    let flags = mtt::READ | mtt::WRITE;
    let pages: Vec<u64> = (0..count as usize).map(|i| read_qword(list, i * 8)).collect();
    for entry in &pages {
        let fine = entry & mtt::READ != 0 && (entry & !flags).is_multiple_of(4096) && entry.checked_add(page).is_some();
        require(fine, Status::BadParameter, 0x0d02, format_args!("page entry {entry:#x}"))?;
    }
    let pages = pages.iter().map(|entry| entry & !flags).collect();
    let memory = PageList::new(pages, log_page, offset, (count << log_page) - offset)
        .ok_or_else(|| Refused::new(Status::BadParameter, 0x0d03, "the pages are too few"))?;
    let Some(id) = hca.numbers.umem.take(|n| hca.umems.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x0d04, "no user memory is left"));
    };
    hca.umems.insert(id, memory);
    create::out::UMEM_ID.set(call.out, id);
    Ok(())
}

/// DESTROY_UMEM: nothing may lie in it any more.
pub fn destroy_umem(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let id = destroy::UMEM_ID.get(call.input);
    find(hca, id)?;
    let inside = |umems: &[Option<u32>]| umems.contains(&Some(id));
    let qp = hca.qps.values().find(|qp| inside(&qp.umems)).map(|qp| format!("QP {:#x}", qp.qpn));
    let cq = hca.cqs.values().find(|cq| inside(&cq.umems)).map(|cq| format!("CQ {:#x}", cq.cqn));
    if let Some(user) = qp.or(cq) {
        return Err(Refused::new(Status::BadResourceState, 0x0d05, format_args!("{user} lies in user memory {id:#x}")));
    }
    hca.umems.remove(&id);
    Ok(())
}

fn find(hca: &Hca, id: u32) -> Outcome<&PageList> {
    hca.umems.get(&id).ok_or_else(|| Refused::new(Status::BadResource, 0x0d06, format_args!("no user memory {id:#x}")))
}

/// The part of a user memory in which a queue lies.
pub fn queue(hca: &Hca, id: u32, offset: u64, len: u64) -> Outcome<PageList> {
    let memory = find(hca, id)?;
    let inside = offset.checked_add(len).is_some_and(|end| end <= memory.len());
    let why = format_args!("{len:#x} bytes at {offset:#x} of user memory {id:#x}, which has {:#x}", memory.len());
    require(inside, Status::BadParameter, 0x0d07, why)?;
    let firmwares = memory.segments(offset, len).iter().any(|s| hca.pages.touches(s.addr, s.len));
    require(!firmwares, Status::BadParameter, 0x0d08, format_args!("user memory {id:#x} lies in a firmware page"))?;
    Ok(memory.part(offset, len))
}

/// The address of a doorbell record in a user memory.
pub fn doorbell_record(hca: &Hca, id: u32, offset: u64) -> Outcome<u64> {
    let memory = queue(hca, id, offset, 8)?;
    let segments = memory.segments(0, 8);
    match segments[..] {
        [one] => Ok(one.addr),
        _ => Err(Refused::new(Status::BadParameter, 0x0d09, "the doorbell record lies across pages")),
    }
}
