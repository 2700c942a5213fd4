//! Memory regions as the device sees them: every edge of a region, reached from the other end.

mod bench;

use bareverbs::*;
use bench::pair::*;

const SEED: u64 = 0x006d_7231;

/// A region of `len` bytes that begins `offset` bytes into a page, with guard bytes around it in the same memory.
struct Guarded {
    mr: Mr5,
    /// First byte of the memory, and how many of its bytes lie before the region.
    base: *mut u8,
    before: usize,
    whole: usize,
}

const GUARD: u8 = 0x5a;

impl Guarded {
    fn new(node: &Node, offset: usize, len: usize, iova: Option<u64>) -> Self {
        let whole = (len + 3 * 4096).next_multiple_of(4096);
        let memory = vec![GUARD; whole + 4096].leak();
        let before = memory.as_ptr().align_offset(4096) + 4096 + offset;
        let base = memory.as_mut_ptr();
        // SAFETY: the range lies inside memory that lives for ever and that is reached through `base` only.
        let bytes: &'static mut [u8] = unsafe { std::slice::from_raw_parts_mut(base.add(before), len) };
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let init = RegionInit { access, iova: iova.map(|iova| iova + offset as u64) };
        let mr = node.device.register(&node.pd, bytes, init).map_err(|r| r.error).expect("a region");
        Self { mr, base, before, whole: whole + 4096 }
    }

    /// The whole memory, guards included.
    fn all(&self) -> Vec<u8> {
        // SAFETY: inside the memory; the device writes only between two polls.
        (0..self.whole).map(|i| unsafe { self.base.add(i).read_volatile() }).collect()
    }
}

/// Writes bytes to an address in the other end's region over a fresh connection, and tells how that ended.
fn write_remote(pair: &Pair, source: &Mr5, bytes: &[u8], addr: u64, rkey: Rkey) -> WcStatus {
    let (mut ca, cb) = (pair.a.cq(15), pair.b.cq(15));
    let mut qa = pair.a.qp(QpType::Rc, &ca, &ca, None, CAP);
    let mut qb = pair.b.qp(QpType::Rc, &cb, &cb, None, CAP);
    pair.connect(&mut qa, &mut qb);
    source.write(0, bytes).unwrap();
    let sge = [source.sge(0..bytes.len()).unwrap()];
    qa.post_send([SendWr::new(SendOp::Write { addr, rkey }, &sge).signaled()]).unwrap();
    poll(&pair.a.device, &mut ca, 1)[0].status
}

#[test]
fn case_47_every_edge_of_a_region() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let source = pair.a.mr(4096);
    let shapes = [
        (0, 1, None),
        (1, 4095, None),
        (4095, 2, None),
        (0, 4096, Some(0x7000_0000_0000)),
        (17, 3 * 4096, None),
        (100, 40_000, Some(0x5_f28f_1000)),
    ];
    for (offset, len, iova) in shapes {
        let region = Guarded::new(&pair.b, offset, len, iova);
        let (start, rkey) = (region.mr.iova(), region.mr.rkey());
        let mut expected = region.all();
        let mut mark = 0u8;
        let boundaries = (1..=(offset + len - 1) / 4096).map(|page| page * 4096 - offset);
        let pieces = [(0, 1), (len - 1, 1)].into_iter().chain(boundaries.map(|at| (at - 1, 2)));
        for (at, n) in pieces {
            mark += 1;
            let bytes = vec![mark; n];
            let status = write_remote(&pair, &source, &bytes, start + at as u64, rkey);
            assert_eq!(status, WcStatus::Success, "{n} bytes at {at} of {len} (seed {SEED:#x})");
            expected[region.before + at..][..n].fill(mark);
            assert!(region.all() == expected, "{n} bytes at {at} of {len} went elsewhere");
        }
        for (addr, n) in [(start - 1, 1), (start + len as u64, 1), (start - 1, 2), (start + len as u64 - 1, 2)] {
            let status = write_remote(&pair, &source, &vec![0xee; n], addr, rkey);
            assert_eq!(status, WcStatus::RemoteAccess, "{n} bytes at {addr:#x} of {start:#x} + {len}");
            assert!(region.all() == expected, "a refused write changed memory");
        }
        drop(region);
    }
    drop(source);
    pair.close();
}

#[test]
fn case_47_an_element_over_two_regions() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let memory: &'static mut [u8] = vec![0; 8192].leak();
    let (low, high) = memory.split_at_mut(4096);
    let register = |bytes| pair.a.device.register(&pair.a.pd, bytes, Access::LOCAL_WRITE).map_err(|r| r.error).unwrap();
    let (low, high) = (register(low), register(high));
    assert_eq!(low.iova() + 4096, high.iova());
    let (mut ca, cb) = (pair.a.cq(15), pair.b.cq(15));
    let mut qa = pair.a.qp(QpType::Rc, &ca, &ca, None, CAP);
    let mut qb = pair.b.qp(QpType::Rc, &cb, &cb, None, CAP);
    pair.connect(&mut qa, &mut qb);
    // SAFETY: both regions are this test's, and nobody refers into them; the device shall refuse the element.
    let across = [unsafe { Sge::from_raw(low.iova() + 4000, 200, low.lkey()) }];
    qa.post_send([SendWr::new(SendOp::Send, &across).wr_id(9).signaled()]).unwrap();
    let done = poll(&pair.a.device, &mut ca, 1)[0];
    assert_eq!((done.status, done.wr_id), (WcStatus::LocalProtection, 9));
    drop((qa, qb, ca, cb, low, high));
    pair.close();
}

#[test]
fn case_46_receive_into_a_read_only_region() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let source = pair.a.mr(4096);
    let memory: &'static mut [u8] = vec![0x33; 4096].leak();
    let read_only = pair.b.device.register(&pair.b.pd, memory, Access::empty()).map_err(|r| r.error).unwrap();
    let (ca, mut cb) = (pair.a.cq(15), pair.b.cq(15));
    let mut qa = pair.a.qp(QpType::Rc, &ca, &ca, None, CAP);
    let mut qb = pair.b.qp(QpType::Rc, &cb, &cb, None, CAP);
    pair.connect(&mut qa, &mut qb);
    qb.post_recv([RecvWr::new(5, &[read_only.sge(0..100).unwrap()])]).unwrap();
    qa.post_send([SendWr::new(SendOp::Send, &[source.sge(0..100).unwrap()]).signaled()]).unwrap();
    let done = poll(&pair.b.device, &mut cb, 1)[0];
    assert_eq!((done.status, done.wr_id), (WcStatus::LocalProtection, 5));
    let mut bytes = [0; 4096];
    read_only.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0x33; 4096]);
    drop((qa, qb, ca, cb, source, read_only));
    pair.close();
}
