//! The way of a received frame through the flow tables.

use bareverbs_mlx5_prm::context::steering::action;

use crate::{
    flow_entry::Destination,
    flow_group::OuterHeaders,
    flow_table::{FlowTable, FlowTables},
};

/// A TIR that gets the frame, and the tag of the entry that led there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The TIR.
    pub tirn: u32,
    /// For the completion.
    pub tag: u32,
}

/// Most tables and TIRs that one frame may visit: entries with several destinations could multiply without end.
const VISITS: usize = 1024;

/// All TIRs that get a frame with these headers.
pub fn walk(tables: &FlowTables, headers: &OuterHeaders) -> Vec<Hit> {
    let mut hits = Vec::new();
    let mut to_visit: Vec<u32> = tables.root.into_iter().collect();
    let mut visits = 0;
    while let Some(table) = to_visit.pop().and_then(|id| tables.tables.get(&id)) {
        visits += 1;
        if visits > VISITS {
            break;
        }
        visit(table, headers, &mut to_visit, &mut hits);
    }
    hits
}

/// The first entry that matches counts; without one, the table's miss table comes next.
fn visit(table: &FlowTable, headers: &OuterHeaders, next: &mut Vec<u32>, hits: &mut Vec<Hit>) {
    let matching = table
        .entries
        .values()
        .find(|entry| table.groups.get(&entry.group).is_some_and(|group| entry.matches(group, headers)));
    let Some(entry) = matching else {
        return next.extend(table.miss);
    };
    if entry.action & action::DROP != 0 {
        return;
    }
    for destination in &entry.destinations {
        match *destination {
            Destination::Table(id) => next.push(id),
            Destination::Tir(tirn) => hits.push(Hit { tirn, tag: entry.tag }),
        }
    }
}
