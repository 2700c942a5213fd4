//! Drawings of the state machines, from the table and the code that the drivers use.

use bareverbs::{
    QpAttrMask, QpState, QpType,
    cq::Consumer,
    qp::TRANSITIONS,
    srq::{SrqPoster, SrqSlot, SrqSlots},
};
use bareverbs_explore::{Machine, edges};
use std::{collections::BTreeSet, ptr::NonNull};

mod svg;

use svg::{Drawing, Node};

/// The drawings: name of the file, and what is in it.
pub fn all() -> Vec<(&'static str, String)> {
    vec![
        ("qp_rc.svg", qp(QpType::Rc)),
        ("qp_uc.svg", qp(QpType::Uc)),
        ("qp_ud.svg", qp(QpType::Ud)),
        ("qp_xrc_ini.svg", qp(QpType::XrcIni)),
        ("qp_xrc_tgt.svg", qp(QpType::XrcTgt)),
        ("qp_raw_packet.svg", qp(QpType::RawPacket)),
        ("cq.svg", cq()),
        ("srq.svg", srq()),
    ]
}

/// Where each state of a QP stands.
const PLACES: [(QpState, i32, i32); 7] = [
    (QpState::Reset, 80, 90),
    (QpState::Init, 280, 90),
    (QpState::Rtr, 480, 90),
    (QpState::Rts, 680, 90),
    (QpState::Err, 280, 230),
    (QpState::Sqe, 480, 230),
    (QpState::Sqd, 680, 230),
];

