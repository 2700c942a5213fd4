// The data path of the drivers, exported for the gates that look at its code: no-panic links all of it, aarch64-barriers
// disassembles it. A gate adds `#![no_std]` in front and a panic handler behind.
//
// A HAL that does nothing stands in for the platform: nothing of this ever runs.

// --- entry points of the driver, one function each: post_send, post_recv, post_srq_recv, poll, service ---

use bareverbs::{
    AhAttr, Completion, CompletionQueue, CqInit, Destroy, Device, Error, FlowSpec, GidEntry, Lid, MemoryRegion, Notify,
    PortNum, QpAttr, QpCap, QpInit, QpType, QueuePair, RawMemory, RecvWr, RegionInit, SendWr, SharedReceiveQueue,
    SrqAttr,
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

    fn config_write32(&self, offset: u16, _: u32) {
        HAL.store(offset.into(), Ordering::Release);
    }

    fn bar(&self, n: u8) -> Result<Bar, HalError> {
        let base = NonNull::new(hal_word() as *mut u8).ok_or(HalError::NoSuchBar(n))?;
        Ok(unsafe { Bar::new(base, 1 << 25, None) })
    }

    fn set_bus_master(&self, on: bool) -> Result<(), HalError> {
        if hal_word() == usize::from(on) { Ok(()) } else { Err(HalError::Gone) }
    }

    fn reset(&self) -> Result<(), HalError> {
        if hal_word() == 0 { Ok(()) } else { Err(HalError::ResetFailed) }
    }
}

type Dev = Mlx5<Unknown, Local>;

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
        let mr = device.register(&pd, memory, region)?;
        let mut cq = device.create_cq(&CqInit { entries: n, ..CqInit::default() })?;
        cq.resize(n)?;
        cq.moderate(n as u16, Duration::from_micros(n.into()))?;
        cq.request_notify(Notify::Any)?;
        let mut srq = device.create_srq(&pd, &SrqAttr { max_wr: n, max_sge: n, limit: 0 })?;
        srq.set_limit(n)?;
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
