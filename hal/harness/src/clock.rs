//! The world's clock.

use std::time::{Duration, Instant};

/// Which time a world lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Time advances by what happens: a little for each access and step, to the next deadline when nothing else is
    /// left. Runs of one seed are identical.
    Virtual,
    /// Real time.
    Wall,
}

/// The time that has passed since the world began.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Time {
    Virtual(Duration),
    /// The world's beginning, and when the clock was last looked at: that costs as much as a packet's copy.
    Wall(Instant, Duration),
}

impl Time {
    pub(crate) fn new(clock: Clock) -> Self {
        match clock {
            Clock::Virtual => Self::Virtual(Duration::ZERO),
            Clock::Wall => Self::Wall(Instant::now(), Duration::ZERO),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        match self {
            Self::Virtual(t) => *t,
            Self::Wall(_, seen) => *seen,
        }
    }

    /// Looks at the wall's clock.
    pub(crate) fn look(&mut self) {
        if let Self::Wall(start, seen) = self {
            *seen = start.elapsed();
        }
    }

    /// Lets virtual time pass.
    pub(crate) fn advance(&mut self, by: Duration) {
        if let Self::Virtual(t) = self {
            *t += by;
        }
    }

    /// Lets virtual time pass until `then`.
    pub(crate) fn jump(&mut self, then: Duration) {
        if let Self::Virtual(t) = self {
            *t = then.max(*t);
        }
    }
}
