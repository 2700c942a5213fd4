//! Keys that the send queue changes: fast registration, local and remote invalidation, windows.

use bareverbs_harness::model::LinkKind::InfiniBand;
use bareverbs_mlx5_prm::context::mkc;

use super::world::*;
use crate::{
    mr::{Access, Mkey, Translation},
    qp::QpState,
    transport::Counter,
};

/// Send opcode of a UMR.
const UMR: u8 = 0x25;
/// Flags of the UMR control segment.
const CHECK_QPN: u8 = 0x08;
const CHECK_NOT_FREE: u8 = 0x20;
const CHECK_FREE: u8 = 0x40;
const INLINE: u8 = 0x80;
/// What Linux 6.1 changes when it registers (`frwr_mkey_mask`, with atomics).
const REGISTER: u64 = 1 << 29 | 0xbe << 16 | 1 << 13 | 1 << 8 | 1 << 6 | 1 << 1 | 1;
/// What it changes when it invalidates.
const FREE: u64 = 1 << 29;
/// Index and first variant of the test's key.
const FAST: u32 = 0x00aa_bb00;

/// A key as Linux allocates it for fast registration: free, with room for 16 octowords of page addresses.
fn world(translation: Translation) -> World {
    let mut w = World::connected(InfiniBand, &Setup::default());
    let mut raw = [0; mkc::SIZE];
    mkc::FREE.set(&mut raw, 1);
    mkc::UMR_EN.set(&mut raw, 1);
    mkc::PD.set(&mut raw, PD);
    mkc::QPN.set(&mut raw, mkc::QPN_ANY);
    mkc::LOG_PAGE_SIZE.set(&mut raw, 12);
    let mkey = Mkey {
        key: FAST,
        free: true,
        pd: PD,
        qpn: None,
        access: Access::NONE,
        start: 0,
        len: Some(0),
        translation,
        octowords: 16,
        umr: true,
        raw,
    };
    w.hosts[1].hca.mkeys.table.insert(FAST >> 8, mkey);
    w
}

fn pages() -> Translation {
    Translation::Pages { pages: Vec::new(), log_page: 12 }
}

/// The 112 bytes of a UMR control segment and a key's context.
fn umr(flags: u8, octowords: u16, mask: u64, context: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; 112];
    bytes[0] = flags;
    bytes[4..6].copy_from_slice(&octowords.to_be_bytes());
    bytes[8..16].copy_from_slice(&mask.to_be_bytes());
    for &(at, value) in context {
        bytes[48 + at..52 + at].copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

/// Registers two pages as 0x1800 bytes at 0x7fff_0000_0800 with everything allowed, as variant 7.
fn register(flags: u8) -> Vec<u8> {
    let mut wqe = umr(
        flags,
        4,
        REGISTER,
        &[
            (0, 0xfc << 8 | 1 << 8), // umr_en, a, rw, rr, lw, lr; page list
            (4, 0xffff_ff07),
            (12, 1 << 24), // remote invalidation
            (16, 0x7fff),
            (20, 0x0800),
            (28, 0x1800),
            (52, 4),
            (56, 12),
        ],
    );
    let mut entries = [0; 64];
    entries[..8].copy_from_slice(&(DATA + 0x5000).to_be_bytes());
    entries[8..16].copy_from_slice(&(DATA + 0x3000).to_be_bytes());
    wqe.extend(entries);
    wqe
}

fn write(w: &mut World, va: u64, key: u32, len: u32) -> u8 {
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &[raddr_seg(va, key), data_seg(DATA, len, KEY)].concat());
    w.run();
    w.hosts[0].polls(0)[0].syndrome
}

#[test]
fn a_registered_key_works_until_it_is_invalidated() {
    let mut w = world(pages());
    w.hosts[0].put(DATA, &pattern(0x1800, 1));
    w.hosts[1].post_send(B, UMR, SIGNALED, FAST | 7, &register(INLINE | CHECK_NOT_FREE));
    w.run();
    w.assert_clean();
    let wc = w.hosts[1].polls(0)[0];
    assert_eq!((wc.opcode, wc.send_opcode), (0, UMR));
    assert_eq!(write(&mut w, 0x7fff_0000_0800, FAST | 7, 0x1800), 0);
    // The first page from its middle on, then the second: bus addresses, so not by the rig's own key.
    let memory = &w.hosts[1].bus.memory;
    let at = DATA as usize + 0x5800;
    assert_eq!(memory[at..at + 0x800], pattern(0x1800, 1)[..0x800]);
    let at = DATA as usize + 0x3000;
    assert_eq!(memory[at..at + 0x1000], pattern(0x1800, 1)[0x800..]);
    // Local invalidation, as Linux writes it.
    w.hosts[1].post_send(B, UMR, SIGNALED, FAST | 7, &umr(INLINE, 0, FREE, &[(0, 1 << 30)]));
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[1].polls(0)[0].opcode, 0);
    assert_eq!(write(&mut w, 0x7fff_0000_0800, FAST | 7, 8), 0x13);
}

