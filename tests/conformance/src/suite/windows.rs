//! Memory windows: keys that requests open.

use super::{
    Case, Outcome, Stop,
    lab::{CAP, End, Lab, Mr, Setup},
    may,
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    Access, Argument, Bind, Completion, Destroy, Device, Error, MemoryRegion, MemoryWindow, Object, PostError, QpAttr,
    QpCap, QpState, QpType, QueuePair, Rkey, SendFlags, SendOp, SendWr, WcOpcode, WcStatus, WindowKind,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        may(
            "window_opens_a_range_of_a_region",
            "ibv_bind_mw; IBA 10.6.7.2.1",
            "peers reach what was bound and no byte beside it, in a region that is closed to them",
            opens,
        ),
        may("window_gives_the_rights_of_its_bind", "ibv_bind_mw", "a window gives what it was bound with only", rights),
        may(
            "window_is_closed_until_it_is_bound",
            "ibv_alloc_mw; ibv_bind_mw",
            "the key of a window never bound, or bound to nothing, or destroyed, opens nothing",
            closed,
        ),
        may(
            "window_of_type_1_changes_its_key",
            "ibv_bind_mw",
            "each bind gives a new key, and makes the one before worthless",
            new_key,
        ),
        may(
            "window_of_type_2_is_its_qp_s",
            "IBA 10.6.7.2.6",
            "a window of type 2B serves the QP that bound it, and no other",
            its_qp,
        ),
        may(
            "window_of_type_2_lets_its_user_choose",
            "IBA 10.6.7.2.3",
            "the lowest eight bits of the key are the user's; with others the key is worthless",
            variant,
        ),
        may(
            "window_of_type_2_bound_twice",
            "IBA 10.6.7.2.3",
            "a window of type 2 that is bound cannot be bound: a bind error, and the QP fails",
            bound_twice,
        ),
        may(
            "window_arguments",
            "ibv_bind_mw",
            "a bind beyond the region, without its rights, or with local rights is refused by name",
            arguments,
        ),
        may(
            "window_of_another_domain",
            "IBA 10.6.7.2.1",
            "a window that is not of the QP's protection domain is a bind error, a region that is not opens nothing, what is another device's is refused",
            other_domain,
        ),
        may(
            "window_keeps_its_region_busy",
            "ibv_dereg_mr",
            "a region is busy while a window is bound to it, however the window is closed",
            busy,
        ),
        may("window_types_of_qp", "ibv_post_send", "UC binds as RC does, UD has no windows", types),
        may(
            "window_bound_and_told_at_once",
            "IBA 10.8.3.3",
            "a message behind a bind can tell the key: the peer finds the window open",
            told_at_once,
        ),
        may(
            "window_binds_in_a_full_queue",
            "ibv_post_send",
            "binds take places as the queue has them, signaled or not, and leave none behind",
            full_queue,
        ),
    ]
}

pub(super) const SIGNALED: SendFlags = SendFlags::SIGNALED;
pub(super) const WRITE: Access = Access::REMOTE_WRITE;

/// A pair, and at end 1 a region that is closed to peers.
pub(super) fn world<D: Device>(lab: &mut Lab<D>) -> Outcome<([End<D>; 2], Mr<D>)> {
    let mr = lab.mr_with(1, 1 << 14, Access::LOCAL_WRITE | Access::MW_BIND)?;
    Ok((lab.pair(&Setup::of(QpType::Rc).depth(32))?, mr))
}

pub(super) fn window<D: Device>(lab: &Lab<D>, kind: WindowKind) -> Outcome<D::Window> {
    Ok(lab.devices[1].alloc_window(&lab.pds[1], kind)?)
}

/// Binds, and polls the completion.
pub(super) fn bind<D: Device>(lab: &Lab<D>, end: &mut End<D>, window: &mut D::Window, bind: &Bind) -> Outcome<Rkey> {
    let rkey = end.qp.push_bind(window, bind, 90, SIGNALED)?;
    end.qp.ring_send();
    let done = lab.one(&mut end.send_cq)?;
    ensure_eq!((done.wr_id, done.status, done.opcode), (90, WcStatus::Success, WcOpcode::BindWindow), "a bind");
    ensure_eq!((done.byte_len, done.qpn), (0, end.qp.qpn()), "bytes and QP of a bind");
    Ok(rkey)
}

