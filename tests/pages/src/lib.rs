//! The pages of `docs/verbs` and the one on the modelled card, whose examples run as tests of this crate, with two modelled cards to run them on.

use bareverbs::{
    Access, Completion, CompletionQueue, CqInit, Device, MemoryRegion, PortNum, PortState, QpCap, QpInit, QpType,
};
use bareverbs_conformance::{
    connect::{Connection, connect},
    homes::{open, plug},
};
use bareverbs_harness::{Function, World, model::LinkKind};
use bareverbs_mlx5::Mlx5;

pub mod drawing;

/// A page of the documentation, whose example is a test.
macro_rules! page {
    ($($name:ident)+) => {$(
        #[doc = include_str!(concat!("../../../docs/verbs/", stringify!($name), ".md"))]
        pub mod $name {}
    )+};
}

#[doc = include_str!("../../../docs/modelled-card.md")]
pub mod modelled_card {}

page! {
    open_device
    query_device
    query_port
    query_gid
    query_pkey
    alloc_pd
    reg_mr
    rereg_mr
    create_comp_channel
    create_cq
    destroy_cq
    resize_cq
    req_notify_cq
    get_cq_event
    ack_cq_events
    poll_cq
    modify_cq
    create_srq
    modify_srq
    query_srq
    destroy_srq
    post_srq_recv
    create_qp
    modify_qp
    query_qp
    destroy_qp
    post_send
    post_recv
    create_ah
    get_async_event
    relax
    alloc_mw
    alloc_fast_region
    attach_mcast
    create_flow
    open_xrcd
}

/// A modelled ConnectX under the mlx5 driver. Examples use it through the traits alone.
pub type Card = Mlx5<Function>;

/// Two cards on one InfiniBand cable, their ports active.
pub fn cards() -> [Card; 2] {
    cards_on(LinkKind::InfiniBand)
}

/// Two cards on one Ethernet cable, their ports active; each has its link-local GID at index 0.
pub fn ethernet_cards() -> [Card; 2] {
    cards_on(LinkKind::Ethernet)
}

fn cards_on(link: LinkKind) -> [Card; 2] {
    let world = World::new(1);
    let functions = [plug(&world, link, 0), plug(&world, link, 1)];
    let cards = functions.map(|function| open(&function).expect("a card that opens"));
    for card in &cards {
        while card.query_port(PortNum(1)).expect("a port").state != PortState::Active {
            card.relax();
        }
        while card.service().expect("a card that works").is_some() {}
    }
    cards
}

/// One card.
pub fn card() -> Card {
    let [card, _] = cards();
    card
}

/// Memory that stays.
pub fn memory(len: usize) -> &'static mut [u8] {
    vec![0; len].leak()
}

/// One end of a connection: a QP of 8 requests either way, its CQ of 15 entries, 4096 bytes of memory.
pub struct End {
    pub device: Card,
    pub pd: <Card as Device>::Pd,
    pub cq: <Card as Device>::Cq,
    pub qp: <Card as Device>::Qp,
    pub mr: <Card as Device>::Mr<&'static mut [u8]>,
}

impl End {
    fn new(device: Card, kind: QpType) -> Result<Self, bareverbs::Error> {
        let pd = device.alloc_pd()?;
        let cq = device.create_cq(&CqInit { entries: 15, ..CqInit::default() })?;
        let cap = QpCap { max_send_wr: 8, max_recv_wr: 8, max_send_sge: 1, max_recv_sge: 1, max_inline: 64 };
        let init = QpInit { kind, send_cq: &cq, recv_cq: &cq, srq: None, cap, signal_all: false, context: 0 };
        let qp = device.create_qp(&pd, &init)?;
        let access =
            Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC | Access::MW_BIND;
        let mr = device.register(&pd, memory(4096), access)?;
        Ok(Self { device, pd, cq, qp, mr })
    }

    /// The next completion.
    pub fn wait(&mut self) -> Completion {
        let mut out = [Completion::default()];
        while self.cq.poll(&mut out).expect("a CQ that works") == 0 {
            self.device.relax();
        }
        out[0]
    }
}

/// One end on a card, its QP in RESET.
pub fn end(card: Card, kind: QpType) -> End {
    End::new(card, kind).expect("an end")
}

/// Two ends of a type on two cards, in RTS, towards each other.
pub fn pair(kind: QpType) -> [End; 2] {
    let [mut a, mut b] = cards().map(|card| end(card, kind));
    let devices = [a.device.clone(), b.device.clone()];
    connect(&devices, [&mut a.qp, &mut b.qp], &Connection::default()).expect("a connection");
    assert!(a.mr.len() == 4096 && b.mr.len() == 4096);
    [a, b]
}
