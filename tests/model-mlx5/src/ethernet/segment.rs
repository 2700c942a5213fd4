//! Large send offload: cuts a packet of TCP or UDP into packets of a largest payload.

use super::headers::{Headers, protocol};

/// TCP flags that only the first segment keeps: congestion window reduced.
const FIRST_ONLY: u8 = 0x80;
/// TCP flags that only the last segment keeps: FIN, PSH.
const LAST_ONLY: u8 = 0x01 | 0x08;

/// Frames of `header` and at most `mss` bytes of `payload` each, their lengths, sequence numbers and flags written;
/// checksums are not. `None` if the header is not one of TCP or UDP over IP, or nothing is to be cut.
pub fn cut(header: &[u8], payload: &[u8], mss: usize) -> Option<Vec<Vec<u8>>> {
    if mss == 0 || payload.is_empty() {
        return None;
    }
    let mut frames = Vec::new();
    let mut count = 0u16;
    let mut done = 0;
    while done < payload.len() {
        let part = &payload[done..payload.len().min(done + mss)];
        let mut frame = [header, part].concat();
        let last = done + part.len() == payload.len();
        write(&mut frame, header.len(), count, done as u32, last)?;
        frames.push(frame);
        done += part.len();
        count = count.wrapping_add(1);
    }
    Some(frames)
}

fn write(frame: &mut [u8], header: usize, count: u16, offset: u32, last: bool) -> Option<()> {
    let at = ip_at(frame)?;
    let total = frame.len() - at;
    match frame[at] >> 4 {
        4 => {
            frame.get_mut(at + 2..at + 4)?.copy_from_slice(&u16::try_from(total).ok()?.to_be_bytes());
            let id = u16::from_be_bytes([frame[at + 4], frame[at + 5]]).wrapping_add(count);
            frame[at + 4..at + 6].copy_from_slice(&id.to_be_bytes());
        }
        6 => {
            let len = u16::try_from(total.checked_sub(40)?).ok()?;
            frame[at + 4..at + 6].copy_from_slice(&len.to_be_bytes());
        }
        _ => return None,
    }
    let headers = Headers::parse(frame)?;
    let l4 = headers.l4?;
    if headers.payload(frame)? != header {
        return None;
    }
    if headers.protocol == protocol::UDP {
        let len = (frame.len() - l4) as u16;
        frame[l4 + 4..l4 + 6].copy_from_slice(&len.to_be_bytes());
        return Some(());
    }
    let sequence: [u8; 4] = frame[l4 + 4..l4 + 8].try_into().ok()?;
    frame[l4 + 4..l4 + 8].copy_from_slice(&u32::from_be_bytes(sequence).wrapping_add(offset).to_be_bytes());
    if count > 0 {
        frame[l4 + 13] &= !FIRST_ONLY;
    }
    if !last {
        frame[l4 + 13] &= !LAST_ONLY;
    }
    Some(())
}

/// Where the IP header begins, behind VLAN tags; its lengths need not be right yet.
fn ip_at(frame: &[u8]) -> Option<usize> {
    use super::headers::{ETHERNET, VLAN, ethertype};
    let mut at = ETHERNET - 2;
    loop {
        match u16::from_be_bytes(*frame.get(at..)?.first_chunk()?) {
            ethertype::CVLAN | ethertype::SVLAN => at += VLAN,
            ethertype::IPV4 | ethertype::IPV6 if frame.len() >= at + 2 + 20 => return Some(at + 2),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_over_ipv4() {
        let mut header = vec![0; 14 + 20 + 20];
        header[12] = 0x08;
        header[14] = 0x45;
        header[18..20].copy_from_slice(&[0x12, 0xff]); // identification
        header[23] = 6;
        header[38..42].copy_from_slice(&[0xff, 0xff, 0xff, 0xfe]); // sequence number
        header[46] = 5 << 4;
        header[47] = 0x99; // CWR, ACK, PSH, FIN
        let frames = cut(&header, &[7; 10], 4).unwrap();
        let shown: Vec<_> = frames.iter().map(|f| (f.len(), &f[16..20], &f[38..42], f[47])).collect();
        assert_eq!(
            shown,
            [
                (58, &[0, 44, 0x12, 0xff][..], &[0xff, 0xff, 0xff, 0xfe][..], 0x90),
                (58, &[0, 44, 0x13, 0x00][..], &[0, 0, 0, 2][..], 0x10),
                (56, &[0, 42, 0x13, 0x01][..], &[0, 0, 0, 6][..], 0x19),
            ]
        );
    }
}
