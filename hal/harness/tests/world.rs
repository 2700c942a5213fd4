//! The world's promises: progress, reproducible runs, refused accesses, leaks, the thread.

mod toy;

use bareverbs_hal::{Dma, HalError, MapAccess, PciFunction, Platform};
use bareverbs_harness::{
    AccessKind, Clock, FaultReason, Faults, Function, QuietLimit, World,
    model::{DmaFault, LinkKind},
};
use std::{
    alloc::Layout,
    env, fs,
    os::unix::process::ExitStatusExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::Command,
    ptr::NonNull,
    time::Duration,
};
use toy::{COPY, Driver, Echo};

fn driver(world: &World) -> Driver {
    Driver::new(world.plug(Echo::boxed(LinkKind::Ethernet)))
}

fn panic_message(go: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(go)).expect_err("it should panic");
    payload.downcast_ref::<String>().cloned().expect("a message")
}

#[test]
fn a_loop_of_polls_ends() {
    for seed in 0..50 {
        let d = driver(&World::new(seed));
        (1..20).for_each(|b| d.copy(b));
        assert_eq!(d.function.interrupts(1), 19, "seed {seed}");
        d.close();
    }
}

/// Everything that a run shows: times, register accesses, addresses.
fn run(seed: u64) -> String {
    let world = World::new(seed);
    let d = driver(&world);
    d.function.trace(true);
    d.function.write32(&d.registers.delay, 5);
    (1..20).for_each(|b| d.copy(b));
    let done = d.function.read32(&d.registers.done);
    format!("{:?} {done} {:?} {:x}", d.function.now(), d.function.take_trace(), d.to.addr)
}

#[test]
fn a_seed_is_a_run() {
    for seed in [0, 1, 2, u64::MAX] {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(1), run(2));
}

#[test]
fn different_seeds_interleave_differently() {
    // Whether the copy is there right after the doorbell is up to the seed, and both are seen.
    let early = (0..64)
        .filter(|seed| {
            let d = driver(&World::new(*seed));
            d.fill(7);
            d.start();
            d.last() != 0
        })
        .count();
    assert!((1..64).contains(&early), "{early}");
}

#[test]
fn idle_jumps_to_a_deadline_an_hour_away() {
    let d = driver(&World::new(3));
    d.function.write32(&d.registers.delay, u32::MAX);
    let before = d.function.now();
    d.copy(1);
    assert!(d.function.now() - before >= Duration::from_micros(u32::MAX.into()));
}

#[test]
fn a_bounded_wait_reaches_its_deadline_though_nothing_happens() {
    let f = driver(&World::new(3)).function;
    let deadline = f.now() + Duration::from_secs(60);
    let mut calls = 0;
    while f.now() < deadline {
        f.relax();
        calls += 1;
    }
    assert!(calls < 10_000, "{calls}");
}

#[test]
fn waiting_for_nothing_names_the_seed() {
    let d = driver(&World::new(4711));
    let message = panic_message(|| {
        loop {
            d.function.idle();
        }
    });
    assert!(message.contains("nothing is left to happen") && message.contains("4711"), "{message}");
}

#[test]
fn waiting_for_nothing_ends_on_the_wall_clock_and_with_a_thread_too() {
    let limit = QuietLimit { time: Duration::from_millis(50), ..QuietLimit::default() };
    for threaded in [false, true] {
        let builder = World::builder().seed(4712).clock(Clock::Wall).threaded(threaded);
        let d = driver(&builder.quiet_limit(Some(limit)).build());
        d.copy(1);
        let message = panic_message(|| {
            loop {
                d.function.idle();
            }
        });
        assert!(message.contains("4712"), "{message}");
    }
}