/// The status of a signaled request of some bytes.
pub(super) fn status<D: Device>(lab: &Lab<D>, end: &mut End<D>, op: SendOp, len: usize) -> Outcome<WcStatus> {
    end.signaled(91, op, 0..len)?;
    Ok(lab.one(&mut end.send_cq)?.status)
}

pub(super) fn write(addr: u64, rkey: Rkey) -> SendOp {
    SendOp::Write { addr, rkey }
}

/// A request that must be refused by the other end; the pair is connected anew afterwards.
pub(super) fn refused<D: Device>(lab: &Lab<D>, ends: &mut [End<D>; 2], op: SendOp, what: &str) -> Outcome {
    ends[0].mr.write(0, &[0xee; 8])?;
    ensure_eq!(status(lab, &mut ends[0], op, 8)?, WcStatus::RemoteAccess, "{what}");
    again(lab, ends)
}

/// Connects a pair that failed anew.
pub(super) fn again<D: Device>(lab: &Lab<D>, ends: &mut [End<D>; 2]) -> Outcome {
    let [a, b] = ends;
    for end in [&mut *a, &mut *b] {
        end.qp.modify(&QpAttr::to(QpState::Reset))?;
    }
    lab.connect(&mut a.qp, &mut b.qp)?;
    for i in 0..2 {
        while lab.next_event(i)?.is_some() {}
    }
    Ok(())
}

pub(super) fn success<D: Device>(lab: &Lab<D>, end: &mut End<D>, op: SendOp, len: usize, what: &str) -> Outcome {
    ensure_eq!(status(lab, end, op, len)?, WcStatus::Success, "{what}");
    Ok(())
}

/// Invalidates a key locally.
pub(super) fn local<D: Device>(lab: &Lab<D>, end: &mut End<D>, rkey: Rkey) -> Outcome<Completion> {
    end.qp.post_send([SendWr::new(SendOp::LocalInvalidate(rkey), &[]).wr_id(92).signaled()])?;
    let done = lab.one(&mut end.send_cq)?;
    ensure_eq!((done.wr_id, done.status), (92, WcStatus::Success), "an invalidation");
    ensure_eq!(done.opcode, WcOpcode::LocalInvalidate, "the opcode");
    Ok(done)
}

fn opens<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    for kind in [WindowKind::One, WindowKind::TwoB] {
        let mut window = window(lab, kind)?;
        ensure_eq!(window.kind(), kind, "the kind");
        let mut expected = vec![0x33; mr.len()];
        mr.write(0, &expected)?;
        let (first, len) = (5000, 6000);
        let at = mr.iova() + first as u64;
        let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(first..first + len, WRITE)?)?;
        ensure_eq!(window.rkey(), rkey, "the key");
        ends[0].mr.write(0, &vec![0x44; len])?;
        success(lab, &mut ends[0], write(at, rkey), len, "all of it")?;
        expected[first..first + len].fill(0x44);
        for (addr, what) in [(at - 1, "a byte before"), (at + len as u64 - 7, "a byte behind"), (at - 100, "before")] {
            refused(lab, &mut ends, write(addr, rkey), what)?;
        }
        refused(lab, &mut ends, write(at, mr.rkey()), "the region's own key")?;
        // What a type 2 window is tied to has not changed: the QP is the same.
        success(lab, &mut ends[0], write(at + len as u64 - 8, rkey), 8, "its last bytes")?;
        expected[first + len - 8..first + len].fill(0xee);
        let mut bytes = vec![0; mr.len()];
        mr.read(0, &mut bytes)?;
        ensure!(bytes == expected, "{kind:?}: bytes are wrong");
        window.destroy()?;
    }
    Ok(())
}

fn rights<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut window = window(lab, WindowKind::One)?;
    let at = mr.iova().next_multiple_of(8);
    let atomics = lab.devices[0].attributes().atomics;
    for access in [Access::REMOTE_READ, WRITE, Access::REMOTE_ATOMIC, Access::REMOTE_READ | WRITE] {
        if access == Access::REMOTE_ATOMIC && !atomics {
            continue;
        }
        let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..4096, access)?)?;
        let mut ops = vec![(SendOp::Read { addr: at, rkey }, Access::REMOTE_READ), (write(at, rkey), WRITE)];
        if atomics {
            ops.push((SendOp::FetchAdd { addr: at, rkey, add: 1 }, Access::REMOTE_ATOMIC));
        }
        for (op, needs) in ops {
            match access.contains(needs) {
                true => success(lab, &mut ends[0], op, 8, "with the right")?,
                false => refused(lab, &mut ends, op, "without the right")?,
            }
        }
    }
    Ok(())
}

