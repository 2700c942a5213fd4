//! Pages that the driver gave to firmware: the ledger, QUERY_PAGES, MANAGE_PAGES, and firmware's own requests.
//!
//! Firmware fills its pages with a pattern of its own when it gets them and looks at them again when it gives them
//! back: a driver that used such a page for something else is found out.

use std::collections::BTreeSet;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{manage_pages as manage, manage_pages_op_mod, query_pages as query, query_pages_op_mod},
};

use crate::{
    cmd,
    command::{Call, Phase},
    eq::Event,
    hca::Hca,
    refusal::{Outcome, Refused, require},
    ring::read_qword,
};

/// Pages that firmware needs before it answers more than the first commands.
pub const BOOT: usize = 12;
/// Pages that firmware needs before INIT_HCA.
pub const INIT: usize = 40;
/// Objects that fit into those.
const OBJECTS_AT_START: usize = 128;
/// Objects that fit into a page more.
const OBJECTS_A_PAGE: usize = 16;
/// Firmware asks for this many pages at once.
const REQUEST: usize = 8;
/// It asks when fewer objects than this fit.
const LOW: usize = 64;
/// It gives pages back when more than this fit.
const HIGH: usize = LOW + 4 * REQUEST * OBJECTS_A_PAGE;

const PAGE: u64 = 4096;

/// The ledger of pages.
#[derive(Clone, Debug, Default)]
pub struct PageLedger {
    /// Bus addresses of the 4 KiB pages that the device holds.
    pub held: BTreeSet<u64>,
    /// An event with a request went out and was not answered yet.
    requested: i32,
    /// The driver said that it has no more.
    denied: bool,
}

impl PageLedger {
    /// Whether the range touches a page that belongs to firmware.
    pub fn touches(&self, addr: u64, len: u64) -> bool {
        let last = addr.saturating_add(len.saturating_sub(1));
        len > 0 && self.held.range(addr & !(PAGE - 1)..=last).next().is_some()
    }

    /// Pages that must still come before INIT_HCA.
    pub fn missing_for_init(&self) -> usize {
        (BOOT + INIT).saturating_sub(self.held.len())
    }

    /// Pages beyond those of the start.
    fn regular(&self) -> usize {
        self.held.len().saturating_sub(BOOT + INIT)
    }

    /// Objects that fit.
    fn capacity(&self) -> usize {
        OBJECTS_AT_START + self.regular() * OBJECTS_A_PAGE
    }
}

/// Whether `cost` more objects fit. If not, firmware asks for pages and the command has to wait; it is refused where
/// nobody could bring pages.
pub fn afford(hca: &mut Hca, bus: &mut dyn Bus, cost: u32) -> Outcome<bool> {
    if hca.objects() + cost as usize <= hca.pages.capacity() {
        return Ok(true);
    }
    let listened = hca.eqs.values().any(|eq| eq.takes(Event::PAGE_REQUEST));
    if hca.pages.denied || !listened {
        return Err(Refused::quiet(Status::NoResources, 0x0200, "firmware has no page left for another object"));
    }
    if hca.pages.requested <= 0 {
        ask(hca, bus, REQUEST as i32);
    }
    Ok(false)
}

/// After INIT_HCA: faults on demand.
pub fn initialized(hca: &mut Hca) {
    hca.pages.requested = 0;
    hca.pages.denied = false;
}

/// After each command: firmware asks early, and gives back what it does not need.
pub fn balance(hca: &mut Hca, bus: &mut dyn Bus) {
    if hca.phase != Phase::Running || hca.pages.requested != 0 {
        return;
    }
    if !hca.eqs.values().any(|eq| eq.takes(Event::PAGE_REQUEST)) {
        return;
    }
    if let Some(n) = hca.faults.page_request.take() {
        return ask(hca, bus, n);
    }
    let free = hca.pages.capacity().saturating_sub(hca.objects());
    if free < LOW && !hca.pages.denied {
        ask(hca, bus, REQUEST as i32);
    } else if free > HIGH && hca.pages.regular() > 0 {
        let surplus = ((free - HIGH) / OBJECTS_A_PAGE).clamp(1, hca.pages.regular());
        ask(hca, bus, -(surplus as i32));
    }
}

fn ask(hca: &mut Hca, bus: &mut dyn Bus, pages: i32) {
    hca.pages.requested = pages;
    hca.event(bus, Event::PageRequest(pages));
}

fn own_function(input: &[u8]) -> Outcome {
    let (other, cpu) = (query::FUNCTION_ID.get(input), query::EMBEDDED_CPU_FUNCTION.is_set(input));
    require(other == 0 && !cpu, Status::BadParameter, 0x0201, "there is no other function than 0")
}

