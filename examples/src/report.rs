//! The lines that a ping-pong prints.

use crate::address::Address;
use core::{fmt, time::Duration};

/// The outcome of one end.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Messages a direction.
    pub iters: u64,
    /// Bytes a message.
    pub size: usize,
    /// From the first post to the last completion.
    pub elapsed: Duration,
}

/// The line of one's own address.
pub fn local(out: &mut dyn fmt::Write, a: &Address) -> fmt::Result {
    write!(out, "  local address:  ")?;
    address(out, a)
}

/// The line of the other end's address.
pub fn remote(out: &mut dyn fmt::Write, a: &Address) -> fmt::Result {
    write!(out, "  remote address: ")?;
    address(out, a)
}

fn address(out: &mut dyn fmt::Write, a: &Address) -> fmt::Result {
    writeln!(out, "LID 0x{:04x}, QPN 0x{:06x}, PSN 0x{:06x}, GID {}", a.lid.0, a.qpn.get(), a.psn.get(), a.gid)
}

impl Outcome {
    fn bytes(&self) -> u64 {
        self.iters * self.size as u64 * 2
    }

    /// The two lines of the ibv_ ping-pongs.
    pub fn lines(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (ns, bytes) = (self.elapsed.as_nanos(), self.bytes());
        // Whole numbers of hundredths: floating-point formatting would be the largest part of a small image.
        let seconds = Hundredths::of(ns, 1_000_000_000);
        let mbit = Hundredths::of(u128::from(bytes) * 8 * 1000, ns);
        let per = Hundredths::of(ns, 1000 * u128::from(self.iters));
        writeln!(out, "{bytes} bytes in {seconds} seconds = {mbit} Mbit/sec")?;
        writeln!(out, "{} iters in {seconds} seconds = {per} usec/iter", self.iters)
    }

    /// One JSON object on one line.
    pub fn json(&self, out: &mut dyn fmt::Write, local: &Address, remote: &Address) -> fmt::Result {
        writeln!(
            out,
            "{{\"local\":\"{local}\",\"remote\":\"{remote}\",\"iters\":{},\"size\":{},\"bytes\":{},\"nanoseconds\":{}}}",
            self.iters,
            self.size,
            self.bytes(),
            u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX)
        )
    }
}

/// A failure as one JSON object on one line.
pub fn json_error(out: &mut dyn fmt::Write, error: &dyn fmt::Display) -> fmt::Result {
    use fmt::Write;
    out.write_str("{\"error\":\"")?;
    write!(Escaped(out), "{error}")?;
    out.write_str("\"}\n")
}

/// The inside of a JSON string (RFC 8259, section 7).
struct Escaped<'a>(&'a mut dyn fmt::Write);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        s.chars().try_for_each(|c| match c {
            '"' | '\\' => write!(self.0, "\\{c}"),
            '\0'..='\x1f' => write!(self.0, "\\u{:04x}", u32::from(c)),
            _ => self.0.write_char(c),
        })
    }
}

/// A fraction, rounded to hundredths; 0 where there is nothing to divide by.
struct Hundredths(u64);

impl Hundredths {
    fn of(numerator: u128, denominator: u128) -> Self {
        let rounded = (numerator * 100 + denominator / 2).checked_div(denominator).unwrap_or(0);
        Self(u64::try_from(rounded).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Hundredths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    // The lines of ibv_rc_pingpong (rdma-core 56) are printed with "%.2f"; the figures were worked out by hand.
    #[test]
    fn the_lines_are_those_of_ibv_rc_pingpong() {
        let mut text = String::new();
        let outcome = Outcome { iters: 1000, size: 4096, elapsed: Duration::from_nanos(12_345_678) };
        outcome.lines(&mut text).unwrap();
        let expected = "8192000 bytes in 0.01 seconds = 5308.42 Mbit/sec\n\
                        1000 iters in 0.01 seconds = 12.35 usec/iter\n";
        assert_eq!(text, expected);
        text.clear();
        Outcome { iters: 0, size: 0, elapsed: Duration::ZERO }.lines(&mut text).unwrap();
        assert!(text.starts_with("0 bytes in 0.00 seconds = 0.00 Mbit/sec"), "{text}");
    }

    #[test]
    fn an_error_is_a_json_object() {
        let mut text = String::new();
        json_error(&mut text, &"a \"name\" with \\,\na new line and an ü").unwrap();
        assert_eq!(text, "{\"error\":\"a \\\"name\\\" with \\\\,\\u000aa new line and an ü\"}\n");
    }
}
