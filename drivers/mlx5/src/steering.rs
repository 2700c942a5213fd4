//! Flow rules of raw packet QPs: one flow table of what the NIC receives, with a group of entries for each combination
//! of fields that a rule may look at, the more specific ones first. PRM: "Flow Table", "Flow Group", "Flow Table Entry".
//!
//! Everything is made when it is first needed and goes when the device is closed.

use crate::{cmd::PageList, control::Control, hca::Caps, list::List};
use bareverbs::{Error, FlowSpec, Mac};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{
        alloc_transport_domain, create_flow_group, create_flow_table, delete_flow_table_entry, destroy_flow_group,
        destroy_flow_table, flow_table_type, match_criteria, set_flow_table_entry, set_flow_table_root,
    },
    context::steering::{
        action, dest_format, destination_type, flow_context, flow_table_context, fte_match_set_lyr_2_4 as outer,
    },
};

/// Log of the rules of a combination.
const LOG_RULES: u32 = 5;
/// Combinations of destination, VLAN and Ethernet type.
const SHAPES: usize = 8;
/// QPs of the same rule at most.
const MAX_QPS: usize = 16;
/// Modifier of SET_FLOW_TABLE_ENTRY that changes an entry, and the field that changes.
const MODIFY: u32 = 1;
const DESTINATIONS: u32 = 1 << 2;

/// A rule.
struct Rule {
    spec: FlowSpec,
    /// Its entry of the table.
    index: u32,
    /// TIRs of the QPs that have it.
    tirs: heapless::Vec<u32, MAX_QPS>,
}

/// What the device has for raw packet QPs.
#[derive(Default)]
pub(crate) struct Steering {
    transport_domain: Option<u32>,
    table: Option<u32>,
    groups: [Option<u32>; SHAPES],
    rules: List<Rule>,
}

/// Which combination of fields a rule looks at; more specific ones come first.
fn shape(spec: &FlowSpec) -> usize {
    usize::from(spec.dst.is_none()) << 2 | usize::from(spec.vlan.is_none()) << 1 | usize::from(spec.ethertype.is_none())
}

/// Writes what a rule looks at: with `mask` which bits count, else their values.
fn headers(spec: &FlowSpec, mask: bool, out: &mut [u8]) {
    let value = |v: u32| if mask { u32::MAX } else { v };
    if let Some(Mac([a, b, c, d, e, f])) = spec.dst {
        outer::DMAC_47_16.set(out, value(u32::from_be_bytes([a, b, c, d])));
        outer::DMAC_15_0.set(out, value(u32::from_be_bytes([0, 0, e, f])) & outer::DMAC_15_0.max());
    }
    if let Some(vlan) = spec.vlan {
        outer::CVLAN_TAG.set(out, 1);
        outer::FIRST_VID.set(out, value(vlan.into()) & outer::FIRST_VID.max());
    }
    if let Some(ethertype) = spec.ethertype {
        outer::ETHERTYPE.set(out, value(ethertype.into()) & outer::ETHERTYPE.max());
    }
}

impl Steering {
    /// Frees the rules that the device would not delete.
    pub(crate) fn free<H: PciFunction>(&mut self, hal: &H) {
        while self.rules.take(hal, |_| true).is_some() {}
    }

    /// The rule of a specification.
    fn find(&mut self, spec: &FlowSpec) -> Option<&mut Rule> {
        self.rules.find(|rule| rule.spec == *spec)
    }

    /// An entry of a combination that no rule has.
    fn free_index(&self, shape: usize) -> Option<u32> {
        let indices = self.rules.iter().map(|rule| rule.index).filter(|index| index >> LOG_RULES == shape as u32);
        let used = indices.fold(0u32, |used, index| used | 1 << (index & ((1 << LOG_RULES) - 1)));
        (used != u32::MAX).then(|| (shape as u32) << LOG_RULES | used.trailing_ones())
    }

