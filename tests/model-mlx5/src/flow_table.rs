//! Flow tables of what the NIC receives: CREATE_FLOW_TABLE, DESTROY_FLOW_TABLE, QUERY_FLOW_TABLE, MODIFY_FLOW_TABLE,
//! SET_FLOW_TABLE_ROOT. Their groups and entries are in [`flow_group`](crate::flow_group) and
//! [`flow_entry`](crate::flow_entry); [`ethernet`] walks through them.

use std::collections::BTreeMap;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{
        create_flow_table as create, destroy_flow_table as destroy, flow_table_type, modify_flow_table as modify,
        query_flow_table as query, set_flow_table_root as root,
    },
    context::steering::flow_table_context as ctx,
    field::Field,
};

use crate::{
    command::Call,
    eth_cap::{LOG_MAX_FT_SIZE, MAX_FT_LEVEL},
    ethernet,
    flow_entry::{Destination, FlowEntry},
    flow_group::FlowGroup,
    hca::Hca,
    refusal::{Outcome, Refused, require},
};

/// A flow table.
#[derive(Clone, Debug)]
pub struct FlowTable {
    /// Number.
    pub id: u32,
    /// Tables lead to tables of higher levels only.
    pub level: u32,
    /// Log of the entries.
    pub log_size: u32,
    /// Where packets go that no entry matches; `None` drops them.
    pub miss: Option<u32>,
    /// Groups by number.
    pub groups: BTreeMap<u32, FlowGroup>,
    /// Entries by index; the first that matches counts.
    pub entries: BTreeMap<u32, FlowEntry>,
}

/// All flow tables.
#[derive(Clone, Debug, Default)]
pub struct FlowTables {
    /// By number.
    pub tables: BTreeMap<u32, FlowTable>,
    /// Where packets begin.
    pub root: Option<u32>,
}

impl FlowTables {
    /// How many tables, groups and entries there are.
    pub fn objects(&self) -> usize {
        self.tables.values().map(|table| 1 + table.groups.len() + table.entries.len()).sum()
    }

    /// An entry that leads to the TIR.
    pub fn leads_to_tir(&self, tirn: u32) -> Option<String> {
        self.leads_to(Destination::Tir(tirn))
    }

    fn leads_to(&self, to: Destination) -> Option<String> {
        self.tables.values().find_map(|table| {
            let (index, _) = table.entries.iter().find(|(_, entry)| entry.destinations.contains(&to))?;
            Some(format!("entry {index} of flow table {:#x}", table.id))
        })
    }

    /// The table, or a refusal.
    pub fn get_mut(&mut self, id: u32) -> Outcome<&mut FlowTable> {
        self.tables
            .get_mut(&id)
            .ok_or_else(|| Refused::new(Status::BadResource, 0x1700, format!("no flow table {id:#x}")))
    }

    /// Refuses unless a table of `level` may lead to table `id`.
    pub fn check_next(&self, level: u32, id: u32) -> Outcome {
        let Some(next) = self.tables.get(&id) else {
            return Err(Refused::new(Status::BadResource, 0x1701, format!("no flow table {id:#x}")));
        };
        let why = format!("a table of level {level} cannot lead to table {id:#x} of level {}", next.level);
        require(next.level > level, Status::BadParameter, 0x1702, why)
    }
}

/// What all commands of flow tables say of the table; `type_field` and the vport fields stand in the same place.
pub fn check_kind(hca: &Hca, input: &[u8]) -> Outcome {
    ethernet::port(hca)?;
    let other = create::OTHER_VPORT.is_set(input) || create::VPORT_NUMBER.get(input) != 0;
    require(!other, Status::BadParameter, 0x1703, "there is no other vport than the own")?;
    let kind = create::TABLE_TYPE.get(input);
    let why = format!("flow tables of type {kind} are not advertised");
    require(kind == flow_table_type::NIC_RX, Status::BadParameter, 0x1704, why)
}

/// Context fields that ask for something that is not advertised.
const ABSENT: &[Field] =
    &[ctx::REFORMAT_EN, ctx::DECAP_EN, ctx::SW_OWNER, ctx::TERMINATION_TABLE, ctx::LAG_MASTER_NEXT_TABLE_ID];

/// Where a context sends packets without a match.
fn miss(hca: &Hca, level: u32, context: &[u8]) -> Outcome<Option<u32>> {
    match ctx::TABLE_MISS_ACTION.get(context) {
        0 => Ok(None),
        1 => {
            let id = ctx::TABLE_MISS_ID.get(context);
            hca.flow_tables.check_next(level, id)?;
            Ok(Some(id))
        }
        other => Err(Refused::new(Status::BadParameter, 0x1705, format!("miss action {other} is not advertised"))),
    }
}

