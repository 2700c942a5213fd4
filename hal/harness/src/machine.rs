//! What the world's lock protects: the models, their machine, and who runs next.

use crate::{
    bus::{BusView, Seat},
    clock::Time,
    fabric::Fabric,
    model::{Bus, DeviceModel, Reset, Step},
    pci::Effects,
    trace::{Access, AccessKind},
};
use oorandom::Rand64;
use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// Virtual time that a read of the clock takes.
const NOW_COST: Duration = Duration::from_nanos(20);
/// Virtual time that a register access takes.
const ACCESS_COST: Duration = Duration::from_nanos(100);
/// Virtual time that a model's step takes.
const STEP_COST: Duration = Duration::from_nanos(50);
/// A wait in which nothing can happen takes this at first, then twice as long each time ...
const FIRST_WAIT: Duration = Duration::from_micros(1);
/// ... up to this, so that a driver's deadline of minutes is not a million calls away.
const LONGEST_WAIT: Duration = Duration::from_millis(10);

/// Most steps that are done on behalf of a register write: a few messages of 64 KiB.
const AT_ONCE: u32 = 1000;

/// When a world says that nothing is left to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietLimit {
    /// On the virtual clock: after so many `idle` and `relax` calls in a row between which no register was written,
    /// no frame arrived, and no device wrote memory.
    pub calls: u32,
    /// On the wall clock: after so much time of the same kind.
    pub time: Duration,
}

impl Default for QuietLimit {
    fn default() -> Self {
        Self { calls: 100_000, time: Duration::from_secs(60) }
    }
}

/// Where the world may let its devices run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    Barrier,
    Relax,
    Idle,
}

/// The machine that the models see through their bus.
pub(crate) struct Machine {
    pub(crate) rng: Rand64,
    pub(crate) time: Time,
    pub(crate) fabric: Fabric,
    pub(crate) seats: Vec<Seat>,
    /// Counts what a waiting program may be waiting for.
    happenings: u64,
}

impl Machine {
    /// Something happened that a waiting program may have waited for.
    pub(crate) fn happened(&mut self) {
        self.happenings += 1;
    }
}

struct Runner {
    model: Box<dyn DeviceModel>,
    /// It may have something to do.
    awake: bool,
    /// When it will have, though nothing happens from outside.
    deadline: Option<Duration>,
}

pub(crate) struct State {
    pub(crate) seed: u64,
    pub(crate) machine: Machine,
    runners: Vec<Runner>,
    quiet_limit: Option<QuietLimit>,
    seen: u64,
    quiet_calls: u32,
    quiet_since: Instant,
    /// Waits in a row in which nothing could run.
    still: u32,
    /// The devices run on a thread of their own, and at no other point.
    threaded: bool,
    /// Until when that thread sleeps; none if it does not.
    pub(crate) nap_until: Option<Duration>,
}

impl State {
    pub(crate) fn new(seed: u64, time: Time, fabric: Fabric, quiet_limit: Option<QuietLimit>, threaded: bool) -> Self {
        Self {
            seed,
            machine: Machine { rng: Rand64::new(seed.into()), time, fabric, seats: Vec::new(), happenings: 0 },
            runners: Vec::new(),
            quiet_limit,
            seen: 0,
            quiet_calls: 0,
            quiet_since: Instant::now(),
            still: 0,
            threaded,
            nap_until: None,
        }
    }

    pub(crate) fn plug(&mut self, model: Box<dyn DeviceModel>, seat: Seat) {
        self.machine.seats.push(seat);
        self.runners.push(Runner { model, awake: true, deadline: None });
        self.wake_all();
    }

    /// Lets every model look again (a link came or went).
    pub(crate) fn wake_all(&mut self) {
        self.runners.iter_mut().for_each(|r| r.awake = true);
    }

    pub(crate) fn now(&mut self) -> Duration {
        self.machine.time.look();
        self.machine.time.advance(NOW_COST);
        self.machine.time.now()
    }

