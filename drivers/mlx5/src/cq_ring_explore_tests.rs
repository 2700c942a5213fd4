//! Every order of the steps of small completion rings, up to a depth, against plain lists and a scripted device: entries
//! of QPs and of nobody are written, polled one or more at a time, shown by a view that ends or is forgotten, swept out;
//! the ring is changed for another while the device goes on; rings give slots back to one SRQ; QPs go, also such as the
//! device does not let go of, and others come to their user indices. Indices and counters begin at zero and just below
//! 2^16, 2^24 and 2^32.

use bareverbs_explore::{Machine, STARTS, explore};
use std::format;
use world::{GONE, World, WorldState};

#[path = "cq_ring_queue_tests.rs"]
mod queue;
#[path = "cq_ring_world_tests.rs"]
mod world;

/// What a step does; `false` if it cannot be taken.
type Step = fn(&mut World) -> bool;

/// A world, and the steps that are taken in it.
struct Steps(World, &'static [Step]);

impl Machine for Steps {
    type State = WorldState;

    fn step(&mut self, step: usize) -> bool {
        self.1[step](&mut self.0) && self.0.check()
    }

    fn state(&self) -> Self::State {
        self.0.state()
    }

    fn wraps(&self) -> usize {
        self.0.wraps()
    }
}

/// One CQ for both QPs, which changes its ring.
const RESIZED: &[Step] = &[
    |world| world.send(0),
    |world| world.post_and_receive(1),
    |world| world.lie(0, Some(GONE)),
    |world| world.poll(0, 1),
    |world| world.poll(0, 8),
    |world| world.advance(0),
    |world| world.cqs[0].end_view(false),
    |world| world.cqs[0].end_view(true),
    |world| world.reset(0),
    |world| world.reset(1),
    |world| world.cqs[0].resize(1),
    |world| world.cqs[0].resize(2),
    |world| world.cqs[0].resize(3),
    |world| world.cqs[0].change_over(),
    |world| world.cqs[0].follow(),
];

/// A CQ for each QP.
const TWO_CQS: &[Step] = &[
    |world| world.post_recv(),
    |world| world.receive(0, 0),
    |world| world.receive(0, 1),
    |world| world.receive(1, 0),
    |world| world.receive(1, 1),
    |world| world.poll(0, 1),
    |world| world.poll(1, 1),
    |world| world.reset(0),
    |world| world.reset(1),
    |world| world.lie(0, None),
    |world| world.lie(1, None),
    |world| world.stray(0, 1),
    |world| world.advance(0),
    |world| world.advance(1),
    |world| world.cqs[0].end_view(false),
    |world| world.cqs[1].end_view(false),
];

/// The first QP goes, and others come to its user index; the second one stays. Both complete to the first CQ, which
/// changes its ring, and another may complete to the second CQ.
const ANOTHER_QP: &[Step] = &[
    |world| world.send(0),
    |world| world.post_and_receive(0),
    |world| world.post_and_receive(1),
    |world| world.poll(0, 1),
    |world| world.poll(0, 8),
    |world| world.poll(1, 8),
    |world| world.advance(0),
    |world| world.cqs[0].end_view(false),
    |world| world.cqs[0].end_view(true),
    |world| world.destroy(0),
    |world| world.leave(0),
    |world| world.leave_kept(0),
    |world| world.kept_receives(),
    |world| world.make_another(0, true, 0),
    |world| world.make_another(0, false, 0),
    |world| world.make_another(0, false, 1),
    |world| world.cqs[0].resize(1),
    |world| world.cqs[0].resize(3),
    |world| world.cqs[0].change_over(),
    |world| world.cqs[0].follow(),
];

#[test]
fn every_order_of_writing_polling_sweeping_and_resizing() {
    // The larger entries where the numbers end, too.
    let runs = [(8, 6, 32646, 0), (7, 6, 22715, 17305), (7, 7, 22715, 17305), (7, 7, 21821, 16411)];
    for (start, (depth, log_stride, states, wrapped)) in STARTS.into_iter().zip(runs) {
        let new = || Steps(World::new(&[(2, log_stride)], start, [0, 0], false), RESIZED);
        let explored = explore(RESIZED.len(), depth, new);
        let name = format!("CQ of 4 entries of {} bytes from {start:#x}, resized to 2, 4 and 8", 1 << log_stride);
        explored.recorded(&name, states, wrapped);
    }
}

#[test]
fn every_order_of_two_cqs_on_one_srq() {
    for shared in [false, true] {
        for start in STARTS {
            let (depth, states, wrapped) = match (start, shared) {
                (0, false) => (8, 10324, 0),
                (0, true) => (7, 4775, 0),
                _ => (7, 11688, 8316),
            };
            let new = || Steps(World::new(&[(2, 6), (1, 7)], start, [0, 1], shared), TWO_CQS);
            let explored = explore(TWO_CQS.len(), depth, new);
            let name = format!("CQs of 4 and 2 on an SRQ of 4 slots, from {start:#x}, shared {shared}");
            explored.recorded(&name, states, wrapped);
        }
    }
}

#[test]
fn every_order_of_qps_that_come_to_the_user_index_of_one_that_went() {
    for (start, shared) in STARTS.into_iter().zip([false, true, false, true]) {
        let (depth, states, wrapped) = if start == 0 { (8, 90601, 0) } else { (7, 31396, 25951) };
        let new = || Steps(World::new(&[(2, 6), (1, 6)], start, [0, 0], shared), ANOTHER_QP);
        let explored = explore(ANOTHER_QP.len(), depth, new);
        let name = format!("CQ of 4 and QPs that come to one user index, from {start:#x}, shared {shared}");
        explored.recorded(&name, states, wrapped);
    }
}
