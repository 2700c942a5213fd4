//! Every operation of every transport, end to end between two modelled HCAs.

mod bench;

use bareverbs::*;
use bench::pair::*;

const SEED: u64 = 0x7472_6166;

#[test]
fn send_and_receive() {
    for link in [Link::InfiniBand, Link::Roce] {
        for kind in [QpType::Rc, QpType::Uc] {
            let pair = Pair::new(link, SEED);
            let (ca, cb) = (pair.a.cq(15), pair.b.cq(15));
            let (ma, mb) = (pair.a.mr(8192), pair.b.mr(8192));
            let mut qa = pair.a.qp(kind, &ca, &ca, None, CAP);
            let mut qb = pair.b.qp(kind, &cb, &cb, None, CAP);
            let (mut ca, mut cb) = (ca, cb);
            pair.connect(&mut qa, &mut qb);
            for (n, len) in [1usize, 64, 1024, 1025, 4000].into_iter().enumerate() {
                let bytes = pattern(SEED + n as u64, len);
                ma.write(0, &bytes).unwrap();
                let to = [mb.sge(0..8192).unwrap()];
                qb.post_recv([RecvWr::new(100 + n as u64, &to)]).unwrap();
                let from = [ma.sge(0..len).unwrap()];
                qa.post_send([SendWr::new(SendOp::Send, &from).wr_id(n as u64).signaled()]).unwrap();
                let sent = poll(&pair.a.device, &mut ca, 1)[0];
                assert_eq!((sent.wr_id, sent.status, sent.opcode), (n as u64, WcStatus::Success, WcOpcode::Send));
                assert_eq!((sent.qpn, sent.byte_len), (qa.qpn(), 0));
                let got = poll(&pair.b.device, &mut cb, 1)[0];
                assert_eq!((got.wr_id, got.status, got.opcode), (100 + n as u64, WcStatus::Success, WcOpcode::Recv));
                assert_eq!((got.qpn, got.byte_len, got.flags), (qb.qpn(), len as u32, WcFlags::empty()));
                assert_eq!(read(&mb, 0, len), bytes);
            }
            qa.destroy().unwrap();
            qb.destroy().unwrap();
            ca.destroy().unwrap();
            cb.destroy().unwrap();
            drop((ma, mb));
            pair.close();
        }
    }
}
