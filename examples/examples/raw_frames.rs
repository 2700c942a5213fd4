//! Frames of raw packet QPs for the judges of the wire: questions for a neighbour (ARP, neighbour discovery), which the
//! responder of the examples answers, and datagrams whose checksums the card fills in, posted in every form.
//!
//! usage: raw_frames FILE.pcap

use bareverbs::*;
use bareverbs_examples::neighbours::{MEMORY, Neighbours};
use bareverbs_harness::{Clock, Function, World, model::LinkKind};
use bareverbs_mlx5::{Config, Local, Mlx5};
use bareverbs_model_mlx5::{Hca, HcaConfig};

type Failed = Box<dyn std::error::Error>;
type Card = Mlx5<Function, Local>;

const SEED: u64 = 0x7261_7766;
const PORT: PortNum = PortNum(1);
/// The one that asks, and the one that answers.
const ASKER: [u8; 4] = [10, 0, 0, 2];
const ANSWERER: [u8; 4] = [10, 0, 0, 1];
const ROOM: usize = 2048;
/// Bytes of the datagrams' payloads, up to a full frame.
const PAYLOADS: [usize; 5] = [0, 1, 18, 333, 1400];

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

fn main() -> Result<(), Failed> {
    let path = std::env::args().nth(1).ok_or("usage: raw_frames FILE.pcap")?;
    let world = World::builder().seed(SEED).clock(Clock::Virtual).capture(LinkKind::Ethernet, &path)?.build();
    let (answerer, function_a) = open(&world, 0)?;
    let (asker, function_b) = open(&world, 1)?;
    let [to, from] = [mac(&answerer)?, mac(&asker)?];
    for (index, gid) in (0..).zip([Gid::link_local(to), Gid::from_ipv4(ANSWERER)]) {
        answerer.set_gid(PORT, index, &GidEntry { gid, kind: GidType::RoceV2, mac: to, vlan: None })?;
    }
    let pd = answerer.alloc_pd()?;
    let mut neighbours = Neighbours::new(&answerer, &pd, PORT, vec![0; MEMORY].leak())?;
    let mut sender = Sender::new(&asker)?;

    let questions = questions(to, from);
    let mut answered = 0;
    for question in &questions {
        sender.send(&asker, question, Form::Inline)?;
        let asked = answered;
        while answered == asked {
            asker.relax();
            answered += neighbours.answer()?;
        }
    }
    let datagrams = datagrams(to, from);
    for (frame, form) in datagrams.iter().zip([Form::Gathered, Form::Whole, Form::Headed].into_iter().cycle()) {
        sender.send(&asker, frame, form)?;
    }
    drop((neighbours, sender, pd, answerer, asker));
    world.stop()?;
    for function in [function_a, function_b] {
        if let Some(what) = function.violations().first() {
            return Err(format!("the modelled HCA complains: {what}").into());
        }
    }
    println!("{} questions, {answered} answers, {} datagrams", questions.len(), datagrams.len());
    Ok(())
}

fn open(world: &World, n: u8) -> Result<(Card, Function), Failed> {
    let function = world.plug(Box::new(Hca::new(HcaConfig::ethernet(n))));
    let device = Mlx5::open(function.clone(), Config::default())?;
    while device.query_port(PORT)?.state != PortState::Active {
        device.relax();
    }
    Ok((device, function))
}

fn mac(device: &Card) -> Result<Mac, Error> {
    Ok(device.query_port(PORT)?.mac)
}

/// How a frame is posted.
#[derive(Clone, Copy)]
enum Form {
    /// Copied into the request.
    Inline,
    /// One element.
    Whole,
    /// Elements that lie apart.
    Gathered,
    /// The first bytes in the request, the others in an element.
    Headed,
}

/// A raw packet QP, and memory for one frame.
struct Sender {
    qp: <Card as Device>::Qp,
    cq: <Card as Device>::Cq,
    mr: <Card as Device>::Mr<&'static mut [u8]>,
    _pd: <Card as Device>::Pd,
}

impl Sender {
    fn new(device: &Card) -> Result<Self, Error> {
        let pd = device.alloc_pd()?;
        let cq = device.create_cq(&CqInit { entries: 15, ..CqInit::default() })?;
        let cap = QpCap { max_send_wr: 4, max_recv_wr: 1, max_send_sge: 2, max_recv_sge: 1, max_inline: 100 };
        let kind = QpType::RawPacket;
        let init = QpInit { kind, send_cq: &cq, recv_cq: &cq, srq: None, cap, signal_all: true, context: 0 };
        let mut qp = device.create_qp(&pd, &init)?;
        qp.modify(&QpAttr::to(QpState::Init).port(PORT))?;
        qp.modify(&QpAttr::to(QpState::Rtr))?;
        qp.modify(&QpAttr::to(QpState::Rts))?;
        let memory: &'static mut [u8] = vec![0; 2 * ROOM].leak();
        let mr = device.register(&pd, memory, Access::empty())?;
        Ok(Self { qp, cq, mr, _pd: pd })
    }