#[test]
fn the_threaded_mode_copies() {
    let world = World::builder().threaded(true).build();
    let drivers = [driver(&world), driver(&world)];
    std::thread::scope(|s| {
        for d in drivers {
            s.spawn(move || {
                (0..2000u32).for_each(|n| d.copy((n % 255) as u8 + 1));
                assert_eq!(d.function.dma_fault_count(), 0);
                d.close();
            });
        }
    });
    world.stop().unwrap();
}

// A NonNull in DmaBuffer keeps Driver on one thread; the function itself may be used on several.
// SAFETY: the buffers are the driver's own and nobody else has their addresses.
unsafe impl Send for Driver {}

#[test]
fn the_last_handle_ends_the_thread() {
    let d = driver(&World::builder().threaded(true).build());
    d.copy(1);
    // Dropping joins the thread: the test would hang if that did not end.
    d.close();
}

#[test]
fn refused_accesses_are_counted_and_named() {
    let d = driver(&World::new(5));
    let gone = d.function.dma_alloc(COPY, 1).unwrap();
    let addr = gone.addr;
    // SAFETY: the device was never told of it.
    unsafe { d.function.dma_free(gone) };
    d.function.write64(&d.registers.from, d.from.addr);
    d.function.write64(&d.registers.to, addr);
    d.copy(9);
    let faults = d.function.dma_faults();
    assert_eq!(d.function.dma_fault_count(), 1);
    assert_eq!(faults[0].fault, DmaFault { addr, write: true });
    assert_eq!(faults[0].reason, FaultReason::Unmapped);
    // A CPU address is not a device address.
    d.function.write64(&d.registers.from, d.from.ptr.as_ptr() as u64);
    d.function.write64(&d.registers.to, d.to.addr);
    while d.function.dma_fault_count() < 2 {
        d.function.idle();
    }
}

#[test]
fn read_only_mappings_cannot_be_written() {
    let d = driver(&World::new(6));
    let mut memory = vec![3u8; 8192];
    let ptr = NonNull::from(&mut memory[0]);
    // SAFETY: the memory is left alone until it is unmapped.
    let m = unsafe { d.function.map(ptr, memory.len(), MapAccess::Read) }.unwrap();
    let mut first = None;
    d.function.segments(&m, &mut |s| first = first.or(Some(s.addr)));
    d.function.write64(&d.registers.from, d.from.addr);
    d.function.write64(&d.registers.to, first.unwrap());
    while d.function.dma_fault_count() == 0 {
        d.function.idle();
    }
    assert_eq!(d.function.mappings_outstanding(), 1);
    // SAFETY: the copy was refused and no other one started.
    unsafe { d.function.unmap(m) };
    assert_eq!(d.function.mappings_outstanding(), 0);
    assert_eq!(memory, [3; 8192]);
}

#[test]
fn without_bus_mastering_nothing_moves() {
    let d = driver(&World::new(7));
    d.function.silence().unwrap();
    d.start();
    while d.function.dma_fault_count() < 2 {
        d.function.idle();
    }
    assert!(d.function.dma_faults().iter().all(|f| f.reason == FaultReason::BusMasterOff));
    assert_eq!(d.function.interrupts(1), 0);
    assert_eq!(d.last(), 0);
}

#[test]
fn leaks_and_double_frees_are_seen() {
    let world = World::new(8);
    let f = world.plug(Echo::boxed(LinkKind::Ethernet));
    let d = Driver::new(f.clone());
    assert_eq!(f.dma_outstanding(), 8192);
    let layout = Layout::from_size_align(100, 64).unwrap();
    let p = f.state_alloc(layout).unwrap();
    assert_eq!(f.state_outstanding(), 100);
    // SAFETY: it is freed with its layout and not used.
    unsafe { f.state_free(p, layout) };
    // SAFETY: this is the mistake that the harness must see; it frees nothing twice.
    unsafe { f.state_free(p, layout) };
    assert_eq!(f.violation_count(), 1);
    d.close();
    assert_eq!((f.dma_outstanding(), f.state_outstanding()), (0, 0));
}

