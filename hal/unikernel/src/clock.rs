//! Time: the time-stamp counter, its rate measured once against a timer whose rate is known.

use crate::port::in32;
use core::{arch::x86_64::__cpuid, arch::x86_64::_rdtsc, time::Duration};

/// Hertz of ACPI's power-management timer (ACPI specification, 4.8.2.1).
const PM_TIMER: u64 = 3_579_545;
/// The bits of it that are always there.
const PM_TIMER_MASK: u64 = (1 << 24) - 1;
/// How long a measurement takes: 1 ms is off by up to 1 %.
const MEASURE: Duration = Duration::from_millis(10);
/// Reads of a timer after which it is taken for dead; each takes at least 0.1 us.
const PATIENCE: u32 = 10_000_000;

const FEMTOSECONDS: u64 = 1_000_000_000_000_000;

/// Where the rate of the clock comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line said it.
    CommandLine,
    /// CPUID leaf 15h says it.
    Cpuid,
    /// Measured with ACPI's power-management timer.
    PmTimer,
    /// Measured with the high-precision event timer.
    Hpet,
}

/// Monotonic time since the clock was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
    /// Nanoseconds a tick, times 2^32.
    scale: u64,
    hz: u64,
    source: Source,
}

impl Clock {
    /// A clock whose counter has this rate in Hz.
    pub fn new(hz: u64, source: Source) -> Option<Self> {
        let scale = (1_000_000_000u128 << 32).checked_div(hz.into())?;
        Some(Self { start: counter(), scale: u64::try_from(scale).ok()?, hz, source })
    }

    /// Finds the rate in the first of these ways that works: what the command line says, CPUID, the
    /// power-management timer at an I/O port, the registers of the event timer.
    pub fn calibrate(told: Option<u64>, pm_timer: Option<u16>, hpet: Option<Hpet>) -> Option<Self> {
        let told = || Some((told?, Source::CommandLine));
        let cpuid = || Some((cpuid_hz()?, Source::Cpuid));
        let pm_timer = || {
            let port = pm_timer?;
            // SAFETY: ACPI says that the timer is there; reading it has no effect.
            let read = || u64::from(unsafe { in32(port) });
            Some((measure(read, PM_TIMER_MASK, PM_TIMER)?, Source::PmTimer))
        };
        let hpet = || {
            let hpet = hpet?;
            Some((measure(|| hpet.counter(), u32::MAX.into(), hpet.hz()?)?, Source::Hpet))
        };
        let (hz, source) = told().or_else(cpuid).or_else(pm_timer).or_else(hpet)?;
        Self::new(hz, source)
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Duration {
        let ticks = counter().saturating_sub(self.start);
        Duration::from_nanos(((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64)
    }

    /// Waits.
    pub fn wait(&self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            core::hint::spin_loop();
        }
    }

    /// The counter's rate in Hz.
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// Where the rate comes from.
    pub fn source(&self) -> Source {
        self.source
    }
}

/// The registers of the high-precision event timer (IA-PC HPET specification 1.0a, 2.3).
#[derive(Clone, Copy)]
pub struct Hpet(*mut u64);

impl Hpet {
    /// Switches the timer on.
    ///
    /// # Safety
    /// 1 KiB of registers is mapped at the address, and nobody else uses them.
    pub unsafe fn new(registers: *mut u64) -> Self {
        // SAFETY: the caller's promise. General configuration: count.
        unsafe { registers.add(2).write_volatile(registers.add(2).read_volatile() | 1) };
        Self(registers)
    }

    fn counter(&self) -> u64 {
        // SAFETY: the promise of `new`.
        unsafe { self.0.add(0xf0 / 8).read_volatile() & u64::from(u32::MAX) }
    }

    /// Hertz, from the period in femtoseconds.
    fn hz(&self) -> Option<u64> {
        // SAFETY: the promise of `new`.
        FEMTOSECONDS.checked_div(unsafe { self.0.read_volatile() } >> 32)
    }
}

fn counter() -> u64 {
    // SAFETY: every x86_64 has the instruction.
    unsafe { _rdtsc() }
}

/// The crystal's rate times the ratio, where CPUID leaf 15h gives both.
fn cpuid_hz() -> Option<u64> {
    if __cpuid(0).eax < 0x15 {
        return None;
    }
    let leaf = __cpuid(0x15);
    let hz = u64::from(leaf.ecx) * u64::from(leaf.ebx);
    hz.checked_div(leaf.eax.into()).filter(|hz| *hz != 0)
}

/// The counter's rate in Hz, against a timer of a known one.
fn measure(timer: impl Fn() -> u64, mask: u64, hz: u64) -> Option<u64> {
    let wanted = hz * MEASURE.as_nanos() as u64 / 1_000_000_000;
    let (timer_start, start) = (timer(), counter());
    for _ in 0..PATIENCE {
        let (passed, end) = (timer().wrapping_sub(timer_start) & mask, counter());
        if passed >= wanted {
            return (end - start).checked_mul(hz)?.checked_div(passed).filter(|hz| *hz != 0);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_told_and_scaled() {
        let clock = Clock::calibrate(Some(1_000_000_000), None, None).unwrap();
        assert_eq!((clock.hz(), clock.source(), clock.scale), (1_000_000_000, Source::CommandLine, 1 << 32));
        assert!(Clock::new(0, Source::CommandLine).is_none());
        // A counter of 1 Hz would need more bits than the scale has.
        assert!(Clock::new(1, Source::CommandLine).map(|c| c.scale) == Some(1_000_000_000 << 32));
    }

    #[test]
    fn a_dead_timer_gives_no_rate() {
        assert_eq!(measure(|| 5, PM_TIMER_MASK, PM_TIMER), None);
    }

    #[test]
    fn time_does_not_stand_still() {
        let clock = Clock::new(1_000_000_000, Source::CommandLine).unwrap();
        let before = clock.now();
        clock.wait(Duration::from_micros(1));
        assert!(clock.now() >= before + Duration::from_micros(1));
    }
}
