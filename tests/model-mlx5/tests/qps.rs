//! QPs and SRQs: what a creation must name, which transitions there are, and what a query gives back.

mod common;

use bareverbs_model_mlx5::HcaConfig;
use common::{Rig, bytes, command};

struct Setup {
    rig: Rig,
    uar: u32,
    pd: u32,
    cqn: u32,
}

fn setup(config: HcaConfig) -> Setup {
    let mut rig = Rig::running(config);
    let uar = rig.uar();
    let pd = rig.pd();
    let (eqn, _) = rig.eq(uar, 0, 0);
    let (cqn, ..) = rig.cq(uar, eqn, 4);
    Setup { rig, uar, pd, cqn }
}

impl Setup {
    /// CREATE_QP with 16 receive WQEs of 16 bytes and 16 send blocks in one page.
    fn create(&mut self, service: u32) -> Vec<u8> {
        let (memory, dbr) = (self.rig.page(), self.rig.page());
        let mut input = command(
            0x110,
            &[
                (0, 0x0500_0000),
                (0x18, service << 16 | 3 << 11),
                (0x1c, self.pd),
                (0x20, 4 << 19 | 4 << 11),
                (0x24, self.uar),
                (0x28, 0x12_3456),
                (0x18 + 0x7c, self.cqn),
                (0x18 + 0x9c, self.cqn),
                (0x18 + 0xa4, dbr as u32),
            ],
        );
        input.extend(memory.to_be_bytes());
        input
    }

    fn qp(&mut self, service: u32) -> u32 {
        let input = self.create(service);
        self.rig.good(&input, 16).dword(8)
    }

    fn state(&mut self, qpn: u32) -> u32 {
        self.rig.ok(&[0x050b_0000, 0, qpn, 0], 0x110).dword(0x18) >> 28
    }
}

/// RST2INIT: port 1, remote writes.
fn init(qpn: u32, service: u32) -> Vec<u8> {
    command(
        0x110,
        &[(0, 0x0502_0000), (8, qpn), (0x18, service << 16 | 3 << 11), (0x18 + 0x18 + 0x24, 1 << 16), (0xa8, 1 << 14)],
    )
}

/// INIT2RTR to LID 2, QP 0x77, MTU 1024, PSN 0x123.
fn rtr(qpn: u32, service: u32) -> Vec<u8> {
    command(
        0x110,
        &[
            (0, 0x0503_0000),
            (8, qpn),
            (0x18, service << 16 | 3 << 11),
            (0x20, 3 << 29 | 30 << 24),
            (0x2c, 0x77),
            (0x18 + 0x18 + 4, 2),
            (0x18 + 0x94, 12 << 24 | 0x123),
        ],
    )
}

/// RTR2RTS with PSN 0x456, 7 retries, timeout 14.
fn rts(qpn: u32, service: u32) -> Vec<u8> {
    command(
        0x110,
        &[
            (0, 0x0504_0000),
            (8, qpn),
            (0x18, service << 16 | 3 << 11),
            (0x18 + 0x18 + 8, 14 << 27),
            (0x18 + 0x70, 7 << 16 | 7 << 13),
            (0x18 + 0x78, 0x456),
        ],
    )
}

