//! Frames into a capture file: classic pcap with nanoseconds (`draft-ietf-opsawg-pcap`), 24 bytes before the file and
//! 16 before a frame.
//!
//! Ethernet frames are LINKTYPE_ETHERNET. InfiniBand frames are LINKTYPE_ERF with ERF record type 21, the linktype
//! under which Wireshark dissects them from the LRH on.

use crate::model::LinkKind;
use std::{
    io::{self, Write},
    time::Duration,
};

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINKTYPE_ETHERNET: u32 = 1;
const LINKTYPE_ERF: u32 = 197;
const ERF_TYPE_INFINIBAND: u8 = 21;
/// ERF flag: records are as long as their frames.
const ERF_VARYING_LENGTH: u8 = 0x04;
const ERF_HEADER: usize = 16;

/// A capture file of one kind of link.
pub(crate) struct Capture {
    kind: LinkKind,
    file: Box<dyn Write + Send>,
    failed: Option<io::Error>,
}

impl Capture {
    /// Begins a file.
    pub(crate) fn new(kind: LinkKind, mut file: Box<dyn Write + Send>) -> io::Result<Self> {
        let linktype = match kind {
            LinkKind::Ethernet => LINKTYPE_ETHERNET,
            LinkKind::InfiniBand => LINKTYPE_ERF,
        };
        let mut h = Vec::with_capacity(24);
        h.extend(MAGIC_NANOSECONDS.to_le_bytes());
        h.extend(2u16.to_le_bytes());
        h.extend(4u16.to_le_bytes());
        h.extend([0; 8]);
        h.extend(65_535u32.to_le_bytes());
        h.extend(linktype.to_le_bytes());
        file.write_all(&h)?;
        Ok(Self { kind, file, failed: None })
    }

    pub(crate) fn kind(&self) -> LinkKind {
        self.kind
    }

    /// Adds a frame of a port (by its number among all). The first error ends the capture and is told by [`finish`](Self::finish).
    pub(crate) fn record(&mut self, at: Duration, port: usize, frame: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.try_record(at, port, frame).err();
        }
    }

    fn try_record(&mut self, at: Duration, port: usize, frame: &[u8]) -> io::Result<()> {
        let erf = match self.kind {
            LinkKind::Ethernet => None,
            LinkKind::InfiniBand => Some(erf_header(at, port, frame.len())),
        };
        let len = (erf.map_or(0, |h| h.len()) + frame.len()) as u32;
        let mut h = [0; 16];
        h[0..4].copy_from_slice(&(at.as_secs() as u32).to_le_bytes());
        h[4..8].copy_from_slice(&at.subsec_nanos().to_le_bytes());
        h[8..12].copy_from_slice(&len.to_le_bytes());
        h[12..16].copy_from_slice(&len.to_le_bytes());
        self.file.write_all(&h)?;
        if let Some(erf) = erf {
            self.file.write_all(&erf)?;
        }
        self.file.write_all(frame)
    }

    /// Writes out what is buffered; tells the first error there was.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.failed.take().map_or_else(|| self.file.flush(), Err)
    }
}

/// Timestamp in units of 2^-32 s, little-endian; type, flags (the interface in the low two bits); the rest big-endian:
/// record length, loss counter, length on the wire.
fn erf_header(at: Duration, port: usize, frame: usize) -> [u8; ERF_HEADER] {
    let fraction = (u64::from(at.subsec_nanos()) << 32) / 1_000_000_000;
    let mut h = [0; ERF_HEADER];
    h[0..8].copy_from_slice(&(at.as_secs() << 32 | fraction).to_le_bytes());
    h[8] = ERF_TYPE_INFINIBAND;
    h[9] = ERF_VARYING_LENGTH | port as u8 & 3;
    h[10..12].copy_from_slice(&((frame + ERF_HEADER) as u16).to_be_bytes());
    h[14..16].copy_from_slice(&(frame as u16).to_be_bytes());
    h
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(data)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn file(kind: LinkKind, at: Duration, frame: &[u8]) -> Vec<u8> {
        let memory = Memory::default();
        let mut c = Capture::new(kind, Box::new(memory.clone())).unwrap();
        c.record(at, 1, frame);
        c.finish().unwrap();
        memory.0.lock().unwrap().clone()
    }

    /// Worked out from draft-ietf-opsawg-pcap, sections 4 and 5.
    #[rustfmt::skip]
    #[test]
    fn an_ethernet_capture() {
        assert_eq!(file(LinkKind::Ethernet, Duration::new(1, 5), &[0xaa; 3]), [
            0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0,
            1, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 0xaa, 0xaa, 0xaa,
        ]);
    }

    /// Worked out from Endace's "ERF types reference guide": timestamp, type 21, flags, rlen 19, lctr 0, wlen 3.
    #[rustfmt::skip]
    #[test]
    fn an_infiniband_capture() {
        let got = file(LinkKind::InfiniBand, Duration::from_millis(1500), &[0xbb; 3]);
        assert_eq!(got[20..24], [197, 0, 0, 0]);
        assert_eq!(got[24..40], [1, 0, 0, 0, 0x00, 0x65, 0xcd, 0x1d, 19, 0, 0, 0, 19, 0, 0, 0]);
        assert_eq!(got[40..], [
            0, 0, 0, 0x80, 1, 0, 0, 0, 21, 0x05, 0, 19, 0, 0, 0, 3, 0xbb, 0xbb, 0xbb,
        ]);
    }

    #[test]
    fn the_first_error_is_told() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, data: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(data.len()).ok_or(io::ErrorKind::StorageFull)?;
                Ok(data.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut c = Capture::new(LinkKind::Ethernet, Box::new(Full(30))).unwrap();
        c.record(Duration::ZERO, 0, &[0; 60]);
        c.record(Duration::ZERO, 0, &[]);
        assert_eq!(c.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