    fn push<H: PciFunction>(&mut self, hal: &H, spec: FlowSpec, index: u32) -> Result<(), Error> {
        self.rules.push(hal, Rule { spec, index, tirs: heapless::Vec::new() }).map_err(|(_, e)| e)
    }

    fn remove<H: PciFunction>(&mut self, hal: &H, spec: &FlowSpec) {
        self.rules.take(hal, |rule| rule.spec == *spec);
    }
}

impl Control {
    /// The transport domain of all raw packet QPs: none of them receives what another one of the device sends. PRM:
    /// ALLOC_TRANSPORT_DOMAIN.
    pub(crate) fn transport_domain<H: PciFunction>(&mut self, hal: &H) -> Result<u32, Error> {
        if let Some(domain) = self.steering.transport_domain {
            return Ok(domain);
        }
        let mut out = [0; alloc_transport_domain::OUT_LEN];
        let mut input = [0; alloc_transport_domain::IN_LEN];
        self.execute(hal, Opcode::ALLOC_TRANSPORT_DOMAIN, 0, &mut input, &PageList::None, &mut out)?;
        let domain = alloc_transport_domain::out::TRANSPORT_DOMAIN.get(&out);
        self.steering.transport_domain = Some(domain);
        Ok(domain)
    }

    /// Leads the frames of a rule to one more TIR.
    pub(crate) fn add_flow<H: PciFunction>(
        &mut self,
        hal: &H,
        caps: &Caps,
        spec: &FlowSpec,
        tirn: u32,
    ) -> Result<(), Error> {
        let table = self.flow_table(hal)?;
        let group = self.flow_group(hal, table, spec)?;
        if let Some(mac) = spec.dst {
            self.let_in(hal, caps, mac, Error::FlowsFull)?;
        }
        let result = self.lead(hal, table, group, spec, tirn);
        if let (Err(_), Some(mac)) = (&result, spec.dst) {
            self.shut_out(hal, mac);
        }
        result
    }

    fn lead<H: PciFunction>(
        &mut self,
        hal: &H,
        table: u32,
        group: u32,
        spec: &FlowSpec,
        tirn: u32,
    ) -> Result<(), Error> {
        let is_new = self.steering.find(spec).is_none();
        if is_new {
            let index = self.steering.free_index(shape(spec)).ok_or(Error::FlowsFull)?;
            self.steering.push(hal, *spec, index)?;
        }
        let pushed = self.steering.find(spec).is_some_and(|rule| rule.tirs.push(tirn).is_ok());
        let result = if pushed { self.set_entry(hal, table, group, spec, is_new) } else { Err(Error::FlowsFull) };
        if result.is_err() {
            if let Some(rule) = self.steering.find(spec).filter(|_| pushed) {
                rule.tirs.pop();
            }
            if is_new {
                self.steering.remove(hal, spec);
            }
        }
        result
    }

    /// Leads the frames of a rule no more to a TIR.
    pub(crate) fn remove_flow<H: PciFunction>(&mut self, hal: &H, spec: &FlowSpec, tirn: u32) -> Result<(), Error> {
        let (table, group) = (self.steering.table, self.steering.groups.get(shape(spec)).copied().flatten());
        let (Some(table), Some(group), Some(rule)) = (table, group, self.steering.find(spec)) else {
            return Err(Error::NotAttached);
        };
        let Some(at) = rule.tirs.iter().position(|n| *n == tirn) else { return Err(Error::NotAttached) };
        rule.tirs.swap_remove(at);
        let (index, last) = (rule.index, rule.tirs.is_empty());
        // A device that failed has no rules any more.
        if self.fatal().is_none() {
            let result = match last {
                true => self.delete_entry(hal, table, index),
                false => self.set_entry(hal, table, group, spec, false),
            };
            if result.is_err() {
                // The device leads them there still.
                let rule = self.steering.find(spec);
                return rule.map_or(Ok(()), |rule| rule.tirs.push(tirn).map_err(|_| Error::NotAttached)).and(result);
            }
        }
        if last {
            self.steering.remove(hal, spec);
        }
        if let Some(mac) = spec.dst {
            self.shut_out(hal, mac);
        }
        Ok(())
    }

