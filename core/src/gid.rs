//! Which entry of a RoCE port's GID table to use when the user named none.

use crate::{GidEntry, GidType};

/// The entry that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its index in the table.
    pub index: u8,
    /// Whether only link-local entries were there: they reach no further than the own Ethernet segment, and peers
    /// that resolve addresses may refuse them.
    pub link_local_only: bool,
}

/// Chooses from a table, given in order of its indices; empty entries are passed over.
///
/// RoCE v2 goes before v1 (it is what switches and soft-RoCE carry), a routable address before a link-local one, IPv4
/// before IPv6 (the way the resolvers of other stacks lean), the first of equals.
pub fn choose(table: impl IntoIterator<Item = GidEntry>) -> Option<Choice> {
    let mut best: Option<((bool, bool, bool), Choice)> = None;
    for (index, entry) in (0..=u8::MAX).zip(table) {
        if entry.gid.is_zero() {
            continue;
        }
        let link_local = entry.gid.is_link_local();
        let rank = (entry.kind == GidType::RoceV2, !link_local, entry.gid.ipv4().is_some());
        if best.is_none_or(|(b, _)| rank > b) {
            best = Some((rank, Choice { index, link_local_only: link_local }));
        }
    }
    best.map(|(_, choice)| choice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gid, Mac};
    use GidType::{IbOrRoceV1 as V1, RoceV2 as V2};

    const FE80: Gid = Gid::link_local(Mac([2, 0, 0, 0, 0, 1]));
    const IPV4: Gid = Gid::from_ipv4([10, 0, 0, 1]);
    const IPV6: Gid = Gid([0xfd, 0x93, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    fn chosen(table: &[(Gid, GidType)]) -> Option<(u8, bool)> {
        let entries = table.iter().map(|(gid, kind)| GidEntry { gid: *gid, kind: *kind, ..GidEntry::default() });
        choose(entries).map(|c| (c.index, c.link_local_only))
    }

    #[test]
    fn case_72_default_gid() {
        assert_eq!(chosen(&[(FE80, V1), (FE80, V2), (IPV4, V1), (IPV4, V2)]), Some((3, false)));
        assert_eq!(chosen(&[(FE80, V2), (IPV4, V2)]), Some((1, false)));
        assert_eq!(chosen(&[(FE80, V2), (IPV6, V2)]), Some((1, false)));
        assert_eq!(chosen(&[(Gid::ZERO, V1), (FE80, V2), (Gid::ZERO, V1), (IPV4, V2)]), Some((3, false)));
        assert_eq!(chosen(&[(FE80, V2)]), Some((0, true)));
        assert_eq!(chosen(&[(FE80, V1), (FE80, V2)]), Some((1, true)));
        assert_eq!(chosen(&[(Gid::ZERO, V1)]), None);
    }
}
