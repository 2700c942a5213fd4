//! Layouts against literal bytes that others wrote or read.
//!
//! Bytes stand as they lie in memory. Where they come from is said with each.

mod cmd;
mod cqe;
mod eqe;
mod registers;
mod wqe;

/// Bytes from their hexadecimal digits; white space does not count.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("a hexadecimal digit") as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