#[test]
fn each_allocation_can_be_made_to_fail() {
    let f = World::new(9).plug(Echo::boxed(LinkKind::Ethernet));
    let mut failures = Vec::new();
    for n in 1.. {
        f.fail_allocation(Some(n));
        let tried = f.state_alloc(Layout::new::<u64>()).and_then(|_| f.dma_alloc(64, 64));
        if f.failure_pending() {
            break;
        }
        failures.push(tried.unwrap_err());
    }
    f.fail_allocation(None);
    let expected = [HalError::OutOfStateMemory { wanted: 8 }, HalError::OutOfDmaMemory { wanted: 64 }];
    assert_eq!(failures, expected);
}

#[test]
fn bars_are_described() {
    for window in [false, true] {
        let f = World::builder().write_combining(window).build().plug(Echo::boxed(LinkKind::Ethernet));
        let bar = f.bar(0).unwrap();
        assert_eq!((bar.len(), bar.has_write_combining()), (toy::BAR_LEN as usize, window));
        assert_eq!(f.bar(1).unwrap_err(), HalError::NoSuchBar(1));
        assert_eq!(f.bar(2).unwrap().len(), 4096);
        assert_eq!(f.bar(4).unwrap_err(), HalError::BarIsIo(4));
        assert_eq!(f.bar(6).unwrap_err(), HalError::NoSuchBar(6));
    }
}

#[test]
fn a_burst_arrives_through_either_window() {
    for window in [false, true] {
        let d = driver(&World::builder().seed(10).write_combining(window).build());
        // SAFETY: volatile cells, used while the driver lives.
        let r: &toy::Registers = unsafe { d.function.bar(0).unwrap().wc_register(0) }.unwrap();
        d.function.trace(true);
        d.fill(4);
        d.function.write_burst(&r.burst, &[d.from.addr, d.to.addr, 0, 0, 0, 0, 0, 0]);
        while d.last() != 0x0404_0404 {
            d.function.idle();
        }
        let trace = d.function.take_trace();
        assert_eq!(trace.len(), 1);
        assert_eq!((trace[0].bar, trace[0].offset), (0, 24));
        let AccessKind::Burst(bytes) = trace[0].kind else { panic!("{trace:?}") };
        assert_eq!(bytes[..8], d.from.addr.to_ne_bytes());
        assert_eq!(d.function.violation_count(), 0);
    }
}

#[test]
fn a_reset_silences_the_function_and_keeps_its_bars() {
    let d = driver(&World::new(11));
    d.copy(1);
    let before = d.function.bar_address(0);
    d.function.reset().unwrap();
    assert_eq!(d.function.bar_address(0), before);
    assert_eq!(d.function.read32(&d.registers.done), u32::MAX, "decoding is off");
    assert_eq!(d.function.violation_count(), 1);
    // SAFETY: it was reset.
    unsafe { d.function.set_bus_master(true) }.unwrap();
    assert_eq!(d.function.read32(&d.registers.done), 0);
    d.copy(2);
}

#[test]
fn a_function_that_is_gone_reads_all_ones() {
    let d = driver(&World::new(12));
    d.function.set_gone(true);
    assert_eq!(d.function.read32(&d.registers.done), u32::MAX);
    assert_eq!(d.function.config_read32(0), u32::MAX);
    // SAFETY: the buffers that it knows of are still its.
    assert_eq!(unsafe { d.function.set_bus_master(true) }, Err(HalError::Gone));
    assert_eq!(d.function.reset(), Err(HalError::Gone));
    d.function.set_gone(false);
    d.copy(1);
}