/// The names of attributes, as in the table.
fn names(mask: QpAttrMask) -> String {
    let names: Vec<&str> = mask.iter_names().map(|(name, _)| name).collect();
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

/// A type's rows of the table.
fn qp(kind: QpType) -> String {
    let rows: Vec<_> = TRANSITIONS.iter().filter(|row| row.kinds.contains(&kind)).collect();
    let mut drawing = Drawing::new(&format!("QP of type {kind:?}"), 760);
    for (state, x, y) in PLACES {
        let known = matches!(state, QpState::Reset | QpState::Err);
        if known || rows.iter().any(|row| row.from == state || row.to == state) {
            drawing.node(Node { name: state.to_string(), x, y });
        }
    }
    for (n, row) in rows.iter().enumerate() {
        let number = (n + 1).to_string();
        drawing.edge(&row.from.to_string(), &row.to.to_string(), &number);
        drawing.line(&format!("{number:>2}  {} to {}: needs {}", row.from, row.to, names(row.required)));
        if !row.optional.is_empty() {
            drawing.line(&format!("    takes {}", names(row.optional)));
        }
    }
    drawing.line("    Every state goes to RESET and to ERR, with no other attribute. A QP whose request fails goes to ERR by itself;");
    drawing.line("    where a send of a UC or UD QP in RTS fails, it is SQE.");
    drawing.finish()
}

/// A ring of two entries: how many are unpolled, and where the consumer stands.
struct Ring {
    ring: [u8; 2],
    consumer: Consumer,
    producer: Consumer,
}

impl Machine for Ring {
    /// Entries unpolled; slot and owner bit of the next one.
    type State = (u32, u32, u8);

    fn step(&mut self, step: usize) -> bool {
        let is_new = |ring: &[u8; 2], at: Consumer| ring[at.slot() as usize] == at.owner();
        match step {
            0 if self.producer.index().wrapping_sub(self.consumer.index()) < 2 => {
                self.ring[self.producer.slot() as usize] = self.producer.owner();
                self.producer = self.producer.plus(1);
            }
            1 if is_new(&self.ring, self.consumer) => self.consumer = self.consumer.plus(1),
            _ => return false,
        }
        true
    }

    fn state(&self) -> Self::State {
        (self.producer.index().wrapping_sub(self.consumer.index()), self.consumer.slot(), self.consumer.owner())
    }
}

/// What the consumer of a CQ does, found by letting it.
fn cq() -> String {
    let new = || Ring { ring: [1; 2], consumer: Consumer::new(1), producer: Consumer::new(1) };
    let mut drawing = Drawing::new("CQ with a ring of two entries", 900);
    let name = |(unpolled, slot, owner): (u32, u32, u8)| format!("slot {slot}, owner {owner}\n{unpolled} unpolled");
    let steps: BTreeSet<_> = edges(2, 16, new).into_iter().collect();
    let states: BTreeSet<_> = steps.iter().flat_map(|(from, _, to)| [*from, *to]).collect();
    for state in states {
        let (unpolled, slot, owner) = state;
        let lap = i32::from(owner) * 2 + slot as i32;
        drawing.node(Node { name: name(state), x: 110 + 220 * lap, y: 70 + 90 * unpolled as i32 });
    }
    for (from, step, to) in steps {
        drawing.edge(&name(from), &name(to), ["write", "poll"][step]);
    }
    drawing.line("write: the device writes an entry with the owner bit of its lap. poll: the consumer takes one.");
    drawing.line(
        "A sweep takes the entries of a QP that goes, like polls of them in silence. A full ring is never written to.",
    );
    drawing.finish()
}

/// An SRQ of four slots, of which one stays back.
struct Shared {
    _slots: Vec<SrqSlot>,
    list: SrqSlots,
    poster: SrqPoster,
    posted: Vec<u32>,
}

impl Shared {
    fn new() -> Self {
        let mut slots: Vec<SrqSlot> = (0..4).map(|_| SrqSlot::default()).collect();
        // SAFETY: the vector is kept beside the list and not touched.
        let (list, poster) = unsafe { SrqSlots::new(NonNull::new(slots.as_mut_ptr()).expect("slots"), 2) };
        Self { _slots: slots, list, poster, posted: Vec::new() }
    }
}

impl Machine for Shared {
    /// Requests with the device; whether the poster knows of a free slot without looking at what came back.
    type State = (usize, bool);

    fn step(&mut self, step: usize) -> bool {
        if step == 1 {
            return self.posted.pop().is_some_and(|slot| self.list.complete(slot, false).is_some());
        }
        let Some(place) = self.poster.place(&self.list) else { return false };
        self.poster.take(place, 0);
        self.posted.push(place.slot);
        true
    }

    fn state(&self) -> Self::State {
        (self.posted.len(), self.poster.known_place().is_some())
    }
}

/// What poster and pollers of an SRQ do, found by letting them.
fn srq() -> String {
    let mut drawing = Drawing::new("SRQ of four slots", 900);
    let name = |(posted, known): (usize, bool)| {
        format!("{posted} posted\n{}", if known { "a slot at hand" } else { "none at hand" })
    };
    // A state here is many of the machine's: all steps of all sequences are followed, not only those to new states.
    let mut steps = BTreeSet::new();
    for mut sequence in 0..1 << 14_u32 {
        let mut machine = Shared::new();
        for _ in 0..14 {
            let from = machine.state();
            let step = (sequence & 1) as usize;
            if machine.step(step) {
                steps.insert((from, step, machine.state()));
            }
            sequence >>= 1;
        }
    }
    let states: BTreeSet<_> = steps.iter().flat_map(|(from, _, to)| [*from, *to]).collect();
    for state in states {
        let (posted, known) = state;
        drawing.node(Node { name: name(state), x: 110 + 220 * posted as i32, y: if known { 70 } else { 190 } });
    }
    for (from, step, to) in steps {
        let label = match (step, from.1) {
            (0, true) => "post",
            (0, false) => "look, post",
            _ => "complete",
        };
        drawing.edge(&name(from), &name(to), label);
    }
    drawing.line("complete: a poll or a sweep puts a slot into the ring of free ones, behind the others.");
    drawing.line(
        "look: the poster has used up the free slots that it knew of, and looks how far the ring is written now.",
    );
    drawing.line("One slot stays back always: the device must know which comes after the last.");
    drawing.finish()
}