    /// Calls a model; it may have something to do afterwards.
    fn call<R>(&mut self, index: usize, go: impl FnOnce(&mut dyn DeviceModel, &mut dyn Bus) -> R) -> R {
        let runner = &mut self.runners[index];
        let r = go(&mut *runner.model, &mut BusView { machine: &mut self.machine, index });
        runner.awake = true;
        runner.deadline = runner.model.next_deadline();
        r
    }

    pub(crate) fn mmio_read(&mut self, index: usize, bar: u8, offset: u64, data: &mut [u8]) {
        self.machine.time.advance(ACCESS_COST);
        let seat = &mut self.machine.seats[index];
        if seat.gone || !seat.config.memory_enabled() {
            if !seat.gone {
                seat.violation(format!("BAR {bar} was read at {offset:#x} while memory decoding is off"));
            }
            data.fill(0xff);
            return;
        }
        self.call(index, |model, bus| model.mmio_read(bus, bar, offset, data));
    }

    pub(crate) fn mmio_write(&mut self, index: usize, bar: u8, offset: u64, data: &[u8]) {
        self.machine.happened();
        self.machine.time.advance(ACCESS_COST);
        let seat = &mut self.machine.seats[index];
        if seat.gone || !seat.config.memory_enabled() {
            if !seat.gone {
                seat.violation(format!("BAR {bar} was written at {offset:#x} while memory decoding is off"));
            }
            return;
        }
        self.call(index, |model, bus| model.mmio_write(bus, bar, offset, data));
    }

    pub(crate) fn config_read(&mut self, index: usize, offset: u16, data: &mut [u8]) {
        self.machine.time.advance(ACCESS_COST);
        let seat = &self.machine.seats[index];
        if seat.gone {
            data.fill(0xff);
        } else {
            seat.config.read(offset.into(), data);
        }
    }

    pub(crate) fn config_write(&mut self, index: usize, offset: u16, data: &[u8]) {
        self.machine.happened();
        self.machine.time.advance(ACCESS_COST);
        let seat = &mut self.machine.seats[index];
        if !seat.gone {
            let effects = seat.config.write(offset.into(), data);
            self.apply(index, effects);
        }
    }

    fn apply(&mut self, index: usize, effects: Effects) {
        if let Some(on) = effects.bus_master {
            self.call(index, |model, bus| model.bus_master(bus, on));
        }
        if let Some(reset) = effects.reset {
            self.call(index, |model, bus| model.reset(bus, reset));
        }
    }

    /// The machine is reset under the device.
    pub(crate) fn bus_reset(&mut self, index: usize) {
        let seat = &mut self.machine.seats[index];
        let mastering = seat.config.bus_master();
        seat.config.reset();
        self.apply(index, Effects { bus_master: mastering.then_some(false), reset: Some(Reset::Bus) });
    }

    /// Runs one unit of work of whoever is drawn; false if nobody had any.
    fn step(&mut self) -> bool {
        self.machine.time.look();
        let now = self.machine.time.now();
        for r in &mut self.runners {
            r.awake |= r.deadline.is_some_and(|d| d <= now);
        }
        loop {
            let arrival = self.machine.fabric.next_due().is_some_and(|d| d <= now);
            let ready = self.runners.iter().filter(|r| r.awake).count() + usize::from(arrival);
            if ready == 0 {
                return false;
            }
            let drawn = if ready == 1 { 0 } else { self.machine.rng.rand_range(0..ready as u64) as usize };
            let worked = match (0..self.runners.len()).filter(|i| self.runners[*i].awake).nth(drawn) {
                Some(i) => self.step_model(i),
                None => self.deliver(now),
            };
            if worked {
                self.machine.time.advance(STEP_COST);
                return true;
            }
        }
    }

    fn step_model(&mut self, index: usize) -> bool {
        let step = self.call(index, |model, bus| model.step(bus));
        let runner = &mut self.runners[index];
        if step == Step::Idle {
            runner.awake = false;
            // A deadline that has passed while the model says that there is nothing to do would be drawn for ever.
            let now = self.machine.time.now();
            runner.deadline = runner.deadline.filter(|d| *d > now);
        }
        step == Step::Worked
    }