fn closed<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let at = mr.iova();
    for kind in [WindowKind::One, WindowKind::TwoB] {
        let mut window = window(lab, kind)?;
        refused(lab, &mut ends, write(at, window.rkey()), "never bound")?;
        let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..100, WRITE)?)?;
        success(lab, &mut ends[0], write(at, rkey), 8, "while it is bound")?;
        let none = bind(lab, &mut ends[1], &mut window, &Bind::NOTHING)?;
        refused(lab, &mut ends, write(at, rkey), "the key of before")?;
        refused(lab, &mut ends, write(at, none), "the key of a window bound to nothing")?;
        let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..100, WRITE)?)?;
        success(lab, &mut ends[0], write(at, rkey), 8, "bound anew")?;
        window.destroy()?;
        refused(lab, &mut ends, write(at, rkey), "destroyed")?;
    }
    Ok(())
}

fn new_key<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut window = window(lab, WindowKind::One)?;
    let mut keys = vec![window.rkey()];
    // Past the eight bits that change.
    for n in 0..260usize {
        let range = n..n + 8;
        keys.push(bind(lab, &mut ends[1], &mut window, &mr.bind(range, WRITE)?)?);
        ensure!(keys[n] != keys[n + 1], "bind {n} did not change the key");
    }
    let (at, last) = (mr.iova() + 259, window.rkey());
    success(lab, &mut ends[0], write(at, last), 8, "the last")?;
    refused(lab, &mut ends, write(at, keys[keys.len() - 2]), "the one before")?;
    refused(lab, &mut ends, write(at - 1, last), "where it was before")?;
    let named = matches!(window.set_variant(7), Err(Error::Unsupported(_)));
    ensure!(named && window.rkey() == last, "the variant of a type 1 window is not the user's");
    Ok(())
}

fn its_qp<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut others = lab.pair(&Setup { memory: 4096, ..Setup::of(QpType::Rc) })?;
    let mut window = window(lab, WindowKind::TwoB)?;
    let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..100, WRITE)?)?;
    let op = write(mr.iova(), rkey);
    success(lab, &mut ends[0], op, 8, "over its QP")?;
    refused(lab, &mut others, op, "over another")?;
    success(lab, &mut ends[0], op, 8, "over its QP afterwards")
}

fn variant<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut window = window(lab, WindowKind::TwoB)?;
    for variant in [0x00, 0x5a, 0xff] {
        window.set_variant(variant)?;
        let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..100, WRITE)?)?;
        ensure_eq!((rkey.0 & 0xff, window.rkey()), (variant.into(), rkey), "the key");
        success(lab, &mut ends[0], write(mr.iova(), rkey), 8, "with the variant")?;
        refused(lab, &mut ends, write(mr.iova(), Rkey(rkey.0 ^ 1)), "with another")?;
        bind(lab, &mut ends[1], &mut window, &Bind::NOTHING)?;
    }
    Ok(())
}

fn bound_twice<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut window = window(lab, WindowKind::TwoB)?;
    let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..100, WRITE)?)?;
    ends[1].qp.push_bind(&mut window, &mr.bind(200..300, WRITE)?, 5, SendFlags::empty())?;
    ends[1].qp.ring_send();
    let done = lab.one(&mut ends[1].send_cq)?;
    ensure_eq!((done.wr_id, done.status), (5, WcStatus::MemoryWindowBind), "the second bind");
    ensure_eq!(ends[1].qp.state(), QpState::Err, "the state");
    again(lab, &mut ends)?;
    success(lab, &mut ends[0], write(mr.iova(), rkey), 8, "the first goes on")?;
    refused(lab, &mut ends, write(mr.iova() + 200, rkey), "what was not bound")
}

