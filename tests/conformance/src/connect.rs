//! Brings QPs to RTS towards each other.

use bareverbs::{
    Access, AckTimeout, AhAttr, Device, Error, GidEntry, GlobalRoute, LinkLayer, Mtu, PortNum, Psn, Qkey, QpAttr,
    QpState, QpType, QueuePair, RetryCount, RnrTimer, UdDestination,
};
use core::time::Duration;

/// The port that tests use.
pub const PORT: PortNum = PortNum(1);
/// The queue key that tests use.
pub const QKEY: Qkey = Qkey(0x0bad_cafe);

/// What a connection is made with.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Path MTU.
    pub mtu: Mtu,
    /// First PSN of each end.
    pub psn: [Psn; 2],
    /// Outstanding reads and atomics.
    pub rd_atomic: u8,
    /// Local ACK timeout.
    pub timeout: AckTimeout,
    /// Transport retries.
    pub retry_cnt: RetryCount,
    /// RNR retries; 7 is for ever.
    pub rnr_retry: RetryCount,
    /// What a responder without a receive asks for.
    pub min_rnr_timer: RnrTimer,
    /// What the peer may do.
    pub access: Access,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            mtu: Mtu::B1024,
            psn: [Psn::new(0xff_fffe), Psn::new(0x12_3456)],
            rd_atomic: 4,
            // Longer than the modelled link needs for the longest answer: a shorter one uses up retries on a long READ
            // whose answer is still under way.
            timeout: AckTimeout::at_least(Duration::from_millis(16)),
            retry_cnt: RetryCount::MAX,
            rnr_retry: RetryCount::MAX,
            min_rnr_timer: RnrTimer::at_least(Duration::from_micros(40)),
            access: Access::LOCAL_WRITE
                .union(Access::REMOTE_WRITE)
                .union(Access::REMOTE_READ)
                .union(Access::REMOTE_ATOMIC),
        }
    }
}

/// The path from one device to another.
pub fn path<D: Device>(from: &D, to: &D) -> Result<AhAttr, Error> {
    let port = to.query_port(PORT)?;
    let mut av = AhAttr { port: PORT, dlid: port.lid, ..AhAttr::default() };
    if port.link_layer == LinkLayer::Ethernet {
        let (sgid_index, _) = gid(from)?;
        let (_, entry) = gid(to)?;
        av.grh = Some(GlobalRoute { dgid: entry.gid, sgid_index, hop_limit: 64, ..GlobalRoute::default() });
        av.dmac = Some(entry.mac);
    }
    Ok(av)
}

/// The GID that a device is found by, and its index.
pub fn gid<D: Device>(device: &D) -> Result<(u8, GidEntry), Error> {
    let len = device.query_port(PORT)?.gid_tbl_len.min(256);
    let entries = (0..len).map_while(|i| device.query_gid(PORT, i as u8).ok());
    let choice = bareverbs::gid::choose(entries).ok_or(Error::GrhRequired)?;
    Ok((choice.index, device.query_gid(PORT, choice.index)?))
}

/// RESET to INIT, as the type wants it.
pub fn to_init<Q: QueuePair>(qp: &mut Q, access: Access) -> Result<(), Error> {
    let attr = QpAttr::to(QpState::Init).port(PORT).pkey_index(0);
    qp.modify(&match qp.kind() {
        QpType::Ud => attr.qkey(QKEY),
        _ => attr.access(access),
    })
}

/// INIT to RTR; `end` is the end that `qp` is.
pub fn to_rtr<Q: QueuePair>(qp: &mut Q, peer: &Q, av: AhAttr, c: &Connection, end: usize) -> Result<(), Error> {
    let attr = QpAttr::to(QpState::Rtr);
    let connected = attr.path_mtu(c.mtu).dest_qpn(peer.qpn()).rq_psn(c.psn[1 - end]).av(av);
    qp.modify(&match qp.kind() {
        QpType::Ud => attr,
        QpType::Uc | QpType::XrcIni => connected,
        _ => connected.max_dest_rd_atomic(c.rd_atomic).min_rnr_timer(c.min_rnr_timer),
    })
}

/// RTR to RTS.
pub fn to_rts<Q: QueuePair>(qp: &mut Q, c: &Connection, end: usize) -> Result<(), Error> {
    let attr = QpAttr::to(QpState::Rts).sq_psn(c.psn[end]);
    qp.modify(&match qp.kind() {
        QpType::Ud | QpType::Uc => attr,
        QpType::XrcTgt => attr.timeout(c.timeout),
        _ => attr.timeout(c.timeout).retry_cnt(c.retry_cnt).rnr_retry(c.rnr_retry).max_rd_atomic(c.rd_atomic),
    })
}

/// Brings both QPs of a pair from RESET to RTS.
pub fn connect<D: Device>(devices: &[D; 2], qps: [&mut D::Qp; 2], c: &Connection) -> Result<(), Error> {
    let [a, b] = qps;
    to_init(a, c.access)?;
    to_init(b, c.access)?;
    to_rtr(a, b, path(&devices[0], &devices[1])?, c, 0)?;
    to_rtr(b, a, path(&devices[1], &devices[0])?, c, 1)?;
    to_rts(a, c, 0)?;
    to_rts(b, c, 1)
}

/// The destination of datagrams from one device to a QP of another.
pub fn destination<D: Device>(from: &D, to: &D, qp: &D::Qp) -> Result<UdDestination, Error> {
    Ok(UdDestination { ah: from.address_handle(&path(from, to)?)?, qpn: qp.qpn(), qkey: QKEY })
}
