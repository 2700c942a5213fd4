//! The table of QP transitions against one written down apart from it, from the manual page ibv_modify_qp (what INIT,
//! RTR and RTS require) and the InfiniBand specification, volume 1, 11.2.5.2 (all others, and what may be given).
//!
//! Attributes are the bits of `enum ibv_qp_attr_mask`, written as numbers; types and states are those of
//! `enum ibv_qp_type` and `enum ibv_qp_state` by name.

use bareverbs::{Error, QpAttr, QpAttrMask, QpState, QpType, qp::check_transition};

const STATE: u32 = 1 << 0;
const CUR_STATE: u32 = 1 << 1;
const SQD_NOTIFY: u32 = 1 << 2;
const ACCESS: u32 = 1 << 3;
const PKEY: u32 = 1 << 4;
const PORT: u32 = 1 << 5;
const QKEY: u32 = 1 << 6;
const AV: u32 = 1 << 7;
const MTU: u32 = 1 << 8;
const TIMEOUT: u32 = 1 << 9;
const RETRY: u32 = 1 << 10;
const RNR_RETRY: u32 = 1 << 11;
const RQ_PSN: u32 = 1 << 12;
const RD_ATOMIC: u32 = 1 << 13;
const ALT: u32 = 1 << 14;
const RNR_TIMER: u32 = 1 << 15;
const SQ_PSN: u32 = 1 << 16;
const DEST_RD_ATOMIC: u32 = 1 << 17;
const MIGRATE: u32 = 1 << 18;
const DEST_QPN: u32 = 1 << 20;
/// Bits that exist.
const BITS: u32 = 21;

use QpState::{Err as Error_, Init, Reset, Rtr, Rts, Sqd, Sqe};

/// From, to, required, optional.
type Rows = &'static [(QpState, QpState, u32, u32)];

/// Each type on its own, every row in full.
#[rustfmt::skip]
const EXPECTED: [(QpType, Rows); 6] = [
    (QpType::Ud, &[
        (Reset, Init, PKEY | PORT | QKEY, 0),
        (Init, Init, 0, PKEY | PORT | QKEY),
        (Init, Rtr, 0, PKEY | QKEY),
        (Rtr, Rts, SQ_PSN, CUR_STATE | QKEY),
        (Rts, Rts, 0, CUR_STATE | QKEY),
        (Rts, Sqd, 0, SQD_NOTIFY),
        (Sqd, Rts, 0, CUR_STATE | QKEY),
        (Sqd, Sqd, 0, PKEY | QKEY),
        (Sqe, Rts, 0, CUR_STATE | QKEY),
    ]),
    (QpType::Uc, &[
        (Reset, Init, PKEY | PORT | ACCESS, 0),
        (Init, Init, 0, PKEY | PORT | ACCESS),
        (Init, Rtr, AV | MTU | DEST_QPN | RQ_PSN, ALT | ACCESS | PKEY),
        (Rtr, Rts, SQ_PSN, CUR_STATE | ALT | ACCESS | MIGRATE),
        (Rts, Rts, 0, CUR_STATE | ACCESS | ALT | MIGRATE),
        (Rts, Sqd, 0, SQD_NOTIFY),
        (Sqd, Rts, 0, CUR_STATE | ALT | ACCESS | MIGRATE),
        (Sqd, Sqd, 0, AV | ALT | ACCESS | PKEY | MIGRATE),
        (Sqe, Rts, 0, CUR_STATE | ACCESS),
    ]),
    (QpType::Rc, &[
        (Reset, Init, PKEY | PORT | ACCESS, 0),
        (Init, Init, 0, PKEY | PORT | ACCESS),
        (Init, Rtr, AV | MTU | DEST_QPN | RQ_PSN | DEST_RD_ATOMIC | RNR_TIMER, ALT | ACCESS | PKEY),
        (Rtr, Rts, TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | RD_ATOMIC, CUR_STATE | ALT | ACCESS | RNR_TIMER | MIGRATE),
        (Rts, Rts, 0, CUR_STATE | ACCESS | ALT | MIGRATE | RNR_TIMER),
        (Rts, Sqd, 0, SQD_NOTIFY),
        (Sqd, Rts, 0, CUR_STATE | ALT | ACCESS | RNR_TIMER | MIGRATE),
        (Sqd, Sqd, 0, PORT | AV | TIMEOUT | RETRY | RNR_RETRY | RD_ATOMIC | DEST_RD_ATOMIC | ALT | ACCESS | PKEY
            | RNR_TIMER | MIGRATE),
    ]),
    (QpType::XrcIni, &[
        (Reset, Init, PKEY | PORT | ACCESS, 0),
        (Init, Init, 0, PKEY | PORT | ACCESS),
        (Init, Rtr, AV | MTU | DEST_QPN | RQ_PSN, ALT | ACCESS | PKEY),
        (Rtr, Rts, TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | RD_ATOMIC, CUR_STATE | ALT | ACCESS | MIGRATE),
        (Rts, Rts, 0, CUR_STATE | ACCESS | ALT | MIGRATE),
        (Rts, Sqd, 0, SQD_NOTIFY),
        (Sqd, Rts, 0, CUR_STATE | ALT | ACCESS | MIGRATE),
        (Sqd, Sqd, 0, PORT | AV | TIMEOUT | RETRY | RNR_RETRY | RD_ATOMIC | ALT | ACCESS | PKEY | MIGRATE),
    ]),
    (QpType::XrcTgt, &[
        (Reset, Init, PKEY | PORT | ACCESS, 0),
        (Init, Init, 0, PKEY | PORT | ACCESS),
        (Init, Rtr, AV | MTU | DEST_QPN | RQ_PSN | DEST_RD_ATOMIC | RNR_TIMER, ALT | ACCESS | PKEY),
        (Rtr, Rts, TIMEOUT | SQ_PSN, CUR_STATE | ALT | ACCESS | RNR_TIMER | MIGRATE),
        (Rts, Rts, 0, CUR_STATE | ACCESS | ALT | MIGRATE | RNR_TIMER),
        (Rts, Sqd, 0, SQD_NOTIFY),
        (Sqd, Rts, 0, CUR_STATE | ALT | ACCESS | RNR_TIMER | MIGRATE),
        (Sqd, Sqd, 0, PORT | AV | TIMEOUT | DEST_RD_ATOMIC | ALT | ACCESS | PKEY | RNR_TIMER | MIGRATE),
    ]),
    (QpType::RawPacket, &[
        (Reset, Init, PORT, 0),
        (Init, Init, 0, PORT),
        (Init, Rtr, 0, 0),
        (Rtr, Rts, 0, 0),
        (Rts, Rts, 0, 0),
    ]),
];