fn arguments<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (_ends, mr) = world(lab)?;
    drop(window(lab, WindowKind::One)?);
    let max = mr.len() as u64;
    let beyond = Error::OutOfRange { what: Argument::RegionOffset, wanted: max + 1, max };
    ensure_eq!(mr.bind(0..mr.len() + 1, WRITE), Err(beyond), "a byte too many");
    ensure!(mr.bind(0..mr.len(), WRITE).is_ok(), "all of it");
    let unbindable = lab.mr_with(1, 64, Access::LOCAL_WRITE)?;
    ensure_eq!(unbindable.bind(0..8, WRITE), Err(Error::RegionLacks(Access::MW_BIND)), "not to be bound");
    let readable = lab.mr_with(1, 64, Access::MW_BIND)?;
    for access in [WRITE, Access::REMOTE_ATOMIC] {
        ensure_eq!(readable.bind(0..8, access), Err(Error::RegionLacks(Access::LOCAL_WRITE)), "{access:?}");
    }
    ensure!(readable.bind(0..8, Access::REMOTE_READ).is_ok(), "to be read");
    for access in [Access::LOCAL_WRITE, Access::MW_BIND] {
        let result = mr.bind(0..8, WRITE | access);
        ensure!(matches!(result, Err(Error::Unsupported(_))), "{access:?}: {result:?}");
    }
    ensure_eq!(mr.access(), Access::LOCAL_WRITE | Access::MW_BIND, "the rights that the region tells");
    Ok(())
}

fn other_domain<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut foreign = lab.devices[0].alloc_window(&lab.pds[0], WindowKind::One)?;
    let bind = mr.bind(0..8, WRITE)?;
    let result = ends[1].qp.push_bind(&mut foreign, &bind, 0, SIGNALED);
    ensure_eq!(result, Err(PostError::Foreign(Object::Window)), "of the other device");
    let result = lab.devices[0].alloc_window(&lab.pds[1], WindowKind::One).map(|_| ());
    ensure_eq!(result, Err(Error::Foreign(Object::Pd)), "in a domain of the other device");
    let pd = lab.devices[1].alloc_pd()?;
    let mut other = lab.devices[1].alloc_window(&pd, WindowKind::One)?;
    ends[1].qp.push_bind(&mut other, &bind, 4, SIGNALED)?;
    ends[1].qp.ring_send();
    let done = lab.one(&mut ends[1].send_cq)?;
    ensure_eq!((done.wr_id, done.status), (4, WcStatus::MemoryWindowBind), "of another domain");
    again(lab, &mut ends)?;
    let memory = lab.memory(64)?;
    let region = lab.devices[1].register(&pd, memory, Access::LOCAL_WRITE | Access::MW_BIND)?;
    let mut own = window(lab, WindowKind::One)?;
    let key = ends[1].qp.push_bind(&mut own, &region.bind(0..8, WRITE)?, 5, SIGNALED)?;
    ends[1].qp.ring_send();
    match lab.one(&mut ends[1].send_cq)?.status {
        WcStatus::MemoryWindowBind => again(lab, &mut ends)?,
        status => ensure_eq!(status, WcStatus::Success, "a region of another domain"),
    }
    refused(lab, &mut ends, write(region.iova(), key), "through to another domain")?;
    own.destroy()?;
    other.destroy()?;
    region.deregister()?;
    Ok(pd.destroy()?)
}

fn busy<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mut mr) = world(lab)?;
    let mut windows = [window(lab, WindowKind::One)?, window(lab, WindowKind::TwoB)?];
    for how in 0..4 {
        let mut keys = [Rkey(0); 2];
        for (window, key) in windows.iter_mut().zip(&mut keys) {
            *key = bind(lab, &mut ends[1], window, &mr.bind(0..8, WRITE)?)?;
        }
        mr = refused_as_busy(mr, 2)?;
        bind(lab, &mut ends[1], &mut windows[0], &Bind::NOTHING)?;
        mr = refused_as_busy(mr, 1)?;
        success(lab, &mut ends[0], write(mr.iova(), keys[1]), 8, "while it is busy")?;
        match how {
            0 => drop(bind(lab, &mut ends[1], &mut windows[1], &Bind::NOTHING)?),
            1 => drop(local(lab, &mut ends[1], keys[1])?),
            2 => {
                ends[1].recv(0, 0..8)?;
                success(lab, &mut ends[0], SendOp::SendInvalidate(keys[1]), 0, "an invalidation")?;
                lab.one(&mut ends[1].recv_cq)?;
            }
            _ => {
                let [one, two] = windows;
                two.destroy()?;
                mr.deregister()?;
                one.destroy()?;
                return busy_by_device(lab, &mut ends);
            }
        }
        let memory = mr.deregister()?;
        mr = lab.devices[1].register(&lab.pds[1], memory, Access::LOCAL_WRITE | Access::MW_BIND)?;
    }
    Ok(())
}