#[test]
fn the_way_to_rts_and_back() {
    let mut s = setup(HcaConfig::infiniband(0));
    let qpn = s.qp(0);
    assert_eq!(s.state(qpn), 0);
    s.rig.good(&init(qpn, 0), 16);
    s.rig.good(&rtr(qpn, 0), 16);
    s.rig.good(&rts(qpn, 0), 16);
    let query = s.rig.ok(&[0x050b_0000, 0, qpn, 0], 0x110);
    assert_eq!(query.dword(0x18) >> 28, 3);
    assert_eq!(query.dword(0x28), 0x12_3456, "user index");
    assert_eq!(query.dword(0x2c), 0x77, "remote QPN");
    assert_eq!(query.dword(0x20) >> 29, 3, "MTU");
    assert_eq!(query.dword(0x18 + 0x18 + 8) >> 27, 14, "timeout");
    assert_eq!(query.dword(0x18 + 0x18 + 0x24) >> 16 & 0xff, 1, "port, from the first transition");
    assert_eq!(query.dword(0x18 + 0x78), 0x456);
    assert_eq!(query.dword(0x18 + 0x94), 12 << 24 | 0x123);
    assert_eq!(query.dword(0xa8) >> 14 & 1, 1, "remote writes");
    s.rig.ok(&[0x0507_0000, 0, qpn, 0], 16);
    assert_eq!(s.state(qpn), 6);
    s.rig.ok(&[0x050a_0000, 0, qpn, 0], 16);
    assert_eq!(s.state(qpn), 0);
    let query = s.rig.ok(&[0x050b_0000, 0, qpn, 0], 0x110);
    assert_eq!((query.dword(0x2c), query.dword(0x28)), (0, 0x12_3456), "a reset keeps what the creation said");
    s.rig.ok(&[0x0501_0000, 0, qpn, 0], 16);
    s.rig.refused(&bytes(&[0x0501_0000, 0, qpn, 0]), 16, 0x5, 0x090f);
}

#[test]
fn states_are_held() {
    let mut s = setup(HcaConfig::infiniband(0));
    let qpn = s.qp(0);
    s.rig.refused(&rtr(qpn, 0), 16, 0x10, 0x0920);
    s.rig.refused(&rts(qpn, 0), 16, 0x10, 0x0920);
    s.rig.good(&init(qpn, 0), 16);
    s.rig.refused(&init(qpn, 0), 16, 0x10, 0x0920);
    s.rig.refused(&rts(qpn, 0), 16, 0x10, 0x0920);
}

#[test]
fn attributes_are_checked() {
    let mut s = setup(HcaConfig::infiniband(0));
    let qpn = s.qp(0);
    let spoiled = |mut input: Vec<u8>, at: usize, dword: u32| {
        input[at..at + 4].copy_from_slice(&dword.to_be_bytes());
        input
    };
    let path = 0x18 + 0x18;
    s.rig.refused(&spoiled(init(qpn, 0), path + 0x24, 2 << 16), 16, 0x3, 0x0930);
    s.rig.refused(&spoiled(init(qpn, 0), path, 128), 16, 0xa, 0x0931);
    s.rig.refused(&spoiled(init(qpn, 0), 0x18, 1 << 16 | 3 << 11), 16, 0x3, 0x0923);
    s.rig.refused(&spoiled(init(qpn, 0), 0x10, 1 << 12), 16, 0x3, 0x0922);
    s.rig.refused(&spoiled(init(qpn, 0), 0x24, 9 << 24), 16, 0x5, 0x1a00);
    s.rig.good(&init(qpn, 0), 16);
    s.rig.refused(&spoiled(rtr(qpn, 0), path + 4, 0), 16, 0x3, 0x0938);
    s.rig.refused(&spoiled(rtr(qpn, 0), 0x20, 6 << 29), 16, 0x3, 0x0934);
    s.rig.refused(&spoiled(rtr(qpn, 0), 0x20, 3 << 29 | 31 << 24), 16, 0x3, 0x0933);
    s.rig.refused(&spoiled(rtr(qpn, 0), 0xa8, 5 << 21), 16, 0x3, 0x0935);
    s.rig.good(&rtr(qpn, 0), 16);
    s.rig.refused(&spoiled(rts(qpn, 0), 0x18 + 0x70, 5 << 21), 16, 0x3, 0x0936);
}

