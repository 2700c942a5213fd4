//! General device capabilities. PRM: "HCA Capabilities" (cmd_hca_cap); numbers are logarithms where
//! the name says so.
use crate::field::{Field, Field64};

/// Size in bytes of what is used of the 4096.
pub const SIZE: usize = 0x100;

// Queue pairs, shared receive queues, completion and event queues.
/// Log of the receive WQEs of an SRQ at most.
pub const LOG_MAX_SRQ_SZ: Field = Field::new(0x10, 31, 24);
/// Log of the WQEs of a QP at most.
pub const LOG_MAX_QP_SZ: Field = Field::new(0x10, 23, 16);
/// Log of the number of QPs.
pub const LOG_MAX_QP: Field = Field::new(0x10, 4, 0);
/// Log of the number of SRQs.
pub const LOG_MAX_SRQ: Field = Field::new(0x14, 20, 16);
/// Log of the entries of a CQ at most.
pub const LOG_MAX_CQ_SZ: Field = Field::new(0x18, 23, 16);
/// Log of the number of CQs.
pub const LOG_MAX_CQ: Field = Field::new(0x18, 4, 0);
/// Log of the entries of an EQ at most.
pub const LOG_MAX_EQ_SZ: Field = Field::new(0x1c, 31, 24);
/// Log of the number of EQs.
pub const LOG_MAX_EQ: Field = Field::new(0x1c, 3, 0);
/// Number of EQs for the driver; 0 leaves it to `log_max_eq`.
pub const MAX_NUM_EQS: Field = Field::new(0x8c, 15, 0);
/// Log of the longest message.
pub const LOG_MAX_MSG: Field = Field::new(0x38, 28, 24);
/// Bytes of a send WQE at most.
pub const MAX_WQE_SZ_SQ: Field = Field::new(0x50, 15, 0);
/// Bytes of a receive WQE at most.
pub const MAX_WQE_SZ_RQ: Field = Field::new(0x54, 15, 0);
/// QPs attached to one multicast group at most.
pub const MAX_QP_CNT: Field = Field::new(0x30, 25, 16);
/// Attachments to one multicast group at most.
pub const MAX_QP_MCG: Field = Field::new(0x5c, 24, 0);
/// Log of the number of multicast groups.
pub const LOG_MAX_MCG: Field = Field::new(0x60, 7, 0);
/// Log of the outstanding reads and atomics of a QP as a requester at most.
pub const LOG_MAX_RA_REQ_QP: Field = Field::new(0x28, 21, 16);
/// Log of the outstanding reads and atomics of a QP as a responder at most.
pub const LOG_MAX_RA_RES_QP: Field = Field::new(0x28, 5, 0);
/// The same for a DC initiator as a requester.
pub const LOG_MAX_RA_REQ_DC: Field = Field::new(0x24, 21, 16);
/// The same for a DC target as a responder.
pub const LOG_MAX_RA_RES_DC: Field = Field::new(0x24, 5, 0);
/// Log of the number of protection domains.
pub const LOG_MAX_PD: Field = Field::new(0x64, 20, 16);
/// Log of the number of XRC domains.
pub const LOG_MAX_XRCD: Field = Field::new(0x64, 4, 0);
/// Log of the number of transport domains.
pub const LOG_MAX_TRANSPORT_DOMAIN: Field = Field::new(0x64, 28, 24);
/// Highest CQE version: 1 puts a user index into each CQE.
pub const CQE_VERSION: Field = Field::new(0x3c, 3, 0);
/// CQs may ignore overruns.
pub const CQ_OI: Field = Field::new(0x44, 31, 31);
/// CQs can be resized.
pub const CQ_RESIZE: Field = Field::new(0x44, 30, 30);
/// CQs can be moderated.
pub const CQ_MODERATION: Field = Field::new(0x44, 29, 29);
/// A CQ can move to another EQ.
pub const CQ_EQ_REMAP: Field = Field::new(0x44, 25, 25);
/// The moderation period can start with a completion.
pub const CQ_PERIOD_START_FROM_CQE: Field = Field::new(0x44, 20, 20);
/// A solicited completion can end moderation.
pub const SCQE_BREAK_MODERATION: Field = Field::new(0x44, 21, 21);
/// On-demand paging.
pub const PG: Field = Field::new(0x44, 24, 24);
/// Signature errors can drain a send queue.
pub const DRAIN_SIGERR: Field = Field::new(0x40, 16, 16);
/// Signature errors come as CQEs.
pub const SIGERR_CQE: Field = Field::new(0x40, 13, 13);
/// WQEs can be signed.
pub const WQ_SIGNATURE: Field = Field::new(0x40, 11, 11);
/// Data can be scattered to CQEs.
pub const SCTR_DATA_CQE: Field = Field::new(0x40, 10, 10);
/// Data of a DC requester can be scattered to CQEs.
pub const DC_REQ_SCAT_DATA_CQE: Field = Field::new(0x40, 19, 19);
/// Scatter data can be padded at its end.
pub const END_PAD: Field = Field::new(0x2c, 31, 31);
/// Scatter data can be padded at its start.
pub const START_PAD: Field = Field::new(0x2c, 28, 28);
/// The device knows cache lines of 128 bytes; padding goes by them.
pub const CACHE_LINE_128BYTE: Field = Field::new(0x2c, 27, 27);
/// A QP can refuse its own multicasts.
pub const BLOCK_LB_MC: Field = Field::new(0x44, 23, 23);
/// Packet-based credits.
pub const QP_PACKET_BASED: Field = Field::new(0x44, 13, 13);
/// Automatic path migration.
pub const APM: Field = Field::new(0x44, 17, 17);
/// Cross-channel work requests.
pub const CD: Field = Field::new(0x44, 19, 19);
/// Vector calculation.
pub const VECTOR_CALC: Field = Field::new(0x44, 16, 16);
/// Immediate data and invalidation in the same message.
pub const IMAICL: Field = Field::new(0x44, 14, 14);
/// Q_Key violation counter.
pub const QKV: Field = Field::new(0x44, 9, 9);
/// P_Key violation counter.
pub const PKV: Field = Field::new(0x44, 8, 8);
/// A QP may send with QPN 1 as the source.
pub const SET_DETH_SQPN: Field = Field::new(0x44, 7, 7);
/// XRC is supported.
pub const XRC: Field = Field::new(0x44, 3, 3);
/// UD is supported.
pub const UD: Field = Field::new(0x44, 2, 2);
/// UC is supported.
pub const UC: Field = Field::new(0x44, 1, 1);
/// RC is supported.
pub const RC: Field = Field::new(0x44, 0, 0);
/// DC is supported.
pub const DCT: Field = Field::new(0x40, 5, 5);
/// Signature handover is supported.
pub const SHO: Field = Field::new(0x40, 8, 8);
/// TLP processing hints.
pub const TPH: Field = Field::new(0x40, 7, 7);
/// Reserved lkey for fast registration.
pub const RF: Field = Field::new(0x40, 6, 6);
/// Quality of service structure is there.
pub const QOS: Field = Field::new(0x40, 4, 4);
/// Atomics structure is there.
pub const ATOMIC: Field = Field::new(0x40, 1, 1);
/// RoCE structure is there.
pub const ROCE: Field = Field::new(0x40, 2, 2);
/// Ethernet offload structure is there.
pub const ETH_NET_OFFLOADS: Field = Field::new(0x40, 3, 3);
/// Flow table structure is there.
pub const NIC_FLOW_TABLE: Field = Field::new(0x34, 25, 25);
/// The function manages the embedded switch.
pub const ESWITCH_MANAGER: Field = Field::new(0x34, 24, 24);
/// The second general structure is there.
pub const HCA_CAP_2: Field = Field::new(0x04, 31, 31);
/// Enhanced connection establishment.
pub const ECE_SUPPORT: Field = Field::new(0x14, 28, 28);
/// Force-loopback RC QPs work with RoCE off.
pub const FL_RC_QP_WHEN_ROCE_DISABLED: Field = Field::new(0x48, 23, 23);
/// Log of the number of memory keys.
pub const LOG_MAX_MKEY: Field = Field::new(0x1c, 21, 16);
/// Log of the bytes of a memory key at most.
pub const LOG_MAX_MRW_SZ: Field = Field::new(0x20, 22, 16);
/// Log of the entries of a KLM list at most.
pub const LOG_MAX_KLM_LIST_SIZE: Field = Field::new(0x20, 5, 0);
/// Log of the entries of a byte stream format list at most.
pub const LOG_MAX_BSF_LIST_SIZE: Field = Field::new(0x20, 13, 8);
/// Levels of indirect memory keys at most.
pub const MAX_INDIRECTION: Field = Field::new(0x20, 31, 24);
/// Indirect keys of entries of one size (KSM) are supported.
pub const FIXED_BUFFER_SIZE: Field = Field::new(0x20, 23, 23);
/// UMRs take a translation offset of 48 bits.
pub const UMR_EXTENDED_TRANSLATION_OFFSET: Field = Field::new(0x20, 7, 7);
/// QUERY_SPECIAL_CONTEXTS tells a null key.
pub const NULL_MKEY: Field = Field::new(0x20, 6, 6);
/// QUERY_SPECIAL_CONTEXTS tells a dump-fill key.
pub const DUMP_FILL_MKEY: Field = Field::new(0x1c, 7, 7);
/// A key can be created with a chosen index.
pub const MKEY_BY_NAME: Field = Field::new(0x4c, 25, 25);
/// [`umr_fence`] that a UMR needs itself, where it registers (mlx5_ib: `mlx5_get_umr_fence`).
pub const UMR_FENCE: Field = Field::new(0x40, 21, 20);
/// A UMR may point to its list through the reserved lkey.
pub const UMR_PTR_RLKY: Field = Field::new(0x44, 15, 15);
/// UMRs cannot change the entity size.
pub const UMR_MODIFY_ENTITY_SIZE_DISABLED: Field = Field::new(0x40, 24, 24);
/// UMRs cannot change the permission of atomics.
pub const UMR_MODIFY_ATOMIC_DISABLED: Field = Field::new(0x40, 23, 23);
/// UMRs cannot make indirect keys.
pub const UMR_INDIRECT_MKEY_DISABLED: Field = Field::new(0x40, 22, 22);
/// No repeated blocks.
pub const REPEATED_BLOCK_DISABLED: Field = Field::new(0x40, 25, 25);
/// UMRs can switch relaxed ordering of writes.
pub const RELAXED_ORDERING_WRITE_UMR: Field = Field::new(0x18, 15, 15);
/// UMRs can switch relaxed ordering of reads.
pub const RELAXED_ORDERING_READ_UMR: Field = Field::new(0x18, 14, 14);
/// Keys can relax the ordering of writes.
pub const RELAXED_ORDERING_WRITE: Field = Field::new(0x1c, 23, 23);
/// Keys can relax the ordering of reads; newer headers say `relaxed_ordering_read_pci_enabled`.
pub const RELAXED_ORDERING_READ: Field = Field::new(0x1c, 22, 22);

