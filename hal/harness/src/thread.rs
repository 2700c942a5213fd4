//! The thread that runs the devices in the threaded mode.

use crate::world::Shared;
use std::{
    hint,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Steps in one go: the lock is let go between them, so that a doorbell is not held up for long.
const BATCH: u32 = 32;
/// Empty rounds before the thread sleeps: a doorbell usually follows soon.
const SPINS: u32 = 2000;
/// Longest sleep, so that quietness is noticed.
const NAP: Duration = Duration::from_millis(10);

pub(crate) struct ModelThread {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl ModelThread {
    pub(crate) fn start(shared: Arc<Shared>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = thread::Builder::new()
            .name("devices".into())
            .spawn(move || run(&shared, &seen))
            .expect("a thread for the devices");
        Self { stop, thread }
    }

    /// Ends the thread and waits for it. A panic of a model was told already by the thread itself.
    pub(crate) fn stop(self, shared: &Shared) {
        self.stop.store(true, Ordering::Release);
        shared.wake.notify_all();
        let _ = self.thread.join();
    }
}

fn run(shared: &Shared, stop: &AtomicBool) {
    let mut empty = 0;
    while !stop.load(Ordering::Acquire) {
        while shared.wanting.load(Ordering::Relaxed) > 0 {
            hint::spin_loop();
            thread::yield_now();
        }
        let mut state = shared.lock_unfair();
        if state.run_steps(BATCH) > 0 {
            empty = 0;
            continue;
        }
        empty += 1;
        if empty < SPINS {
            drop(state);
            thread::yield_now();
            continue;
        }
        if !shared.waiting.swap(false, Ordering::Relaxed) {
            state.note_busy();
        } else if state.note_quiet().is_err() {
            shared.stuck.store(true, Ordering::Relaxed);
        }
        let now = state.machine.time.now();
        let nap = state.next_deadline().map_or(NAP, |d| d.saturating_sub(now).min(NAP));
        if !nap.is_zero() {
            state.nap_until = Some(now + nap);
            // A wake-up, a spurious one and the end of the nap are one: the loop looks again.
            if let Ok((mut state, _)) = shared.wake.wait_timeout(state, nap) {
                state.nap_until = None;
            }
        }
    }
}
