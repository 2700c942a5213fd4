//! Regions, windows and regions for fast registration.

use super::{Judge, memory, out_of_range};
use crate::bench::pair::*;
use bareverbs::*;

pub fn regions(judge: &mut Judge, pair: &Pair) {
    let (device, pd) = (&pair.a.device, &pair.a.pd);
    let register = |pd, memory: &'static mut [u8], init: RegionInit| device.register(pd, memory, init);
    let none = Access::empty();
    let error = Error::Foreign(Object::Pd);
    judge.refuses("register", || register(&pair.b.pd, memory(64), none.into()), error);
    for access in [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC, Access::REMOTE_WRITE | Access::REMOTE_READ] {
        judge.refuses("register", || register(pd, memory(64), access.into()), Error::AccessNeedsLocalWrite);
    }
    let max = device.attributes().max_mr_size;
    judge.refuses("register", || register(pd, memory(0), none.into()), out_of_range(Argument::RegionLength, 0u32, max));
    let bytes = memory(64);
    let at = bytes.as_ptr() as u64;
    let error = Error::Unsupported("an iova with another offset in its page than the memory");
    judge.refuses("register", || register(pd, bytes, RegionInit { access: none, iova: Some(at + 1) }), error);
    let bytes = memory(8192);
    let last = !0xfff | bytes.as_ptr() as u64 & 0xfff;
    let error = out_of_range(Argument::RegionLength, 8192u32, u64::MAX - last);
    judge.refuses("register", || register(pd, bytes, RegionInit { access: none, iova: Some(last) }), error);
    let error = Error::Unsupported("on-demand paging");
    judge.refuses("register", || register(pd, memory(64), Access::ON_DEMAND.into()), error);
    judge.refuses("alloc_device_memory", || device.alloc_device_memory(64), Error::Unsupported("device memory"));
    let own = device.alloc_pd().unwrap();
    let mut mr = register(&own, memory(64), none.into()).map_err(|r| r.error).unwrap();
    judge.refuses("reregister", || mr.reregister(Access::ON_DEMAND), error);
    judge.refuses("reregister", || mr.reregister(Access::REMOTE_WRITE), Error::AccessNeedsLocalWrite);
    judge.refuses("destroy_pd", move || own.destroy(), Error::Busy { holders: 1 });
    drop(mr);
    let mr = pair.a.mr(100);
    let beyond = |wanted: u32| out_of_range(Argument::RegionOffset, wanted, 100u32);
    judge.refuses("sge", || mr.sge(0..101), beyond(101));
    judge.refuses("sge", || mr.sge(101..101), beyond(101));
    judge.refuses("read", || mr.read(99, &mut [0; 2]), beyond(101));
    judge.refuses("write", || mr.write(100, &[0]), beyond(101));
    judge.refuses("write", || mr.write(usize::MAX, &[0]), out_of_range(Argument::RegionOffset, u64::MAX, 100u32));
}

