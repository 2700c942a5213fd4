//! What the bench prints, and what it is measured against.

use super::Row;
use super::peer::{Comparison, find};
use std::fmt::Write;

/// At most this part of libmlx5's time.
const RATIOS: &[(&str, f64)] = &[
    ("post_send_write/1", 0.45),
    ("post_send_write/8", 0.58),
    ("post_send_write/32", 0.58),
    ("post_send_inl32/1", 0.48),
    ("post_send_inl32/32", 0.50),
    ("post_recv/1", 0.55),
    ("post_recv/32", 1.00),
    ("post_srq_recv/1", 0.80),
    ("post_srq_recv/32", 0.95),
    ("poll_req/1", 0.36),
    ("poll_req/16", 0.30),
    ("poll_req/64", 0.29),
    ("poll_resp/16", 0.28),
    ("poll_srq/16", 0.34),
    ("poll_empty/16", 0.60),
];

/// With locks on both sides.
const SHARED_RATIO: f64 = 0.60;

pub fn csv(row: &Row) -> String {
    format!("{},{:.2},{:.2},{:.1}", row.case, row.ns_min, row.ns_median, row.instructions)
}

pub fn plain(rows: &[Row]) -> String {
    let mut text = format!("{:<20} {:>8} {:>9} {:>13}\n", "case", "ns min", "ns median", "instructions");
    for row in rows {
        let Row { case, ns_min, ns_median, instructions } = row;
        let _ = writeln!(text, "{case:<20} {ns_min:>8.2} {ns_median:>9.2} {instructions:>13.1}");
    }
    text
}

/// Both benches side by side; a ratio above its goal is marked.
pub fn comparison(c: &Comparison) -> String {
    let mut text = String::from("Local, libmlx5 without locks (ns an operation, minima; instructions)\n");
    let _ = writeln!(
        text,
        "{:<20} {:>6} {:>6} {:>8} {:>6} {:>6} {:>6}  {:>10} {:>6} {:>8}",
        "case", "ours", "instr", "libmlx5", "instr", "ratio", "goal", "no lfence", "floor", "of floor"
    );
    for row in &c.local.ours {
        let Some(peer) = c.local.peer(&row.case) else { continue };
        let ratio = row.ns_min / peer.ns_min;
        let goal = RATIOS.iter().find(|goal| goal.0 == row.case).map(|goal| goal.1);
        let bare = find(&c.without_lfence, &row.case).map(|bare| row.ns_min / bare.ns_min);
        let floor = c.floor(&row.case).map(|floor| floor.ns_min);
        let _ = writeln!(
            text,
            "{:<20} {:>6.2} {:>6.1} {:>8.2} {:>6.1} {:>6.2} {:>6}{} {:>10} {:>6} {:>8}",
            row.case,
            row.ns_min,
            row.instructions,
            peer.ns_min,
            peer.instructions,
            ratio,
            number(goal),
            mark(goal.is_some_and(|goal| ratio > goal)),
            number(bare),
            number(floor),
            number(floor.map(|floor| row.ns_min / floor)),
        );
    }
    text.push_str("\nShared, libmlx5 with its locks\n");
    let _ = writeln!(
        text,
        "{:<20} {:>6} {:>6} {:>8} {:>6} {:>6} {:>6}",
        "case", "ours", "instr", "libmlx5", "instr", "ratio", "goal"
    );
    for row in &c.shared.ours {
        let Some(peer) = c.shared.peer(&row.case) else { continue };
        let ratio = row.ns_min / peer.ns_min;
        let _ = writeln!(
            text,
            "{:<20} {:>6.2} {:>6.1} {:>8.2} {:>6.1} {:>6.2} {:>6.2}{}",
            row.case,
            row.ns_min,
            row.instructions,
            peer.ns_min,
            peer.instructions,
            ratio,
            SHARED_RATIO,
            mark(ratio > SHARED_RATIO),
        );
    }
    text
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.2}"))
}

fn mark(missed: bool) -> char {
    if missed { '!' } else { ' ' }
}