/// Sends over a cable with faults in one world and gives out its capture and counters.
fn capture(seed: u64, path: &Path) -> (Vec<u8>, String) {
    let faults = Faults { duplicate: 0.3, delay: 0.3, corrupt: 0.3, ..Faults::NONE };
    let builder = World::builder().seed(seed).faults(faults);
    let world = builder.capture(LinkKind::InfiniBand, path).unwrap().build();
    let [a, b] = [0, 1].map(|_| Driver::new(world.plug(Echo::boxed(LinkKind::InfiniBand))));
    // A copy tells the other device where frames go.
    b.copy(1);
    for n in 1..50 {
        a.fill(n);
        a.function.write64(&a.registers.from, a.from.addr);
        a.function.write64(&a.registers.to, 0);
        a.function.idle();
    }
    while b.function.link_counters(0).received < 49 {
        world.idle();
    }
    world.stop().unwrap();
    assert_eq!(a.function.link_counters(0).sent, 49);
    (fs::read(path).unwrap(), format!("{:?}", world.links()))
}

#[test]
fn captures_of_one_seed_are_identical() {
    let path = env::temp_dir().join(format!("bareverbs-harness-{}.pcap", std::process::id()));
    let (first, links) = capture(21, &path);
    assert_eq!(first.len(), 24 + 49 * (16 + 16 + COPY));
    assert_eq!((&first, &links), (&capture(21, &path).0, &capture(21, &path).1));
    assert_ne!(first, capture(22, &path).0);
    fs::remove_file(path).unwrap();
}

#[test]
fn an_injected_frame_reaches_the_device() {
    let d = driver(&World::new(14));
    d.copy(1);
    d.function.inject(0, vec![5; COPY].into());
    while d.last() != 0x0505_0505 {
        d.function.idle();
    }
}

#[test]
#[should_panic(expected = "two InfiniBand functions are a cable")]
fn a_third_infiniband_function_is_refused() {
    let world = World::new(15);
    (0..3).for_each(|_| drop(world.plug(Echo::boxed(LinkKind::InfiniBand))));
}

#[test]
fn a_panic_of_a_model_names_the_seed_to_everybody() {
    let world = World::new(4713);
    let d = driver(&world);
    world.set_filter(Some(Box::new(|_, _| panic!("stands for a mistake in a model"))));
    d.function.write64(&d.registers.from, d.from.addr);
    let first = catch_unwind(AssertUnwindSafe(|| {
        d.function.write64(&d.registers.to, 0);
        loop {
            d.function.idle();
        }
    }));
    assert!(first.is_err());
    let message = panic_message(|| d.function.idle());
    assert!(message.contains("a modelled device panicked (seed 4713)"), "{message}");
}

/// Runs one of this program's tests in a process of its own and tells the signal that ended it.
fn signal_of(test: &str) -> Option<i32> {
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("BAREVERBS_BYPASS", test)
        .output()
        .unwrap()
        .status;
    status.signal()
}

/// Does something in the process that [`signal_of`] made, and nothing in the other one.
fn in_child(test: &str, go: impl FnOnce(Function)) -> bool {
    let child = env::var("BAREVERBS_BYPASS").is_ok_and(|t| t == test);
    if child {
        go(World::new(13).plug(Echo::boxed(LinkKind::Ethernet)));
    }
    child
}

const SIGSEGV: i32 = 11;

#[test]
fn going_around_the_hal_faults() {
    let me = "going_around_the_hal_faults";
    let child = in_child(me, |f| {
        let bar = f.bar(0).unwrap();
        // SAFETY: it is not: this is the access that must fault.
        unsafe { bar.base().read_volatile() };
    });
    assert!(child || signal_of(me) == Some(SIGSEGV));
}

#[test]
fn running_over_the_end_of_a_buffer_faults() {
    let me = "running_over_the_end_of_a_buffer_faults";
    let child = in_child(me, |f| {
        let b = f.dma_alloc(64, 64).unwrap();
        // SAFETY: it is not: this is the access that must fault.
        unsafe { b.ptr.add(b.len).write_volatile(1) };
    });
    assert!(child || signal_of(me) == Some(SIGSEGV));
}