/// CREATE_FLOW_TABLE.
pub fn create_flow_table(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    check_kind(hca, call.input)?;
    let context = &call.input[create::FLOW_TABLE_CONTEXT..create::FLOW_TABLE_CONTEXT + ctx::SIZE];
    let zero = ABSENT.iter().all(|field| field.get(context) == 0);
    require(zero, Status::BadParameter, 0x1706, "the table asks for something that is not advertised")?;
    let (level, log_size) = (ctx::LEVEL.get(context), ctx::LOG_SIZE.get(context));
    let (levels, max) = (MAX_FT_LEVEL, LOG_MAX_FT_SIZE);
    require(level <= levels, Status::BadParameter, 0x1707, format_args!("level {level}, at most {levels}"))?;
    require(log_size <= max, Status::BadParameter, 0x1708, format_args!("2^{log_size} entries, at most 2^{max}"))?;
    let miss = miss(hca, level, context)?;
    let Some(id) = hca.numbers.flow_table.take(|n| hca.flow_tables.tables.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x1709, "no flow table is left"));
    };
    let table = FlowTable { id, level, log_size, miss, groups: BTreeMap::new(), entries: BTreeMap::new() };
    hca.flow_tables.tables.insert(id, table);
    create::out::TABLE_ID.set(call.out, id);
    Ok(())
}

/// DESTROY_FLOW_TABLE: it is empty, and no table leads to it. The first table may go: then packets are dropped (Linux
/// destroys its last table so, without SET_FLOW_TABLE_ROOT).
pub fn destroy_flow_table(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    check_kind(hca, call.input)?;
    let tables = &mut hca.flow_tables;
    let id = tables.get_mut(destroy::TABLE_ID.get(call.input))?.id;
    let groups = tables.tables.get(&id).map_or(0, |table| table.groups.len());
    let why = format!("flow table {id:#x} has {groups} groups");
    require(groups == 0, Status::BadResourceState, 0x170a, why)?;
    let missing = tables.tables.values().find(|table| table.miss == Some(id));
    let missing = missing.map(|table| format!("flow table {:#x}", table.id));
    if let Some(user) = missing.or_else(|| tables.leads_to(Destination::Table(id))) {
        let why = format!("{user} leads to flow table {id:#x}");
        return Err(Refused::new(Status::BadResourceState, 0x170b, why));
    }
    tables.tables.remove(&id);
    tables.root = tables.root.filter(|root| *root != id);
    Ok(())
}

/// QUERY_FLOW_TABLE.
pub fn query_flow_table(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    check_kind(hca, call.input)?;
    let table = hca.flow_tables.get_mut(query::TABLE_ID.get(call.input))?;
    let base = query::out::FLOW_TABLE_CONTEXT;
    ctx::LEVEL.at(base).set(call.out, table.level);
    ctx::LOG_SIZE.at(base).set(call.out, table.log_size);
    ctx::TABLE_MISS_ACTION.at(base).set(call.out, u32::from(table.miss.is_some()));
    ctx::TABLE_MISS_ID.at(base).set(call.out, table.miss.unwrap_or(0));
    Ok(())
}

/// MODIFY_FLOW_TABLE: where packets without a match go.
pub fn modify_flow_table(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    check_kind(hca, call.input)?;
    let selected = modify::MODIFY_FIELD_SELECT.get(call.input);
    require(selected == 1, Status::BadParameter, 0x170c, format_args!("field select {selected:#x}"))?;
    let table = hca.flow_tables.get_mut(modify::TABLE_ID.get(call.input))?;
    let (id, level) = (table.id, table.level);
    let miss = miss(hca, level, &call.input[modify::FLOW_TABLE_CONTEXT..])?;
    hca.flow_tables.get_mut(id)?.miss = miss;
    Ok(())
}

/// SET_FLOW_TABLE_ROOT: modifier 0 names the first table, 1 takes it away.
pub fn set_root(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    check_kind(hca, call.input)?;
    let absent = [root::UNDERLAY_QPN, root::TABLE_OF_OTHER_VPORT, root::TABLE_ESWITCH_OWNER_VHCA_ID_VALID];
    let zero = absent.iter().all(|field| field.get(call.input) == 0);
    require(zero, Status::BadParameter, 0x170d, "only tables of the own vport")?;
    hca.flow_tables.root =
        if call.op_mod == 0 { Some(hca.flow_tables.get_mut(root::TABLE_ID.get(call.input))?.id) } else { None };
    Ok(())
}