    /// Sends a frame, and waits until it is out.
    fn send(&mut self, device: &Card, frame: &[u8], form: Form) -> Result<(), Failed> {
        let cut = 34.min(frame.len());
        let (head, rest) = frame.split_at(cut);
        self.mr.write(0, head)?;
        self.mr.write(ROOM, rest)?;
        let apart = [self.mr.sge(0..cut)?, self.mr.sge(ROOM..ROOM + rest.len())?];
        let headed = Headed { head, sges: &apart[1..] };
        let wr = match form {
            Form::Inline => SendWr::inline(SendOp::Send, frame),
            Form::Gathered => SendWr::new(SendOp::Send, &apart),
            Form::Headed => SendWr { payload: Payload::Headed(&headed), ..SendWr::new(SendOp::Send, &[]) },
            Form::Whole => {
                self.mr.write(0, frame)?;
                let whole = [self.mr.sge(0..frame.len())?];
                return self.post(device, SendWr::new(SendOp::Send, &whole));
            }
        };
        self.post(device, wr)
    }

    fn post(&mut self, device: &Card, mut wr: SendWr<'_>) -> Result<(), Failed> {
        wr.flags |= SendFlags::IP_CSUM;
        self.qp.post_send([wr])?;
        let mut done = [Completion::default()];
        while self.cq.poll(&mut done)? == 0 {
            device.relax();
        }
        if done[0].status == WcStatus::Success { Ok(()) } else { Err(format!("{:?}", done[0]).into()) }
    }
}

fn ethernet(to: Mac, from: Mac, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to.0, &from.0, &ethertype.to_be_bytes()[..], payload].concat()
}

/// Questions for the answerer's addresses: ARP to all and to it alone, solicitations of a neighbour and of one that looks
/// whether the address is free (RFC 826; RFC 4861, 4.3; RFC 4862, 5.4.2).
fn questions(to: Mac, from: Mac) -> Vec<Vec<u8>> {
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1], &from.0[..], &ASKER, &[0; 6], &ANSWERER].concat();
    let target = Gid::link_local(to).0;
    let [.., a, b, c] = target;
    let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c];
    let solicit = |source: [u8; 16], options: &[u8]| {
        let icmp = [&[135, 0, 0, 0, 0, 0, 0, 0], &target[..], options].concat();
        ethernet(Mac([0x33, 0x33, 0xff, a, b, c]), from, IPV6, &ipv6(source, group, ICMPV6, 255, icmp))
    };
    vec![
        ethernet(Mac([0xff; 6]), from, ARP, &arp),
        ethernet(to, from, ARP, &arp),
        solicit(Gid::link_local(from).0, &[&[1, 1], &from.0[..]].concat()),
        solicit([0; 16], &[]),
    ]
}

/// Datagrams over IPv4 and IPv6, some with a VLAN tag; their checksums are the card's task (RFC 768, RFC 791, RFC 8200).
fn datagrams(to: Mac, from: Mac) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for len in PAYLOADS {
        let udp = [&[0x9c, 0x40, 0x9c, 0x41][..], &(8 + len as u16).to_be_bytes(), &[0, 0], &vec![b'x'; len]].concat();
        let total = (20 + udp.len() as u16).to_be_bytes();
        let head = [&[0x45, 0][..], &total, &[0, 0, 0x40, 0, 64, UDP, 0, 0], &ASKER, &ANSWERER].concat();
        let v4 = [head, udp.clone()].concat();
        let v6 = ipv6(Gid::link_local(from).0, Gid::link_local(to).0, UDP, 64, udp);
        let tagged = [&[0, 7], &IPV4.to_be_bytes()[..], &v4].concat();
        frames.push(ethernet(to, from, 0x8100, &tagged));
        frames.push(ethernet(to, from, IPV4, &v4));
        frames.push(ethernet(to, from, IPV6, &v6));
    }
    frames
}

/// An IPv6 packet, with the checksum of what it carries if that is no datagram: the card knows TCP and UDP only.
fn ipv6(source: [u8; 16], to: [u8; 16], next: u8, hops: u8, mut payload: Vec<u8>) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    if next == ICMPV6 {
        let pseudo = [&source[..], &to, &[0, 0], &length, &[0, 0, 0, next], &payload].concat();
        let words = pseudo.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |b| u32::from(*b)));
        let sum: u32 = words.sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        payload[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    [&[0x60, 0, 0, 0][..], &length, &[next, hops], &source, &to, &payload].concat()
}
