//! Answers those who look for this end on an Ethernet link: ARP (RFC 826) and neighbour discovery (RFC 4861). Where a
//! kernel drives the card, it does that; a process that has the card to itself answers by a raw packet QP.

use bareverbs::{
    Access, Completion, CompletionQueue, CqInit, Device, Error, FlowSpec, Gid, Mac, Memory, MemoryRegion, PortNum,
    PostListError, QpAttr, QpCap, QpInit, QpState, QpType, QueuePair, RecvWr, SendOp, SendWr, WcStatus,
};
use heapless::Vec;
use smoltcp::{
    phy::ChecksumCapabilities,
    wire::{
        ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv6Packet,
        Icmpv6Repr, IpProtocol, Ipv6Address, Ipv6Packet, Ipv6Repr, NdiscNeighborFlags, NdiscRepr,
    },
};

/// Frames that may wait to be looked at.
const RECEIVES: u32 = 16;
/// Bytes of each: a solicitation with its options is shorter, and a longer frame is none.
pub const ROOM: usize = 256;
/// Bytes of memory that a [`Neighbours`] wants.
pub const MEMORY: usize = (RECEIVES as usize + 1) * ROOM;

/// The longest answer: headers of Ethernet, IPv6 and an advertisement with one option.
const ANSWER: usize = 14 + 40 + 32;
/// Neighbour discovery comes from the same link only (RFC 4861, 7.1.1).
const HOP_LIMIT: u8 = 255;

/// The answer to a frame, if it asks for one of the addresses (those of GIDs); its length in `out`.
pub fn answer(frame: &[u8], mac: Mac, addresses: &[Gid], out: &mut [u8; ANSWER]) -> Option<usize> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    match frame.ethertype() {
        EthernetProtocol::Arp => arp(frame.payload(), mac, addresses, out),
        EthernetProtocol::Ipv6 => solicitation(frame.payload(), frame.src_addr(), mac, addresses, out),
        _ => None,
    }
}

/// Ethernet header of an answer; tells what follows it.
fn header(out: &mut [u8; ANSWER], mac: Mac, dst_addr: EthernetAddress, ethertype: EthernetProtocol) -> &mut [u8] {
    let mut frame = EthernetFrame::new_unchecked(&mut out[..]);
    EthernetRepr { src_addr: EthernetAddress(mac.0), dst_addr, ethertype }.emit(&mut frame);
    &mut out[EthernetFrame::<&[u8]>::header_len()..]
}

/// A request is answered to the one that asks (RFC 826, "Packet Reception").
fn arp(packet: &[u8], mac: Mac, addresses: &[Gid], out: &mut [u8; ANSWER]) -> Option<usize> {
    let request = ArpRepr::parse(&ArpPacket::new_checked(packet).ok()?).ok()?;
    let ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr,
        source_protocol_addr,
        target_protocol_addr,
        ..
    } = request
    else {
        return None;
    };
    addresses.iter().find(|gid| gid.ipv4() == Some(target_protocol_addr.octets()))?;
    let reply = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: EthernetAddress(mac.0),
        source_protocol_addr: target_protocol_addr,
        target_hardware_addr: source_hardware_addr,
        target_protocol_addr: source_protocol_addr,
    };
    let body = header(out, mac, source_hardware_addr, EthernetProtocol::Arp);
    reply.emit(&mut ArpPacket::new_unchecked(body.get_mut(..reply.buffer_len())?));
    Some(EthernetFrame::<&[u8]>::header_len() + reply.buffer_len())
}

/// A solicitation is answered by an advertisement (RFC 4861, 7.2.3 and 7.2.4); one from the unspecified address, which
/// asks whether an address is free, to all nodes.
fn solicitation(
    packet: &[u8],
    from: EthernetAddress,
    mac: Mac,
    addresses: &[Gid],
    out: &mut [u8; ANSWER],
) -> Option<usize> {
    let packet = Ipv6Packet::new_checked(packet).ok()?;
    let ip = Ipv6Repr::parse(&packet).ok()?;
    if ip.next_header != IpProtocol::Icmpv6 || ip.hop_limit != HOP_LIMIT {
        return None;
    }
    let icmp = Icmpv6Packet::new_checked(packet.payload()).ok()?;
    let checksums = ChecksumCapabilities::default();
    let asked = Icmpv6Repr::parse(&ip.src_addr, &ip.dst_addr, &icmp, &checksums).ok()?;
    let Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr }) = asked else { return None };
    addresses.iter().find(|gid| gid.0 == target_addr.octets())?;
    let probe = ip.src_addr == Ipv6Address::UNSPECIFIED;
    let to = lladdr.and_then(|raw| raw.as_bytes().first_chunk().map(|bytes| EthernetAddress(*bytes)));
    let (dst_addr, to) = match probe {
        true => (ALL_NODES, EthernetAddress([0x33, 0x33, 0, 0, 0, 1])),
        false => (ip.src_addr, to.unwrap_or(from)),
    };
    let flags = if probe { NdiscNeighborFlags::empty() } else { NdiscNeighborFlags::SOLICITED };
    let lladdr = Some(EthernetAddress(mac.0).into());
    let flags = flags | NdiscNeighborFlags::OVERRIDE;
    let advert = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags, target_addr, lladdr });
    let payload_len = advert.buffer_len();
    let ip = Ipv6Repr { src_addr: target_addr, dst_addr, payload_len, hop_limit: HOP_LIMIT, ..ip };
    let body = header(out, mac, to, EthernetProtocol::Ipv6);
    let (head, body) = body.split_at_mut_checked(ip.buffer_len())?;
    ip.emit(&mut Ipv6Packet::new_unchecked(&mut head[..]));
    let mut icmp = Icmpv6Packet::new_unchecked(body.get_mut(..payload_len)?);
    advert.emit(&ip.src_addr, &ip.dst_addr, &mut icmp, &checksums);
    Some(EthernetFrame::<&[u8]>::header_len() + ip.buffer_len() + payload_len)
}