#[test]
fn creation_is_checked() {
    let mut s = setup(HcaConfig::infiniband(0));
    let cases: &[(usize, u32, u8, u32)] = &[
        (0x14, 1, 0x3, 0x0901),
        (8, 5, 0x3, 0x0902),
        (0x1c, 0xfff, 0x5, 0x0904),
        (0x1c, 1 << 31 | 0x20, 0x3, 0x0900),
        (0x18 + 0x7c, 0xffff, 0x5, 0x090e),
        (0x18 + 0x9c, 0, 0x5, 0x090e),
        (0x24, 0xfff, 0x5, 0x0907),
        (0x18 + 0xa4, 0, 0x3, 0x0908),
        (0x18 + 0xac, 1 << 24 | 0x999, 0x5, 0x0a20),
        (0x18 + 0xac, 2 << 24, 0x3, 0x090d),
        (0x20, 4 << 19 | 10 << 11, 0x50, 0x0010),
    ];
    for &(at, dword, status, syndrome) in cases {
        let mut input = s.create(0);
        input[at..at + 4].copy_from_slice(&dword.to_be_bytes());
        s.rig.refused(&input, 16, status, syndrome);
    }
    // What the QP uses stays.
    s.qp(0);
    let (pd, cqn) = (s.pd, s.cqn);
    s.rig.refused(&bytes(&[0x0801_0000, 0, pd, 0]), 16, 0x9, 0x0602);
    s.rig.refused(&bytes(&[0x0401_0000, 0, cqn, 0]), 16, 0x9, 0x0409);
}

impl Setup {
    /// CREATE_RMP with 4 WQEs of 32 bytes: its number, memory and doorbell record.
    fn rmp(&mut self) -> (u32, u64, u64) {
        let (memory, dbr) = (self.rig.page(), self.rig.page());
        let mut input = command(
            0x110,
            &[
                (0, 0x090c_0000),
                (0x20, 1 << 20),
                (0x20 + 0x30 + 8, self.pd),
                (0x20 + 0x30 + 0x14, dbr as u32),
                (0x20 + 0x30 + 0x20, 5 << 16 | 2),
            ],
        );
        input.extend(memory.to_be_bytes());
        (self.rig.good(&input, 16).dword(8), memory, dbr)
    }

    /// CREATE_XRC_SRQ with 4 WQEs of 32 bytes in a domain.
    fn xrc_srq(&mut self, xrcd: u32) -> u32 {
        let (memory, dbr) = (self.rig.page(), self.rig.page());
        let context = [
            (0, 2 << 24),
            (4, 1 << 24 | xrcd),
            (8, self.cqn),
            (0x18, self.pd),
            (0x28, (dbr >> 32) as u32),
            (0x2c, dbr as u32),
        ];
        let mut fields = vec![(0, 0x0705_0000)];
        fields.extend(context.map(|(at, dword)| (0x10 + at, dword)));
        let mut input = command(0x110, &fields);
        input.extend(memory.to_be_bytes());
        self.rig.good(&input, 16).dword(8)
    }
}

/// An SRQ of one kind is not one of the other, whatever number it has.
#[test]
fn queue_pairs_name_srqs_of_their_kind() {
    let mut s = setup(HcaConfig::infiniband(0));
    let xrcd = s.rig.ok(&[0x080e_0000, 0, 0, 0], 16).dword(8);
    let (rmpn, ..) = s.rmp();
    let xrc_srqn = s.xrc_srq(xrcd);
    const RC: u32 = 0;
    const UD: u32 = 2;
    const XRC: u32 = 3;
    for (service, right, wrong) in [(RC, rmpn, xrc_srqn), (UD, rmpn, xrc_srqn), (XRC, xrc_srqn, rmpn)] {
        let mut input = s.create(service);
        let mut put = |at: usize, dword: u32| input[at..at + 4].copy_from_slice(&dword.to_be_bytes());
        put(0x18 + 0x98, xrcd);
        put(0x18 + 0xac, 1 << 24 | wrong);
        s.rig.refused(&input, 16, 0x5, 0x0a20);
        input[0x18 + 0xac..][..4].copy_from_slice(&(1 << 24 | right).to_be_bytes());
        s.rig.good(&input, 16);
    }
    let mut own = s.create(XRC);
    own[0x18 + 0x98..][..4].copy_from_slice(&xrcd.to_be_bytes());
    s.rig.refused(&own, 16, 0x3, 0x0911);
}