const STATES: [QpState; 7] = [Reset, Init, Rtr, Rts, Sqd, Sqe, Error_];

/// What a mask must come to.
fn expected(kind: QpType, from: QpState, to: QpState, given: u32) -> Result<(), Error> {
    let rows = EXPECTED.iter().find(|(k, _)| *k == kind).unwrap().1;
    let (required, optional) = match to {
        // Every state goes there, and nothing is given along.
        Reset | Error_ => (0, 0),
        _ => match rows.iter().find(|(f, t, ..)| (*f, *t) == (from, to)) {
            Some((_, _, required, optional)) => (*required, *optional),
            None => return Err(Error::NoSuchTransition { kind, from, to }),
        },
    };
    let bits = QpAttrMask::from_bits_retain;
    match (required & !given, given & !(required | optional)) {
        (0, 0) => Ok(()),
        (0, forbidden) => Err(Error::ForbiddenAttribute { forbidden: bits(forbidden), from, to }),
        (missing, _) => Err(Error::MissingAttribute { missing: bits(missing), from, to }),
    }
}

fn check(kind: QpType, from: QpState, to: QpState, given: u32) {
    let mut attr = QpAttr::to(to).cur_state(from);
    attr.mask = QpAttrMask::from_bits_retain(STATE | given);
    assert_eq!(check_transition(kind, from, &attr), expected(kind, from, to, given), "{kind:?} {from} {to} {given:#x}");
}

/// Every transition that is and that is not: with what it requires, with all it takes, with nothing and with
/// everything, and with any one or two attributes more or less.
#[test]
fn every_transition_of_every_type() {
    let mut checks = 0;
    for (kind, rows) in EXPECTED {
        for from in STATES {
            for to in STATES {
                let row = rows.iter().find(|(f, t, ..)| (*f, *t) == (from, to));
                let (required, optional) = row.map_or((0, 0), |(_, _, r, o)| (*r, *o));
                let all = (1 << BITS) - 2;
                for base in [required, required | optional, 0, all] {
                    check(kind, from, to, base);
                    for one in 1..BITS {
                        check(kind, from, to, base ^ 1 << one);
                        for other in 1..one {
                            check(kind, from, to, base ^ 1 << one ^ 1 << other);
                            checks += 1;
                        }
                        checks += 1;
                    }
                    checks += 1;
                }
            }
        }
    }
    println!("{checks} masks over {} transitions of {} types", STATES.len() * STATES.len(), EXPECTED.len());
    assert_eq!(checks, 6 * 49 * 4 * (1 + 20 + 190));
}

/// All masks there are, for the transitions that a connection makes.
#[test]
fn every_mask_of_the_way_to_rts() {
    let mut checks = 0u64;
    for kind in [QpType::Rc, QpType::Ud] {
        for (from, to) in [(Reset, Init), (Init, Rtr), (Rtr, Rts)] {
            for given in (0..1 << BITS).step_by(2) {
                let mut attr = QpAttr::to(to).cur_state(from);
                attr.mask = QpAttrMask::from_bits_retain(STATE | given);
                assert!(check_transition(kind, from, &attr) == expected(kind, from, to, given), "{kind:?} {given:#x}");
                checks += 1;
            }
        }
    }
    println!("{checks} masks");
}

