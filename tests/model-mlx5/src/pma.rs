//! The performance management agent (IBA 16.1): the port's counters.

use bareverbs::wire::mad;

use crate::hca::Hca;

/// Where the data of a performance management packet begins.
const DATA: usize = 64;

mod attr {
    pub const CLASS_PORT_INFO: u16 = 0x0001;
    pub const PORT_COUNTERS: u16 = 0x0012;
    pub const PORT_COUNTERS_EXTENDED: u16 = 0x001d;
}

/// Answers; `None` for other classes and what is not a request.
pub fn answer(hca: &mut Hca, request: &[u8; mad::MAD_LEN]) -> Option<[u8; mad::MAD_LEN]> {
    let mut header = mad::Repr::parse(&mad::Packet::new_checked(request).ok()?);
    let set = match header.method {
        mad::method::GET => false,
        mad::method::SET => true,
        _ => return None,
    };
    let mut reply = *request;
    header.method = mad::method::GET_RESP;
    header.status = if header.mgmt_class == mad::class::PERF_MGMT {
        attribute(hca, header.attr_id, set, &mut reply)
    } else {
        mad::status::UNSUPPORTED_METHOD_ATTR
    };
    let mut bytes = [0; mad::HEADER_LEN];
    header.emit(&mut bytes);
    reply[..mad::HEADER_LEN].copy_from_slice(&bytes);
    Some(reply)
}

fn attribute(hca: &mut Hca, id: u16, set: bool, mad: &mut [u8; mad::MAD_LEN]) -> u16 {
    let report = &hca.report;
    let since = &hca.port.counters;
    // Octets count in units of 4 bytes.
    let values = [
        (report.bytes_out - since.bytes_out) / 4,
        (report.bytes_in - since.bytes_in) / 4,
        report.frames_out - since.frames_out,
        report.frames_in - since.frames_in,
    ];
    match (id, set) {
        (attr::CLASS_PORT_INFO, false) => {
            mad[DATA..].fill(0);
            // Versions 1 and 1; capability 0x200: extended counters; answers within 4.096 us * 2^18.
            mad[DATA..DATA + 4].copy_from_slice(&[1, 1, 0x02, 0x00]);
            mad[DATA + 7] = 18;
            0
        }
        (attr::PORT_COUNTERS, false) => {
            mad[DATA + 4..].fill(0);
            for (i, value) in values.into_iter().enumerate() {
                // Older counters stick at their end.
                let stuck = u32::try_from(value).unwrap_or(u32::MAX);
                mad[DATA + 24 + i * 4..][..4].copy_from_slice(&stuck.to_be_bytes());
            }
            0
        }
        (attr::PORT_COUNTERS_EXTENDED, false) => {
            mad[DATA + 4..].fill(0);
            for (i, value) in values.into_iter().enumerate() {
                mad[DATA + 8 + i * 8..][..8].copy_from_slice(&value.to_be_bytes());
            }
            0
        }
        (attr::PORT_COUNTERS | attr::PORT_COUNTERS_EXTENDED, true) => {
            hca.port.counters = crate::port::Traffic {
                bytes_out: report.bytes_out,
                bytes_in: report.bytes_in,
                frames_out: report.frames_out,
                frames_in: report.frames_in,
            };
            0
        }
        _ => mad::status::UNSUPPORTED_METHOD_ATTR,
    }
}