// Doorbells and pages.
/// UARs are 4 KiB whatever the host's page size; set by SET_HCA_CAP.
pub const UAR_4K: Field = Field::new(0x48, 31, 31);
/// Size of the UAR area: 2^value MiB.
pub const UAR_SZ: Field = Field::new(0x48, 21, 16);
/// CREATE_UMEM works for the driver itself, without a user context.
pub const UMEM_UID_0: Field = Field::new(0x48, 13, 13);
/// Log of the page size.
pub const LOG_PG_SZ: Field = Field::new(0x48, 7, 0);
/// Log of the UAR page size less 12; set by SET_HCA_CAP where `uar_4k` is not taken.
pub const LOG_UAR_PAGE_SZ: Field = Field::new(0x90, 15, 0);
/// UARs in a page.
pub const NUM_OF_UARS_PER_PAGE: Field = Field::new(0xa4, 31, 0);
/// BlueFlame is supported.
pub const BF: Field = Field::new(0x4c, 31, 31);
/// Log of the bytes of a BlueFlame register (of two buffers).
pub const LOG_BF_REG_SIZE: Field = Field::new(0x4c, 20, 16);
/// Signatures of the command interface, see [`cmdif_checksum`].
pub const CMDIF_CHECKSUM: Field = Field::new(0x40, 15, 14);
/// SET_DRIVER_VERSION is supported.
pub const DRIVER_VERSION: Field = Field::new(0x4c, 30, 30);
/// TEARDOWN_HCA can be fast.
pub const FAST_TEARDOWN: Field = Field::new(0x1c, 4, 4);
/// TEARDOWN_HCA can be forced.
pub const FORCE_TEARDOWN: Field = Field::new(0x20, 15, 15);
/// MANAGE_PAGES can give back all pages at once.
pub const RELEASE_ALL_PAGES: Field = Field::new(0x28, 26, 26);
/// Frequency of the internal timer in MHz.
pub const DEVICE_FREQUENCY_MHZ: Field = Field::new(0x98, 31, 0);
/// Frequency of the internal timer in kHz.
pub const DEVICE_FREQUENCY_KHZ: Field = Field::new(0x9c, 31, 0);