    /// The table, which is the first that frames meet. PRM: CREATE_FLOW_TABLE, SET_FLOW_TABLE_ROOT.
    fn flow_table<H: PciFunction>(&mut self, hal: &H) -> Result<u32, Error> {
        if let Some(table) = self.steering.table {
            return Ok(table);
        }
        let mut input = [0; create_flow_table::IN_LEN];
        create_flow_table::TABLE_TYPE.set(&mut input, flow_table_type::NIC_RX);
        let log_size = flow_table_context::LOG_SIZE.at(create_flow_table::FLOW_TABLE_CONTEXT);
        log_size.set(&mut input, LOG_RULES + SHAPES.trailing_zeros());
        let mut out = [0; create_flow_table::OUT_LEN];
        self.execute(hal, Opcode::CREATE_FLOW_TABLE, 0, &mut input, &PageList::None, &mut out)?;
        let table = create_flow_table::out::TABLE_ID.get(&out);
        self.steering.table = Some(table);
        let mut input = [0; set_flow_table_root::IN_LEN];
        set_flow_table_root::TABLE_TYPE.set(&mut input, flow_table_type::NIC_RX);
        set_flow_table_root::TABLE_ID.set(&mut input, table);
        let out = &mut [0; set_flow_table_root::OUT_LEN];
        let result = self.execute(hal, Opcode::SET_FLOW_TABLE_ROOT, 0, &mut input, &PageList::None, out);
        if result.is_err() {
            self.destroy_table(hal)?;
        }
        result.map(|()| table)
    }

    /// The group of a rule. PRM: CREATE_FLOW_GROUP.
    fn flow_group<H: PciFunction>(&mut self, hal: &H, table: u32, spec: &FlowSpec) -> Result<u32, Error> {
        let shape = shape(spec);
        if let Some(Some(group)) = self.steering.groups.get(shape) {
            return Ok(*group);
        }
        let mut input = [0; create_flow_group::IN_LEN];
        create_flow_group::TABLE_TYPE.set(&mut input, flow_table_type::NIC_RX);
        create_flow_group::TABLE_ID.set(&mut input, table);
        create_flow_group::START_FLOW_INDEX.set(&mut input, (shape as u32) << LOG_RULES);
        create_flow_group::END_FLOW_INDEX.set(&mut input, ((shape as u32 + 1) << LOG_RULES) - 1);
        if *spec != FlowSpec::ANY {
            create_flow_group::MATCH_CRITERIA_ENABLE.set(&mut input, match_criteria::OUTER_HEADERS);
            headers(spec, true, &mut input[create_flow_group::MATCH_CRITERIA..]);
        }
        let mut out = [0; create_flow_group::OUT_LEN];
        self.execute(hal, Opcode::CREATE_FLOW_GROUP, 0, &mut input, &PageList::None, &mut out)?;
        let group = create_flow_group::out::GROUP_ID.get(&out);
        if let Some(place) = self.steering.groups.get_mut(shape) {
            *place = Some(group);
        }
        Ok(group)
    }

