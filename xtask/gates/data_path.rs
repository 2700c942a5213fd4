// The data path of the drivers, exported for the gates that look at its code: no-panic links all of it, aarch64-barriers
// disassembles it. A gate adds `#![no_std]` in front and a panic handler behind.
//
// A HAL that does nothing stands in for the platform: nothing of this ever runs.

// --- entry points of the driver, one function each: post_send, post_recv, post_srq_recv, poll, service ---

use bareverbs::{
    AhAttr, Bind, Completion, CompletionChannel, CompletionQueue, CompletionView, CqInit, Destroy, Device, Error, FastInit, FastRegion,
    FlowSpec, GidEntry, Handle, Lid, MemoryRegion, MemoryWindow, Notify, PortNum, QpAttr, QpCap, QpInit, QpType,
    QueuePair, RawMemory, RecvWr, RegionInit, SendFlags, SendWr, SharedReceiveQueue, SrqAttr, WindowKind, XrcSrqInit,
};
use bareverbs_hal::{Bar, Dma, DmaBuffer, HalError, MapAccess, Mapping, PciAddress, PciFunction, Platform, Segment};
use bareverbs_mlx5::{Config, Local, Mlx5};
use core::{
    alloc::Layout,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// A HAL of which the compiler knows nothing: whatever it answers is read here, and anybody may have written it.
#[unsafe(no_mangle)]
pub static HAL: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone)]
pub struct Unknown;

fn hal_word() -> usize {
    HAL.swap(0, Ordering::AcqRel)
}

fn allocated(len: usize, align: usize) -> Result<NonNull<u8>, HalError> {
    NonNull::new((hal_word() & !(align - 1)) as *mut u8).ok_or(HalError::OutOfDmaMemory { wanted: len })
}

unsafe impl Platform for Unknown {
    fn now(&self) -> Duration {
        Duration::from_micros(hal_word() as u64)
    }

    fn state_alloc(&self, layout: Layout) -> Result<NonNull<u8>, HalError> {
        allocated(layout.size(), layout.align())
    }

    unsafe fn state_free(&self, ptr: NonNull<u8>, _: Layout) {
        HAL.store(ptr.addr().get(), Ordering::Release);
    }
}

unsafe impl Dma for Unknown {
    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaBuffer, HalError> {
        let ptr = allocated(len, align)?;
        Ok(DmaBuffer { ptr, addr: hal_word() as u64, len })
    }

    unsafe fn dma_free(&self, buffer: DmaBuffer) {
        HAL.store(buffer.ptr.addr().get(), Ordering::Release);
    }

    unsafe fn map(&self, ptr: NonNull<u8>, len: usize, _: MapAccess) -> Result<Mapping, HalError> {
        Ok(Mapping { ptr, len, token: hal_word() as u64 })
    }

    fn segments(&self, mapping: &Mapping, each: &mut dyn FnMut(Segment)) {
        each(Segment { addr: mapping.token, len: mapping.len as u64 });
    }

    unsafe fn unmap(&self, mapping: Mapping) {
        HAL.store(mapping.ptr.addr().get(), Ordering::Release);
    }

    fn set_dma_bits(&self, bits: u8) -> Result<(), HalError> {
        if bits > 32 { Ok(()) } else { Err(HalError::BeyondDmaMask { bits }) }
    }
}

unsafe impl PciFunction for Unknown {
    fn address(&self) -> PciAddress {
        PciAddress { segment: 0, bus: 0, device: 0, function: 0 }
    }

    fn config_read32(&self, offset: u16) -> u32 {
        hal_word() as u32 ^ u32::from(offset)
    }

    unsafe fn config_write32(&self, offset: u16, _: u32) {
        HAL.store(offset.into(), Ordering::Release);
    }

    fn bar(&self, n: u8) -> Result<Bar, HalError> {
        let base = NonNull::new(hal_word() as *mut u8).ok_or(HalError::NoSuchBar(n))?;
        Ok(unsafe { Bar::new(base, 1 << 25, None) })
    }

    unsafe fn set_bus_master(&self, on: bool) -> Result<(), HalError> {
        if hal_word() == usize::from(on) { Ok(()) } else { Err(HalError::Gone) }
    }

    fn reset(&self) -> Result<(), HalError> {
        if hal_word() == 0 { Ok(()) } else { Err(HalError::ResetFailed) }
    }
}

type Dev = Mlx5<Unknown, Local>;
type Mr = <Dev as Device>::Mr<RawMemory>;