// Ports.
/// [`port_type`].
pub const PORT_TYPE: Field = Field::new(0x34, 9, 8);
/// Number of ports.
pub const NUM_PORTS: Field = Field::new(0x34, 7, 0);
/// [`gid_table_size`] code; entries of the GID table.
pub const GID_TABLE_SIZE: Field = Field::new(0x2c, 15, 0);
/// [`pkey_table_size`] code: entries of the P_Key table are 128 << value.
pub const PKEY_TABLE_SIZE: Field = Field::new(0x30, 15, 0);
/// ACK delay of the HCA, IBA 9.7.6.1.3.
pub const LOCAL_CA_ACK_DELAY: Field = Field::new(0x34, 20, 16);
/// Bit n: static rate n is supported.
pub const STAT_RATE_SUPPORT: Field = Field::new(0x3c, 31, 16);
/// InfiniBand virtualization: the HCA vport commands work.
pub const IB_VIRT: Field = Field::new(0x34, 29, 29);
/// May read and set other functions' vports.
pub const VPORT_GROUP_MANAGER: Field = Field::new(0x34, 31, 31);
/// QUERY_VPORT_COUNTER works.
pub const VPORT_COUNTERS: Field = Field::new(0x30, 30, 30);
/// Counters of out-of-sequence packets.
pub const OUT_OF_SEQ_CNT: Field = Field::new(0x30, 31, 31);
/// Counters of retransmissions.
pub const RETRANSMISSION_Q_COUNTERS: Field = Field::new(0x30, 29, 29);
/// Counters of errors.
pub const ENHANCED_ERROR_Q_COUNTERS: Field = Field::new(0x34, 14, 14);
/// An RQ's counter set can be changed.
pub const MODIFY_RQ_COUNTER_SET_ID: Field = Field::new(0x30, 27, 27);
/// A QP's counter set can be changed in RTS.
pub const RTS2RTS_QP_COUNTERS_SET_ID: Field = Field::new(0x2c, 22, 22);
/// Own unicasts can be kept from coming back.
pub const DISABLE_LOCAL_LB_UC: Field = Field::new(0x7c, 30, 30);
/// Own multicasts can be kept from coming back.
pub const DISABLE_LOCAL_LB_MC: Field = Field::new(0x7c, 29, 29);
/// Address vectors without GRH need only 16 bytes.
pub const COMPACT_ADDRESS_VECTOR: Field = Field::new(0x40, 31, 31);
/// RoCE can be switched by SET_HCA_CAP.
pub const ROCE_RW_SUPPORTED: Field = Field::new(0x74, 30, 30);
/// Enhanced transmission selection.
pub const ETS: Field = Field::new(0x34, 26, 26);
/// Data center bridging exchange.
pub const DCBX: Field = Field::new(0x38, 14, 14);
/// Register PCAM is supported.
pub const PCAM_REG: Field = Field::new(0x34, 21, 21);
/// Register MCAM is supported.
pub const MCAM_REG: Field = Field::new(0x34, 22, 22);
/// Register QCAM is supported.
pub const QCAM_REG: Field = Field::new(0x2c, 16, 16);
/// Port checks.
pub const PORTS_CHECK: Field = Field::new(0x34, 13, 13);
/// The port's LED can blink.
pub const BEACON_LED: Field = Field::new(0x34, 10, 10);
/// Events of port modules.
pub const PORT_MODULE_EVENT: Field = Field::new(0x34, 15, 15);
/// Events of temperature.
pub const TEMP_WARN_EVENT: Field = Field::new(0x38, 15, 15);
/// General events.
pub const GENERAL_NOTIFICATION_EVENT: Field = Field::new(0x38, 13, 13);
/// Events capability structure is there.
pub const EVENT_CAP: Field = Field::new(0x10, 15, 15);
/// Debug capability structure is there.
pub const DEBUG: Field = Field::new(0x30, 28, 28);
/// Device memory structure is there.
pub const DEVICE_MEMORY: Field = Field::new(0x34, 23, 23);