/// What counts is what is done, not what is posted: a bind that waits neither holds its region nor frees another.
fn busy_by_device<D: Device>(lab: &mut Lab<D>, ends: &mut [End<D>; 2]) -> Outcome {
    let mut region = || lab.mr_with(1, 4096, Access::LOCAL_WRITE | Access::MW_BIND);
    let (mut first, second) = (region()?, region()?);
    let mut windows = [window(lab, WindowKind::One)?, window(lab, WindowKind::One)?];
    bind(lab, &mut ends[1], &mut windows[0], &first.bind(0..8, WRITE)?)?;
    // A second one waits while the region is refused for the first, and holds it later.
    ends[1].qp.push_bind(&mut windows[1], &first.bind(8..16, WRITE)?, 7, SIGNALED)?;
    first = refused_as_busy(first, 1)?;
    ends[1].qp.ring_send();
    ensure_eq!(lab.one(&mut ends[1].send_cq)?.status, WcStatus::Success, "the bind that waited");
    bind(lab, &mut ends[1], &mut windows[0], &Bind::NOTHING)?;
    first = refused_as_busy(first, 1)?;
    // The window is to go to another region, but is still where it was.
    ends[1].qp.push_bind(&mut windows[1], &second.bind(0..8, WRITE)?, 8, SIGNALED)?;
    first = refused_as_busy(first, 1)?;
    ends[1].qp.ring_send();
    ensure_eq!(lab.one(&mut ends[1].send_cq)?.status, WcStatus::Success, "the bind to the other region");
    let second = refused_as_busy(second, 1)?;
    // A region that goes while a bind to it waits: the bind fails, or opens nothing.
    let at = first.iova();
    let rkey = ends[1].qp.push_bind(&mut windows[0], &first.bind(0..8, WRITE)?, 9, SIGNALED)?;
    first.deregister()?;
    ends[1].qp.ring_send();
    let status = lab.one(&mut ends[1].send_cq)?.status;
    ensure!(matches!(status, WcStatus::Success | WcStatus::MemoryWindowBind), "a bind to no region: {status:?}");
    if status == WcStatus::MemoryWindowBind {
        again(lab, ends)?;
    }
    refused(lab, ends, write(at, rkey), "a region that went")?;
    // So does one that is dropped under its window.
    let (at, rkey) = (second.iova(), windows[1].rkey());
    success(lab, &mut ends[0], write(at, rkey), 8, "while it is there")?;
    drop(second);
    refused(lab, ends, write(at, rkey), "a region that was dropped")
}

fn refused_as_busy<M: bareverbs::Memory, R: MemoryRegion<M>>(mr: R, holders: u32) -> Outcome<R> {
    match mr.deregister() {
        Ok(_) => Err(Stop::failed(format_args!("deregistered with {holders} windows bound"), line!())),
        Err(refused) => {
            ensure_eq!(refused.error, Error::Busy { holders }, "the error");
            Ok(refused.handle)
        }
    }
}

fn types<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mr = lab.mr_with(1, 4096, Access::LOCAL_WRITE | Access::MW_BIND)?;
    let mut window = window(lab, WindowKind::TwoB)?;
    let open = mr.bind(0..64, WRITE)?;
    let mut ud = lab.pair(&Setup::of(QpType::Ud))?;
    let result = ud[1].qp.push_bind(&mut window, &open, 0, SIGNALED);
    ensure_eq!(result, Err(PostError::UnsupportedOp), "on a UD QP");
    let wr = SendWr::new(SendOp::LocalInvalidate(window.rkey()), &[]);
    ensure_eq!(ud[1].qp.push_send(&wr), Err(PostError::UnsupportedOp), "an invalidation on a UD QP");
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Uc))?;
    let rkey = bind(lab, &mut b, &mut window, &open)?;
    a.mr.write(0, b"by datagram")?;
    success(lab, &mut a, write(mr.iova(), rkey), 11, "over UC")?;
    lab.wait("the bytes", || {
        let mut bytes = [0; 11];
        mr.read(0, &mut bytes)?;
        Ok((&bytes == b"by datagram").then_some(()))
    })?;
    local(lab, &mut b, rkey)?;
    Ok(())
}

