//! The world: all functions, the fabric, the clock and the seed.

use crate::{
    bus::Seat,
    clock::{Clock, Time},
    fabric::{Fabric, LinkCounters, PacketFilter},
    faults::{Corruptor, Faults},
    function::Function,
    iommu::{Iommu, IommuConfig},
    machine::{Point, QuietLimit, State},
    model::{DeviceModel, LinkKind},
    pcap::Capture,
    pci::ConfigSpace,
    slot::Slot,
    thread::ModelThread,
};
use std::{
    fmt,
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::panicking,
    time::Duration,
};

/// A cheap handle to a world; clones name the same one. When the last handle and the last function are gone, the
/// world ends.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<ModelThread>>,
    iommu: IommuConfig,
    write_combining: bool,
}

/// What drivers and the thread that runs the devices share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Drivers that want the lock: the thread lets them through.
    pub(crate) wanting: AtomicU32,
    pub(crate) wake: Condvar,
    pub(crate) threaded: bool,
    /// Somebody waits for something.
    pub(crate) waiting: AtomicBool,
    /// The thread has found that nothing is left to happen.
    pub(crate) stuck: AtomicBool,
}

impl Shared {
    /// The state, for a driver. Panics if a model panicked, unless this thread is already unwinding.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        if self.threaded {
            self.wanting.fetch_add(1, Ordering::Relaxed);
        }
        let guard = self.lock_unfair();
        if self.threaded {
            self.wanting.fetch_sub(1, Ordering::Relaxed);
        }
        guard
    }

    pub(crate) fn lock_unfair(&self) -> MutexGuard<'_, State> {
        match self.state.lock() {
            Ok(mut guard) => {
                guard.machine.time.look();
                guard
            }
            Err(poisoned) if panicking() => poisoned.into_inner(),
            Err(poisoned) => panic!("a modelled device panicked (seed {})", poisoned.into_inner().seed),
        }
    }

    /// Lets the devices run at a point of a driver's program.
    pub(crate) fn run(&self, point: Point) {
        if self.threaded {
            return self.give_way(point);
        }
        if self.state.is_poisoned() && panicking() {
            return;
        }
        let result = self.lock().run(point);
        if let Err(why) = result {
            self.fail(&why);
        }
    }

    /// With the devices on a thread of their own, a wait gives the processor away.
    fn give_way(&self, point: Point) {
        if !matches!(point, Point::Idle | Point::Relax) {
            return;
        }
        self.waiting.store(true, Ordering::Relaxed);
        std::thread::yield_now();
        if self.stuck.swap(false, Ordering::Relaxed) {
            self.fail(&format!("nothing is left to happen (seed {})", self.lock().seed));
        }
        if self.state.is_poisoned() {
            drop(self.lock());
        }
    }

    /// Ends a program that waits for ever. One that already unwinds has its own deadlines.
    fn fail(&self, why: &str) {
        if !panicking() {
            panic!("{why}");
        }
    }
}

impl World {
    /// A world on one thread and the virtual clock, everything else by default.
    pub fn new(seed: u64) -> Self {
        Self::builder().seed(seed).build()
    }

    /// Describes a world.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The seed of everything random.
    pub fn seed(&self) -> u64 {
        self.lock().seed
    }

    /// The time since the world began. Unlike a driver's `now`, it lets no time pass.
    pub fn now(&self) -> Duration {
        self.lock().machine.time.now()
    }

    /// Puts a device into the next slot, links its ports and gives out its function, as firmware leaves it: BARs
    /// assigned, decoding and bus mastering off.
    ///
    /// # Panics
    /// If its ports cannot be linked: see [`TooManyInfiniBandPorts`](crate::TooManyInfiniBandPorts).
    pub fn plug(&self, model: Box<dyn DeviceModel>) -> Function {
        let identity = model.identity();
        Function::new(self.plug_slot(model), &identity, self.0.write_combining)
    }

    /// Like [`plug`](Self::plug), for a front end that has the guest's own memory and firmware: nothing is mapped, no
    /// BAR is assigned.
    ///
    /// # Panics
    /// As [`plug`](Self::plug).
    pub fn plug_slot(&self, model: Box<dyn DeviceModel>) -> Slot {
        let identity = model.identity();
        let mut state = self.lock();
        let index = state.machine.seats.len();
        if let Err(e) = state.machine.fabric.add(index, &model.ports()) {
            drop(state);
            panic!("{e}");
        }
        let iommu = Iommu::new(self.0.iommu.clone(), state.machine.rng.rand_u64());
        let seat = Seat::new(ConfigSpace::new(identity.clone()), iommu, identity.msix_vectors);
        state.plug(model, seat);
        drop(state);
        Slot::new(self.clone(), index)
    }