// Raw packet queues.
/// Log of the number of RQs.
pub const LOG_MAX_RQ: Field = Field::new(0x6c, 28, 24);
/// Log of the number of SQs.
pub const LOG_MAX_SQ: Field = Field::new(0x6c, 20, 16);
/// Log of the number of TIRs.
pub const LOG_MAX_TIR: Field = Field::new(0x6c, 12, 8);
/// Log of the number of TISs.
pub const LOG_MAX_TIS: Field = Field::new(0x6c, 4, 0);
/// Log of the number of RMPs.
pub const LOG_MAX_RMP: Field = Field::new(0x70, 28, 24);
/// Log of the number of RQTs.
pub const LOG_MAX_RQT: Field = Field::new(0x70, 20, 16);
/// Log of the entries of an RQT at most.
pub const LOG_MAX_RQT_SIZE: Field = Field::new(0x70, 12, 8);
/// Log of the TISs of an SQ at most.
pub const LOG_MAX_TIS_PER_SQ: Field = Field::new(0x70, 4, 0);
/// Cyclic work queues are supported.
pub const BASIC_CYCLIC_RCV_WQE: Field = Field::new(0x70, 31, 31);
/// Log of the stride of an RQ at most.
pub const LOG_MAX_STRIDE_SZ_RQ: Field = Field::new(0x74, 28, 24);
/// Log of the stride of an RQ at least.
pub const LOG_MIN_STRIDE_SZ_RQ: Field = Field::new(0x74, 20, 16);
/// Log of the stride of an SQ at most.
pub const LOG_MAX_STRIDE_SZ_SQ: Field = Field::new(0x74, 12, 8);
/// Log of the stride of an SQ at least.
pub const LOG_MIN_STRIDE_SZ_SQ: Field = Field::new(0x74, 4, 0);
/// Log of the WQEs of a work queue at most.
pub const LOG_MAX_WQ_SZ: Field = Field::new(0x78, 4, 0);
/// Striding RQs are supported.
pub const STRIDING_RQ: Field = Field::new(0x40, 30, 30);
/// CQEs can be compressed.
pub const CQE_COMPRESSION: Field = Field::new(0xb4, 0, 0);
/// CQEs of 128 bytes can be compressed.
pub const CQE_COMPRESSION_128: Field = Field::new(0xb4, 1, 1);
/// CQEs can always be 128 bytes.
pub const CQE_128_ALWAYS: Field = Field::new(0xb4, 2, 2);
/// Longest wait of a compressed CQE, in microseconds.
pub const CQE_COMPRESSION_TIMEOUT: Field = Field::new(0xb8, 31, 16);
/// CQEs in one compressed session at most.
pub const CQE_COMPRESSION_MAX_NUM: Field = Field::new(0xb8, 15, 0);
/// Events of vport changes.
pub const NIC_VPORT_CHANGE_EVENT: Field = Field::new(0x7c, 31, 31);
/// Log of the VLAN list of a vport.
pub const LOG_MAX_VLAN_LIST: Field = Field::new(0x7c, 20, 16);
/// Log of the multicast list of a vport.
pub const LOG_MAX_CURRENT_MC_LIST: Field = Field::new(0x7c, 12, 8);
/// Log of the unicast list of a vport.
pub const LOG_MAX_CURRENT_UC_LIST: Field = Field::new(0x7c, 4, 0);
/// Log of the layer 2 table.
pub const LOG_MAX_L2_TABLE: Field = Field::new(0x90, 28, 24);
/// Log of the flow counters allocated at once at most.
pub const LOG_MAX_FLOW_COUNTER_BULK: Field = Field::new(0x68, 23, 16);
/// Number of flow counters, low half.
pub const MAX_FLOW_COUNTER_15_0: Field = Field::new(0x68, 15, 0);
/// Number of flow counters, high half.
pub const MAX_FLOW_COUNTER_31_16: Field = Field::new(0x58, 31, 16);
/// Bit n: 128 << n flow counters can be allocated at once.
pub const FLOW_COUNTER_BULK_ALLOC: Field = Field::new(0x60, 15, 8);
/// Timestamp formats of SQs.
pub const SQ_TS_FORMAT: Field = Field::new(0x88, 31, 30);
/// Timestamp formats of RQs.
pub const RQ_TS_FORMAT: Field = Field::new(0x88, 29, 28);
/// Number of the function in the device.
pub const VHCA_ID: Field = Field::new(0x04, 15, 0);
/// Bit n: general object type n is supported.
pub const GENERAL_OBJ_TYPES: Field64 = Field64::new(0x80);
/// Log of the number of user contexts.
pub const LOG_MAX_UCTX: Field = Field::new(0x8c, 28, 24);
/// Log of the number of registered user memories.
pub const LOG_MAX_UMEM: Field = Field::new(0x8c, 20, 16);