#[test]
fn shared_receive_queue_takes_what_is_linked() {
    let mut s = setup(HcaConfig::infiniband(0));
    let (rmpn, memory, dbr) = s.rmp();
    // 0 -> 2 -> 1 -> 3, each with one data segment.
    for (index, next) in [(0u64, 2u8), (2, 1), (1, 3), (3, 0)] {
        s.rig.bus.put(memory + index * 32 + 3, &[next]);
        s.rig.bus.put(memory + index * 32 + 16, &[0, 0, 0, 0x40 + index as u8]);
    }
    assert_eq!(s.rig.hca.take_srq(&mut s.rig.bus, rmpn), Ok(None));
    s.rig.bus.put(dbr, &3u32.to_be_bytes());
    for index in [0u8, 2, 1] {
        let wqe = s.rig.hca.take_srq(&mut s.rig.bus, rmpn).unwrap().unwrap();
        assert_eq!((wqe.counter, wqe.segments.len(), wqe.segments[0][3]), (u16::from(index), 1, 0x40 + index));
    }
    assert_eq!(s.rig.hca.take_srq(&mut s.rig.bus, rmpn), Ok(None));
    // A limit that is already undercut fires at once, and only once.
    let mut modify =
        command(0x110, &[(0, 0x090d_0000), (8, 1 << 28 | rmpn), (0x14, 1), (0x20, 1 << 20), (0x20 + 0x30 + 4, 2)]);
    let events = s.rig.hca.report().events;
    let (_, _) = s.rig.eq(s.uar, 1, 1 << 0x14);
    s.rig.good(&modify, 16);
    assert_eq!(s.rig.hca.report().events, events + 1);
    let query = s.rig.ok(&[0x090f_0000, 0, rmpn, 0], 0x110);
    assert_eq!(query.dword(0x20 + 0x30 + 4) & 0xffff, 0, "a limit that fired is no more");
    modify[0x20 + 0x30 + 7] = 5;
    s.rig.refused(&modify, 16, 0x3, 0x0a24);
}

#[test]
fn roce_needs_its_address() {
    let mut s = setup(HcaConfig::ethernet(0));
    s.rig.bus.link = true;
    let qpn = s.qp(0);
    s.rig.good(&init(qpn, 0), 16);
    let mut to_rtr = rtr(qpn, 0);
    let path = 0x18 + 0x18;
    // Destination 02:00:c9:00:00:01, source address 3.
    to_rtr[path + 0x26..path + 0x2c].copy_from_slice(&[0x02, 0, 0xc9, 0, 0, 1]);
    to_rtr[path + 9] = 3;
    s.rig.refused(&to_rtr, 16, 0xa, 0x093a);
    // SET_ROCE_ADDRESS 3: ::ffff:10.0.0.1, version 2, from 02:00:c9:00:00:00.
    let mut set = command(0x30, &[(0, 0x0761_0000), (8, 3 << 16), (0x28, 2)]);
    set[0x1a..0x20].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
    set[0x22..0x28].copy_from_slice(&[0x02, 0, 0xc9, 0, 0, 0]);
    s.rig.good(&set, 16);
    let query = s.rig.ok(&[0x0760_0000, 0, 3 << 16, 0], 0x30);
    assert_eq!(query.out[0x10..0x30], set[0x10..0x30]);
    let mut group = to_rtr.clone();
    group[path + 0x26] |= 1;
    s.rig.refused(&group, 16, 0x3, 0x093b);
    s.rig.good(&to_rtr, 16);
    set[9] = 0;
    set[8] = 0x10;
    s.rig.refused(&set, 16, 0xa, 0x0f02);
}
