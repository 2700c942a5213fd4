//! Memory regions.

use super::{
    Case, Outcome, Stop,
    lab::{Lab, Setup},
    may, must,
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    Access, Argument, Destroy, Device, Error, Memory, MemoryRegion, Object, QpAttr, QpState, QpType, QueuePair,
    RawMemory, RecvWr, RegionInit, SendOp, SendWr, Sge, WcStatus,
};
use core::ptr::NonNull;

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        may(
            "mr_on_demand",
            "ibv_reg_mr",
            "memory without its pages is registered, or refused by name and given back",
            on_demand,
        ),
        may("device_memory", "ibv_alloc_dm", "memory of the device is had, or refused by name", device_memory),
        must(
            "mr_tells_range_and_keys",
            "ibv_reg_mr",
            "a region begins at its memory's address, is as long, and its keys are its own",
            range,
        ),
        must(
            "mr_gives_its_memory_back",
            "ibv_dereg_mr",
            "deregistering gives back what was registered; refused memory comes back too",
            memory_back,
        ),
        must("mr_keys_die_with_it", "ibv_dereg_mr", "after deregistering a peer's access with the key fails", dead_key),
        must(
            "mr_copies_stay_inside",
            "traits",
            "elements and copies beyond the region are refused by the argument's name",
            inside,
        ),
        must("mr_of_nothing", "ibv_reg_mr", "memory of no bytes is refused", nothing),
        must("mr_of_another_device_s_pd", "ibv_reg_mr", "the protection domain is one of the device's", foreign),
        must("mr_local_reading_is_always_allowed", "ibv_reg_mr", "a region of no rights can be sent from", local_read),
        must(
            "case_46_impossible_access",
            "report 46; ibv_reg_mr",
            "remote writing or atomics without local writing are refused, all other combinations made",
            case_46,
        ),
        must(
            "case_46_receive_into_a_read_only_region",
            "report 46",
            "a receive into a region without local writing is a local protection error",
            read_only,
        ),
        must(
            "case_47_edges_of_a_region",
            "report 47",
            "first and last byte and each page boundary can be written, the bytes beside them not",
            case_47,
        ),
        must(
            "case_47_an_element_over_two_regions",
            "report 47",
            "an element that begins in one region and ends in the next is a protection error",
            two_regions,
        ),
        must(
            "mr_of_another_pd_is_out_of_reach",
            "IBA 10.2.3",
            "a region of another protection domain serves neither local elements nor peers",
            other_pd,
        ),
        may(
            "mr_with_an_address_of_its_own",
            "ibv_reg_mr_iova",
            "elements and peers use the address that was chosen",
            iova,
        ),
        must(
            "mr_overlaps_another",
            "ibv_reg_mr",
            "the same memory may be registered twice, with different rights; each key has its own",
            overlap,
        ),
        may(
            "mr_reregistered_with_other_rights",
            "ibv_rereg_mr",
            "the new rights hold and the old ones do not; bytes and address stay; what goes wrong changes nothing",
            reregister,
        ),
        must("mr_holds_its_pd", "ibv_dealloc_pd", "a protection domain with a region is busy", holds_pd),
    ]
}

fn on_demand<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let memory = lab.memory(4096)?;
    let first = |memory: &RawMemory| Memory::range(memory).cast::<u8>();
    let whole = first(&memory);
    match lab.devices[0].register(&lab.pds[0], memory, Access::LOCAL_WRITE | Access::ON_DEMAND) {
        Ok(_) => Ok(()),
        Err(refused) => {
            ensure_eq!(first(&refused.handle), whole, "the memory that was given back");
            let name = "on-demand paging";
            ensure_eq!(refused.error, Error::Unsupported(name), "the error");
            // It can be registered with its pages.
            lab.devices[0].register(&lab.pds[0], refused.handle, Access::LOCAL_WRITE)?;
            Err(super::Stop::Unsupported(name))
        }
    }
}