// Receive path, bonds, virtual functions, offloads.
/// QUERY_VNIC_ENV counts queue errors.
pub const VNIC_ENV_QUEUE_COUNTERS: Field = Field::new(0x34, 27, 27);
/// QUERY_VNIC_ENV counts missing buffers inside the device.
pub const VNIC_ENV_INT_RQ_OOB: Field = Field::new(0x2c, 19, 19);
/// QUERY_VNIC_ENV counts CQ overruns.
pub const VNIC_ENV_CQ_OVERRUN: Field = Field::new(0x24, 6, 6);
/// QUERY_VNIC_ENV counts EQ overruns.
pub const EQ_OVERRUN_COUNT: Field = Field::new(0x68, 28, 28);
/// QUERY_VNIC_ENV counts refused commands.
pub const INVALID_COMMAND_COUNT: Field = Field::new(0x68, 26, 26);
/// QUERY_VNIC_ENV counts commands beyond the quota.
pub const QUOTA_EXCEEDED_COUNT: Field = Field::new(0x68, 25, 25);
/// QUERY_VNIC_ENV counts packets that steering dropped.
pub const NIC_RECEIVE_STEERING_DISCARD: Field = Field::new(0x68, 31, 31);
/// QUERY_VNIC_ENV counts packets received by a vport that is down.
pub const RECEIVE_DISCARD_VPORT_DOWN: Field = Field::new(0x68, 30, 30);
/// QUERY_VNIC_ENV counts packets sent by a vport that is down.
pub const TRANSMIT_DISCARD_VPORT_DOWN: Field = Field::new(0x68, 29, 29);
/// Traffic classes.
pub const MAX_TC: Field = Field::new(0x38, 19, 16);
/// Packets need a priority tag.
pub const PRIO_TAG_REQUIRED: Field = Field::new(0x10, 7, 7);
/// Scatter entries of a WQE for the best speed.
pub const MAX_SGL_FOR_OPTIMIZED_PERFORMANCE: Field = Field::new(0x18, 31, 24);
/// RQs may delay drops.
pub const RQ_DELAY_DROP: Field = Field::new(0x30, 26, 26);
/// Striding WQEs may have few strides.
pub const EXT_STRIDE_NUM_RANGE: Field = Field::new(0x74, 31, 31);
/// Mini CQEs can tell the stride.
pub const MINI_CQE_RESP_STRIDE_INDEX: Field = Field::new(0xb4, 3, 3);
/// Event of Ethernet packets too long for their WQE.
pub const ETH_WQE_TOO_SMALL: Field = Field::new(0x24, 13, 13);
/// A QP can have a traffic class of its own.
pub const ISOLATE_VL_TC_NEW: Field = Field::new(0x10, 12, 12);
/// Hairpin queues.
pub const HAIRPIN: Field = Field::new(0x78, 31, 31);
/// Log of the bytes of a hairpin queue at most.
pub const LOG_MAX_HAIRPIN_WQ_DATA_SZ: Field = Field::new(0x78, 20, 16);
/// Log of the bytes of a hairpin queue at least.
pub const LOG_MIN_HAIRPIN_WQ_DATA_SZ: Field = Field::new(0x7c, 28, 24);
/// Log of the packets of a hairpin queue at most.
pub const LOG_MAX_HAIRPIN_NUM_PACKETS: Field = Field::new(0x78, 12, 8);
/// TLS offload of sending.
pub const TLS_TX: Field = Field::new(0x90, 30, 30);
/// TLS offload of receiving.
pub const TLS_RX: Field = Field::new(0x90, 29, 29);
/// IPsec offload.
pub const IPSEC_OFFLOAD: Field = Field::new(0x8c, 21, 21);
/// Log of the number of encryption keys.
pub const LOG_MAX_DEK: Field = Field::new(0xb4, 12, 8);
/// Tag matching.
pub const TAG_MATCHING: Field = Field::new(0xbc, 15, 15);
/// Rendezvous offload on RC.
pub const RNDV_OFFLOAD_RC: Field = Field::new(0xbc, 14, 14);
/// Log of the tags of a list at most.
pub const LOG_TAG_MATCHING_LIST_SZ: Field = Field::new(0xbc, 12, 8);
/// Log of the streams of a DC initiator at most.
pub const LOG_MAX_DCI_STREAM_CHANNELS: Field = Field::new(0xb0, 20, 16);
/// Log of the streams in error of a DC initiator at most.
pub const LOG_MAX_DCI_ERRORED_STREAMS: Field = Field::new(0xb0, 12, 8);
/// IPoIB offload structure is there.
pub const IPOIB_BASIC_OFFLOADS: Field = Field::new(0x40, 27, 27);
/// IPoIB enhanced offload structure is there.
pub const IPOIB_ENHANCED_OFFLOADS: Field = Field::new(0x40, 28, 28);
/// Ports of a bond at most.
pub const NUM_LAG_PORTS: Field = Field::new(0x4c, 3, 0);
/// The function may lead a bond.
pub const LAG_MASTER: Field = Field::new(0x4c, 4, 4);
/// Queues may choose a port of a bond.
pub const LAG_TX_PORT_AFFINITY: Field = Field::new(0x4c, 7, 7);
/// So may QPs at 2INIT.
pub const INIT2_LAG_TX_PORT_AFFINITY: Field = Field::new(0x3c, 7, 7);
/// DC targets in a bond.
pub const LAG_DCT: Field = Field::new(0x4c, 9, 8);
/// Port selection structure is there.
pub const PORT_SELECTION_CAP: Field = Field::new(0x48, 15, 15);
/// A bond can be made while its master's port is down.
pub const CREATE_LAG_WHEN_NOT_MASTER_UP: Field = Field::new(0x04, 30, 30);
/// Virtualization structure is there.
pub const ADV_VIRTUALIZATION: Field = Field::new(0xac, 6, 6);
/// What may join ports.
pub const AFFILIATE_NIC_VPORT_CRITERIA: Field = Field::new(0xc0, 31, 24);
/// Ports that the function may join.
pub const NUM_VHCA_PORTS: Field = Field::new(0xc0, 15, 8);
/// INIT_HCA takes an owner.
pub const SW_OWNER_ID: Field = Field::new(0xc0, 1, 1);
/// The function manages others' resources.
pub const VHCA_RESOURCE_MANAGER: Field = Field::new(0x00, 0, 0);
/// States of functions can be read and set.
pub const VHCA_STATE: Field = Field::new(0x7c, 21, 21);
/// Subfunctions.
pub const SF: Field = Field::new(0xd0, 31, 31);
/// Log of the number of subfunctions.
pub const LOG_MAX_SF: Field = Field::new(0xd0, 28, 24);
/// Number of subfunctions; 0 leaves it to `log_max_sf`.
pub const MAX_NUM_SF: Field = Field::new(0xc8, 31, 16);
/// First function number of subfunctions.
pub const SF_BASE_ID: Field = Field::new(0xdc, 15, 0);
/// Log of the 4 KiB pages of a subfunction's BAR at least.
pub const LOG_MIN_SF_SIZE: Field = Field::new(0xd0, 15, 8);
/// Steering keeps metadata registers between domains.
pub const REG_C_PRESERVE: Field = Field::new(0x14, 22, 22);
/// 0: ConnectX-5, 1: ConnectX-6 Dx.
pub const STEERING_FORMAT_VERSION: Field = Field::new(0x88, 27, 24);
/// RoCE acceleration register.
pub const ROCE_ACCL: Field = Field::new(0x28, 22, 22);
/// Congestion control may be read.
pub const CC_QUERY_ALLOWED: Field = Field::new(0x2c, 30, 30);
/// Congestion control may be set.
pub const CC_MODIFY_ALLOWED: Field = Field::new(0x2c, 29, 29);
/// Register SBCAM is supported.
pub const SBCAM_REG: Field = Field::new(0x2c, 18, 18);
/// Pulse per second.
pub const PPS: Field = Field::new(0x38, 30, 30);
/// Pulse per second can be set.
pub const PPS_MODIFY: Field = Field::new(0x38, 29, 29);
/// Timestamps may go to a CQ of their own.
pub const TS_CQE_TO_DEST_CQN: Field = Field::new(0x14, 13, 13);
/// Event of a firmware update.
pub const PCI_SYNC_FOR_FW_UPDATE_EVENT: Field = Field::new(0x3c, 14, 14);
/// Address translation services of PCIe.
pub const ATS: Field = Field::new(0x8c, 30, 30);
/// APU elements.
pub const APU: Field = Field::new(0xd0, 23, 23);
/// What a user context may do.
pub const UCTX_CAP: Field = Field::new(0xd4, 31, 0);

