//! Flow groups: entries of a table that look at the same fields. CREATE_FLOW_GROUP, DESTROY_FLOW_GROUP.

use std::ops::RangeInclusive;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{create_flow_group as create, destroy_flow_group as destroy, match_criteria},
    context::steering::{fte_match_param as param, fte_match_set_lyr_2_4 as outer},
};

use crate::{
    command::Call,
    flow_table,
    hca::Hca,
    refusal::{Outcome, Refused, require},
};

/// Outer headers as flow tables match them: a mask, values, or what a packet has.
pub type OuterHeaders = [u8; outer::SIZE];

/// A flow group.
#[derive(Clone, Debug)]
pub struct FlowGroup {
    /// Its entries.
    pub range: RangeInclusive<u32>,
    /// Which bits of the outer headers count.
    pub mask: OuterHeaders,
}

/// CREATE_FLOW_GROUP.
pub fn create_flow_group(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    flow_table::check_kind(hca, call.input)?;
    let absent = create::GROUP_TYPE.get(call.input) != 0
        || create::SOURCE_ESWITCH_OWNER_VHCA_ID_VALID.is_set(call.input)
        || create::MATCH_DEFINER_ID.get(call.input) != 0;
    require(!absent, Status::BadParameter, 0x1800, "the group asks for something that is not advertised")?;
    let enabled = create::MATCH_CRITERIA_ENABLE.get(call.input);
    let why = format!("match criteria {enabled:#x}: only outer headers are advertised");
    require(enabled & !match_criteria::OUTER_HEADERS == 0, Status::BadParameter, 0x1801, why)?;
    let criteria = &call.input[create::MATCH_CRITERIA..create::MATCH_CRITERIA + param::SIZE];
    let (used, rest) = criteria.split_at(outer::SIZE);
    let why = "a mask outside of the enabled criteria";
    let clean = rest.iter().all(|b| *b == 0) && (enabled != 0 || used.iter().all(|b| *b == 0));
    require(clean, Status::BadParameter, 0x1802, why)?;
    let mut mask = [0; outer::SIZE];
    mask.copy_from_slice(used);
    let layered = outer::TCP_SPORT.get(&mask) | outer::TCP_DPORT.get(&mask);
    let both = layered != 0 && outer::UDP_SPORT.get(&mask) | outer::UDP_DPORT.get(&mask) != 0;
    require(!both, Status::BadParameter, 0x1803, "no packet has ports of TCP and of UDP")?;

    let (first, last) = (create::START_FLOW_INDEX.get(call.input), create::END_FLOW_INDEX.get(call.input));
    let table = hca.flow_tables.get_mut(create::TABLE_ID.get(call.input))?;
    let fits = first <= last && last < 1 << table.log_size;
    let why = format!("entries {first} to {last} of a table of 2^{}", table.log_size);
    require(fits, Status::BadParameter, 0x1804, why)?;
    let free = table.groups.values().all(|group| *group.range.end() < first || last < *group.range.start());
    require(free, Status::BadResourceState, 0x1805, format!("entries {first} to {last} are in another group"))?;
    let id = (1..).find(|id| !table.groups.contains_key(id)).unwrap_or(1);
    table.groups.insert(id, FlowGroup { range: first..=last, mask });
    create::out::GROUP_ID.set(call.out, id);
    Ok(())
}

/// DESTROY_FLOW_GROUP: its entries are gone.
pub fn destroy_flow_group(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    flow_table::check_kind(hca, call.input)?;
    let id = destroy::GROUP_ID.get(call.input);
    let table = hca.flow_tables.get_mut(destroy::TABLE_ID.get(call.input))?;
    let Some(group) = table.groups.get(&id) else {
        return Err(Refused::new(Status::BadResource, 0x1806, format!("no group {id}")));
    };
    let left = table.entries.range(group.range.clone()).count();
    require(left == 0, Status::BadResourceState, 0x1807, format!("group {id} has {left} entries"))?;
    table.groups.remove(&id);
    Ok(())
}
