//! The first serial port: an NS16550A at I/O port 0x3f8, polled.

use crate::port::{in8, out8};
use core::fmt;

const PORT: u16 = 0x3f8;
const DATA: u16 = PORT;
const FIFO_CONTROL: u16 = PORT + 2;
const LINE_CONTROL: u16 = PORT + 3;
const MODEM_CONTROL: u16 = PORT + 4;
const LINE_STATUS: u16 = PORT + 5;

const DATA_READY: u8 = 1;
const TRANSMITTER_EMPTY: u8 = 1 << 5;
/// What a port reads as that nobody answers at.
const ABSENT: u8 = 0xff;

/// Polls before a byte is given up: a UART at 115,200 baud takes 87 us a byte, a poll takes at least 0.1 us.
const PATIENCE: u32 = 1_000_000;

/// The serial port, for output with [`fmt::Write`] and for input. The port is the machine's: values are only names of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Serial {
    /// 115,200 baud, 8 data bits, no parity. FIFOs stay off: switching them on throws away what has come in, and the other
    /// end may speak first.
    pub(crate) fn set_up() {
        for (port, value) in
            [(LINE_CONTROL, 0x80), (DATA, 1), (DATA + 1, 0), (LINE_CONTROL, 3), (FIFO_CONTROL, 0), (MODEM_CONTROL, 3)]
        {
            // SAFETY: the UART's registers do not touch memory.
            unsafe { out8(port, value) };
        }
    }

    fn line_status() -> u8 {
        // SAFETY: the UART's registers do not touch memory.
        unsafe { in8(LINE_STATUS) }
    }

    /// Sends a byte; drops it where there is no UART, or one that does not send.
    pub fn put(self, byte: u8) {
        for _ in 0..PATIENCE {
            let status = Self::line_status();
            if status == ABSENT {
                return;
            }
            if status & TRANSMITTER_EMPTY != 0 {
                // SAFETY: the UART's registers do not touch memory.
                unsafe { out8(DATA, byte) };
                return;
            }
        }
    }

    /// A byte that has come in, if there is one.
    pub fn get(self) -> Option<u8> {
        let status = Self::line_status();
        // SAFETY: the UART's registers do not touch memory.
        (status != ABSENT && status & DATA_READY != 0).then(|| unsafe { in8(DATA) })
    }
}

impl fmt::Write for Serial {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for byte in s.bytes() {
            if byte == b'\n' {
                self.put(b'\r');
            }
            self.put(byte);
        }
        Ok(())
    }
}