fn device_memory<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let name = "device memory";
    let left_out = super::lab::left_out(lab.devices[0].alloc_device_memory(4096), name)?;
    // The device goes on.
    lab.mr(0, 64)?;
    if left_out { Err(super::Stop::Unsupported(name)) } else { Ok(()) }
}

fn range<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let memory = lab.memory(10_000)?;
    let start = memory.range().cast::<u8>();
    let mr = lab.devices[0].register(&lab.pds[0], memory, Access::LOCAL_WRITE)?;
    let at = start.addr().get() as u64;
    ensure_eq!((mr.len(), mr.is_empty(), mr.as_ptr(), mr.iova()), (10_000, false, start, at), "the range");
    let other = lab.mr(0, 64)?;
    ensure!(mr.lkey() != other.lkey() && mr.rkey() != other.rkey(), "two regions have key {}", mr.lkey());
    let sge = mr.sge(5..77)?;
    ensure_eq!((sge.addr(), sge.length(), sge.lkey()), (at + 5, 72, mr.lkey()), "an element");
    ensure_eq!(mr.sge(10_000..10_000)?.length(), 0, "an empty element at the end");
    Ok(())
}

fn memory_back<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let memory = lab.memory(5000)?;
    let parts = |m: &RawMemory| (m.range().cast::<u8>(), m.range().len());
    let range = parts(&memory);
    let mr = lab.devices[0].register(&lab.pds[0], memory, Access::LOCAL_WRITE)?;
    mr.write(4990, b"here")?;
    let back = mr.deregister()?;
    ensure_eq!(parts(&back), range, "the memory");
    let Err(refused) = lab.devices[0].register(&lab.pds[1], back, Access::empty()) else {
        return Err(Stop::failed(format_args!("a foreign domain was taken"), line!()));
    };
    ensure_eq!(parts(&refused.handle), range, "the memory that was refused");
    let mr = lab.devices[0].register(&lab.pds[0], refused.handle, Access::empty())?;
    let mut bytes = [0; 4];
    mr.read(4990, &mut bytes)?;
    ensure_eq!(&bytes, b"here", "the bytes");
    Ok(())
}

fn dead_key<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, _b] = lab.pair(&Setup::of(QpType::Rc))?;
    let mr = lab.mr(1, 4096)?;
    let op = SendOp::Write { addr: mr.iova(), rkey: mr.rkey() };
    a.signaled(1, op, 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a write while it is there");
    mr.deregister()?;
    a.signaled(2, op, 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::RemoteAccess, "a write afterwards");
    Ok(())
}

fn inside<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mr = lab.mr(0, 100)?;
    let beyond = |wanted| Error::OutOfRange { what: Argument::RegionOffset, wanted, max: 100 };
    ensure_eq!(mr.sge(0..101), Err(beyond(101)), "an element one too long");
    ensure_eq!(mr.sge(100..101), Err(beyond(101)), "an element behind it");
    #[allow(clippy::reversed_empty_ranges, reason = "that is what is tested")]
    let backwards = mr.sge(50..40);
    let error = Error::OutOfRange { what: Argument::RegionOffset, wanted: 50, max: 40 };
    ensure_eq!(backwards, Err(error), "an element that ends before it begins");
    ensure_eq!(mr.write(97, &[0; 4]), Err(beyond(101)), "a write over the end");
    ensure_eq!(mr.read(97, &mut [0; 4]), Err(beyond(101)), "a read over the end");
    let far = Error::OutOfRange { what: Argument::RegionOffset, wanted: usize::MAX as u64, max: 100 };
    ensure_eq!(mr.write(usize::MAX, &[0; 4]), Err(far), "a write far away");
    mr.write(96, &[0; 4])?;
    Ok(mr.read(100, &mut [])?)
}