    /// Writes a rule's entry as it is now. PRM: SET_FLOW_TABLE_ENTRY.
    fn set_entry<H: PciFunction>(
        &mut self,
        hal: &H,
        table: u32,
        group: u32,
        spec: &FlowSpec,
        is_new: bool,
    ) -> Result<(), Error> {
        const CONTEXT: usize = set_flow_table_entry::FLOW_CONTEXT;
        let Some(rule) = self.steering.find(spec) else { return Err(Error::NotAttached) };
        let (index, tirs) = (rule.index, rule.tirs.clone());
        let mut input = [0; set_flow_table_entry::IN_LEN];
        set_flow_table_entry::TABLE_TYPE.set(&mut input, flow_table_type::NIC_RX);
        set_flow_table_entry::TABLE_ID.set(&mut input, table);
        set_flow_table_entry::FLOW_INDEX.set(&mut input, index);
        if !is_new {
            set_flow_table_entry::MODIFY_ENABLE_MASK.set(&mut input, DESTINATIONS);
        }
        flow_context::GROUP_ID.at(CONTEXT).set(&mut input, group);
        flow_context::ACTION.at(CONTEXT).set(&mut input, action::FWD_DEST);
        flow_context::DESTINATION_LIST_SIZE.at(CONTEXT).set(&mut input, tirs.len() as u32);
        headers(spec, false, &mut input[CONTEXT + flow_context::MATCH_VALUE..]);
        // The destinations follow the context.
        let each = |f: &mut dyn FnMut(u64)| {
            for tirn in &tirs {
                let mut destination = [0; dest_format::SIZE];
                dest_format::DESTINATION_TYPE.set(&mut destination, destination_type::TIR);
                dest_format::DESTINATION_ID.set(&mut destination, *tirn);
                f(u64::from_be_bytes(destination));
            }
        };
        let destinations = PageList::Each { count: tirs.len(), each: &each };
        let op_mod = if is_new { 0 } else { MODIFY };
        let out = &mut [0; set_flow_table_entry::OUT_LEN];
        self.execute(hal, Opcode::SET_FLOW_TABLE_ENTRY, op_mod, &mut input, &destinations, out)
    }

    /// PRM: DELETE_FLOW_TABLE_ENTRY.
    fn delete_entry<H: PciFunction>(&mut self, hal: &H, table: u32, index: u32) -> Result<(), Error> {
        let mut input = [0; delete_flow_table_entry::IN_LEN];
        delete_flow_table_entry::TABLE_TYPE.set(&mut input, flow_table_type::NIC_RX);
        delete_flow_table_entry::TABLE_ID.set(&mut input, table);
        delete_flow_table_entry::FLOW_INDEX.set(&mut input, index);
        let out = &mut [0; delete_flow_table_entry::OUT_LEN];
        self.execute(hal, Opcode::DELETE_FLOW_TABLE_ENTRY, 0, &mut input, &PageList::None, out)
    }

    fn destroy_table<H: PciFunction>(&mut self, hal: &H) -> Result<(), Error> {
        let Some(table) = self.steering.table.take() else { return Ok(()) };
        let mut input = [0; destroy_flow_table::IN_LEN];
        destroy_flow_table::TABLE_TYPE.set(&mut input, flow_table_type::NIC_RX);
        destroy_flow_table::TABLE_ID.set(&mut input, table);
        let out = &mut [0; destroy_flow_table::OUT_LEN];
        self.execute(hal, Opcode::DESTROY_FLOW_TABLE, 0, &mut input, &PageList::None, out)
    }

    /// Takes groups, table and transport domain from the device; all rules are gone. PRM: DESTROY_FLOW_GROUP,
    /// DESTROY_FLOW_TABLE, DEALLOC_TRANSPORT_DOMAIN.
    pub(crate) fn close_steering<H: PciFunction>(&mut self, hal: &H) -> Result<(), Error> {
        for n in 0..SHAPES {
            let group = self.steering.groups.get_mut(n).and_then(Option::take);
            let (Some(group), Some(table)) = (group, self.steering.table) else { continue };
            let mut input = [0; destroy_flow_group::IN_LEN];
            destroy_flow_group::TABLE_TYPE.set(&mut input, flow_table_type::NIC_RX);
            destroy_flow_group::TABLE_ID.set(&mut input, table);
            destroy_flow_group::GROUP_ID.set(&mut input, group);
            let out = &mut [0; destroy_flow_group::OUT_LEN];
            self.execute(hal, Opcode::DESTROY_FLOW_GROUP, 0, &mut input, &PageList::None, out)?;
        }
        self.destroy_table(hal)?;
        if let Some(domain) = self.steering.transport_domain.take() {
            self.destroy(hal, Opcode::DEALLOC_TRANSPORT_DOMAIN, domain)?;
        }
        Ok(())
    }
}
