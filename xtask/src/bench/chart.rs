//! The chart beside the table: a group of bars a case, as SVG.

use super::Row;
use super::peer::Comparison;
use std::fmt::Write;

const LABEL: f64 = 150.0;
const WIDTH: f64 = 560.0;
const BAR: f64 = 9.0;
const GAP: f64 = 8.0;
const TOP: f64 = 34.0;

/// Names and colours of what is compared (Okabe and Ito's, which everybody can tell apart).
pub const OURS: (&str, &str) = ("bareverbs", "#0072b2");
pub const PEER: (&str, &str) = ("libmlx5", "#d55e00");
const FLOOR: (&str, &str) = ("minimal loop", "#999999");

/// Bars beside one label.
pub struct Group {
    pub label: String,
    /// Colours and lengths.
    pub bars: Vec<(&'static str, f64)>,
}

/// The chart of the cases.
pub fn svg(rows: &[Row], comparison: Option<&Comparison>) -> String {
    let group = |row: &Row| Group { label: row.case.clone(), bars: bars(row, comparison) };
    let groups: Vec<Group> = rows.iter().map(group).collect();
    let legend = if comparison.is_some() { &[OURS, PEER, FLOOR][..] } else { &[OURS][..] };
    draw("ns an operation, fastest round", &groups, legend)
}

/// Groups of bars below a title and the names of the colours.
pub fn draw(title: &str, groups: &[Group], legend: &[(&str, &str)]) -> String {
    let longest = groups.iter().flat_map(|g| &g.bars).map(|bar| bar.1).fold(1.0, f64::max);
    let height = groups.iter().map(|g| g.bars.len() as f64 * BAR + GAP).sum::<f64>() + TOP + GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" font-family=\"sans-serif\" font-size=\"9\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"8\" y=\"14\" font-size=\"11\">{title}</text>\n",
        LABEL + WIDTH + 50.0
    );
    for (i, (name, colour)) in legend.iter().enumerate() {
        let x = LABEL + i as f64 * 110.0 + 80.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"6\" width=\"9\" height=\"9\" fill=\"{colour}\"/><text x=\"{}\" y=\"14\">{name}</text>",
            x + 13.0
        );
    }
    let mut y = TOP;
    for Group { label, bars } in groups {
        let middle = y + bars.len() as f64 * BAR / 2.0 + 3.0;
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{label}</text>", LABEL - 6.0);
        for (colour, ns) in bars {
            let width = ns / longest * WIDTH;
            let _ = writeln!(
                svg,
                "<rect x=\"{LABEL}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{}\" font-size=\"8\">{ns:.2}</text>",
                BAR - 1.0,
                LABEL + width + 3.0,
                y + BAR - 2.0
            );
            y += BAR;
        }
        y += GAP;
    }
    svg.push_str("</svg>\n");
    svg
}

/// Colours and lengths.
fn bars(row: &Row, comparison: Option<&Comparison>) -> Vec<(&'static str, f64)> {
    let mut bars = vec![(OURS.1, row.ns_min)];
    if let Some(comparison) = comparison {
        bars.extend(comparison.local.peer(&row.case).map(|peer| (PEER.1, peer.ns_min)));
        bars.extend(comparison.floor(&row.case).map(|floor| (FLOOR.1, floor.ns_min)));
    }
    bars
}
