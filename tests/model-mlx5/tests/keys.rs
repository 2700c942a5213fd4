//! Memory keys: contexts, page lists, and what a key does not allow.

mod common;

use bareverbs_model_mlx5::{
    HcaConfig,
    mr::{Access, KeyFault, KeyUser},
    ring::Segment,
};
use common::{Rig, bytes, command};

const LR_LW: u32 = 1 << 11 | 1 << 10;

/// CREATE_MKEY of a page list of 4 KiB pages.
fn mtt(pd: u32, access: u32, start: u64, len: u64, pages: &[u64]) -> Vec<u8> {
    let octowords = pages.len().div_ceil(2) as u32;
    let mut input = command(
        0x110,
        &[
            (0, 0x0200_0000),
            (0x10, access | 1 << 8),
            (0x14, 0xffff_ff00 | 0x42),
            (0x1c, pd),
            (0x20, (start >> 32) as u32),
            (0x24, start as u32),
            (0x28, (len >> 32) as u32),
            (0x2c, len as u32),
            (0x44, octowords),
            (0x48, 12),
            (0x60, octowords),
        ],
    );
    for page in pages {
        input.extend((page | 3).to_be_bytes());
    }
    input.resize(0x110 + 16 * octowords as usize, 0);
    input
}

/// CREATE_MKEY for all of memory by bus address.
fn whole(pd: u32, access: u32) -> Vec<u8> {
    command(0x110, &[(0, 0x0200_0000), (0x10, access), (0x14, 0xffff_ff00), (0x1c, 1 << 31 | pd)])
}

#[test]
fn translation_follows_the_page_list() {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    let pd = rig.pd();
    let input = mtt(pd, LR_LW, 0x7000_0f00, 0x1200, &[0x40_0000, 0x41_0000, 0x42_0000]);
    let key = rig.good(&input, 16).dword(8) << 8 | 0x42;
    let user = KeyUser { pd, qpn: 0 };
    let go = |key, user, va, len, access| rig.hca.translate(key, user, va, len, access);
    assert_eq!(
        go(key, user, 0x7000_0f80, 0x1100, Access::LOCAL_READ).unwrap(),
        [
            Segment { addr: 0x40_0f80, len: 0x80 },
            Segment { addr: 0x41_0000, len: 0x1000 },
            Segment { addr: 0x42_0000, len: 0x80 }
        ]
    );
    assert_eq!(go(key ^ 1, user, 0x7000_0f00, 1, Access::LOCAL_READ), Err(KeyFault::WrongVariant));
    assert_eq!(go(key + 0x100, user, 0x7000_0f00, 1, Access::LOCAL_READ), Err(KeyFault::Unknown));
    assert_eq!(go(key, user, 0x7000_0eff, 1, Access::LOCAL_READ), Err(KeyFault::OutOfRange));
    assert_eq!(go(key, user, 0x7000_2100, 1, Access::LOCAL_READ), Err(KeyFault::OutOfRange));
    assert_eq!(go(key, user, 0x7000_0f00, 0x1201, Access::LOCAL_READ), Err(KeyFault::OutOfRange));
    assert_eq!(go(key, user, u64::MAX, 2, Access::LOCAL_READ), Err(KeyFault::OutOfRange));
    assert_eq!(go(key, user, 0x7000_0f00, 1, Access::REMOTE_WRITE), Err(KeyFault::Access));
    let stranger = KeyUser { pd: pd + 1, qpn: 0 };
    assert_eq!(go(key, stranger, 0x7000_0f00, 1, Access::LOCAL_READ), Err(KeyFault::WrongPd));
    assert_eq!(go(key, user, 0, 0, Access::LOCAL_READ), Ok(vec![]), "no bytes need no key");
}

#[test]
fn whole_memory_key() {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    let pd = rig.pd();
    let key = rig.good(&whole(pd, LR_LW), 16).dword(8) << 8;
    let user = KeyUser { pd, qpn: 0 };
    let all = rig.hca.translate(key, user, 0x1234_5678_9abc, 0x10_0000, Access::LOCAL_WRITE);
    assert_eq!(all, Ok(vec![Segment { addr: 0x1234_5678_9abc, len: 0x10_0000 }]));
}

#[test]
fn contexts_are_checked() {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    let pd = rig.pd();
    rig.refused(&mtt(pd + 1, LR_LW, 0, 0x1000, &[0x40_0000]), 16, 0x5, 0x0501);
    rig.refused(&mtt(pd, LR_LW, 0x800, 0x2000, &[0x40_0000]), 16, 0x3, 0x0508);
    rig.refused(&mtt(pd, LR_LW, 0, 0x1000, &[0x40_0010]), 16, 0x3, 0x0509);
    rig.refused(&mtt(pd, LR_LW, u64::MAX - 0xfff, 0x2000, &[0x40_0000; 2]), 16, 0x3, 0x0504);
    let firmwares = *rig.hca.pages.held.first().unwrap();
    rig.refused(&mtt(pd, LR_LW, 0, 0x1000, &[firmwares]), 16, 0x3, 0x050a);
    let mut short = mtt(pd, LR_LW, 0, 0x1000, &[0x40_0000]);
    short.truncate(0x110);
    rig.refused(&short, 16, 0x50, 0x050c);
    let mut small_pages = mtt(pd, LR_LW, 0, 0x1000, &[0x40_0000]);
    small_pages[0x4b] = 11;
    rig.refused(&small_pages, 16, 0x3, 0x0507);
}

#[test]
fn keys_hold_their_pd() {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    let pd = rig.pd();
    let index = rig.good(&whole(pd, LR_LW), 16).dword(8);
    rig.refused(&bytes(&[0x0801_0000, 0, pd, 0]), 16, 0x9, 0x0602);
    let query = rig.ok(&[0x0201_0000, 0, index, 0], 0x130);
    assert_eq!(query.dword(0x10), LR_LW);
    rig.ok(&[0x0202_0000, 0, index, 0], 16);
    rig.refused(&bytes(&[0x0202_0000, 0, index, 0]), 16, 0x5, 0x050e);
    rig.ok(&[0x0801_0000, 0, pd, 0], 16);
}

#[test]
fn firmware_asks_for_pages_as_objects_grow() {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    let uar = rig.uar();
    let (eqn, memory) = rig.eq(uar, 0, 1 << 0x0b);
    let mut asked = 0;
    let mut taken = 0u32;
    for _ in 0..500 {
        rig.pd();
        let eqe = rig.bus.get(memory + u64::from(taken % 64) * 64, 64);
        if eqe[63] & 1 == (taken >> 7 & 1) as u8 && eqe[1] == 0x0b {
            let n = u32::from_be_bytes(eqe[36..40].try_into().unwrap());
            let mut give = bytes(&[0x0108_0000, 1, 0, n]);
            for _ in 0..n {
                give.extend(rig.page().to_be_bytes());
            }
            rig.good(&give, 16);
            taken += 1;
            asked += n;
            let at = u64::from(uar) * 4096 + 0x48;
            bareverbs_harness::model::DeviceModel::mmio_write(
                &mut rig.hca,
                &mut rig.bus,
                0,
                at,
                &(eqn << 24 | taken).to_be_bytes(),
            );
        }
    }
    assert!(asked >= 16, "{asked} pages");
    assert!(rig.bus.violations.is_empty(), "{:?}", rig.bus.violations);
}