fn told_at_once<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut window = window(lab, WindowKind::TwoB)?;
    for round in 0..20u8 {
        ends[0].recv(round.into(), 64..68)?;
        window.set_variant(round)?;
        let rkey = ends[1].qp.push_bind(&mut window, &mr.bind(0..64, WRITE)?, 1, SendFlags::empty())?;
        ends[1].mr.write(0, &rkey.0.to_be_bytes())?;
        let sges = [ends[1].mr.sge(0..4)?];
        ends[1].qp.post_send([SendWr::new(SendOp::Send, &sges).wr_id(2)])?;
        lab.one(&mut ends[0].recv_cq)?;
        let told = ends[0].bytes(64..68)?;
        let told = Rkey(u32::from_be_bytes([told[0], told[1], told[2], told[3]]));
        ensure_eq!(told, rkey, "the key of round {round}");
        success(lab, &mut ends[0], write(mr.iova(), told), 8, "by the key that was told")?;
        ends[1].recv(3, 64..72)?;
        success(lab, &mut ends[0], SendOp::SendInvalidate(told), 8, "giving it back")?;
        ensure_eq!(lab.one(&mut ends[1].recv_cq)?.invalidated(), Some(told), "what was given back");
        // The places of the unsignaled ones come back with a signaled one.
        let op = ends[0].write_here(128);
        success(lab, &mut ends[1], op, 8, "the end of the round")?;
    }
    Ok(())
}

fn full_queue<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (_, mr) = world(lab)?;
    let mut window = window(lab, WindowKind::One)?;
    let open = mr.bind(0..64, WRITE)?;
    for n in [1, 2, 3, 4, 7, 16] {
        let cap = QpCap { max_send_wr: n, max_send_sge: 1, ..CAP };
        let mut ends = lab.pair(&Setup { cap, memory: 64, ..Setup::of(QpType::Rc) })?;
        let places = ends[1].qp.cap().max_send_wr;
        match ends[1].qp.push_bind(&mut window, &open, 0, SIGNALED) {
            Err(PostError::QueueTooSmall { needs }) => {
                ensure!(needs > places, "{needs} places are refused, {places} are there");
                continue;
            }
            result => drop(result?),
        }
        ends[1].qp.ring_send();
        lab.one(&mut ends[1].send_cq)?;
        // Every mixture of unsignaled binds and others, as many as the queue takes.
        for round in 0..40u64 {
            let mut posted = 0;
            loop {
                let sges = [ends[1].mr.sge(0..8)?];
                let op = ends[0].write_here(0);
                let result = match (round + posted) % 3 {
                    0 => ends[1].qp.push_send(&SendWr::new(op, &sges)),
                    _ => ends[1].qp.push_bind(&mut window, &open, 0, SendFlags::empty()).map(|_| ()),
                };
                match result {
                    Err(PostError::QueueFull) => break,
                    result => result?,
                }
                posted += 1;
            }
            ensure!((1..=places.into()).contains(&posted), "round {round}: {posted} requests in {places} places");
            ends[1].qp.ring_send();
            // Unsignaled requests give no places back; a reset does.
            lab.settle_for(core::time::Duration::from_micros(200));
            let result = ends[1].qp.push_bind(&mut window, &open, 0, SendFlags::empty()).map(|_| ());
            ensure_eq!(result, Err(PostError::QueueFull), "round {round}: one more");
            again(lab, &mut ends)?;
        }
        for id in 0..200 {
            ends[1].qp.push_bind(&mut window, &open, id, SIGNALED)?;
            ends[1].qp.ring_send();
            let done = lab.one(&mut ends[1].send_cq)?;
            ensure_eq!((done.wr_id, done.status), (id, WcStatus::Success), "a bind");
        }
    }
    Ok(())
}