pub fn windows(judge: &mut Judge, pair: &Pair) {
    let (a, b) = (&pair.a, &pair.b);
    let (cq, flags) = (a.cq(7), SendFlags::empty());
    let foreign = Error::Foreign(Object::Pd);
    judge.refuses("alloc_window", || a.device.alloc_window(&b.pd, WindowKind::One), foreign);
    judge.refuses("alloc_fast_region", || a.device.alloc_fast_region(&b.pd, 1), foreign);
    let max = a.device.attributes().max_fast_reg_elements;
    for elements in [0, max + 1, u32::MAX] {
        let error = out_of_range(Argument::FastElements, elements, max);
        judge.refuses("alloc_fast_region", || a.device.alloc_fast_region(&a.pd, elements), error);
    }
    let register = |access| a.device.register(&a.pd, memory(100), access).map_err(|r| r.error).unwrap();
    let (plain, bindable) = (register(Access::LOCAL_WRITE), register(Access::MW_BIND));
    let write = Access::REMOTE_WRITE;
    judge.refuses("bind", || plain.bind(0..8, write), Error::RegionLacks(Access::MW_BIND));
    judge.refuses("bind", || bindable.bind(0..8, write), Error::RegionLacks(Access::LOCAL_WRITE));
    let error = Error::Unsupported("local rights of a window");
    judge.refuses("bind", || bindable.bind(0..8, Access::LOCAL_WRITE), error);
    judge.refuses("bind", || bindable.bind(0..101, write), out_of_range(Argument::RegionOffset, 101u32, 100u32));
    let mut window = a.device.alloc_window(&a.pd, WindowKind::One).unwrap();
    let mut region = a.device.alloc_fast_region(&a.pd, 4).unwrap();
    let error = Error::Unsupported("choosing the key of a window of type 1");
    judge.refuses("set_variant", || window.set_variant(1), error);
    let open = bindable.bind(0..8, Access::REMOTE_READ).unwrap();
    let one = [plain.sge(0..8).unwrap()];
    let init = |elements, iova| FastInit { elements, iova, access: Access::empty() };
    // A queue of one block, and one that nobody may post to yet.
    let cap = QpCap { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let mut small = a.qp(QpType::Rc, &cq, &cq, None, cap);
    let error = PostError::QueueTooSmall { needs: 3 };
    judge.refuses("push_bind", || small.push_bind(&mut window, &open, 0, flags), error);
    judge.refuses("push_register", || small.push_register(&mut region, &init(&one, 0), 0, flags), error);
    let invalidate = SendWr::new(SendOp::LocalInvalidate(Rkey(0)), &[]);
    judge.refuses("push_send", || small.push_send(&invalidate), PostError::QueueTooSmall { needs: 2 });
    let mut reset = a.qp(QpType::Rc, &cq, &cq, None, CAP);
    let error = PostError::WrongState(QpState::Reset);
    judge.refuses("push_bind", || reset.push_bind(&mut window, &open, 0, flags), error);
    judge.refuses("push_register", || reset.push_register(&mut region, &init(&one, 0), 0, flags), error);
    judge.refuses("push_send", || reset.push_send(&invalidate), error);
    let mut full = a.qp(QpType::Rc, &cq, &cq, None, CAP);
    to_rts(&mut full, b.address(), Qpn::new(0x123));
    let send = SendWr::new(SendOp::Send, &one);
    while full.push_send(&send).is_ok() {}
    let error = PostError::QueueFull;
    judge.refuses("push_bind", || full.push_bind(&mut window, &open, 0, flags), error);
    judge.refuses("push_register", || full.push_register(&mut region, &init(&one, 0), 0, flags), error);
    judge.refuses("push_send", || full.push_send(&invalidate), error);
    let mut ud = a.qp(QpType::Ud, &cq, &cq, None, CAP);
    let error = PostError::UnsupportedOp;
    judge.refuses("push_bind", || ud.push_bind(&mut window, &open, 0, flags), error);
    judge.refuses("push_register", || ud.push_register(&mut region, &init(&one, 0), 0, flags), error);
    judge.refuses("push_send", || ud.push_send(&invalidate), error);
    let mut foreign = b.device.alloc_window(&b.pd, WindowKind::TwoB).unwrap();
    let error = PostError::Foreign(Object::Window);
    judge.refuses("push_bind", || reset.push_bind(&mut foreign, &open, 0, flags), error);
    let mut foreign = b.device.alloc_fast_region(&b.pd, 1).unwrap();
    let error = PostError::Foreign(Object::FastRegion);
    judge.refuses("push_register", || reset.push_register(&mut foreign, &init(&one, 0), 0, flags), error);
    let many = vec![one[0]; 5];
    let error = PostError::TooManySge { max: 4 };
    judge.refuses("push_register", || reset.push_register(&mut region, &init(&many, 0), 0, flags), error);
    let error = PostError::NoSuchRange;
    judge.refuses("push_register", || reset.push_register(&mut region, &init(&[], 0), 0, flags), error);
    judge.refuses("push_register", || reset.push_register(&mut region, &init(&one, u64::MAX), 0, flags), error);
    for (access, error) in [(write, PostError::AccessNeedsLocalWrite), (Access::MW_BIND, PostError::UnsupportedAccess)]
    {
        let init = FastInit { elements: &one, iova: 0, access };
        judge.refuses("push_register", || reset.push_register(&mut region, &init, 0, flags), error);
    }
}
