//! Every order of the steps of a small state machine, up to a depth.
//!
//! A machine is the code under test beside something plain that says what should come of it; its steps compare the two.
//! States are visited breadth first and each once: what follows from a state does not depend on how it was come by, so
//! nothing is left out, and the first sequence that fails is a shortest one.

use std::{collections::HashSet, fmt, hash::Hash, thread};

/// Where counters begin: at zero, and just below the ends of 16, 24 and 32 bits.
pub const STARTS: [u32; 4] = [0, 0xfffe, 0xff_fffe, u32::MAX - 1];

/// How many of these ends a counter has passed on its way.
pub const fn wraps(start: u32, now: u32) -> usize {
    (start >> 16 != now >> 16) as usize + (start >> 24 != now >> 24) as usize + (now < start) as usize
}

/// A state machine with steps of numbers.
pub trait Machine {
    /// All that what comes next depends on.
    type State: Eq + Hash;

    /// Does a step and compares; panics where something is not as it should be. `false` if the step cannot be taken
    /// here, and then nothing has changed.
    fn step(&mut self, step: usize) -> bool;

    /// Where it stands.
    fn state(&self) -> Self::State;

    /// How often its counters have passed an end of their numbers since the beginning, see [`wraps`].
    fn wraps(&self) -> usize {
        0
    }
}

/// What was visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// Different states, the first included.
    pub states: usize,
    /// Steps that were taken from them.
    pub steps: usize,
    /// Sequences of this many steps were followed.
    pub depth: usize,
    /// All states there are: none has a step to one that was not visited.
    pub complete: bool,
    /// States in which some counter had passed the end of its numbers.
    pub wrapped: usize,
}

impl Explored {
    /// Tells of the exploration of this name on a line that `cargo xtask test explore` reads, and panics if it has visited
    /// fewer states, or fewer behind a wrap, than are recorded here.
    pub fn recorded(&self, name: &str, states: usize, wrapped: usize) {
        println!("explored {name}: {self}; recorded: {states} and {wrapped}");
        let (most, behind) = (self.states, self.wrapped);
        assert!(states > 0 && most >= states, "{name}: {most} states were visited, {states} are recorded");
        assert!(behind >= wrapped, "{name}: {behind} states behind a wrap were visited, {wrapped} are recorded");
    }
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, steps, depth, complete, wrapped } = self;
        let all = if *complete { ", which are all there are" } else { "" };
        write!(f, "{states} states, {wrapped} behind a wrap, {steps} steps from them, by up to {depth} in a row{all}")
    }
}

/// Names the sequence whose step panicked.
struct Told<'a>(&'a [usize], usize);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("after the steps {:?} the step {} failed", self.0, self.1);
        }
    }
}

/// Takes steps below `steps` in every order, up to `depth` one after the other. `new` makes the machine anew for each
/// sequence, always the same.
pub fn explore<M: Machine>(steps: usize, depth: usize, new: impl Fn() -> M) -> Explored {
    visit(steps, depth, new, |_, _, _| ())
}

/// The steps that [`explore`] takes, each from which state to which.
pub fn edges<M: Machine>(steps: usize, depth: usize, new: impl Fn() -> M) -> Vec<(M::State, usize, M::State)> {
    let mut edges = Vec::new();
    visit(steps, depth, new, |from, step, to| edges.push((from, step, to)));
    edges
}

fn visit<M: Machine>(
    steps: usize,
    depth: usize,
    new: impl Fn() -> M,
    mut edge: impl FnMut(M::State, usize, M::State),
) -> Explored {
    let mut seen = HashSet::from([new().state()]);
    let mut last = vec![Vec::new()];
    let mut explored = Explored { states: 1, steps: 0, depth, complete: false, wrapped: 0 };
    for _ in 0..depth {
        let mut next = Vec::new();
        for path in &last {
            // Stands at the end of the path, for as long as no step was taken from there.
            let mut ready = None;
            for step in 0..steps {
                let _told = Told(path, step);
                let mut machine = ready.take().unwrap_or_else(|| {
                    let mut machine = new();
                    path.iter().for_each(|step| assert!(machine.step(*step), "a machine that is not always the same"));
                    machine
                });
                let from = machine.state();
                if !machine.step(step) {
                    assert!(machine.state() == from, "a step that was not taken has changed something");
                    ready = Some(machine);
                    continue;
                }
                explored.steps += 1;
                edge(from, step, machine.state());
                if seen.insert(machine.state()) {
                    explored.wrapped += usize::from(machine.wraps() > 0);
                    next.push(path.iter().copied().chain([step]).collect());
                }
            }
        }
        last = next;
        if last.is_empty() {
            explored.complete = true;
            break;
        }
    }
    explored.states = seen.len();
    explored
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts to a largest number and forgets; never passes `broken`.
    struct Counter {
        n: u32,
        most: u32,
        broken: u32,
    }

    impl Machine for Counter {
        type State = u32;

        fn step(&mut self, step: usize) -> bool {
            match step {
                0 if self.n == self.most => return false,
                0 => self.n += 1,
                _ => self.n = 0,
            }
            assert_ne!(self.n, self.broken);
            true
        }

        fn state(&self) -> u32 {
            self.n
        }

        /// As if it were one of two bits.
        fn wraps(&self) -> usize {
            (self.n / 4) as usize
        }
    }

    #[test]
    fn all_states_are_visited_once() {
        let new = || Counter { n: 0, most: 5, broken: 9 };
        // One forgetting from each of six states, five counts.
        assert_eq!(explore(2, 9, new), Explored { states: 6, steps: 11, depth: 9, complete: true, wrapped: 2 });
        assert_eq!(explore(2, 3, new), Explored { states: 4, steps: 6, depth: 3, complete: false, wrapped: 0 });
    }

    #[test]
    fn ends_that_a_counter_passes() {
        let ends = STARTS.map(|start| [1, 2].map(|n| wraps(start, start.wrapping_add(n))));
        assert_eq!(ends, [[0, 0], [0, 1], [0, 2], [0, 3]]);
    }

    #[test]
    fn fewer_states_than_are_recorded_are_a_failure() {
        let explored = explore(2, 9, || Counter { n: 0, most: 5, broken: 9 });
        explored.recorded("a counter", 6, 2);
        for (states, wrapped) in [(7, 2), (6, 3), (0, 0)] {
            std::panic::catch_unwind(|| explored.recorded("a counter", states, wrapped)).expect_err("a failure");
        }
    }

    #[test]
    fn edges_are_the_steps_taken() {
        let edges = edges(2, 2, || Counter { n: 0, most: 1, broken: 9 });
        assert_eq!(edges, [(0, 0, 1), (0, 1, 0), (1, 1, 0)]);
    }

    #[test]
    #[should_panic(expected = "left != right")]
    fn a_fault_at_the_depth_is_found() {
        explore(2, 4, || Counter { n: 0, most: 5, broken: 4 });
    }

    #[test]
    #[should_panic(expected = "a step that was not taken has changed something")]
    fn a_step_that_is_not_taken_changes_nothing() {
        /// Counts a step that it does not take.
        struct Liar(u32);

        impl Machine for Liar {
            type State = u32;

            fn step(&mut self, _: usize) -> bool {
                self.0 += 1;
                false
            }

            fn state(&self) -> u32 {
                self.0
            }
        }
        explore(1, 1, || Liar(0));
    }

    #[test]
    fn a_fault_beyond_the_depth_is_not() {
        explore(2, 3, || Counter { n: 0, most: 5, broken: 4 });
    }
}
