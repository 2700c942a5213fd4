//! Counters of Ethernet frames: of the port (PPCNT), and of the vport (QUERY_VPORT_COUNTER).

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{ppcnt, ppcnt_group, query_vport_counter as query},
    field::Field64,
};

use crate::{
    command::Call,
    ethernet,
    hca::Hca,
    refusal::{Outcome, require},
};

/// Frames of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub packets: u64,
    /// Their bytes, without the check sequence.
    pub octets: u64,
}

impl Count {
    fn add(&mut self, len: usize) {
        self.packets += 1;
        self.octets += len as u64;
    }
}

/// Frames of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direction {
    /// To one address.
    pub unicast: Count,
    /// To a group.
    pub multicast: Count,
    /// To all.
    pub broadcast: Count,
    /// RoCE packets to one address.
    pub rdma_unicast: Count,
    /// RoCE packets to a group.
    pub rdma_multicast: Count,
    /// Frames by their length on the wire: see [`SIZES`].
    sizes: [u64; SIZES.len()],
}

/// Longest frame of each class of RFC 2819, check sequence included; the last class is Mellanox's.
const SIZES: [usize; 10] = [64, 127, 255, 511, 1023, 1518, 2047, 4095, 8191, 10239];

impl Direction {
    /// An Ethernet frame.
    pub fn count(&mut self, frame: &[u8]) {
        let kind = match frame.first_chunk() {
            Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => &mut self.broadcast,
            Some([first, ..]) if first & 1 != 0 => &mut self.multicast,
            _ => &mut self.unicast,
        };
        kind.add(frame.len());
        let on_wire = frame.len() + FCS as usize;
        if let Some(class) = SIZES.iter().position(|longest| on_wire <= *longest) {
            self.sizes[class] += 1;
        }
    }

    /// A RoCE packet.
    pub fn count_rdma(&mut self, frame: &[u8]) {
        let group = frame.first().is_some_and(|first| first & 1 != 0);
        if group { &mut self.rdma_multicast } else { &mut self.rdma_unicast }.add(frame.len());
    }

    fn packets(&self) -> u64 {
        self.unicast.packets + self.multicast.packets + self.broadcast.packets
    }

    /// Bytes on the wire, check sequences included.
    fn octets(&self) -> u64 {
        self.unicast.octets + self.multicast.octets + self.broadcast.octets + FCS * self.packets()
    }
}

/// Bytes of a frame check sequence.
const FCS: u64 = 4;

/// Both directions.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameCounters {
    /// Received.
    pub rx: Direction,
    /// Sent.
    pub tx: Direction,
}

/// The counters of a PPCNT group of an Ethernet port, by their place in the counter set, in qwords; `None` for a group
/// that is not kept. What is not named is 0: an ideal link has no errors and no pauses.
pub fn ppcnt_group(hca: &Hca, group: u32, priority: u32) -> Option<Vec<(usize, u64)>> {
    let FrameCounters { rx, tx } = &hca.port.frames;
    let dropped = &hca.ethernet.dropped;
    Some(match group {
        ppcnt_group::IEEE_802_3 => vec![
            (0, tx.packets()),
            (1, rx.packets()),
            (4, tx.octets()),
            (5, rx.octets()),
            (6, tx.multicast.packets),
            (7, tx.broadcast.packets),
            (8, rx.multicast.packets),
            (9, rx.broadcast.packets),
            (12, dropped.rx_too_long),
        ],
        ppcnt_group::RFC_2863 => vec![
            (0, rx.octets()),
            (1, rx.unicast.packets),
            (2, dropped.rx_too_long),
            (5, tx.octets()),
            (6, tx.unicast.packets),
            (7, dropped.tx_too_long),
            (9, rx.multicast.packets),
            (10, rx.broadcast.packets),
            (11, tx.multicast.packets),
            (12, tx.broadcast.packets),
        ],
        ppcnt_group::RFC_2819 => [
            (1, rx.octets()),
            (2, rx.packets()),
            (3, rx.broadcast.packets),
            (4, rx.multicast.packets),
            (7, dropped.rx_too_long),
        ]
        .into_iter()
        .chain(rx.sizes.iter().enumerate().map(|(class, n)| (11 + class, *n)))
        .collect(),
        // All traffic has priority 0: the model keeps no queues by priority.
        ppcnt_group::PER_PRIORITY if priority == 0 => {
            vec![(0, rx.octets()), (4, rx.packets()), (5, tx.octets()), (9, tx.packets())]
        }
        ppcnt_group::RFC_3635
        | ppcnt_group::ETHERNET_EXTENDED
        | ppcnt_group::PER_PRIORITY
        | ppcnt_group::PER_TRAFFIC_CLASS
        | ppcnt_group::PER_TRAFFIC_CLASS_CONGESTION
        | ppcnt_group::PHYSICAL_LAYER
        | ppcnt_group::INFINIBAND => vec![],
        _ => return None,
    })
}

/// Writes a group into PPCNT's counter set.
pub fn write_group(data: &mut [u8], counters: &[(usize, u64)]) {
    for (qword, value) in counters {
        Field64::new(ppcnt::COUNTER_SET + qword * 8).set(data, *value);
    }
}

/// QUERY_VPORT_COUNTER.
pub fn query_vport(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    ethernet::port(hca)?;
    let other = query::OTHER_VPORT.is_set(call.input) || query::VPORT_NUMBER.get(call.input) != 0;
    require(!other, Status::BadParameter, 0x1b00, "there is no other vport than the own")?;
    let FrameCounters { rx, tx } = hca.nic_vport.traffic;
    let counters = [
        (query::out::RECEIVED_IB_UNICAST, rx.rdma_unicast),
        (query::out::TRANSMITTED_IB_UNICAST, tx.rdma_unicast),
        (query::out::RECEIVED_IB_MULTICAST, rx.rdma_multicast),
        (query::out::TRANSMITTED_IB_MULTICAST, tx.rdma_multicast),
        (query::out::RECEIVED_ETH_BROADCAST, rx.broadcast),
        (query::out::TRANSMITTED_ETH_BROADCAST, tx.broadcast),
        (query::out::RECEIVED_ETH_UNICAST, rx.unicast),
        (query::out::TRANSMITTED_ETH_UNICAST, tx.unicast),
        (query::out::RECEIVED_ETH_MULTICAST, rx.multicast),
        (query::out::TRANSMITTED_ETH_MULTICAST, tx.multicast),
    ];
    for (at, count) in counters {
        Field64::new(at).set(call.out, count.packets);
        Field64::new(at + 8).set(call.out, count.octets);
    }
    if query::CLEAR.is_set(call.input) {
        hca.nic_vport.traffic = FrameCounters::default();
    }
    Ok(())
}