    /// Sets the faults of every link, from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().machine.fabric.set_faults(None, faults);
    }

    /// Sets how a payload is damaged: see [`Faults::corrupt_payload`].
    pub fn set_corruptor(&self, corruptor: Corruptor) {
        self.lock().machine.fabric.corruptor = Some(corruptor);
    }

    /// Sets who sees every frame; `None` takes the filter away.
    pub fn set_filter(&self, filter: Option<PacketFilter>) {
        self.lock().machine.fabric.filter = filter;
    }

    /// Function, port and counters of every link.
    pub fn links(&self) -> Vec<(usize, u8, LinkCounters)> {
        self.lock().machine.fabric.all_counters().collect()
    }

    /// Lets the devices run as a waiting driver does. For programs that have no function at hand.
    ///
    /// # Panics
    /// If nothing is left to happen: see [`QuietLimit`].
    pub fn idle(&self) {
        self.0.shared.run(Point::Idle);
    }

    /// Stops the devices' thread, if there is one, and writes the captures out. Devices answer register accesses
    /// afterwards, but do nothing by themselves. Tells the first error of a capture.
    pub fn stop(&self) -> io::Result<()> {
        self.0.stop()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.shared.lock()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// Tells the devices' thread that there is something to do.
    pub(crate) fn notify(&self) {
        if self.0.shared.threaded {
            self.0.shared.wake.notify_all();
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl Inner {
    fn stop(&self) -> io::Result<()> {
        let thread = self.thread.lock().ok().and_then(|mut t| t.take());
        if let Some(thread) = thread {
            thread.stop(&self.shared);
        }
        // A capture is complete up to the panic of a model.
        let mut state = self.shared.state.lock().unwrap_or_else(|p| p.into_inner());
        state.machine.fabric.captures.iter_mut().try_for_each(Capture::finish)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(e) = self.stop() {
            log::error!("a capture is incomplete: {e}");
        }
    }
}

/// Describes a [`World`].
pub struct Builder {
    seed: u64,
    clock: Option<Clock>,
    threaded: bool,
    captures: Vec<Capture>,
    faults: Faults,
    latency: Option<Duration>,
    iommu: IommuConfig,
    write_combining: bool,
    quiet_limit: Option<QuietLimit>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            seed: 0,
            clock: None,
            threaded: false,
            captures: Vec::new(),
            faults: Faults::NONE,
            latency: None,
            iommu: IommuConfig::default(),
            write_combining: true,
            quiet_limit: Some(QuietLimit::default()),
        }
    }
}

impl Builder {
    /// The seed of everything random; 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The clock; virtual by default on one thread, always the wall's with a thread.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Runs the devices on a thread of their own, for speed. Not reproducible.
    pub fn threaded(mut self, threaded: bool) -> Self {
        self.threaded = threaded;
        self
    }

    /// Captures the frames of one kind of link into a file, as they were sent: before filter and faults.
    pub fn capture(self, kind: LinkKind, path: impl AsRef<Path>) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        self.capture_to(kind, Box::new(file))
    }

    /// Captures into anything that can be written to.
    pub fn capture_to(mut self, kind: LinkKind, to: Box<dyn Write + Send>) -> io::Result<Self> {
        self.captures.push(Capture::new(kind, to)?);
        Ok(self)
    }

    /// Faults of every link; none by default.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// How long a frame is on its way; 1 us by default on the virtual clock, nothing on the wall clock.
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = Some(latency);
        self
    }

    /// What the IOMMU of each function allows.
    pub fn iommu(mut self, iommu: IommuConfig) -> Self {
        self.iommu = iommu;
        self
    }

    /// Whether BARs have a write-combining window; true by default.
    pub fn write_combining(mut self, window: bool) -> Self {
        self.write_combining = window;
        self
    }

    /// When waiting for nothing is a failure; `None` for never.
    pub fn quiet_limit(mut self, limit: Option<QuietLimit>) -> Self {
        self.quiet_limit = limit;
        self
    }

    /// Makes the world.
    ///
    /// # Panics
    /// If a thread was asked for on the virtual clock, or cannot be had.
    pub fn build(self) -> World {
        let clock = self.clock.unwrap_or(if self.threaded { Clock::Wall } else { Clock::Virtual });
        assert!(!self.threaded || clock == Clock::Wall, "devices on a thread of their own need the wall clock");
        let latency = self.latency.unwrap_or(match clock {
            Clock::Virtual => Duration::from_micros(1),
            Clock::Wall => Duration::ZERO,
        });
        let mut fabric = Fabric::new(latency, self.faults);
        fabric.captures = self.captures;
        let state = State::new(self.seed, Time::new(clock), fabric, self.quiet_limit, self.threaded);
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            wanting: AtomicU32::new(0),
            wake: Condvar::new(),
            threaded: self.threaded,
            waiting: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
        });
        let thread = self.threaded.then(|| ModelThread::start(shared.clone()));
        World(Arc::new(Inner {
            shared,
            thread: Mutex::new(thread),
            iommu: self.iommu,
            write_combining: self.write_combining,
        }))
    }
}