/// Values of [`PORT_TYPE`].
pub mod port_type {
    /// InfiniBand.
    pub const INFINIBAND: u32 = 0;
    /// Ethernet.
    pub const ETHERNET: u32 = 1;
}

/// Values of [`UMR_FENCE`].
pub mod umr_fence {
    /// Strong ordering.
    pub const STRONG_ORDERED: u32 = 0;
    /// Initiator small fence.
    pub const SMALL: u32 = 1;
    /// None.
    pub const NONE: u32 = 2;
}

/// Values of [`CMDIF_CHECKSUM`].
pub mod cmdif_checksum {
    /// None; the queue entry's signature is written but not read.
    pub const DISABLED: u32 = 0;
    /// The driver signs, and reads the device's signatures.
    pub const ENABLED: u32 = 3;
}

/// Values of [`GID_TABLE_SIZE`].
pub mod gid_table_size {
    /// 8 entries; each further value doubles, up to [`ENTRIES_128`].
    pub const ENTRIES_8: u32 = 0;
    /// 16 entries.
    pub const ENTRIES_16: u32 = 1;
    /// 32 entries.
    pub const ENTRIES_32: u32 = 2;
    /// 64 entries.
    pub const ENTRIES_64: u32 = 3;
    /// 128 entries.
    pub const ENTRIES_128: u32 = 4;
}

/// Values of [`PKEY_TABLE_SIZE`].
pub mod pkey_table_size {
    /// 128 entries; each further value doubles.
    pub const ENTRIES_128: u32 = 0;
    /// 4096 entries, the largest.
    pub const ENTRIES_4096: u32 = 5;
}