fn nothing<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let memory = lab.memory(0)?;
    let result = lab.devices[0].register(&lab.pds[0], memory, Access::empty()).map(|_| ()).map_err(|r| r.error);
    let named = matches!(result, Err(Error::OutOfRange { what: Argument::RegionLength, wanted: 0, .. }));
    ensure!(named, "{result:?}, should name the length");
    Ok(())
}

fn foreign<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let memory = lab.memory(100)?;
    let result = lab.devices[0].register(&lab.pds[1], memory, Access::empty()).map(|_| ()).map_err(|r| r.error);
    ensure_eq!(result, Err(Error::Foreign(Object::Pd)), "the error");
    Ok(())
}

fn local_read<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let source = lab.mr_with(0, 64, Access::empty())?;
    source.write(0, b"read only")?;
    b.recv(1, 0..64)?;
    a.qp.post_send([SendWr::new(SendOp::Send, &[source.sge(0..9)?]).signaled()])?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "the send");
    ensure_eq!(b.bytes(0..9)?, b"read only", "the bytes");
    a.qp.post_send([SendWr::new(SendOp::Read { addr: b.mr.iova(), rkey: b.mr.rkey() }, &[source.sge(0..9)?])])?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::LocalProtection, "a read into it");
    Ok(())
}

fn case_46<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut memory = lab.memory(100)?;
    for bits in 0..16 {
        let access = Access::from_bits_truncate(bits);
        let changes = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        let atomic = access.contains(Access::REMOTE_ATOMIC) && !lab.devices[0].attributes().atomics;
        memory = match lab.devices[0].register(&lab.pds[0], memory, access) {
            Err(refused) if changes && !access.contains(Access::LOCAL_WRITE) => {
                ensure_eq!(refused.error, Error::AccessNeedsLocalWrite, "{access:?}");
                refused.handle
            }
            Err(refused) if atomic && matches!(refused.error, Error::Unsupported(_)) => refused.handle,
            Err(refused) => return Err(refused.into()),
            Ok(mr) => {
                ensure!(!changes || access.contains(Access::LOCAL_WRITE), "{access:?} was made");
                mr.deregister()?
            }
        };
    }
    Ok(())
}

fn read_only<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let target = lab.mr_with(1, 64, Access::empty())?;
    target.write(0, &[0x33; 64])?;
    b.qp.post_recv([RecvWr::new(5, &[target.sge(0..64)?])])?;
    a.signaled(1, SendOp::Send, 0..64)?;
    let done = lab.one(&mut b.recv_cq)?;
    ensure_eq!((done.wr_id, done.status), (5, WcStatus::LocalProtection), "the receive");
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::RemoteOperation, "the send");
    let mut bytes = [0; 64];
    target.read(0, &mut bytes)?;
    ensure_eq!(bytes, [0x33; 64], "the bytes");
    Ok(())
}

/// Memory inside other memory.
fn part(whole: &RawMemory, offset: usize, len: usize) -> RawMemory {
    let start = whole.range().cast::<u8>();
    // SAFETY: the callers name ranges inside the home's memory, which stays for the whole case.
    unsafe { RawMemory::new(NonNull::slice_from_raw_parts(start.add(offset), len)) }
}

