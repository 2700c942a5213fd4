//! Time and instructions of a round.

use anyhow::{Context, Result};
use rustix::{mm, thread};
use std::{
    arch::{asm, x86_64::__rdtscp},
    ffi::CString,
    time::{Duration, Instant},
};

/// Takes the time of rounds; under callgrind, counts their instructions.
pub struct Meter {
    rounds: usize,
    ns_per_tick: f64,
    samples: Vec<f64>,
    /// Only cases whose name contains it.
    filter: String,
}

/// Nanoseconds an operation.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The fastest round.
    pub min: f64,
    /// The middle one.
    pub median: f64,
}

impl Meter {
    /// Pins the process to a CPU, locks its memory (as far as the system lets it), measures the clock.
    pub fn new(cpu: usize, rounds: usize, filter: &str) -> Result<Self> {
        let mut set = thread::CpuSet::new();
        set.set(cpu);
        thread::sched_setaffinity(None, &set).with_context(|| format!("CPU {cpu}"))?;
        // Without the right to lock memory, pages are touched before they are timed all the same.
        let _ = mm::mlockall(mm::MlockAllFlags::CURRENT | mm::MlockAllFlags::FUTURE);
        let (begin, first) = (Instant::now(), ticks());
        while begin.elapsed() < Duration::from_millis(50) {}
        let ns_per_tick = begin.elapsed().as_nanos() as f64 / (ticks() - first) as f64;
        Ok(Self { rounds, ns_per_tick, samples: Vec::with_capacity(rounds), filter: filter.to_owned() })
    }

    /// Whether a case is asked for.
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Runs `timed` on `rig` round for round, after `prepare`; a round is `operations`.
    #[inline(always)]
    pub fn measure<T>(
        &mut self,
        rig: &mut T,
        name: &str,
        operations: usize,
        mut prepare: impl FnMut(&mut T),
        mut timed: impl FnMut(&mut T),
    ) -> Cost {
        self.samples.clear();
        request(START_INSTRUMENTATION, 0);
        request(ZERO_STATS, 0);
        for _ in 0..self.rounds {
            prepare(rig);
            let begin = ticks();
            request(TOGGLE_COLLECT, 0);
            timed(rig);
            request(TOGGLE_COLLECT, 0);
            let end = ticks();
            self.samples.push((end - begin) as f64 * self.ns_per_tick / operations as f64);
        }
        if request(RUNNING_ON_VALGRIND, 0) != 0 {
            // The name and the number of operations stand in the header of the dump.
            let text = CString::new(format!("{name} ops={}", operations * self.rounds)).unwrap_or_default();
            request(DUMP_STATS_AT, text.as_ptr().addr() as u64);
        }
        // With `--instr-atstart=no`, what a bench makes between its cases runs faster.
        request(STOP_INSTRUMENTATION, 0);
        self.samples.sort_by(f64::total_cmp);
        Cost { min: self.samples[0], median: self.samples[self.samples.len() / 2] }
    }
}

/// The time-stamp counter, after everything before.
#[inline(always)]
fn ticks() -> u64 {
    let mut cpu = 0;
    // SAFETY: every x86-64 CPU of this century has the instruction.
    unsafe { __rdtscp(&mut cpu) }
}

/// Client requests of valgrind.h and callgrind.h (valgrind 3.19).
const RUNNING_ON_VALGRIND: u64 = 0x1001;
const CALLGRIND: u64 = (b'C' as u64) << 24 | (b'T' as u64) << 16;
const ZERO_STATS: u64 = CALLGRIND + 1;
const TOGGLE_COLLECT: u64 = CALLGRIND + 2;
const DUMP_STATS_AT: u64 = CALLGRIND + 3;
const START_INSTRUMENTATION: u64 = CALLGRIND + 4;
const STOP_INSTRUMENTATION: u64 = CALLGRIND + 5;

/// Asks valgrind for something. Outside valgrind it does nothing and answers 0.
#[inline(always)]
fn request(request: u64, argument: u64) -> u64 {
    let arguments = [request, argument, 0, 0, 0, 0];
    let mut answer = 0;
    // SAFETY: the rotations add up to a whole turn and the exchange is of a register with itself, so that the CPU does
    // nothing; valgrind knows the sequence.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            inout("rdx") answer,
            in("rax") arguments.as_ptr(),
            options(nostack),
        );
    }
    answer
}