#[unsafe(no_mangle)]
pub extern "C" fn post_send(qp: &mut <Dev as Device>::Qp, wr: &SendWr<'_>, n: usize) -> usize {
    match qp.post_send(core::iter::repeat_n(*wr, n)) {
        Ok(()) => n,
        Err(e) => e.index,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn post_recv(qp: &mut <Dev as Device>::Qp, wr: &RecvWr<'_>, n: usize) -> usize {
    match qp.post_recv(core::iter::repeat_n(*wr, n)) {
        Ok(()) => n,
        Err(e) => e.index,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn post_srq_recv(srq: &mut <Dev as Device>::Srq, wr: &RecvWr<'_>, n: usize) -> usize {
    match srq.post(core::iter::repeat_n(*wr, n)) {
        Ok(()) => n,
        Err(e) => e.index,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(cq: &mut <Dev as Device>::Cq, out: *mut Completion, len: usize) -> usize {
    let out = unsafe { core::slice::from_raw_parts_mut(out, len) };
    cq.poll(out).unwrap_or(0)
}

/// One request at a time.
#[unsafe(no_mangle)]
pub extern "C" fn push(
    qp: &mut <Dev as Device>::Qp,
    srq: &mut <Dev as Device>::Srq,
    send: &SendWr<'_>,
    recv: &RecvWr<'_>,
) -> bool {
    let pushed = qp.push_send(send).is_ok() & qp.push_recv(recv).is_ok() & srq.push(recv).is_ok();
    qp.ring_send();
    qp.ring_recv();
    srq.ring();
    pushed
}

/// Requests that change keys.
#[unsafe(no_mangle)]
pub extern "C" fn push_keys(
    qp: &mut <Dev as Device>::Qp,
    window: &mut <Dev as Device>::Window,
    region: &mut <Dev as Device>::FastRegion,
    bind: &Bind,
    init: &FastInit<'_>,
) -> bool {
    let bound = qp.push_bind(window, bind, init.iova, SendFlags::SIGNALED).is_ok();
    bound & qp.push_register(region, init, init.iova, SendFlags::SIGNALED).is_ok()
}

/// The lazy form of polling.
#[unsafe(no_mangle)]
pub extern "C" fn view(cq: &mut <Dev as Device>::Cq, all: &mut Completion) -> u64 {
    let mut view = cq.view();
    let mut read = 0;
    while let Ok(true) = view.advance() {
        *all = view.completion();
        read ^= view.wr_id() ^ view.timestamp() ^ u64::from(view.byte_len() ^ view.imm() ^ view.vendor_err());
        read ^= u64::from(view.qpn().get() ^ view.src_qp().get()) ^ u64::from(view.flags().bits());
        read ^= view.status() as u64 ^ view.opcode() as u64;
    }
    read
}

/// Commands, event queues, firmware's pages, health.
#[unsafe(no_mangle)]
pub extern "C" fn service(device: &Dev) -> bool {
    matches!(device.service(), Ok(Some(_)))
}

/// From reset to ready and back.
#[unsafe(no_mangle)]
pub extern "C" fn open_and_close(config: &Config) -> bool {
    Dev::open(Unknown, *config).is_ok()
}

/// What objects tell of themselves.
#[unsafe(no_mangle)]
pub extern "C" fn tell(
    device: &Dev,
    cq: &<Dev as Device>::Cq,
    srq: &<Dev as Device>::Srq,
    qp: &<Dev as Device>::Qp,
) -> u64 {
    device.relax();
    let cap = qp.cap();
    let sizes = device.attributes().max_mr_size ^ u64::from(cq.capacity() ^ cap.max_inline);
    let numbers = u64::from(cq.cqn().get() ^ srq.srqn().get() ^ qp.qpn().get()) ^ cq.context() ^ srq.context() ^ qp.context();
    sizes ^ numbers ^ qp.kind() as u64 ^ qp.state() as u64 ^ device.now().as_micros() as u64
}

/// Copies, elements and binds of a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn region(mr: &Mr, offset: usize, bytes: *mut u8, len: usize) -> bool {
    let bytes = unsafe { core::slice::from_raw_parts_mut(bytes, len) };
    let range = offset..offset.wrapping_add(len);
    let told =
        mr.lkey().0 == mr.rkey().0 && !mr.is_empty() && mr.len() == len && mr.iova() == mr.as_ptr().addr().get() as u64;
    let copied = mr.read(offset, bytes).is_ok() & mr.write(offset, bytes).is_ok();
    told & copied & mr.sge(range.clone()).is_ok() & mr.bind(range, mr.access()).is_ok()
}

/// From failed, or well, to ready.
#[unsafe(no_mangle)]
pub extern "C" fn reopen(device: Dev) -> bool {
    device.reopen().is_ok()
}

/// Through a raw pointer and back.
#[unsafe(no_mangle)]
pub extern "C" fn through_raw(cq: <Dev as Device>::Cq) -> <Dev as Device>::Cq {
    let raw = cq.into_raw();
    unsafe { Handle::from_raw(raw) }
}

/// The verbs of XRC, windows, and fast registration.
#[unsafe(no_mangle)]
pub extern "C" fn extended(device: &Dev, attr: &QpAttr, n: u32) -> bool {
    let verbs = || {
        // Refused whatever the size: its error must not end the rest.
        let _unsupported = device.alloc_device_memory(n.into());
        let pd = device.alloc_pd()?;
        let cq = device.create_cq(&CqInit { entries: n, ..CqInit::default() })?;
        let xrcd = device.open_xrcd()?;
        let sizes = SrqAttr { max_wr: n, max_sge: n, limit: 0 };
        let mut srq = device.create_xrc_srq(&pd, &XrcSrqInit { attr: sizes, context: n.into(), xrcd: &xrcd, cq: &cq })?;
        srq.set_limit(n)?;
        srq.query()?;
        let mut target = device.create_xrc_target(&xrcd, n.into())?;
        target.modify(attr)?;
        target.query()?;
        let mut window = device.alloc_window(&pd, if n == 1 { WindowKind::One } else { WindowKind::TwoB })?;
        window.set_variant(n as u8)?;
        let mut region = device.alloc_fast_region(&pd, n)?;
        region.set_variant(n as u8);
        let known = window.kind() == WindowKind::One && window.rkey().0 == n;
        let element = region.sge(0..region.capacity() as usize)?;
        let known = known && element.lkey() == region.lkey() && region.rkey().0 == n;
        window.destroy()?;
        region.destroy()?;
        target.destroy()?;
        srq.destroy()?;
        xrcd.destroy()?;
        cq.destroy()?;
        pd.destroy()?;
        Ok::<bool, Error>(known)
    };
    verbs().unwrap_or(false)
}

/// The control verbs.
#[unsafe(no_mangle)]
pub extern "C" fn control(device: &Dev, ah: &AhAttr, attr: &QpAttr, entry: &GidEntry, cap: &QpCap, n: u32) -> bool {
    let verbs = || {
        device.query_port(PortNum(n as u8))?;
        device.query_gid(ah.port, n as u8)?;
        device.set_gid(ah.port, n as u8, entry)?;
        device.query_pkey(ah.port, n as u16)?;
        device.address_handle(ah)?;
        device.reserved_lkey()?;
        let pd = device.alloc_pd()?;
        let range = core::ptr::slice_from_raw_parts_mut(hal_word() as *mut u8, hal_word());
        let memory = NonNull::new(range).ok_or(Error::Unsupported("null"))?;
        let memory = unsafe { RawMemory::new(memory) };
        let region = RegionInit { access: attr.access, iova: Some(hal_word() as u64) };
        let mut mr = device.register(&pd, memory, region)?;
        mr.reregister(attr.access)?;
        let channel = device.create_comp_channel()?;
        let init = CqInit { entries: n, ..CqInit::default() };
        let mut cq = if n == 2 { device.create_cq_on(&channel, &init)? } else { device.create_cq(&init)? };
        cq.resize(n)?;
        cq.moderate(n as u16, Duration::from_micros(n.into()))?;
        cq.request_notify(Notify::Any)?;
        channel.event()?;
        cq.ack_events(n)?;
        let mut srq = device.create_srq(&pd, &SrqAttr { max_wr: n, max_sge: n, limit: 0 })?;
        srq.set_limit(n)?;
        // Refused whatever the size: its error must not end the rest.
        let _unsupported = srq.resize(n);
        let srq_attr = srq.query()?;
        let init = QpInit {
            kind: if n == 1 { QpType::RawPacket } else { QpType::Rc },
            send_cq: &cq,
            recv_cq: &cq,
            srq: (srq_attr.limit == n).then_some(&srq),
            cap: *cap,
            signal_all: false,
            context: 0,
        };
        let mut qp = device.create_qp(&pd, &init)?;
        qp.modify(attr)?;
        qp.query()?;
        qp.attach_multicast(entry.gid, Lid(n as u16))?;
        qp.detach_multicast(entry.gid, Lid(n as u16))?;
        qp.attach_flow(&FlowSpec { dst: ah.dmac, vlan: entry.vlan, ethertype: Some(n as u16) })?;
        qp.detach_flow(&FlowSpec::ANY)?;
        mr.deregister()?;
        qp.destroy()?;
        srq.destroy()?;
        cq.destroy()?;
        channel.destroy()?;
        pd.destroy()?;
        Ok::<(), Error>(())
    };
    verbs().is_ok()
}

// --- wire formats: whatever the bytes are, a frame is read and written without a panic ---

use bareverbs::wire::frame::{Frame, Link, Repr};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn wire_parse(bytes: *const u8, len: usize, infiniband: bool) -> usize {
    let bytes = unsafe { core::slice::from_raw_parts(bytes, len) };
    let link = if infiniband { Link::InfiniBand } else { Link::Ethernet };
    match Frame::parse(link, bytes) {
        Ok(frame) if frame.check_icrc().is_ok() && frame.check_vcrc().is_ok() => frame.payload.len(),
        _ => 0,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn wire_emit(repr: &Repr, buffer: *mut u8, len: usize, payload_len: usize) -> usize {
    let buffer = unsafe { core::slice::from_raw_parts_mut(buffer, len) };
    let Ok(mut emitter) = repr.emit(buffer, payload_len) else { return 0 };
    emitter.payload().fill(0);
    emitter.finish()
}