fn case_47<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let whole = lab.memory(6 * 4096)?;
    let guard = lab.devices[1].register(&lab.pds[1], whole, Access::LOCAL_WRITE)?;
    let to_page = (4096 - guard.iova() as usize % 4096) % 4096;
    for (offset, len) in [(4096, 1), (4097, 4095), (8191, 2), (4096, 4096), (4113, 3 * 4096)] {
        let offset = to_page + offset;
        let memory = part(&whole, offset, len);
        let mr = lab.devices[1].register(&lab.pds[1], memory, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let mut expected = vec![0x5a; guard.len()];
        guard.write(0, &expected)?;
        let first = mr.iova();
        let boundaries = (1..len).filter(|n| (first as usize + n).is_multiple_of(4096)).map(|n| (n - 1, 2));
        let mut mark = 0;
        for (at, n) in [(0, 1), (len - 1, 1)].into_iter().chain(boundaries) {
            mark += 1;
            a.mr.write(0, &[mark; 2])?;
            a.signaled(1, SendOp::Write { addr: first + at as u64, rkey: mr.rkey() }, 0..n)?;
            ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "{n} bytes at {at} of {len}");
            expected[offset + at..][..n].fill(mark);
        }
        let last = first + len as u64;
        for (addr, n) in [(first - 1, 1), (last, 1), (first - 1, 2), (last - 1, 2)] {
            a.signaled(1, SendOp::Write { addr, rkey: mr.rkey() }, 0..n)?;
            ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::RemoteAccess, "{n} bytes at {addr:#x}");
            for qp in [&mut a.qp, &mut b.qp] {
                qp.modify(&QpAttr::to(QpState::Reset))?;
            }
            lab.connect(&mut a.qp, &mut b.qp)?;
        }
        let mut bytes = vec![0; guard.len()];
        guard.read(0, &mut bytes)?;
        let wrong = bytes.iter().zip(&expected).position(|(is, should)| is != should);
        ensure!(wrong.is_none(), "a region of {len} bytes at {offset}: byte {wrong:?} of the memory is wrong");
        mr.deregister()?;
        while lab.next_event(1)?.is_some() {}
    }
    Ok(())
}

fn two_regions<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let whole = lab.memory(8192)?;
    let register = |at| lab.devices[0].register(&lab.pds[0], part(&whole, at, 4096), Access::LOCAL_WRITE);
    let (low, high) = (register(0)?, register(4096)?);
    ensure_eq!(low.iova() + 4096, high.iova(), "where the second begins");
    b.recv(1, 0..256)?;
    // SAFETY: both regions are this case's, and nobody refers into them; the device shall refuse the element.
    let across = [unsafe { Sge::from_raw(low.iova() + 4000, 200, low.lkey()) }];
    a.qp.post_send([SendWr::new(SendOp::Send, &across).wr_id(9)])?;
    let done = lab.one(&mut a.send_cq)?;
    ensure_eq!((done.wr_id, done.status), (9, WcStatus::LocalProtection), "the send");
    Ok(())
}

fn other_pd<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let pds = [lab.devices[0].alloc_pd()?, lab.devices[1].alloc_pd()?];
    let (here, there) = (lab.memory(64)?, lab.memory(64)?);
    let all = lab.all_access();
    let (here, there) = (lab.devices[0].register(&pds[0], here, all)?, lab.devices[1].register(&pds[1], there, all)?);
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.qp.post_send([SendWr::new(b.write_here(0), &[here.sge(0..8)?]).wr_id(1)])?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::LocalProtection, "a local element");
    for qp in [&mut a.qp, &mut b.qp] {
        qp.modify(&QpAttr::to(QpState::Reset))?;
    }
    lab.connect(&mut a.qp, &mut b.qp)?;
    a.signaled(2, SendOp::Write { addr: there.iova(), rkey: there.rkey() }, 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::RemoteAccess, "a peer's write");
    Ok(())
}

fn iova<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let (here, there) = (lab.memory(8192)?, lab.memory(8192)?);
    let chosen = |m: &RawMemory| 0x5_f28f_1000 | m.range().cast::<u8>().addr().get() as u64 & 0xfff;
    let init = |m: &RawMemory| RegionInit { access: lab.all_access(), iova: Some(chosen(m)) };
    let (i, j) = (init(&here), init(&there));
    let here = lab.devices[0].register(&lab.pds[0], here, i)?;
    let there = lab.devices[1].register(&lab.pds[1], there, j)?;
    ensure_eq!((Some(here.iova()), Some(there.iova())), (i.iova, j.iova), "the addresses");
    here.write(4000, b"by address")?;
    let op = SendOp::Write { addr: there.iova() + 5000, rkey: there.rkey() };
    a.qp.post_send([SendWr::new(op, &[here.sge(4000..4010)?]).signaled()])?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a write");
    let mut bytes = [0; 10];
    there.read(5000, &mut bytes)?;
    ensure_eq!(&bytes, b"by address", "the bytes");
    b.qp.post_recv([RecvWr::new(1, &[there.sge(0..10)?])])?;
    a.qp.post_send([SendWr::new(SendOp::Send, &[here.sge(4000..4010)?])])?;
    ensure_eq!(lab.one(&mut b.recv_cq)?.byte_len, 10, "a receive");
    Ok(())
}

