//! A machine without an operating system: the mlx5 driver on the first two HCAs that PCI has.

use super::card;
use crate::suite::{self, Home, Verdict};
use alloc::{format, string::String, vec::Vec};
use bareverbs::RawMemory;
use bareverbs_mlx5::{Local, Mlx5};
use bareverbs_mlx5_prm::ids;
use bareverbs_unikernel::{Function, Machine, memory::Pool, println, serial::Serial};
use core::{
    alloc::{GlobalAlloc, Layout},
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, Ordering},
};

/// Where random choices come from.
const SEED: u64 = 0x636f_6e66;

/// The suite's own lists and texts come from the machine's memory; core, driver and HAL have none of it.
pub struct Heap(AtomicPtr<Pool>);

impl Heap {
    /// Nothing can be had before a machine gives its memory.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn pool(&self) -> Option<&'static Pool> {
        // SAFETY: null, or set from the pool of a machine that stays for ever.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: the pool hands out disjoint memory of the size and alignment asked for, until it is given back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let taken = self.pool().and_then(|pool| pool.take(layout.size(), layout.align(), u64::MAX));
        taken.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if let (Some(pool), Some(ptr)) = (self.pool(), NonNull::new(ptr)) {
            // SAFETY: the caller's promise: it came from `alloc` with this layout.
            unsafe { pool.give(ptr, layout.size()) };
        }
    }
}

/// Two functions of the machine on one link; the driver opens them anew for each case.
struct UnikernelHome {
    machine: &'static Machine,
    functions: [Function; 2],
    buffers: Vec<(NonNull<u8>, usize)>,
    /// Bytes that were free before the case.
    free: u64,
}

impl UnikernelHome {
    fn new(machine: &'static Machine) -> Result<Self, String> {
        let mut hcas = machine.functions().filter(|f| ids::find(f.vendor, f.device).is_some()).map(|f| f.address);
        let (Some(a), Some(b)) = (hcas.next(), hcas.next()) else {
            return Err("the suite needs two HCAs on one link".into());
        };
        let open = |at| machine.open(at).map_err(|e| format!("{e}"));
        let functions = [open(a)?, open(b)?];
        // The first time, page tables are made for the BARs, which stay.
        card::open_both::<_, Local>(&functions)?;
        Ok(Self { machine, functions, buffers: Vec::with_capacity(64), free: 0 })
    }
}

impl Home for UnikernelHome {
    type Device = Mlx5<Function>;

    fn devices(&mut self) -> Result<[Self::Device; 2], String> {
        self.free = self.machine.pool().free_bytes();
        card::open_both(&self.functions)
    }

    fn memory(&mut self, len: usize) -> RawMemory {
        // Somewhere in its page, as a program's memory is.
        let (offset, whole) = (self.buffers.len() * 648 % 4096, len + 4096);
        let ptr = self.machine.pool().take(whole, 4096, u64::MAX).expect("memory for the regions of a case");
        self.buffers.push((ptr, whole));
        // SAFETY: the memory has a page more than asked for, is given back after all regions, and nobody else has it.
        unsafe { RawMemory::new(NonNull::slice_from_raw_parts(ptr.add(offset), len)) }
    }

    fn finish(&mut self, _provoked: Option<&str>) -> Result<(), String> {
        for (ptr, len) in self.buffers.drain(..) {
            // SAFETY: came from the pool in `memory` with this length.
            unsafe { self.machine.pool().give(ptr, len) };
        }
        let free = self.machine.pool().free_bytes();
        if free == self.free { Ok(()) } else { Err(format!("{} bytes were free before, {free} are", self.free)) }
    }
}

/// Runs the cases that the machine's command line asks for. The status is 0, 1 if a case failed, 2 if it was called
/// wrong.
pub fn main(machine: &'static Machine, heap: &Heap) -> u8 {
    heap.0.store(ptr::from_ref(machine.pool()).cast_mut(), Ordering::Release);
    let mut arguments = machine.arguments();
    let wanted = arguments.next().unwrap_or("");
    if let Some(more) = arguments.next() {
        println!("img_conformance: {more}: one part of a name is enough");
        return 2;
    }
    match UnikernelHome::new(machine).map(|home| cases(home, wanted)) {
        Ok(0) => 0,
        Ok(_) => 1,
        Err(why) => {
            println!("img_conformance: {why}");
            1
        }
    }
}

/// Prints a line a case; how many failed.
fn cases(mut home: UnikernelHome, wanted: &str) -> usize {
    let mut failed = 0;
    let all = suite::table::<Mlx5<Function>>().into_iter().flat_map(|(_, cases)| cases);
    for case in all.filter(|case| case.name.contains(wanted)) {
        let verdict = suite::run(&mut home, &case, SEED);
        // The serial port takes all.
        let _ = suite::tell(&mut Serial, &case, &verdict);
        failed += usize::from(matches!(verdict, Verdict::Fail(_)));
    }
    failed
}