#[test]
fn the_translation_may_lie_in_memory() {
    let mut w = world(pages());
    let wqe = register(CHECK_NOT_FREE);
    let (head, entries) = wqe.split_at(112);
    w.hosts[1].put(DATA + 0x2_0000, entries);
    w.hosts[1].post_send(B, UMR, SIGNALED, FAST | 7, &[head, &data_seg(DATA + 0x2_0000, 64, KEY)].concat());
    w.run();
    w.assert_clean();
    assert_eq!(write(&mut w, 0x7fff_0000_0800, FAST | 7, 0x1800), 0);
}

#[test]
fn the_other_side_may_invalidate_what_allows_it() {
    let mut w = world(pages());
    w.hosts[1].post_send(B, UMR, 0, FAST | 7, &register(INLINE | CHECK_NOT_FREE));
    w.hosts[1].post_recv(B, &[]);
    w.run();
    w.hosts[0].post_send(A, SEND_INVAL, SIGNALED, FAST | 7, &[]);
    w.run();
    assert_eq!(w.hosts[0].polls(0)[0].syndrome, 0);
    let wc = w.hosts[1].polls(1)[0];
    assert_eq!((wc.opcode, wc.imm), (4, FAST | 7));
    assert_eq!(write(&mut w, 0x7fff_0000_0800, FAST | 7, 8), 0x13);
    // An ordinary region does not allow it.
    let mut w = world(pages());
    w.hosts[1].post_recv(B, &[]);
    w.hosts[0].post_send(A, SEND_INVAL, SIGNALED, KEY, &[]);
    w.run();
    assert_eq!(w.hosts[0].polls(0)[0].syndrome, 0x13);
    assert_eq!(w.hosts[1].count(Counter::RespInvalidateErrors), 1);
    assert_eq!(w.hosts[1].polls(1)[0].syndrome, 5);
}

/// A window of the second type, as libmlx5 binds it: a range of another key, for one QP only.
#[test]
fn a_window_shows_a_part_of_a_region() {
    let mut w = world(Translation::Keys(Vec::new()));
    let mask = FREE | 0xf << 18 | 1 << 14 | 1 << 13 | 1 << 6 | 1; // lw, rr, rw, a, QPN, key, start, length
    let mut wqe = umr(
        INLINE | CHECK_NOT_FREE,
        2,
        mask,
        &[(0, 0x2800 | 2 << 8), (4, B << 8 | 9), (16, 0), (20, (DATA + 0x1_0000) as u32), (28, 0x100)],
    );
    let mut klm = [0; 64];
    klm[2] = 1; // 0x100 bytes
    klm[4..8].copy_from_slice(&KEY.to_be_bytes());
    klm[8..16].copy_from_slice(&(DATA + 0x1_0000).to_be_bytes());
    wqe.extend(klm);
    w.hosts[1].post_send(B, UMR, SIGNALED, FAST | 9, &wqe);
    w.run();
    w.assert_clean();
    w.hosts[0].put(DATA, b"through the window");
    assert_eq!(write(&mut w, DATA + 0x1_00ee, FAST | 9, 18), 0);
    assert_eq!(w.hosts[1].get(DATA + 0x1_00ee, 18), b"through the window");
    // A window opens what its region does not: here a right that the region has for this side only.
    let closed = w.hosts[1].hca.mkeys.table.get_mut(&(KEY >> 8)).unwrap();
    closed.access = Access::LOCAL_READ.with(Access::LOCAL_WRITE);
    assert_eq!(write(&mut w, DATA + 0x1_0000, FAST | 9, 18), 0);
    assert_eq!(w.hosts[1].get(DATA + 0x1_0000, 18), b"through the window");
    // Its own QP may unbind it; then nothing is behind it.
    w.hosts[1].post_send(B, UMR, SIGNALED, FAST | 9, &umr(INLINE | CHECK_QPN, 0, FREE, &[(0, 1 << 30)]));
    w.run();
    w.assert_clean();
    assert_eq!(write(&mut w, DATA + 0x1_0000, FAST | 9, 1), 0x13);
}

#[test]
fn what_a_key_does_not_allow_is_a_bind_error() {
    let not_free = umr(INLINE | CHECK_FREE, 0, FREE, &[]);
    for (key, wqe, why) in [
        (KEY, register(INLINE | CHECK_NOT_FREE), "does not allow UMR"),
        (0x7700_0000, register(INLINE), "no such key"),
        (FAST, not_free, "the key is free"),
        (FAST, umr(INLINE, 17, FREE, &[]), "more translation"),
        (FAST, umr(INLINE, 4, REGISTER, &[(28, 0x1_0000)]), "longer than the WQE"),
    ] {
        let mut w = world(pages());
        w.hosts[1].post_send(B, UMR, 0, key, &wqe);
        w.run();
        let syndrome = if why == "longer than the WQE" { 2 } else { 6 };
        assert_eq!(w.hosts[1].polls(0)[0].syndrome, syndrome, "{why}");
        assert_eq!(w.hosts[1].hca.qps[&B].state, QpState::Error);
        // What a driver's user may ask for is no fault of the driver's.
        let violations = &w.hosts[1].bus.violations;
        let drivers = ["more translation", "longer than the WQE"].contains(&why);
        assert_eq!(violations.len(), usize::from(drivers), "{why}: {violations:?}");
        assert!(violations.iter().all(|violation| violation.contains(why)), "{violations:?}");
    }
}