fn overlap<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, _b] = lab.pair(&Setup::of(QpType::Rc))?;
    let whole = lab.memory(8192)?;
    let register = |access| lab.devices[1].register(&lab.pds[1], whole, access);
    let (open, closed) = (register(Access::LOCAL_WRITE | Access::REMOTE_WRITE)?, register(Access::LOCAL_WRITE)?);
    ensure!(open.rkey() != closed.rkey(), "two regions have key {}", open.rkey());
    a.signaled(1, SendOp::Write { addr: open.iova(), rkey: open.rkey() }, 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "by the key that lets");
    a.signaled(2, SendOp::Write { addr: closed.iova(), rkey: closed.rkey() }, 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::RemoteAccess, "by the key that does not");
    Ok(())
}

fn reregister<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let mut mr = lab.mr_with(1, 10_000, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    mr.write(9990, b"as it was")?;
    let (at, old) = (mr.iova(), mr.rkey());
    // What cannot be leaves it alone.
    match mr.reregister(Access::REMOTE_WRITE) {
        Err(Error::Unsupported(what)) => return Err(Stop::Unsupported(what)),
        result => ensure_eq!(result, Err(Error::AccessNeedsLocalWrite), "impossible rights"),
    }
    ensure_eq!((mr.rkey(), mr.access()), (old, Access::LOCAL_WRITE | Access::REMOTE_WRITE), "after an error");
    a.signaled(1, SendOp::Write { addr: at, rkey: old }, 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a write after an error");
    // A read-only region: the map is another one too.
    for (access, reads, writes) in [
        (Access::REMOTE_READ, true, false),
        (Access::LOCAL_WRITE | Access::REMOTE_WRITE, false, true),
        (Access::empty(), false, false),
    ] {
        mr.reregister(access)?;
        ensure_eq!((mr.access(), mr.iova(), mr.len()), (access, at, 10_000), "the region");
        let rkey = mr.rkey();
        for (op, right) in [(SendOp::Read { addr: at, rkey }, reads), (SendOp::Write { addr: at, rkey }, writes)] {
            a.signaled(1, op, 0..8)?;
            let status = lab.one(&mut a.send_cq)?.status;
            ensure_eq!(status == WcStatus::Success, right, "{op:?} with {access:?}: {status:?}");
            if !right {
                for qp in [&mut a.qp, &mut b.qp] {
                    qp.modify(&QpAttr::to(QpState::Reset))?;
                }
                lab.connect(&mut a.qp, &mut b.qp)?;
                while lab.next_event(1)?.is_some() {}
            }
        }
    }
    let mut bytes = [0; 9];
    mr.read(9990, &mut bytes)?;
    ensure_eq!(&bytes, b"as it was", "the bytes");
    mr.deregister()?;
    Ok(())
}

fn holds_pd<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (pd, memory) = (lab.devices[0].alloc_pd()?, lab.memory(64)?);
    let mr = lab.devices[0].register(&pd, memory, Access::empty())?;
    let Err(refused) = pd.destroy() else { return Err(Stop::failed(format_args!("destroyed"), line!())) };
    ensure_eq!(refused.error, Error::Busy { holders: 1 }, "the error");
    mr.deregister()?;
    Ok(refused.handle.destroy()?)
}