/// QUERY_PAGES: how many are still wanted.
pub fn query_pages(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own_function(call.input)?;
    let held = hca.pages.held.len();
    let wanted = match u32::from(call.op_mod) {
        query_pages_op_mod::BOOT => BOOT.saturating_sub(held) as i32,
        query_pages_op_mod::INIT => (BOOT + INIT).saturating_sub(held) as i32,
        _ => hca.pages.requested,
    };
    let instead =
        usize::from(call.op_mod).checked_sub(1).and_then(|n| hca.faults.page_answers.get(n).copied().flatten());
    let wanted = instead.unwrap_or(wanted);
    query::out::NUM_PAGES.set(call.out, wanted as u32);
    Ok(())
}

/// MANAGE_PAGES.
pub fn manage_pages(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own_function(call.input)?;
    match u32::from(call.op_mod) {
        manage_pages_op_mod::GIVE => give(hca, bus, call.input),
        manage_pages_op_mod::TAKE => take(hca, bus, call),
        _ => {
            hca.pages.denied = true;
            hca.pages.requested = 0;
            cmd::resume_parked(hca, bus);
            Ok(())
        }
    }
}

fn give(hca: &mut Hca, bus: &mut dyn Bus, input: &[u8]) -> Outcome {
    let n = manage::INPUT_NUM_ENTRIES.get(input) as usize;
    let list = input.get(manage::PAS..).unwrap_or_default();
    let why = format_args!("{n} pages announced, {} given", list.len() / 8).to_string();
    require(list.len() == n * 8, Status::BadInputLength, 0x0202, why)?;
    let pages: Vec<u64> = (0..n).map(|i| read_qword(list, i * 8)).collect();
    let mut seen = BTreeSet::new();
    for &page in &pages {
        // Address 0 is as good as any: rdma-core's VFIO part maps its first page there.
        let fine = page % PAGE == 0;
        require(fine, Status::BadParameter, 0x0203, format_args!("page at {page:#x}: not 4 KiB aligned"))?;
        let fresh = seen.insert(page) && !hca.pages.held.contains(&page);
        require(fresh, Status::BadParameter, 0x0204, format_args!("page at {page:#x} was given twice"))?;
    }
    for &page in &pages {
        if let Err(fault) = bus.write(page, &pattern(page)) {
            hca.dma_fault(bus, fault, format_args!("MANAGE_PAGES: a page that was given"));
            return Err(Refused::new(Status::BadParameter, 0x0205, format_args!("page at {page:#x} is not reachable")));
        }
    }
    hca.pages.held.extend(pages);
    hca.pages.denied = false;
    if hca.pages.requested > 0 {
        hca.pages.requested = 0;
    }
    cmd::resume_parked(hca, bus);
    Ok(())
}

fn take(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let asked = manage::INPUT_NUM_ENTRIES.get(call.input) as usize;
    let room = call.out.len().saturating_sub(manage::OUT_LEN) / 8;
    require(asked <= room, Status::BadOutputLength, 0x0206, format_args!("room for {room} of {asked} pages"))?;
    let spare = if hca.phase == Phase::Running {
        let free = hca.pages.capacity().saturating_sub(hca.objects() + LOW);
        (free / OBJECTS_A_PAGE).min(hca.pages.regular())
    } else {
        hca.pages.held.len()
    };
    let n = asked.min(spare);
    for i in 0..n {
        let Some(page) = hca.pages.held.pop_last() else { break };
        let mut found = [0; PAGE as usize];
        match bus.read(page, &mut found) {
            Err(fault) => hca.dma_fault(bus, fault, format_args!("a firmware page that was not given back yet")),
            Ok(()) if found != pattern(page) => {
                hca.violation(bus, format_args!("firmware's page at {page:#x} was written by somebody else"));
            }
            Ok(()) => {}
        }
        call.out[manage::out::PAS + i * 8..][..8].copy_from_slice(&page.to_be_bytes());
    }
    manage::out::OUTPUT_NUM_ENTRIES.set(call.out, n as u32);
    if hca.pages.requested < 0 {
        hca.pages.requested = 0;
    }
    Ok(())
}

/// What firmware writes into a page.
fn pattern(page: u64) -> [u8; PAGE as usize] {
    let mut bytes = [0; PAGE as usize];
    for (i, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(page.rotate_left(20) ^ 0x6669_726d_7761_7265 ^ i as u64).to_be_bytes());
    }
    bytes
}
