//! Moves payload between packets and the memory behind keys.

use bareverbs_harness::model::Bus;

use super::wqe::Piece;
use crate::{
    hca::Hca,
    mr::{Access, KeyFault, KeyUser},
};

/// Why data could not be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataFault {
    /// The key does not allow it.
    Key(KeyFault),
    /// The memory behind the key is not reachable.
    Dma,
    /// The list is shorter than the data.
    TooShort,
}

/// Copies `out.len()` bytes, from byte `at` of a list on, out of memory.
pub fn gather(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    user: KeyUser,
    (pieces, inline): (&[Piece], &[u8]),
    at: u64,
    out: &mut [u8],
) -> Result<(), DataFault> {
    let (mut skip, mut done) = (at, 0);
    for &piece in pieces {
        if done == out.len() {
            break;
        }
        if skip >= u64::from(piece.len()) {
            skip -= u64::from(piece.len());
            continue;
        }
        let n = (u64::from(piece.len()) - skip).min((out.len() - done) as u64) as usize;
        let room = &mut out[done..done + n];
        match piece {
            Piece::Memory { lkey, addr, .. } => {
                read(hca, bus, user, lkey, addr.wrapping_add(skip), Access::LOCAL_READ, room)?;
            }
            Piece::Inline { at, .. } => {
                let from = at as usize + skip as usize;
                room.copy_from_slice(inline.get(from..from + n).ok_or(DataFault::TooShort)?);
            }
        }
        done += n;
        skip = 0;
    }
    if done == out.len() { Ok(()) } else { Err(DataFault::TooShort) }
}

/// Copies data into memory, from byte `at` of a list on.
pub fn scatter(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    user: KeyUser,
    pieces: &[Piece],
    at: u64,
    data: &[u8],
) -> Result<(), DataFault> {
    let (mut skip, mut rest) = (at, data);
    for &piece in pieces {
        if rest.is_empty() {
            break;
        }
        let Piece::Memory { lkey, addr, len } = piece else { continue };
        if skip >= u64::from(len) {
            skip -= u64::from(len);
            continue;
        }
        let n = (u64::from(len) - skip).min(rest.len() as u64) as usize;
        let (now, later) = rest.split_at(n);
        write(hca, bus, user, lkey, addr.wrapping_add(skip), Access::LOCAL_WRITE, now)?;
        rest = later;
        skip = 0;
    }
    if rest.is_empty() { Ok(()) } else { Err(DataFault::TooShort) }
}

/// Bytes of a list.
pub fn len(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.len())).sum()
}

/// Reads memory behind a key.
pub fn read(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    user: KeyUser,
    key: u32,
    va: u64,
    access: Access,
    out: &mut [u8],
) -> Result<(), DataFault> {
    let mut done = 0;
    for s in hca.translate(key, user, va, out.len() as u64, access).map_err(DataFault::Key)? {
        let n = s.len as usize;
        if let Err(fault) = bus.read(s.addr, &mut out[done..done + n]) {
            hca.dma_fault(bus, fault, format_args!("reading {n} bytes behind key {key:#x}"));
            return Err(DataFault::Dma);
        }
        done += n;
    }
    out[done..].fill(0); // the null key reads as zeros
    Ok(())
}

/// Writes memory behind a key.
pub fn write(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    user: KeyUser,
    key: u32,
    va: u64,
    access: Access,
    data: &[u8],
) -> Result<(), DataFault> {
    let mut done = 0;
    for s in hca.translate(key, user, va, data.len() as u64, access).map_err(DataFault::Key)? {
        let n = s.len as usize;
        if let Err(fault) = bus.write(s.addr, &data[done..done + n]) {
            hca.dma_fault(bus, fault, format_args!("writing {n} bytes behind key {key:#x}"));
            return Err(DataFault::Dma);
        }
        done += n;
    }
    Ok(())
}

/// Checks that a remote range may be used, without touching it. No bytes need no key.
pub fn check(hca: &Hca, user: KeyUser, key: u32, va: u64, len: u64, access: Access) -> Result<(), KeyFault> {
    let Some(last) = len.checked_sub(1) else { return Ok(()) };
    let end = va.checked_add(last).ok_or(KeyFault::OutOfRange)?;
    hca.translate(key, user, va, 1, access)?;
    hca.translate(key, user, end, 1, access)?;
    Ok(())
}