/// All nodes of the link (RFC 4291, 2.7.1).
const ALL_NODES: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The multicast MAC under which an IPv6 address is looked for: that of its solicited-node group (RFC 4291, 2.7.1).
fn solicited(gid: &Gid) -> Mac {
    let [.., a, b, c] = gid.0;
    Mac([0x33, 0x33, 0xff, a, b, c])
}

/// A raw packet QP that answers for the addresses of a port's GID table.
pub struct Neighbours<D: Device, M: Memory> {
    qp: D::Qp,
    cq: D::Cq,
    mr: D::Mr<M>,
    mac: Mac,
    addresses: Vec<Gid, 8>,
}

impl<D: Device, M: Memory> Neighbours<D, M> {
    /// Begins to answer for the addresses that the port has now. `memory` has [`MEMORY`] bytes.
    /// [`Error::Unsupported`] on a port that is not Ethernet, and on devices without raw packet QPs.
    pub fn new(device: &D, pd: &D::Pd, port: PortNum, memory: M) -> Result<Self, Error> {
        let attr = device.query_port(port)?;
        let cq = device.create_cq(&CqInit { entries: 2 * RECEIVES, ..CqInit::default() })?;
        // Answers are copied into the request: no memory of theirs is to be waited for.
        let max_inline = ANSWER as u32;
        let cap = QpCap { max_send_wr: RECEIVES, max_recv_wr: RECEIVES, max_send_sge: 1, max_recv_sge: 1, max_inline };
        let kind = QpType::RawPacket;
        let init = QpInit { kind, send_cq: &cq, recv_cq: &cq, srq: None, cap, signal_all: true, context: 0 };
        let mut qp = device.create_qp(pd, &init)?;
        let mr = device.register(pd, memory, Access::LOCAL_WRITE)?;
        let mut addresses = Vec::new();
        let table = (0..attr.gid_tbl_len.min(256)).map_while(|n| device.query_gid(port, n as u8).ok());
        // More than there is room for are not answered for.
        addresses.extend(table.map(|entry| entry.gid).filter(|gid| !gid.is_zero()).take(addresses.capacity()));
        qp.modify(&QpAttr::to(QpState::Init).port(port))?;
        let mut this = Self { qp, cq, mr, mac: attr.mac, addresses };
        (0..u64::from(RECEIVES)).try_for_each(|n| this.receive(n)).map_err(|_| Error::NotReady("posting receives"))?;
        this.qp.modify(&QpAttr::to(QpState::Rtr))?;
        this.qp.modify(&QpAttr::to(QpState::Rts))?;
        this.attach()?;
        Ok(this)
    }

    /// Rules for questions to all, to the groups of the own addresses, and to the own MAC.
    fn attach(&mut self) -> Result<(), Error> {
        let (arp, ipv6) = (u16::from(EthernetProtocol::Arp), u16::from(EthernetProtocol::Ipv6));
        for dst in [Mac([0xff; 6]), self.mac] {
            self.qp.attach_flow(&FlowSpec::to(dst).ethertype(arp))?;
        }
        self.qp.attach_flow(&FlowSpec::to(self.mac).ethertype(ipv6))?;
        for gid in self.addresses.iter().filter(|gid| gid.ipv4().is_none()) {
            self.qp.attach_flow(&FlowSpec::to(solicited(gid)).ethertype(ipv6))?;
        }
        Ok(())
    }

    fn receive(&mut self, n: u64) -> Result<(), PostListError> {
        let at = n as usize * ROOM;
        // The range lies inside: `n` is below the number of receives.
        let sges = self.mr.sge(at..at + ROOM).map(|sge| [sge]).unwrap_or_default();
        self.qp.post_recv([RecvWr::new(n, &sges)])
    }

