//! Flow table entries: what they match and where they lead. SET_FLOW_TABLE_ENTRY, DELETE_FLOW_TABLE_ENTRY.

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{delete_flow_table_entry as delete, set_flow_table_entry as set},
    context::steering::{
        action, dest_format, destination_type, flow_context as ctx, fte_match_param as param,
        fte_match_set_lyr_2_4 as outer,
    },
    field::Field,
};

use crate::{
    command::Call,
    eth_cap::LOG_MAX_DESTINATION,
    flow_group::{FlowGroup, OuterHeaders},
    flow_table,
    hca::Hca,
    refusal::{Outcome, Refused, require},
    tir,
};

/// Where an entry leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To another table.
    Table(u32),
    /// To a TIR.
    Tir(u32),
}

/// A flow table entry.
#[derive(Clone, Debug)]
pub struct FlowEntry {
    /// Its group.
    pub group: u32,
    /// Values of the fields that the group's mask selects.
    pub value: OuterHeaders,
    /// [`action`].
    pub action: u32,
    /// What completions say of the match.
    pub tag: u32,
    /// Where packets go, to each of them.
    pub destinations: Vec<Destination>,
}

impl FlowEntry {
    /// Whether a packet's headers match.
    pub fn matches(&self, group: &FlowGroup, headers: &OuterHeaders) -> bool {
        let bytes = group.mask.iter().zip(&self.value).zip(headers);
        bytes.into_iter().all(|((mask, value), has)| mask & value == mask & has)
    }
}

/// Fields of the context that ask for something that is not advertised.
const ABSENT: &[Field] = &[
    ctx::PUSH_VLAN,
    ctx::EXTENDED_DESTINATION,
    ctx::FLOW_SOURCE,
    ctx::ENCRYPT_DECRYPT_TYPE,
    ctx::FLOW_COUNTER_LIST_SIZE,
    ctx::PACKET_REFORMAT_ID,
    ctx::MODIFY_HEADER_ID,
    ctx::PUSH_VLAN_2,
    ctx::ENCRYPT_DECRYPT_OBJ_ID,
];

/// Bits of the modify mask.
mod modify {
    pub const ACTION: u32 = 1 << 0;
    pub const TAG: u32 = 1 << 1;
    pub const DESTINATIONS: u32 = 1 << 2;
}

/// SET_FLOW_TABLE_ENTRY: modifier 0 makes an entry, 1 changes one.
pub fn set_entry(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    flow_table::check_kind(hca, call.input)?;
    let ignores = set::IGNORE_FLOW_LEVEL.is_set(call.input);
    require(!ignores, Status::BadParameter, 0x1900, "destinations of any level are not advertised")?;
    let context = &call.input[set::FLOW_CONTEXT..];
    let zero = ABSENT.iter().all(|field| field.get(context) == 0);
    require(zero, Status::BadParameter, 0x1901, "the entry asks for something that is not advertised")?;
    let rest = &context[ctx::MATCH_VALUE + outer::SIZE..ctx::MATCH_VALUE + param::SIZE];
    require(rest.iter().all(|b| *b == 0), Status::BadParameter, 0x1902, "only outer headers can be matched")?;

    let (table_id, index) = (set::TABLE_ID.get(call.input), set::FLOW_INDEX.get(call.input));
    let level = hca.flow_tables.get_mut(table_id)?.level;
    let group = ctx::GROUP_ID.get(context);
    let inside = hca.flow_tables.get_mut(table_id)?.groups.get(&group).is_some_and(|g| g.range.contains(&index));
    require(inside, Status::BadParameter, 0x1903, format!("entry {index} is not in group {group}"))?;

    let action = ctx::ACTION.get(context);
    require(
        action == action::DROP || action == action::FWD_DEST,
        Status::BadParameter,
        0x1904,
        format_args!("action {action:#x} is not advertised for received packets"),
    )?;
    let destinations = destinations(hca, level, context)?;
    let leads = action == action::FWD_DEST;
    let why = format!("action {action:#x} with {} destinations", destinations.len());
    require(leads != destinations.is_empty(), Status::BadParameter, 0x1905, why)?;
    let mut value = [0; outer::SIZE];
    value.copy_from_slice(&context[ctx::MATCH_VALUE..ctx::MATCH_VALUE + outer::SIZE]);
    let new = FlowEntry { group, value, action, tag: ctx::FLOW_TAG.get(context), destinations };

    let entries = &mut hca.flow_tables.get_mut(table_id)?.entries;
    if call.op_mod == 0 {
        let free = !entries.contains_key(&index);
        require(free, Status::BadResourceState, 0x1906, format!("entry {index} exists already"))?;
        entries.insert(index, new);
        return Ok(());
    }
    let Some(entry) = entries.get_mut(&index) else {
        return Err(Refused::new(Status::BadResource, 0x1907, format!("no entry {index}")));
    };
    let selected = set::MODIFY_ENABLE_MASK.get(call.input);
    let known = selected & !(modify::ACTION | modify::TAG | modify::DESTINATIONS) == 0;
    require(known, Status::BadParameter, 0x1908, format_args!("modify mask {selected:#x}"))?;
    if selected & modify::ACTION != 0 {
        entry.action = new.action;
    }
    if selected & modify::TAG != 0 {
        entry.tag = new.tag;
    }
    if selected & modify::DESTINATIONS != 0 {
        entry.destinations = new.destinations;
    }
    Ok(())
}

fn destinations(hca: &Hca, level: u32, context: &[u8]) -> Outcome<Vec<Destination>> {
    let count = ctx::DESTINATION_LIST_SIZE.get(context) as usize;
    let max = 1 << LOG_MAX_DESTINATION;
    require(count <= max, Status::BadParameter, 0x1909, format_args!("{count} destinations, at most {max}"))?;
    let list = context.get(ctx::DESTINATION..).unwrap_or_default();
    let given = list.len() / dest_format::SIZE;
    let why = format!("{count} destinations announced, {given} given");
    require(count <= given, Status::BadInputLength, 0x190a, why)?;
    let mut all = Vec::new();
    for entry in list.chunks_exact(dest_format::SIZE).take(count) {
        let id = dest_format::DESTINATION_ID.get(entry);
        all.push(match dest_format::DESTINATION_TYPE.get(entry) {
            destination_type::FLOW_TABLE => {
                hca.flow_tables.check_next(level, id)?;
                Destination::Table(id)
            }
            destination_type::TIR => {
                tir::check(hca, id)?;
                Destination::Tir(id)
            }
            other => {
                let why = format!("destinations of type {other} are not advertised");
                return Err(Refused::new(Status::BadParameter, 0x190b, why));
            }
        });
    }
    Ok(all)
}

/// DELETE_FLOW_TABLE_ENTRY.
pub fn delete_entry(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    flow_table::check_kind(hca, call.input)?;
    let index = delete::FLOW_INDEX.get(call.input);
    let gone = hca.flow_tables.get_mut(delete::TABLE_ID.get(call.input))?.entries.remove(&index);
    require(gone.is_some(), Status::BadResource, 0x190c, format!("no entry {index}"))
}