    fn deliver(&mut self, now: Duration) -> bool {
        let Some(a) = self.machine.fabric.arrive(now) else { return false };
        self.machine.happened();
        self.call(a.function, |model, bus| model.receive(bus, a.port, a.frame));
        true
    }

    /// Notes what a driver did to a register.
    pub(crate) fn trace(&mut self, index: usize, bar: u8, offset: u64, kind: AccessKind) {
        let at = self.machine.time.now();
        self.machine.seats[index].trace.record(Access { at, bar, offset, kind });
    }

    /// Runs a number of steps that is drawn.
    fn run_drawn(&mut self, steps: Range<u64>) -> bool {
        let steps = self.machine.rng.rand_range(steps);
        (0..steps).take_while(|_| self.step()).count() > 0
    }

    /// Lets the devices run before or after a register access.
    pub(crate) fn run_at_access(&mut self) {
        if !self.threaded {
            self.run_drawn(0..3);
        }
    }

    /// Lets the devices run at a point of a driver's program. Fails when a wait can never end.
    pub(crate) fn run(&mut self, point: Point) -> Result<(), String> {
        let worked = match point {
            Point::Barrier => {
                self.run_drawn(0..2);
                return Ok(());
            }
            Point::Relax => self.run_drawn(1..5),
            Point::Idle => self.run_drawn(1..17),
        };
        self.note_quiet()?;
        if worked || self.quiet_calls == 0 {
            self.still = 0;
        } else {
            self.wait(point == Point::Idle);
        }
        Ok(())
    }

    /// Runs up to `most` steps; tells how many there were. For the thread that runs the devices.
    pub(crate) fn run_steps(&mut self, most: u32) -> u32 {
        (0..most).take_while(|_| self.step()).count() as u32
    }

    /// Does what a register write has set off, which then need not wait for the devices' thread. Tells whether that
    /// thread has to be woken for the rest.
    pub(crate) fn run_at_once(&mut self) -> bool {
        let rest = self.run_steps(AT_ONCE) == AT_ONCE;
        self.nap_until.is_some_and(|until| rest || self.next_deadline().is_some_and(|due| due < until))
    }

    /// When something happens by itself.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let models = self.runners.iter().filter_map(|r| r.deadline);
        models.chain(self.machine.fabric.next_due()).min()
    }

    /// Nothing could run: time passes, to the next deadline if the program has nothing to do before it.
    fn wait(&mut self, jump: bool) {
        let next = self.next_deadline();
        if let (true, Some(next)) = (jump, next) {
            self.machine.time.jump(next);
            self.still = 0;
            return;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << self.still.min(20)).min(LONGEST_WAIT);
        self.still += 1;
        let until = self.machine.time.now() + wait;
        self.machine.time.jump(next.map_or(until, |n| n.min(until)));
    }

    /// The program does not wait now.
    pub(crate) fn note_busy(&mut self) {
        self.quiet_since = Instant::now();
    }

    /// Counts a wait; fails when there were too many without anything that could end them.
    pub(crate) fn note_quiet(&mut self) -> Result<(), String> {
        if self.seen != self.machine.happenings {
            self.seen = self.machine.happenings;
            self.quiet_calls = 0;
            self.quiet_since = Instant::now();
            return Ok(());
        }
        self.quiet_calls = self.quiet_calls.saturating_add(1);
        let Some(limit) = self.quiet_limit else { return Ok(()) };
        let over = match self.machine.time {
            Time::Virtual(_) => self.quiet_calls >= limit.calls,
            Time::Wall(..) => self.quiet_since.elapsed() > limit.time,
        };
        if !over {
            return Ok(());
        }
        self.quiet_calls = 0;
        self.quiet_since = Instant::now();
        Err(format!(
            "nothing is left to happen at {:?} (seed {}): the program waits for something that will not come; {}",
            self.machine.time.now(),
            self.seed,
            self.next_deadline().map_or("no device has a deadline".into(), |d| format!("next deadline {d:?}")),
        ))
    }
}