    /// Answers whatever has come; tells how many answers were sent. Never waits.
    pub fn answer(&mut self) -> Result<u32, Error> {
        let failed = |_| Error::NotReady("the raw packet QP failed");
        let mut answers = 0;
        let mut done = [Completion::default(); 4];
        loop {
            let n = self.cq.poll(&mut done).map_err(|_| Error::CqError)?;
            if n == 0 {
                return Ok(answers);
            }
            for done in done.iter().take(n) {
                if done.status != WcStatus::Success {
                    return Err(failed(()));
                }
                if done.opcode != bareverbs::WcOpcode::Recv {
                    continue;
                }
                let (mut frame, mut out) = ([0; ROOM], [0; ANSWER]);
                self.mr.read(done.wr_id as usize * ROOM, &mut frame)?;
                let len = (done.byte_len as usize).min(ROOM);
                let answer = answer(frame.get(..len).unwrap_or_default(), self.mac, &self.addresses, &mut out);
                self.receive(done.wr_id).map_err(|_| failed(()))?;
                if let Some(text) = answer.and_then(|len| out.get(..len)) {
                    // Where the queue is full the asker asks again.
                    answers += u32::from(self.qp.post_send([SendWr::inline(SendOp::Send, text)]).is_ok());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = Mac([2, 0, 0xc9, 0, 0, 1]);
    const ASKER: [u8; 6] = [2, 0, 0xc9, 0, 0, 0];

    fn reply(frame: &[u8]) -> Option<std::vec::Vec<u8>> {
        let mut out = [0; ANSWER];
        let addresses = [Gid::link_local(MAC), Gid::from_ipv4([10, 0, 0, 1])];
        answer(frame, MAC, &addresses, &mut out).map(|len| out[..len].to_vec())
    }

    // By hand from RFC 826.
    #[test]
    fn arp_request_and_reply() {
        let mut request = [[0xff; 6], ASKER].concat();
        request.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        request.extend([&ASKER[..], &[10, 0, 0, 2], &[0; 6], &[10, 0, 0, 1]].concat());
        let mut expected = [ASKER, MAC.0].concat();
        expected.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
        expected.extend([&MAC.0[..], &[10, 0, 0, 1], &ASKER, &[10, 0, 0, 2]].concat());
        assert_eq!(reply(&request), Some(expected.clone()));
        // For another, a reply, cut off.
        let mut other = request.clone();
        other[41] = 9;
        assert_eq!((reply(&other), reply(&expected), reply(&request[..41])), (None, None, None));
    }

    // By hand from RFC 4861, 4.3 and 4.4, checksums by the sums below.
    #[test]
    fn solicitation_and_advertisement() {
        let (asker, own) = (Gid::link_local(Mac(ASKER)).0, Gid::link_local(MAC).0);
        let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1];
        let packet = |src: [u8; 16], dst: [u8; 16], hops: u8, icmp: &[u8]| {
            let mut icmp = icmp.to_vec();
            let pseudo = [&src[..], &dst, &[0, 0, 0, icmp.len() as u8, 0, 0, 0, 58], &icmp].concat();
            let sum: u32 = pseudo.chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])).sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
            [&[0x60, 0, 0, 0, 0, icmp.len() as u8, 58, hops][..], &src, &dst, &icmp].concat()
        };
        let ask = |hops| {
            let icmp = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &own, &[1, 1], &ASKER].concat();
            [&[0x33, 0x33, 0xff, 0, 0, 1][..], &ASKER, &[0x86, 0xdd], &packet(asker, group, hops, &icmp)].concat()
        };
        let icmp = [&[136, 0, 0, 0, 0x60, 0, 0, 0][..], &own, &[2, 1], &MAC.0].concat();
        let expected = [&ASKER[..], &MAC.0, &[0x86, 0xdd], &packet(own, asker, 255, &icmp)].concat();
        assert_eq!(reply(&ask(255)), Some(expected));
        // From elsewhere, with a wrong checksum, for another.
        let (mut broken, mut other) = (ask(255), ask(255));
        broken[60] ^= 1;
        other[77] ^= 1;
        assert_eq!((reply(&ask(64)), reply(&broken), reply(&other)), (None, None, None));
        // Whoever looks whether the address is free is told by all.
        let icmp = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &own].concat();
        let probe = [&[0x33, 0x33, 0xff, 0, 0, 1][..], &ASKER, &[0x86, 0xdd], &packet([0; 16], group, 255, &icmp)];
        let all = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let icmp = [&[136, 0, 0, 0, 0x20, 0, 0, 0][..], &own, &[2, 1], &MAC.0].concat();
        let told = [&[0x33, 0x33, 0, 0, 0, 1][..], &MAC.0, &[0x86, 0xdd], &packet(own, all, 255, &icmp)].concat();
        assert_eq!(reply(&probe.concat()), Some(told));
    }

    #[test]
    fn nothing_is_read_beyond_a_frame() {
        for byte in 0..=255 {
            for len in 0..ROOM {
                let _whatever = reply(&std::vec![byte; len]);
            }
        }
    }
}
