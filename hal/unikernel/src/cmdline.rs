//! The command line (QEMU's `-append`): words that are the program's, and `name=value` words that are the machine's.
//!
//! | word | meaning |
//! |---|---|
//! | `tsc_hz=N` | the time-stamp counter's rate; the clock is not calibrated |

/// Words that [`arguments`] leaves out.
const MACHINE: &[&str] = &["tsc_hz"];

/// The value of the last word `name=value`.
pub fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().rev().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// The words that are not the machine's.
pub fn arguments(line: &str) -> impl Iterator<Item = &str> + Clone {
    line.split_ascii_whitespace()
        .filter(|word| !MACHINE.iter().any(|name| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))))
}

#[cfg(test)]
mod tests {
    use super::{arguments, value};

    #[test]
    fn the_machines_words_are_taken_out() {
        let line = " -c -n 100 tsc_hz=5 --ip=10.0.0.1  tsc_hz=7 tsc_hzz=1 ";
        assert_eq!(value(line, "tsc_hz"), Some("7"));
        assert_eq!(value(line, "tsc"), None);
        assert!(arguments(line).eq(["-c", "-n", "100", "--ip=10.0.0.1", "tsc_hzz=1"]));
    }
}