/// An assumed state must be the one it is in, whatever else is right.
#[test]
fn the_assumed_state() {
    let mut checks = 0;
    for (kind, rows) in EXPECTED {
        for (from, to, required, optional) in rows.iter().filter(|(.., optional)| optional & CUR_STATE != 0) {
            for assumed in STATES {
                let mut attr = QpAttr::to(*to).cur_state(assumed);
                attr.mask = QpAttrMask::from_bits_retain(STATE | required | optional);
                let result = check_transition(kind, *from, &attr);
                let wrong = matches!(result, Err(Error::BadAttribute { attribute: QpAttrMask::CUR_STATE, .. }));
                assert_eq!((result.is_ok(), wrong), (assumed == *from, assumed != *from), "{kind:?} {from} {to}");
                checks += 1;
            }
        }
    }
    println!("{checks} assumptions");
    assert!(checks > 100);
}

/// Without a state in the mask a QP stays in its own, and the row for that counts.
#[test]
fn a_mask_without_a_state_means_the_same_state() {
    for (kind, _) in EXPECTED {
        for from in STATES {
            for given in [0, ACCESS, QKEY, PORT, CUR_STATE] {
                let mut attr = QpAttr::to(Rtr).cur_state(from);
                attr.mask = QpAttrMask::from_bits_retain(given);
                assert_eq!(check_transition(kind, from, &attr), expected(kind, from, from, given), "{kind:?} {from}");
            }
        }
    }
}

#[test]
fn states_are_written_as_the_specification_writes_them() {
    assert_eq!(STATES.map(|state| state.to_string()), ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"]);
}

/// Which states a QP gets to.
mod explore_tests {
    use super::*;
    use bareverbs_explore::{Machine, explore};

    /// A QP that is modified in every way, whose requests fail, and whose peer does.
    struct Qp {
        kind: QpType,
        state: QpState,
    }

    /// A modify to each state, with what it requires and with all it takes; a request of the send queue fails; the QP fails.
    const STEPS: usize = 2 * STATES.len() + 2;

    impl Machine for Qp {
        type State = QpState;

        fn step(&mut self, step: usize) -> bool {
            let Some(&to) = STATES.get(step / 2) else { return self.fail(step.is_multiple_of(2)) };
            let rows = EXPECTED.iter().find(|(k, _)| *k == self.kind).unwrap().1;
            let row = rows.iter().find(|(from, t, ..)| (*from, *t) == (self.state, to));
            let (required, optional) = row.map_or((0, 0), |(.., r, o)| (*r, *o));
            let mut attr = QpAttr::to(to).cur_state(self.state);
            attr.mask =
                QpAttrMask::from_bits_retain(STATE | required | if step.is_multiple_of(2) { 0 } else { optional });
            let result = check_transition(self.kind, self.state, &attr);
            assert_eq!(
                result.is_ok(),
                row.is_some() || matches!(to, Reset | Error_),
                "{:?} {} {to}",
                self.kind,
                self.state
            );
            if result.is_ok() {
                self.state = to;
            }
            assert_eq!(self.state.may_post_recv(), self.state != Reset);
            assert_eq!(self.state.may_post_send(), [Rts, Sqd, Sqe, Error_].contains(&self.state));
            result.is_ok()
        }

        fn state(&self) -> QpState {
            self.state
        }
    }

    impl Qp {
        /// What a device does to it (IBA 10.3.1): a failed send stops the send queue of an unreliable QP that sends, anything
        /// else stops all.
        fn fail(&mut self, send: bool) -> bool {
            let stops = send && matches!(self.kind, QpType::Uc | QpType::Ud) && self.state == Rts;
            self.state = if stops { Sqe } else { Error_ };
            true
        }
    }

    /// Which states a QP of each type gets to, whatever is done in whatever order. Only a failure leads to SQE, only RESET
    /// out of ERR, and a raw packet QP is never drained.
    #[test]
    fn every_order_of_modifying_and_failing() {
        for (kind, _) in EXPECTED {
            let explored = explore(STEPS, 10, || Qp { kind, state: Reset });
            let states = match kind {
                QpType::Uc | QpType::Ud => 7,
                QpType::Rc | QpType::XrcIni | QpType::XrcTgt => 6,
                QpType::RawPacket => 5,
            };
            explored.recorded(&format!("the table of {kind:?}"), states, 0);
            assert!(explored.complete);
            assert_eq!(explored.states, states, "{kind:?}");
        }
        let from_error = |to| check_transition(QpType::Rc, Error_, &QpAttr::to(to));
        let allowed: Vec<QpState> = STATES.into_iter().filter(|to| from_error(*to).is_ok()).collect();
        assert_eq!(allowed, [Reset, Error_]);
    }
}
