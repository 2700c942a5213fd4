//! `vfio_hal BDF [CHECK]`: what the HAL promises, checked on a function of this host that is bound to vfio-pci.
//!
//! Without CHECK the conformance suite runs, with DMA if the function is QEMU's educational device. Besides it knows:
//! `unmapped` (that device does not reach what was unmapped), `mappings N` (the limit of mappings is N),
//! `memlock BYTES` (the limit on locked memory), `hugepages` (DMA memory is taken from reserved huge pages).

use bareverbs_hal::{Dma, HalError, MapAccess, PAGE_SIZE, PciFunction};
use bareverbs_hal_conformance::{Edu, Engine, NoEngine, Outcome, run};
use bareverbs_vfio::Vfio;
use std::{
    alloc::{Layout, alloc_zeroed},
    error::Error,
    fs,
    process::ExitCode,
    ptr::NonNull,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match check(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("vfio_hal: {e}");
            ExitCode::FAILURE
        }
    }
}

fn check(words: &[&str]) -> Result<(), Box<dyn Error>> {
    let [bdf, check @ ..] = words else { return Err("vfio_hal BDF [CHECK]".into()) };
    let hal = Vfio::open(bdf.parse()?)?;
    match check {
        [] => conformance(&hal),
        ["unmapped"] => unmapped(&hal),
        ["mappings", limit] => mappings(&hal, limit.parse()?),
        ["memlock", limit] => memlock(&hal, limit.parse()?),
        ["hugepages"] => huge_pages(&hal),
        _ => Err(format!("no such check: {check:?}").into()),
    }
}

fn conformance(hal: &Vfio) -> Result<(), Box<dyn Error>> {
    let mut report = |name: &'static str, outcome: Outcome| match outcome {
        Ok(()) => println!("ok: {name}"),
        Err(broken) => println!("BROKEN: {name}: {broken}"),
    };
    let broken = match hal.config_read32(0) {
        Edu::ID => run(hal, &mut Edu, &mut report),
        _ => run(hal, &mut NoEngine, &mut report),
    };
    if broken == 0 { Ok(()) } else { Err(format!("{broken} promises are broken").into()) }
}

/// Pages of the heap, never given back.
fn pages(count: usize) -> Result<NonNull<u8>, Box<dyn Error>> {
    let layout = Layout::from_size_align(count * PAGE_SIZE, PAGE_SIZE)?;
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| "no memory".into())
}

/// The device copies to where a page was mapped until just before.
fn unmapped(hal: &Vfio) -> Result<(), Box<dyn Error>> {
    hal.set_dma_bits(<Edu as Engine<Vfio>>::BITS)?;
    let source = hal.dma_alloc(PAGE_SIZE, PAGE_SIZE)?;
    let page = pages(1)?;
    // SAFETY: DMA memory of ours, which no device writes.
    unsafe { source.ptr.write_bytes(0xa5, PAGE_SIZE) };
    // SAFETY: the page stays, and there are no references into it.
    let mapping = unsafe { hal.map(page, PAGE_SIZE, MapAccess::ReadWrite) }?;
    let mut target = None;
    hal.segments(&mapping, &mut |segment| target = Some(segment.addr));
    let target = target.ok_or("a mapping without segments")?;
    // SAFETY: nobody told the function of memory yet.
    unsafe { hal.set_bus_master(true) }?;
    let copied = |expected: u8| -> Result<(), Box<dyn Error>> {
        Edu.copy(hal, source.addr, target)?;
        // SAFETY: the device is done.
        let byte = unsafe { page.read_volatile() };
        if byte == expected { Ok(()) } else { Err(format!("the page holds {byte:#x}, not {expected:#x}").into()) }
    };
    copied(0xa5)?;
    // SAFETY: the copy is done, so that the device no longer writes; `page` is ours.
    unsafe {
        hal.unmap(mapping);
        page.write_volatile(0);
    }
    copied(0)?;
    hal.silence()?;
    // SAFETY: the device is silent.
    unsafe { hal.dma_free(source) };
    Ok(())
}

/// Maps every second page until the limit is told.
fn mappings(hal: &Vfio, limit: u32) -> Result<(), Box<dyn Error>> {
    let memory = pages(2 * (limit as usize + 1))?;
    for i in 0..=limit as usize {
        // SAFETY: inside the memory, which stays, and there are no references into it.
        let mapped = unsafe { hal.map(memory.add(2 * i * PAGE_SIZE), PAGE_SIZE, MapAccess::Read) };
        match mapped {
            Ok(_) if i < limit as usize => {}
            Err(HalError::MappingLimit { limit: told }) if i == limit as usize && told == limit => return Ok(()),
            other => return Err(format!("mapping {i} of a limit of {limit}: {other:?}").into()),
        }
    }
    unreachable!("the last mapping returns")
}

/// Maps more than may be locked.
fn memlock(hal: &Vfio, limit: u64) -> Result<(), Box<dyn Error>> {
    let count = limit as usize / PAGE_SIZE + 1;
    // SAFETY: the memory stays, and there are no references into it.
    match unsafe { hal.map(pages(count)?, count * PAGE_SIZE, MapAccess::ReadWrite) } {
        Err(HalError::MemLock { limit: told }) if told == limit => Ok(()),
        other => Err(format!("{count} pages at a limit of {limit} bytes: {other:?}").into()),
    }
}

fn huge_pages(hal: &Vfio) -> Result<(), Box<dyn Error>> {
    let free = || -> Result<u64, Box<dyn Error>> {
        let text = fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")?;
        Ok(text.trim().parse()?)
    };
    let before = free()?;
    let buffer = hal.dma_alloc(PAGE_SIZE, PAGE_SIZE)?;
    let during = free()?;
    // SAFETY: no device was told of it.
    unsafe { hal.dma_free(buffer) };
    let after = free()?;
    if before > 0 && during + 1 == before && after == before {
        return Ok(());
    }
    Err(format!("free huge pages: {before} before, {during} with a buffer, {after} after it").into())
}
