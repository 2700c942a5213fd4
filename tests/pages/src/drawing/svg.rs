//! Boxes, arrows between them, and lines of text below, as SVG.

use std::fmt::Write;

/// Half the size of a box.
const HALF: (i32, i32) = (62, 22);
/// From line to line of text.
const LINE: i32 = 17;
/// Letters of a line of text.
const LETTERS: usize = 104;

/// A box, by the place of its middle.
#[derive(Clone)]
pub struct Node {
    pub name: String,
    pub x: i32,
    pub y: i32,
}

pub struct Drawing {
    title: String,
    width: i32,
    nodes: Vec<Node>,
    /// From, to, label.
    edges: Vec<(usize, usize, String)>,
    text: Vec<String>,
}

impl Drawing {
    pub fn new(title: &str, width: i32) -> Self {
        Self { title: title.into(), width, nodes: Vec::new(), edges: Vec::new(), text: Vec::new() }
    }

    pub fn node(&mut self, node: Node) {
        self.nodes.push(node);
    }

    /// An arrow between two boxes that are there; its label joins that of an arrow that is there already.
    pub fn edge(&mut self, from: &str, to: &str, label: &str) {
        let place = |name: &str| self.nodes.iter().position(|node| node.name == name).expect("a box");
        let (from, to) = (place(from), place(to));
        match self.edges.iter_mut().find(|edge| (edge.0, edge.1) == (from, to)) {
            Some(edge) => edge.2 += &format!(", {label}"),
            None => self.edges.push((from, to, label.into())),
        }
    }

    /// A line of text below, broken between words.
    pub fn line(&mut self, text: &str) {
        let indent =
            text.len() - text.trim_start_matches([' ', '1', '2', '3', '4', '5', '6', '7', '8', '9', '0']).len();
        let mut line = String::new();
        for word in text.split_inclusive(' ') {
            if line.len() + word.len() > LETTERS {
                self.text.push(std::mem::replace(&mut line, " ".repeat(indent)));
            }
            line += word;
        }
        self.text.push(line);
    }

    pub fn finish(self) -> String {
        let bottom = self.nodes.iter().map(|node| node.y).max().unwrap_or(0) + HALF.1 + 34;
        let height = bottom + LINE * self.text.len() as i32 + 4;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{height}\" viewBox=\"0 0 {0} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<title>{1}</title>\n\
             <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"12\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{1}</text>\n",
            self.width, self.title
        );
        for (from, to, label) in &self.edges {
            svg += &self.arrow(*from, *to, label);
        }
        for Node { name, x, y } in &self.nodes {
            let (w, h) = (2 * HALF.0, 2 * HALF.1);
            let _ = writeln!(
                svg,
                "<rect x=\"{}\" y=\"{}\" width=\"{w}\" height=\"{h}\" rx=\"8\" fill=\"#eef3fa\" stroke=\"#345\"/>",
                x - HALF.0,
                y - HALF.1
            );
            let lines: Vec<&str> = name.lines().collect();
            for (n, line) in (0..).zip(&lines) {
                let y = y + 4 + 15 * n - 15 * (lines.len() as i32 - 1) / 2;
                let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{line}</text>");
            }
        }
        for (n, line) in (0..).zip(&self.text) {
            let y = bottom + LINE * n;
            let _ = writeln!(
                svg,
                "<text x=\"12\" y=\"{y}\" font-family=\"monospace\" font-size=\"11\" xml:space=\"preserve\">{line}</text>"
            );
        }
        svg + "</svg>\n"
    }

    /// An arrow: a loop above its box, or a line from border to border. Where another goes the other way both give way
    /// to their right.
    fn arrow(&self, from: usize, to: usize, label: &str) -> String {
        let (a, b) = (&self.nodes[from], &self.nodes[to]);
        if from == to {
            let (x, y) = (a.x, a.y - HALF.1);
            let d = format!("M{} {y}C{} {} {} {} {} {y}", x - 16, x - 24, y - 30, x + 24, y - 30, x + 16);
            return arrow(&d, (x, y - 27), label);
        }
        let (dx, dy) = (f64::from(b.x - a.x), f64::from(b.y - a.y));
        let length = dx.hypot(dy);
        let both = self.edges.iter().any(|(f, t, _)| (*f, *t) == (to, from));
        let aside = if both { 9.0 } else { 0.0 };
        let (sx, sy) = (-dy / length * aside, dx / length * aside);
        // How far along the line the border of a box is.
        let border = (f64::from(HALF.0) / dx.abs()).min(f64::from(HALF.1) / dy.abs());
        let at = |part: f64| (f64::from(a.x) + dx * part + sx, f64::from(a.y) + dy * part + sy);
        let ((x1, y1), (x2, y2)) = (at(border), at(1.0 - border));
        // Nearer to its beginning, so that labels of lines that cross stand apart.
        let middle = at(if dx == 0.0 || dy == 0.0 { 0.5 } else { 0.4 });
        arrow(&format!("M{x1:.0} {y1:.0}L{x2:.0} {y2:.0}"), (middle.0 as i32, middle.1 as i32), label)
    }
}

fn arrow(d: &str, middle: (i32, i32), label: &str) -> String {
    let half = label.len() as i32 * 3 + 4;
    format!(
        "<path d=\"{d}\" fill=\"none\" stroke=\"#345\" marker-end=\"url(#tip)\"/>\n\
         <rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"16\" rx=\"4\" fill=\"white\"/>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#a30\">{label}</text>\n",
        middle.0 - half,
        middle.1 - 8,
        2 * half,
        middle.0,
        middle.1 + 4
    )
}
