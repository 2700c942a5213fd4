//! Timeouts and credits as the wire codes them, and the deadlines of all QPs.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use bareverbs::wire::aeth;

/// How long a requester waits for an answer: 4.096 us * 2^code, forever for 0 (IBA 9.7.6.1.3).
pub fn ack_timeout(code: u8) -> Option<Duration> {
    (code != 0).then(|| Duration::from_nanos(4096 << (code & 0x1f)))
}

/// The largest credit code that does not promise more than `n` receive WQEs (IBA 9.7.7.2.4).
pub fn credit_code(n: u32) -> u8 {
    let mut code = 0;
    while aeth::credits(code + 1).is_some_and(|credits| credits <= n) {
        code += 1;
    }
    code
}

/// Deadlines, one a QP. A deadline that moves back is not searched for: when the old one comes up, the new one is put
/// in its place.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Duration, u32)>>,
    /// For each QP that has a deadline, its deadline and the earliest entry in the heap.
    armed: BTreeMap<u32, (Option<Duration>, Duration)>,
}

impl Timers {
    /// Sets or removes the deadline of a QP.
    pub fn set(&mut self, qpn: u32, deadline: Option<Duration>) {
        match (self.armed.get_mut(&qpn), deadline) {
            (None, None) => {}
            (Some((current, queued)), deadline) => {
                *current = deadline;
                if let Some(at) = deadline.filter(|at| at < queued) {
                    *queued = at;
                    self.heap.push(Reverse((at, qpn)));
                }
            }
            (None, Some(at)) => {
                self.armed.insert(qpn, (deadline, at));
                self.heap.push(Reverse((at, qpn)));
            }
        }
    }

    /// The QP whose deadline has come, if there is one; it then has none.
    pub fn expired(&mut self, now: Duration) -> Option<u32> {
        while let Some(&Reverse((at, qpn))) = self.heap.peek() {
            if at > now {
                return None;
            }
            self.heap.pop();
            let Some((deadline, queued)) = self.armed.get_mut(&qpn) else { continue };
            if *queued != at {
                continue; // an entry that was overtaken by an earlier one
            }
            match *deadline {
                Some(due) if due > now => {
                    *queued = due;
                    self.heap.push(Reverse((due, qpn)));
                }
                Some(_) => {
                    self.armed.remove(&qpn);
                    return Some(qpn);
                }
                None => {
                    self.armed.remove(&qpn);
                }
            }
        }
        None
    }

    /// When [`expired`](Self::expired) may have something; never later than the first deadline.
    pub fn next(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn coded_durations() {
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(14), Some(Duration::from_nanos(67_108_864)));
    }

    #[test]
    fn credits_round_down() {
        let codes: Vec<u8> = [0, 1, 4, 5, 6, 7, 8, 100, 32768, 99999].map(credit_code).into();
        assert_eq!(codes, [0, 1, 4, 4, 5, 5, 6, 13, 30, 30]);
    }

    #[test]
    fn deadlines_come_in_order_and_move() {
        let mut timers = Timers::default();
        timers.set(1, Some(us(10)));
        timers.set(2, Some(us(20)));
        timers.set(3, Some(us(30)));
        timers.set(1, Some(us(25)));
        timers.set(3, Some(us(5)));
        timers.set(2, None);
        assert_eq!(timers.expired(us(4)), None);
        assert_eq!(timers.expired(us(24)), Some(3));
        assert_eq!(timers.expired(us(24)), None);
        assert_eq!(timers.next(), Some(us(25)));
        assert_eq!(timers.expired(us(25)), Some(1));
        assert_eq!(timers.expired(us(100)), None);
        assert_eq!(timers.next(), None);
        timers.set(1, Some(us(200)));
        assert_eq!(timers.expired(us(200)), Some(1));
    }
}
